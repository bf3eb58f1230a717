"""What people get wrong: each mistake is named, with what was expected and where, and costs nothing."""

import dataclasses
import json
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import small_envs
from written import files

import es_envs
from es_core import CheckpointError, RolloutError, Run, TrainConfig, evaluate, record, train
from es_core.config.keywords import keyword
from es_core.runs.run_folder import lock
from es_envs import PluginError, UnknownEnvError, registry

LABEL = re.escape("Walk-v0 (plugin 'walking')")


@pytest.fixture(scope="module")
def finished(walk, tiny, tmp_path_factory):
    """A run that is done, for reading."""
    return train(walk, run_dir=tmp_path_factory.mktemp("runs") / "finished", **{**tiny, "eval_every": 0})


@pytest.fixture
def copied(finished, tmp_path):
    """A folder like that of ``finished``, to be spoilt."""
    return Path(shutil.copytree(finished.directory, tmp_path / "copied"))


@pytest.fixture
def refused(walk, tiny, tmp_path):
    """``refused(error, message, **fields)``: training raises and leaves no folder behind."""

    def refused(kind, message, env=walk, **fields):
        with pytest.raises(kind, match=message) as caught:
            train(env, **{**tiny, "run_dir": tmp_path / "refused", **fields})
        assert not (tmp_path / "refused").exists()
        return caught.value

    return refused


# ---- settings


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("population_size", 0, "a whole number of at least 2"),
        ("population_size", np.zeros(3), "a whole number of at least 2"),
        ("engine", np.zeros(3), "one of 'auto', 'compiled', 'torch'"),
        ("sigma", 0, "a finite number above 0"),
        ("sigma", -0.1, "a finite number above 0"),
        ("sigma", 1e308, "a finite number above 0, at most 1e+30"),
        ("output_scale", 1e308, "a finite number above 0, at most 1e+30"),
        ("sigma", float("nan"), "a finite number above 0"),
        ("sigma", "small", "a finite number above 0"),
        ("sigma", True, "a finite number above 0"),
        ("learning_rate", 0, "a finite number above 0"),
        ("weight_decay", -1, "a finite number of at least 0"),
        ("generations", 0, "a whole number of at least 1"),
        ("generations", -3, "a whole number of at least 1"),
        ("generations", 1.5, "a whole number of at least 1"),
        ("generations", True, "a whole number of at least 1"),
        ("generations", 2**63, "a whole number of at least 1, at most 9223372036854775807, or None"),
        ("restarts", -1, "a whole number of at least 0, at most 9"),
        ("seed", -1, "a whole number of at least 0"),
        ("seed", None, "a whole number of at least 0"),
        ("episodes_per_candidate", 0, "a whole number of at least 1"),
        ("eval_episodes", 0, "a whole number of at least 1"),
        ("eval_every", -1, "a whole number of at least 0"),
        ("hidden_sizes", (8, 0), "layer sizes, positive whole numbers such as (32, 32)"),
        ("hidden_sizes", (8, -2), "layer sizes, positive whole numbers such as (32, 32)"),
        ("hidden_sizes", 32, "layer sizes, positive whole numbers such as (32, 32)"),
        ("max_episode_steps", 0, "a whole number of at least 1, or None"),
        ("solved_at", float("inf"), "a finite number, or None"),
        ("fitness_aggregation", "max", "one of 'mean', 'median', 'min'"),
        ("observation_normalization", 1, "True or False"),
        ("env_kwargs", {"place": np.zeros(2)}, "a dict that JSON can hold"),
        ("env_kwargs", {1: "a"}, "a dict that JSON can hold"),
        ("device", "gpu", "one of 'auto', 'cpu', 'cuda'"),
    ],
)
def test_a_setting_that_cannot_be_is_named_with_what_can(field, value, expected, refused):
    refused(ValueError, re.escape(f"{field} must be {expected}") + r".*got ", **{field: value})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"population_size": 3}, "population_size must be even, since candidates come in mirrored pairs; got 3"),
        ({"strategy": "openai_se"}, "no strategy is called 'openai_se': did you mean 'openai_es'?"),
        ({"optimizer": "adamax"}, "optimizer must be one of .*'?adam'?.* got 'adamax'"),
        ({"shaping": "ranks"}, "shaping must be one of centered_ranks.* got 'ranks'"),
        ({"optimizer_options": {"beta3": 1}}, "optimizer_options {'beta3': 1} do not fit optimizer 'adam'"),
        ({"optimizer_options": {"weight_decay": 0.1}}, "weight_decay is a setting of its own, weight_decay=0.1"),
        ({"strategy_options": {"beta3": 1}}, "strategy 'openai_es' has no option 'beta3'"),
        ({"strategy": "cma_es", "optimizer": "sgd"}, "does not use optimizer='sgd'"),
        ({"policy": "cnn"}, "policy must be one of linear, mlp.* got 'cnn'"),
        ({"activation": "gelu"}, "activation must be one of tanh.* got 'gelu'"),
        ({"pool": "threads"}, "pool must be one of local, ray, vector, got 'threads'"),
        ({"workers": 0}, "workers must be a whole number of at least 1, or None for all usable cores; got 0"),
        ({"workers": -2}, "workers must be a whole number of at least 1.* got -2"),
        ({"workers": True}, "workers must be a whole number of at least 1.* got True"),
        ({"workers": 1.0}, "workers must be a whole number of at least 1.* got 1.0"),
        ({"loggers": ["wandbb"]}, "no logger is called 'wandbb'"),
        ({"loggers": [object()]}, "implements none of run_started, .*@es_envs.hookimpl"),
    ],
)
def test_a_choice_that_does_not_exist_is_named_with_those_that_do(fields, message, refused):
    refused(ValueError, message, **fields)


NUMERIC = [option for option in fields(TrainConfig) if {"int", "float"} & set(re.findall(r"\w+", str(option.type)))]


@pytest.mark.parametrize("kind", [int, np.int64, np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("option", NUMERIC, ids=lambda option: option.name)
def test_a_number_is_the_same_setting_whatever_its_type(option, kind):
    whole = "float" not in str(option.type)
    value = next(value for value in (1, 2, (2, 3)) if option.metadata["check"](value) is None)
    usual = (int if whole else float)(value) if isinstance(value, int) else value
    if option.name == "action_bins":
        usual, value = (-1.0, 2.0), (-1 if kind is not np.uint8 else -1.0, 2)
    elif whole and issubclass(kind, np.floating):
        with pytest.raises(ValueError, match=f"{keyword(option.name)}.* must be"):
            TrainConfig(env_id="Walk-v0", **{option.name: kind(2)})
        return
    typed = tuple(kind(item) if item > 0 else item for item in value) if isinstance(value, tuple) else kind(value)
    expected = TrainConfig(env_id="Walk-v0", **{option.name: usual})
    given = TrainConfig(env_id="Walk-v0", **{option.name: typed})
    assert given == expected
    assert json.dumps(given.to_json()) == json.dumps(expected.to_json())
    assert TrainConfig.from_json(json.loads(json.dumps(given.to_json()))) == given


def test_numpys_numbers_in_a_dict_of_options_are_pythons():
    config = TrainConfig(env_id="Walk-v0", env_kwargs={"size": np.int64(3), "at": (np.float32(0.5), {"on": np.True_})})
    assert json.dumps(config.to_json()["env_kwargs"]) == '{"size": 3, "at": [0.5, {"on": true}]}'
    assert TrainConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_a_misspelt_setting_gets_a_suggestion(refused, walk):
    refused(TypeError, "no setting is called 'populaton_size': did you mean 'population_size'?", populaton_size=4)
    config = TrainConfig.for_env(walk)
    with pytest.raises(TypeError, match=r"a TrainConfig is complete: use dataclasses.replace to set sigma"):
        train(config, sigma=1.0)


def test_more_workers_than_candidates_are_not_started_and_change_nothing(register, tiny, tmp_path):
    log = tmp_path / "log"
    env_id = register("Log-v0", "small_envs:Reporting", kwargs={"log": str(log)})
    few = train(env_id, run_dir=tmp_path / "few", **tiny)
    log.unlink()
    many = train(env_id, run_dir=tmp_path / "many", **{**tiny, "workers": 9})
    assert len({line.split()[0] for line in log.read_text().splitlines()}) == 2
    assert few.history[-1].parameter_hash == many.history[-1].parameter_hash


def test_cuda_is_refused_where_there_is_none_or_nobody_would_use_it(refused):
    refused(ValueError, 'device="cuda": .*use device="cpu"', device="cuda")


# ---- environments and fitness


def test_a_strategy_that_cannot_be_imported_is_named(refused, monkeypatch):
    monkeypatch.setattr(registry, "strategies", lambda: {"walking": "no_such_module:Walking"})
    message = r"strategy 'walking' \(no_such_module:Walking\) cannot be imported: No module named 'no_such_module'"
    refused(PluginError, message, strategy="walking")
    refused(ValueError, "no strategy is called 'walkin': did you mean 'walking'?", strategy="walkin")


@pytest.mark.parametrize(
    ("strategy", "fields", "message"),
    [
        ("ga", {"strategy_options": {"parents": 2.5}}, "parents must be a whole number of at least 1, got 2.5"),
        ("ga", {"strategy_options": {"parents": "a"}}, "parents must be a whole number of at least 1, got 'a'"),
        ("cma_es", {"strategy_options": {"max_step_size": -1}}, "max_step_size must be a finite number above 0"),
        ("cma_es", {"strategy_options": {"max_step_size": [1]}}, "max_step_size must be a finite number above 0"),
        ("pgpe", {"strategy_options": {"sigma_max_change": 1}}, "sigma_max_change must be a number of at least 0, bel"),
        ("pgpe", {"strategy_options": {"radius": "a"}}, "radius must be a finite number above 0, got 'a'"),
        ("pgpe", {"optimizer_options": {"max_speed": -1}}, "max_speed must be a finite number above 0, got -1"),
        ("pgpe", {"optimizer_options": {"max_speed": "a"}}, "strategy 'pgpe' refuses the options {'max_speed': 'a'}"),
        ("openai_es", {"optimizer_options": {"beta1": 1.0}}, "beta1 must be a number of at least 0, below 1, got 1.0"),
        ("openai_es", {"optimizer_options": {"epsilon": -1}}, "epsilon must be a finite number of at least 0"),
        ("nsra_es", {"strategy_options": {"weight": None}}, "strategy 'nsra_es' refuses the options {'weight': None}"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_before_the_run(strategy, fields, message, refused):
    refused(ValueError, re.escape(message), strategy=strategy, population_size=8, **fields)


@pytest.mark.parametrize("bound", ["max_steps", "max_episodes"])
def test_a_schedule_over_generations_that_may_never_come_is_refused(bound, refused):
    fields = {"sigma_final": 0.01, bound: 100, "generations": None}
    refused(ValueError, "how many there will be is not known: set schedule_generations, or generations", **fields)


@pytest.mark.parametrize(
    ("name", "value", "others"),
    [
        ("schedule", "cosine", "sigma_final or learning_rate_final"),
        ("schedule_generations", 3, "sigma_final or learning_rate_final"),
        ("episode_cap_start", 3, "episode_cap"),
        ("statistics_fraction", 0.5, "observation_normalization"),
    ],
)
def test_a_setting_that_changes_nothing_is_refused(name, value, others, refused):
    message = f"{name}={value!r} changes nothing without {others}: set that, too, or leave"
    refused(ValueError, message, **{"observation_normalization": False, name: value})


def test_an_unknown_environment_gets_a_suggestion(refused):
    refused(UnknownEnvError, "No environment 'Wolk-v0'. Did you mean 'Walk-v0'", env="Wolk-v0")
    refused(
        TypeError,
        "a class or function that makes an environment; got <small_envs.Walk object",
        env=small_envs.Walk(),
    )


def locked_fitness():
    lock = threading.Lock()

    def inner(episode):
        with lock:
            return 0.0

    return inner


@pytest.mark.parametrize(
    ("fitness", "message"),
    [
        ("no_such_module:best", f"{LABEL}: fitness 'no_such_module:best' cannot be used: No module named"),
        ("small_envs:best", "module 'small_envs' has no 'best'"),
        ("best", "no fitness 'best': expected one of"),
        ("__main__:best", "'__main__:best' is in the running script, which no worker imports: put it into a module"),
        (locked_fitness(), "'locked_fitness.<locals>.inner' uses 'lock', of <class '_thread.lock'>, which cannot be"),
        (small_envs.Walk, "a class needs on_step"),
        ("awry:best", r"fitness 'awry:best' cannot be used: RuntimeError\('no wind'\)"),
        (3, "fitness must be a non-empty string, or None, got 3"),
    ],
)
def test_a_fitness_that_no_worker_could_use_is_refused_before_the_run(fitness, message, refused, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "awry.py").write_text("raise RuntimeError('no wind')")
    refused(ValueError, message, fitness=fitness)


def test_an_unknown_fitness_is_named_with_those_of_the_environment(register, refused):
    env_id = register("Walk-v0", fitness="small_envs:place_reached", fitnesses={"energy": "final_info:energy"})
    names = "place_reached, energy, episode_return, episode_length, .*final_info:KEY, or 'module:name'"
    refused(ValueError, f"{LABEL}: .*no fitness 'nope': expected one of {names}", env=env_id, fitness="nope")


def test_a_further_fitness_that_cannot_be_imported_is_refused_early(register, refused):
    env_id = register("Walk-v0", fitnesses={"speed": "no_such_module:speed"})
    refused(ValueError, f"{LABEL}: fitness 'speed' cannot be used: No module named 'no_such_module'", env=env_id)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("image", r"observation space Box\(0, 255, \(20, 20, 3\), uint8\) holds images"),
        ("text", r"observation space\['name'\] Text\(.*\) is not supported: expected Box, Discrete, .* Dict or Tuple"),
        (
            "sequence",
            r"action space Sequence\(.*\) is not supported: expected Box, Discrete, MultiDiscrete, MultiBinary, or a",
        ),
    ],
)
def test_a_space_for_which_there_is_no_policy_is_refused(fault, message, refused):
    refused(ValueError, f"^{LABEL}: {message}", env_kwargs={"fault": fault})


def test_an_environment_whose_constructor_raises_is_named(refused):
    error = refused(
        RolloutError,
        f"^{LABEL}: a worker could not start: ValueError: no simulator at this address",
        env_kwargs={"fault": "constructor"},
    )
    assert 'small_envs.py", line ' in str(error)
    error = refused(
        RolloutError, rf"^{LABEL}: .*could not start: Box2D is .*, run .*\Z", env_kwargs={"fault": "package"}
    )
    assert "Traceback" not in str(error)


def test_an_unknown_keyword_of_an_environment_is_named_with_the_known(register, refused):
    told = "takes no keyword argument 'foo' (env_kwargs, on the command line: --env-kwargs); it takes: "
    error = refused(ValueError, f"^{LABEL} {re.escape(told)}fault, where$", env_kwargs={"foo": 1})
    assert "Traceback" not in str(error)
    with pytest.raises(ValueError, match=f"{re.escape(told)}sutton_barto_reward$"):
        es_envs.make("CartPole-v1", foo=1)
    with pytest.raises(ValueError, match=f"{re.escape(told)}thing, size$"):
        es_envs.make(register("Told-v0", "broken_envs:Keeping"), foo=1)
    needed = (
        f"needs the keyword arguments 'goal' and 'chart' {re.escape('(env_kwargs, on the command line: --env-kwargs)')}"
    )
    with pytest.raises(ValueError, match=f"{needed}$"):
        es_envs.make(register("Needy-v0", "small_envs:Needy"), size=2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        es_envs.make(register("Inner-v0", "small_envs:calls_with_other_keyword"), fault=1)


def test_an_environment_that_cannot_be_imported_is_named_with_its_plugin(register, refused):
    env_id = register("Walk-v0", "no_such_module:Env")
    refused(PluginError, f"^{LABEL}: entry_point 'no_such_module:Env' cannot be imported: No module", env=env_id)


@pytest.mark.filterwarnings("ignore:.*a worker is started again")
def test_a_module_that_ends_the_process_is_reported_with_its_exit_code(register, refused, capfd, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("es_core.pools.scheduler.PAUSES", ())
    (tmp_path / "leaving.py").write_text("import os; os.write(2, b'no licence'); os._exit(7)")
    env_id = register("Walk-v0", "leaving:Env")
    refused(
        RolloutError, rf"^{LABEL}: a worker could not start: the process died \(exit code 7\); its outp", env=env_id
    )
    assert "no licence" in capfd.readouterr().err


def test_a_module_that_trains_when_imported_is_caught_in_the_worker(register, refused, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "unguarded.py").write_text(
        "from small_envs import Walk\nfrom es_core import train\ntrain('CartPole-v1', progress=False)"
    )
    error = refused(
        RolloutError,
        "calls train\\(\\), evaluate\\(\\) or record\\(\\) while",
        env=register("Walk-v0", "unguarded:Walk"),
    )
    assert 'if __name__ == "__main__":' in str(error)
    assert "unguarded.py" in str(error)
    assert not list(tmp_path.glob("runs/**/config.json"))


def test_workers_that_see_different_spaces_are_caught(refused, tmp_path):
    where = str(tmp_path / "first")
    message = f"^{LABEL}: two workers see different spaces: .*must not depend on the process"
    refused(RolloutError, message, env_kwargs={"fault": "spaces", "where": where}, workers=2)


# ---- episodes that fail

CAUSES = {
    "step": "RuntimeError: the motor is on fire",
    "exit": "SystemExit: the licence has expired",
    "crash": "failed: the process died (exit code -9; killed by a signal: a crash, or the system lacked memory)",
    "nan": "the observation is not finite: array([",
    "shape": "observation has shape (1,), its space says (2,)",
    "reward": "step of Walk returned the reward 'much', expected a number",
}


@pytest.mark.filterwarnings("ignore:.*a worker is replaced")
@pytest.mark.parametrize("fault", CAUSES)
def test_a_failed_episode_is_named_and_the_run_resumes_once_repaired(fault, walk, tiny, tmp_path, monkeypatch):
    broken, folder = tmp_path / "broken", tmp_path / "run"
    settings = {**tiny, "generations": 3, "env_kwargs": {"fault": fault, "where": str(broken)}}

    with pytest.raises(RolloutError) as caught:
        train(walk, run_dir=folder, on_generation=lambda stats: broken.touch(), **settings)
    message = str(caught.value)
    assert message.startswith("Walk-v0 (plugin 'walking'): an episode of candidate 0 in generation 1 (episode seed ")
    assert CAUSES[fault] in message
    assert ("The worker's traceback:\nTraceback" in message) == (fault != "crash")
    if fault in {"step", "exit"}:  # raised by the environment: nothing of ours stands above its line
        assert "small_envs.py" in message.partition("(most recent call last):\n")[2].splitlines()[0]
    lost, only_some, seen = caught.value.__notes__
    command = "python -m es_core"  # env_kwargs name a file, which the reader of the command trusts
    assert lost == f"Nothing is lost: `{command} resume {folder} --trust-names` runs generation 1 again."
    assert seen.startswith(f"To see that episode fail: {command} replay {folder} --generation 1 --candidate 0 --seed ")
    assert "on_candidate_error='worst'" in only_some
    assert Run.open(folder).checkpoint_generations() == [0, 1]

    broken.unlink()
    resumed = train(walk, run_dir=folder, resume=True, **settings)
    assert [stats.generation for stats in resumed.history] == [0, 1, 2, 3]
    if fault == "step":
        undisturbed = train(walk, run_dir=tmp_path / "undisturbed", **settings)
        assert [s.parameter_hash for s in resumed.history] == [s.parameter_hash for s in undisturbed.history]


def test_an_evaluation_that_fails_names_the_centre_and_the_seed(finished, monkeypatch):
    checkpoint = finished.checkpoint
    spoilt = dataclasses.replace(
        checkpoint, config=dataclasses.replace(checkpoint.config, env_kwargs={"fault": "step"})
    )
    with pytest.raises(RolloutError, match=rf"^{LABEL}: an episode of the centre .*episode seed \d+.*motor is on fire"):
        evaluate(spoilt, episodes=1, workers=1)


# ---- folders


def test_a_folder_with_something_in_it_is_refused_and_left_alone(walk, tiny, copied, tmp_path):
    before = files(copied)
    with pytest.raises(FileExistsError, match=rf"{copied} exists and is not empty.*resume=True.*es-envs resume"):
        train(walk, run_dir=copied, **tiny)
    assert files(copied) == before


@pytest.mark.parametrize(
    ("folder", "message"), [("file", "is a file"), ("file/run", "file/run"), ("nul\0", r"nul\\0|null (byte|character)")]
)
def test_a_folder_that_cannot_be_made_is_named(folder, message, walk, tiny, tmp_path):
    (tmp_path / "file").write_text("precious")
    with pytest.raises((OSError, ValueError), match=message):
        train(walk, run_dir=tmp_path / folder, **tiny)
    assert files(tmp_path) == {tmp_path / "file": b"precious"}


def test_a_refused_run_removes_the_folders_it_made_and_no_others(walk, tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for run_dir in (None, "new/er", "empty"):
        with pytest.raises(ValueError, match="even"):
            train(walk, run_dir=run_dir, **{**tiny, "population_size": 3})
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def test_an_empty_folder_may_be_given(walk, tiny, tmp_path):
    (tmp_path / "empty").mkdir()
    assert train(walk, run_dir=tmp_path / "empty", **tiny).finished


def test_two_runs_cannot_share_a_folder(walk, tiny, copied):
    before = files(copied)
    with (
        lock(copied),
        pytest.raises(RuntimeError, match=f"another process is training in {copied}"),
    ):
        train(walk, run_dir=copied, resume=True, **{**tiny, "generations": 5, "eval_every": 0})
    assert files(copied) == before


def test_a_locked_folder_is_not_removed_by_a_second_run(walk, tiny, copied):
    for checkpoint in (copied / "checkpoints").iterdir():
        checkpoint.unlink()
    with lock(copied), pytest.raises(RuntimeError, match="another process"):
        train(walk, run_dir=copied, resume=True, generations=5, workers=1)
    assert (copied / "config.json").exists()


# ---- resuming

DIFFERENT = [
    ({"sigma": 0.5}, ValueError, "sigma cannot change in a resumed run: it was 0.05, now 0.5"),
    ({"seed": 1}, ValueError, "seed cannot change in a resumed run: it was 0, now 1"),
    ({"hidden_sizes": (4,)}, ValueError, r"hidden_sizes cannot change in a resumed run: it was \[\], now \[4\]"),
    ({"fitness": "episode_length"}, ValueError, "fitness cannot change .* 'episode_return', now 'episode_length'"),
    ({"generations": 0}, ValueError, "generations must be a whole number of at least 1, or None, got 0"),
    ({"generations": "9"}, ValueError, "generations must be a whole number of at least 1, or None, got '9'"),
    ({"sigmma": 0.5}, TypeError, "no setting is called 'sigmma': did you mean 'sigma'?"),
    ({"initial": "some.safetensors"}, ValueError, "initial is for a new run"),
    ({"workers": 0}, ValueError, "workers must be"),
]


@pytest.mark.parametrize(("fields", "kind", "message"), DIFFERENT)
def test_a_resumed_run_refuses_what_would_change_it(fields, kind, message, walk, copied):
    before = files(copied)
    with pytest.raises(kind, match=message):
        train(walk, run_dir=copied, resume=True, **{"generations": 5, "workers": 1, **fields})
    assert files(copied) == before


def test_a_resumed_run_refuses_fewer_generations_and_another_environment(walk, tiny, register, tmp_path):
    folder = tmp_path / "run"
    train(walk, run_dir=folder, **{**tiny, "generations": 3}, on_generation=lambda stats: False)
    with pytest.raises(ValueError, match="generations can only grow in a resumed run: it was 3, given or not, now 2"):
        train(walk, run_dir=folder, resume=True, generations=2)
    with pytest.raises(ValueError, match="env_id cannot change in a resumed run: it was 'Walk-v0', now 'Other-v0'"):
        train(register("Other-v0"), run_dir=folder, resume=True)
    with pytest.raises(ValueError, match="resume=True needs run_dir"):
        train(walk, resume=True)
    with pytest.raises(FileNotFoundError, match=r"is not a run folder: it has no config.json"):
        train(walk, run_dir=tmp_path, resume=True)
    config = TrainConfig.for_env(
        walk, generations=3, hidden_sizes=(4,), population_size=2, eval_episodes=1, eval_budget=None, confirm_episodes=1
    )
    with pytest.raises(ValueError, match="hidden_sizes cannot change"):
        train(config, run_dir=folder, resume=True)
    same = TrainConfig(env_id=walk, generations=3, population_size=2, eval_episodes=1, eval_budget=None,
                       confirm_episodes=1, hidden_sizes=())  # fmt: skip
    assert train(same, run_dir=folder, resume=True, workers=1, progress=False).finished


def test_a_resumed_run_uses_a_module_only_if_the_caller_names_it_too(walk, tiny, tmp_path):
    folder, settings = tmp_path / "run", {**tiny, "generations": 2, "fitness": small_envs.place_reached}
    train(walk, run_dir=folder, on_generation=lambda stats: False, **settings)
    for resume in (
        lambda: train(walk, run_dir=folder, resume=True),
        lambda: Run.open(folder).resume(),
        lambda: evaluate(folder),
    ):
        with pytest.raises(
            ValueError, match=r"fitness='small_envs:place_reached', which is not a function .*--trust-names"
        ):
            resume()
    assert train(walk, run_dir=folder, resume=True, **settings).finished
    assert Run.open(folder, trust=True).evaluate(episodes=1, workers=1).episodes == 1


def test_an_environment_whose_spaces_have_changed_is_refused(finished, register, copied, tmp_path):
    register("Walk-v0", "small_envs:Nested")
    with pytest.raises(
        ValueError, match=r"Walk-v0 has another observation_space now .* than when this policy was evol"
    ):
        evaluate(finished, episodes=1, workers=1)
    with pytest.raises(ValueError, match=r"Walk-v0 has other spaces now than when the run in .* was made"):
        train("Walk-v0", run_dir=copied, resume=True, generations=5, workers=1, progress=False)


# ---- files


def spoil(copied, kind):
    path = copied / "checkpoints" / "000001.safetensors"
    data = path.read_bytes()
    other = copied / "other.safetensors"
    if kind == "foreign":
        other.write_bytes(b"not a checkpoint at all")
    elif kind == "empty":
        other.write_bytes(b"")
    elif kind == "cut off":
        other.write_bytes(data[:-5])
    elif kind == "a flipped bit in an array":
        other.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif kind == "a changed description":
        other.write_bytes(data.replace(b"Walk-v0", b"Talk-v0"))
    elif kind == "another safetensors file":
        safetensors.numpy.save_file({"weights": np.zeros(3, np.float32)}, other)
    return other


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("foreign", "cannot be read as a checkpoint"),
        ("empty", "cannot be read as a checkpoint"),
        ("cut off", "cannot be read as a checkpoint"),
        ("a flipped bit in an array", "damaged: the checksum of its arrays"),
        ("a changed description", "damaged: the checksum of its description"),
        ("another safetensors file", "is a safetensors file, but not a checkpoint of es-envs"),
    ],
)
def test_a_spoilt_checkpoint_is_refused_by_everything_that_reads_one(kind, message, copied, refused, tmp_path):
    file = spoil(copied, kind)
    pattern = f"{file}.*{message}"
    with pytest.raises(CheckpointError, match=pattern):
        evaluate(file, workers=1)
    with pytest.raises(CheckpointError, match=pattern):
        record(file, tmp_path / "film.mp4")
    assert not list(tmp_path.glob("film*"))
    refused(CheckpointError, pattern, initial=file)


def test_a_checkpoint_of_another_run_in_the_folder_is_noticed(walk, tiny, copied, tmp_path):
    other = train(walk, run_dir=tmp_path / "other", seed=1, **tiny)
    other.checkpoint_path(0).replace(copied / "best.safetensors")
    with pytest.raises(CheckpointError, match=r"best.safetensors belongs to another run: .* not those of config.json"):
        evaluate(copied, episodes=1, workers=1)


def test_missing_files_are_named(finished, walk, refused, tmp_path):
    absent = tmp_path / "absent"
    with pytest.raises(FileNotFoundError, match=f"{absent}"):
        evaluate(absent)
    with pytest.raises(FileNotFoundError, match=f"{tmp_path} is not a run folder: it has no config.json"):
        evaluate(tmp_path)
    with pytest.raises(FileNotFoundError, match="has no generation 7: it reached generation 1"):
        evaluate(finished, generation=7)
    with pytest.raises(ValueError, match="a generation can be chosen from a run, not from a single checkpoint"):
        evaluate(finished.checkpoint_path(0), generation=0)
    with pytest.raises(ValueError, match="episodes must be a whole number of at least 1, got 0"):
        evaluate(finished, episodes=0)
    refused(FileNotFoundError, f"there is no checkpoint {absent}", initial=absent)
    refused(FileNotFoundError, f"{tmp_path} is not a run folder: it has no config.json", initial=tmp_path)
    refused(
        ValueError,
        "initial has 3 parameters for the 2 numbers of an observation of Walk-v0, the policy 17 for the 2 of Walk-v0",
        initial=finished.checkpoint_path(0),
        hidden_sizes=(4,),
    )


def test_a_damaged_config_or_history_is_named(copied):
    (copied / "metrics.jsonl").write_text("{}\n{}\n")
    with pytest.raises(CheckpointError, match=r"metrics.jsonl, line 1 is damaged"):
        Run.open(copied)
    for text in ("{", "[]", json.dumps({"sigma": 1.0})):
        (copied / "config.json").write_text(text)
        with pytest.raises(CheckpointError, match=r"config.json is damaged"):
            evaluate(copied)


# ---- films


def test_a_film_that_cannot_be_made_says_why_before_anything_is_played(finished, tmp_path):
    for name, message in [
        ("film.avi", "a film's name must end in .mp4 or .gif, got 'film.avi'"),
        ("film", "must end in .mp4 or .gif, got 'film'"),
    ]:
        with pytest.raises(ValueError, match=message):
            record(finished, tmp_path / name)
    with pytest.raises(FileNotFoundError, match=f"there is no folder {tmp_path / 'absent'} for the film"):
        record(finished, tmp_path / "absent" / "film.mp4")
    for field, value in [("width", 0), ("height", 2.5), ("episodes", 0), ("fps", 0), ("fps", float("nan"))]:
        with pytest.raises(ValueError, match=f"{field} must be"):
            record(finished, tmp_path / "film.mp4", **{field: value})


def test_an_environment_that_cannot_be_filmed_is_still_trained(finished, register, tiny, tmp_path):
    with pytest.raises(ValueError, match=rf"{LABEL} cannot render: .* takes no render_mode argument; add it"):
        finished.record(tmp_path / "film.mp4")
    dark = train(register("Dark-v0", "small_envs:Sized"), run_dir=tmp_path / "dark", **tiny)
    with pytest.raises(ValueError, match=r"Dark-v0 .*cannot be filmed: 'rgb_array' is not among its render modes \[\]"):
        dark.record(tmp_path / "film.mp4")
    assert not list(tmp_path.glob("film*"))


# ---- command line

MISTAKES = [
    (2, "train Wolk-v0", "Did you mean 'Walk-v0'"),
    (2, "train", "required"),
    (2, "trian Walk-v0", "there is no command 'trian' (did you mean train?)"),
    (2, "train Walk-v0 --population-size 3", "population_size must be even"),
    (2, "train Walk-v0 --population-size many", "argument --population-size: invalid whole number value: 'many'"),
    (
        2,
        "train Walk-v0 --hidden-sizes 3,x",
        "argument --hidden-sizes: invalid list of whole numbers (such as 32,32) value: '3,x'",
    ),
    (
        2,
        "train Walk-v0 --env-kwargs rain",
        "argument --env-kwargs: expected name=0.5, or JSON, such as '{\"name\": 0.5}'",
    ),
    (2, "train Walk-v0 --env-kwargs 0.5=rain", "argument --env-kwargs: expected name=0.5"),
    (2, "train Walk-v0 --env-kwargs rain=1,", "(no name=value at '')"),
    (2, "train Walk-v0 --env-kwargs rain=1,rain=2", "(rain is there twice)"),
    (2, "train Walk-v0 --env-kwargs rain=[1,2", "(Expecting ',' delimiter"),
    (2, "train Walk-v0 --env-kwargs rain=[1]2", "(no comma at '2')"),
    (2, "train Walk-v0 --env-kwargs rain=wet", "takes no keyword argument 'rain'"),
    (2, "train Walk-v0 --sigma -1", "sigma must be a finite number above 0, or 'auto', got -1.0"),
    (2, "train Walk-v0 --workers 0", "workers must be a whole number of at least 1"),
    (2, "train Walk-v0 --fitness best", "no fitness 'best'"),
    (2, "evaluate {finished} --episodes 0", "episodes must be a whole number of at least 1, got 0"),
    (2, "evaluate {finished} --seed -1", "seed must be a whole number of at least 0, got -1"),
    (2, "evaluate Walk-v0 --pretrained --policy random", "--pretrained and --policy name two policies"),
    (2, "evaluate {finished} --policy random", "--policy plays a policy of an environment: give its ID"),
    (2, "evaluate {finished} --generation x", "argument --generation: invalid int value: 'x'"),
    (2, "record {finished} {tmp}/film.avi", "must end in .mp4 or .gif"),
    (2, "record {finished} {tmp}/film.mp4", "cannot render"),
    (2, "show Wolk-v0", "Did you mean 'Walk-v0'"),
    (1, "train Walk-v0 --run-dir {finished}", "is not empty"),
    (1, "train Walk-v0 --run-dir {tmp}/file/run", "file"),
    (1, "train Walk-v0 --initial {tmp}/file", "file cannot be read as a checkpoint"),
    (1, "train Walk-v0 --initial {tmp}/absent", "there is no checkpoint"),
    (1, "train Lost-v0", "entry_point 'no_such_module:Env' cannot be imported"),
    (1, "evaluate {tmp}/absent", "absent"),
    (1, "evaluate {tmp}/file", "cannot be read as a checkpoint"),
    (1, "evaluate {finished} --generation 9", "has no generation 9: it reached generation 1"),
    (1, "resume {tmp}", "not a run folder"),
    (1, "record {finished} {tmp}/absent/film.mp4", "there is no folder"),
    (1, "show Lost-v0", "no_such_module"),
]
COMMANDS = """
import contextlib, io, json, shlex, sys, os
import es_envs
from es_core.cli import main
from es_envs import EnvDefinition
es_envs.register(EnvDefinition(id="Walk-v0", entry_point="small_envs:Walk", max_episode_steps=5))
es_envs.register(EnvDefinition(id="Lost-v0", entry_point="no_such_module:Env", max_episode_steps=5))
for line in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(shlex.split(line))
        except SystemExit as exit:
            code = exit.code
        except BaseException as error:
            code = repr(error)
    sys.__stdout__.write(json.dumps([code, out.getvalue(), err.getvalue()]) + "\\n")
"""


@pytest.fixture(scope="module")
def answers(python, finished, tmp_path_factory):
    """What the command line says to each of the mistakes, all in one process."""
    folder = tmp_path_factory.mktemp("commands")
    (folder / "file").write_text("text")
    lines = [line.format(finished=finished.directory, tmp=folder) for _, line, _ in MISTAKES]
    done = python(COMMANDS, arguments=[json.dumps(lines)], cwd=folder)
    assert done.code == 0, done.err
    assert done.err == ""
    left = {path.name for path in folder.rglob("*") if path.is_file()}
    assert left == {"file"}  # no half-made run, no half-made film
    return dict(zip([line for _, line, _ in MISTAKES], map(json.loads, done.out.splitlines()), strict=True))


@pytest.mark.parametrize(("code", "line", "message"), MISTAKES, ids=[line for _, line, _ in MISTAKES])
def test_the_command_line_answers_a_mistake_in_a_sentence(code, line, message, answers):
    actual, out, err = answers[line]
    assert (actual, out) == (code, "")
    assert message in err
    assert "Traceback" not in err


def test_the_command_line_shows_the_traceback_of_a_users_environment(python, tmp_path):
    code = COMMANDS.replace("max_episode_steps=5)", "max_episode_steps=5, kwargs={'fault': 'step'})", 1)
    done = python(code, arguments=[json.dumps(["train Walk-v0 --run-dir run --quiet --workers 1"])], cwd=tmp_path)
    status, out, err = json.loads(done.out)
    assert (status, out) == (1, "")
    assert err.startswith("error: Walk-v0: an episode of candidate 0 in generation 0 (episode seed ")
    assert err.count("Traceback") == 1  # the worker's
    assert "small_envs.py" in err
    again = f"Run.open({str(tmp_path / 'run')!r}).resume()"
    assert f"Nothing is lost: `{again}` runs generation 0 again.\n" in err
    assert f"\nTo see that episode fail: es_core.replay({str(tmp_path / 'run')!r}, generation=0, candidate=0, " in err


def test_the_process_ends_with_the_exit_code(tmp_path):
    for words, code in [(["train", "CartPol-v1"], 2), (["resume", "absent"], 1)]:
        done = subprocess.run(
            [sys.executable, "-m", "es_core", *words], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert (done.returncode, done.stdout) == (code, "")
        assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())
