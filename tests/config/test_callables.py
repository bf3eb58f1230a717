"""Environments, fitness functions and policies of a script or notebook: how they travel, what runs keep of them."""

import json
import shutil
import sys
import textwrap
from dataclasses import replace

import pytest
from conftest import TINY

import es_envs
from es_core import Run, TrainConfig, bench, compare, evaluate, record, replay, report, train, train_seeds
from es_core.cli import main
from es_envs import UnknownEnvError, code_hash, import_path, registry

SOURCE = """
    import gymnasium
    import numpy as np
    import small_envs

    goal = 3.0

    class Here(small_envs.Walk):
        metadata = {"render_modes": ["rgb_array"], "render_fps": 30}

        def __init__(self, render_mode=None):
            super().__init__()
            self.render_mode = render_mode

        def render(self):
            return np.eye(64, dtype=np.uint8)[..., None].repeat(3, 2)

    def module():
        from torch import nn

        class Mine(nn.Module):
            def __init__(self, observation_space, action_space):
                super().__init__()
                self.layer = nn.Linear(observation_space.shape[0], action_space.shape[0])

            def forward(self, observations):
                return self.layer(observations)

        return Mine

    def limited():
        return gymnasium.make("CartPole-v1", max_episode_steps=7)

    def unmoved(episode):
        return 0.0

    def closeness(episode):
        return -abs(goal - float(episode.final_info["position"][0]))

    class Farthest:
        def __init__(self):
            self.farthest = 0.0

        def on_step(self, observation, action, reward, info):
            self.farthest = max(self.farthest, float(info["position"][0]))

        def result(self, episode):
            return self.farthest
"""


def defined(source=SOURCE):
    """What a script defines."""
    namespace = {"__name__": "__main__"}
    exec(textwrap.dedent(source), namespace)
    return namespace


HERE = defined()
CHANGED = defined(SOURCE.replace("goal = 3.0", "goal = 2.0"))


def forget(patch):
    """Forget all objects that were given, as another process would not have them."""
    es_envs.env_ids()  # plugins are discovered before the table is patched
    patch.setattr(import_path, "_objects", {})
    patch.setattr(import_path, "_packed", {})
    known = {key: value for key, value in registry._registry._definitions.items() if not registry.is_local(key)}
    patch.setattr(registry._registry, "_definitions", known)


@pytest.fixture
def session(monkeypatch):
    """``session()``: another process begins, so to speak."""
    forget(monkeypatch)
    return lambda: forget(monkeypatch)


@pytest.fixture(scope="module")
def finished(tiny, tmp_path_factory):
    """A run in an environment and with a fitness that a script defines."""
    with pytest.MonkeyPatch.context() as patch:
        forget(patch)
        folder = tmp_path_factory.mktemp("runs") / "run"
        return train(HERE["Here"], fitness=HERE["closeness"], max_episode_steps=5, **{**tiny, "run_dir": folder})


@pytest.fixture
def run(finished, session, tmp_path):
    """A copy of it, in a session that does not have its objects."""
    return Run.open(shutil.copytree(finished.directory, tmp_path / "run"))


def metrics(run):
    """What must not depend on workers."""
    return [(stats.parameter_hash, stats.fitness_mean, stats.evaluation.mean) for stats in run.history]


@pytest.mark.slow
def test_a_run_with_objects_has_the_same_bits_for_any_workers(session, tiny, tmp_path, monkeypatch):
    how = {**tiny, "generations": 3, "population_size": 6, "observation_normalization": True, "max_episode_steps": 5}
    runs = []
    for number, (start, workers) in enumerate([("fork", 1), ("fork", 3), ("spawn", 2)]):
        if start == "spawn" or sys.platform == "linux":
            monkeypatch.setenv("ES_ENVS_START", start)
            fields = {**how, "run_dir": tmp_path / f"{number}", "workers": workers}
            runs.append(train(HERE["Here"], fitness=HERE["Farthest"], **fields))
    assert all(metrics(run) == metrics(runs[0]) for run in runs)
    vector = {name: value for name, value in how.items() if name != "workers"} | {"run_dir": tmp_path / "vector"}
    run = train(HERE["Here"], fitness=HERE["Farthest"], pool="vector", **vector)
    assert run.history[0].fitness_mean == pytest.approx(runs[0].history[0].fitness_mean, abs=1e-4)
    assert len({line[0] for line in metrics(runs[0])}) == 4


SHARED = """
    import gymnasium
    import numpy as np

    energy = []

    class Meter:
        total = 0.0

    class Counter:
        steps = 0

    counter = Counter()

    class Metered(gymnasium.Env):
        metadata = {"render_modes": ["rgb_array"], "render_fps": 30}
        observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

        def __init__(self, render_mode=None):
            self.render_mode = render_mode

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            energy.clear()
            Meter.total, counter.steps = 0.0, 0
            return np.ones(2, np.float32), {}

        def step(self, action):
            energy.append(1.0)
            Meter.total += 1.0
            counter.steps += 1
            return np.ones(2, np.float32), 0.0, False, False, {}

        def render(self):
            return np.eye(64, dtype=np.uint8)[..., None].repeat(3, 2)

    def by_list(episode):
        return sum(energy)

    def by_class(episode):
        return Meter.total

    def by_object(episode):
        return counter.steps
"""


@pytest.mark.parametrize("fitness", ["by_list", "by_class", "by_object"])
def test_environment_and_fitness_of_a_script_share_its_globals(session, tmp_path, fitness):
    given, settings = defined(SHARED), {**TINY, "workers": 2, "max_episode_steps": 7}
    run = train(given["Metered"], fitness=given[fitness], run_dir=tmp_path / "run", **settings)

    assert [stats.fitness_min for stats in run.history] == [7.0, None]
    assert run.evaluate(episodes=2, workers=1).mean == 7.0
    assert [episode.fitness for episode in run.record(tmp_path / "film.gif", workers=2)] == [7.0]


def test_config_json_has_names_and_hashes_and_nothing_of_the_code(run):
    config = json.loads((run.directory / "config.json").read_text())
    assert config["fitness"].startswith("__main__:closeness#")
    assert registry.is_local(config["env_id"]), config["env_id"]
    assert config["env_id"].startswith("local/Here-")
    assert not import_path.is_local("final_info:energy#01234567")
    with pytest.raises(ValueError, match=r"given to train\(\) as an object"):
        import_path.load("__main__:closeness#00000000")


def test_a_factory_has_the_step_limit_of_what_it_makes_unless_given(session, tiny, tmp_path):
    run = train(HERE["limited"], **{**tiny, "run_dir": tmp_path / "run", "episodes_per_candidate": 9})
    assert run.history[0].capped_episodes > 0
    assert run.history[0].episode_length <= 7
    assert train(HERE["Here"], **{**tiny, "run_dir": tmp_path / "none"}).config.max_episode_steps == 1000


def test_a_run_is_used_as_any_other_where_its_objects_are_given_again(finished, run, tmp_path):
    with pytest.raises(UnknownEnvError, match=r"give the same one again, to Run\.open"):
        run.evaluate(episodes=3, workers=1)
    again = defined()
    with pytest.raises(ValueError, match=r"'__main__:closeness#.*give the same one again, as fitness="):
        Run.open(run.directory, env=again["Here"]).evaluate(episodes=3, workers=1)
    there = Run.open(run.directory, env=again["Here"], fitness=again["closeness"])
    assert there.evaluate(episodes=3, workers=1) == evaluate(run.best_path, episodes=3, workers=1)  # known by now
    assert replay(there, generation=0, candidate=1, seed=1).length == 5


@pytest.mark.slow
def test_processes_that_draw_or_measure_get_the_objects_too(run, session, tmp_path):
    there = Run.open(run.directory, env=HERE["Here"], fitness=HERE["closeness"])
    (filmed,) = record(there, tmp_path / "film.gif", workers=2)
    assert filmed.length == 5
    measured = bench(HERE["limited"], fitness=HERE["unmoved"], seconds=0.5, workers=1)
    assert registry.is_local(measured.env_id)


def test_a_run_is_resumed_with_the_objects_it_began_with_and_no_others(run, tiny, tmp_path):
    how = {"run_dir": run.directory, "resume": True, "generations": 2, "workers": 2, "progress": False}
    with pytest.raises(ValueError, match=r"fitness: the run began with the code of '__main__:closeness#\w+', but '"):
        train(HERE["Here"], fitness=CHANGED["closeness"], **how)
    other = defined(SOURCE.replace("eye(64", "eye(65"))
    with pytest.raises(
        ValueError, match=r"env: the run began with .*other code; to use it nevertheless, pass allow_changed_code"
    ):
        train(other["Here"], fitness=HERE["closeness"], **how)
    with pytest.raises(ValueError, match=r"policy: the run has policy='mlp', got .*; leave it out"):
        train(HERE["Here"], policy=HERE["Here"], **how)
    assert len(Run.open(run.directory).history) == 2
    again = defined()
    resumed = train(again["Here"], fitness=again["closeness"], **how)
    fields = {**tiny, "generations": 2, "max_episode_steps": 5, "run_dir": tmp_path / "at once"}
    assert metrics(resumed) == metrics(train(HERE["Here"], fitness=HERE["closeness"], **fields))


def test_changed_code_is_used_in_a_resume_if_allowed(run):
    how = {"resume": True, "allow_changed_code": True, "generations": 2, "workers": 1, "progress": False}
    with pytest.warns(RuntimeWarning, match="fitness: the run began with .* it is used nevertheless"):
        resumed = train(CHANGED["Here"], fitness=CHANGED["closeness"], run_dir=run.directory, **how)
    assert resumed.config.fitness == run.config.fitness
    assert len(resumed.history) == 3
    assert resumed.history[1].evaluation.mean == pytest.approx(run.history[1].evaluation.mean + 1, abs=0.5)


def test_an_older_run_resumes_although_its_hashes_are_of_bytecode(session, walk, tiny, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(code_hash, "_VERSION", "")  # hexadecimal digits alone
        run = train(walk, fitness=HERE["closeness"], **tiny)
    session()
    again = defined()
    with pytest.warns(RuntimeWarning, match=r"fitness: an older version .* does not show whether .* other code; it is"):
        there = Run.open(run.directory, fitness=again["closeness"])
    assert there.evaluate(episodes=2, workers=1) == run.evaluate(episodes=2, workers=1)
    with pytest.raises(ValueError, match=r"the run began with .*closeness#\w+', but '__main__:unmoved#s\w+' has"):
        Run.open(run.directory, fitness=again["unmoved"])


def test_commands_say_what_to_do_with_a_run_whose_code_no_file_holds(run, capsys):
    for words in ["evaluate"], ["resume", "--generations", "3"], ["record"], ["export", "policy.onnx"]:
        assert main([words[0], str(run.directory), *words[1:]]) == 2
        said = capsys.readouterr().err
        assert "was given to train() as a class or function, and is in no file" in said
        assert "register it from a plugin (`es-envs new`)" in said


def test_pages_about_runs_need_none_of_their_objects(run, tmp_path):
    other = Run.open(shutil.copytree(run.directory, tmp_path / "other"))
    other.write_config(replace(run.config, seed=1))
    page = report(run.directory).read_text()
    assert "env=Here, fitness=closeness).evaluate()" in page
    assert len(compare([run.directory, other.directory]).groups[0].runs) == 2


def test_other_machines_and_programs_receive_names_alone(session, tiny, tmp_path, walk):
    fields = {**tiny, "run_dir": tmp_path / "run"}
    with pytest.raises(ValueError, match=r"pool='ray': '__main__:closeness#.* but other machines import .* by name"):
        train(walk, fitness=HERE["closeness"], pool="ray", **fields)
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match="defines its fitness or policy, and each run is a process"):
        train_seeds("CartPole-v1", [0, 1], fitness=HERE["closeness"])


@pytest.mark.slow
def test_a_worker_that_is_started_later_gets_the_objects_as_they_were(session, tiny, tmp_path):
    here = defined()

    def change(stats):
        here["closeness"].__globals__["goal"] = 100.0

    fields = {**tiny, "generations": 3, "max_episode_steps": 5, "episodes_per_worker": 1}
    run = train(
        here["Here"], fitness=here["closeness"], on_generation=change, **{**fields, "run_dir": tmp_path / "run"}
    )
    assert run.history[-1].evaluation.mean > -10


@pytest.mark.long
def test_a_policy_may_be_a_class_of_torch_modules_that_the_script_defines(session, tiny, walk, tmp_path):
    pytest.importorskip("torch")
    fields = {**tiny, "run_dir": tmp_path / "run", "policy": HERE["module"]()}
    del fields["hidden_sizes"]
    run = train(walk, **fields)
    assert run.config.policy.startswith("__main__:module.<locals>.Mine#")
    score = run.evaluate(episodes=2, workers=1)
    session()
    there = Run.open(run.directory)
    with pytest.raises(ValueError, match="give the same one again"):
        there.evaluate(episodes=2, workers=1)
    assert Run.open(run.directory, policy=defined()["module"]()).evaluate(episodes=2, workers=1) == score


def test_a_fitness_of_ours_is_the_same_by_name_and_as_a_function(tmp_path):
    by_name, given = (
        TrainConfig.for_env("CartPole-v1", fitness=fitness).resolved()
        for fitness in ("episode_return", es_envs.fitness.episode_return)
    )
    assert given == by_name
    assert given.solved_at == 475
