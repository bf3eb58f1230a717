"""Environments that do what few do, and may: what they tell, keep and leave, in every pool."""

import os
import re
import time

import psutil
import pytest
from conftest import FAILING_RUN as SETTINGS
from conftest import TINY, first_fast

import es_envs
from es_core import RolloutError, Run, evaluate, train
from es_core.seeding import Purpose, episode_seeds

POOLS = {"local": {}, "vector": {"pool": "vector", "vector_envs": 2, "workers": None}}


@pytest.fixture(params=POOLS)
def how(request):
    """Arguments of ``train`` for the smallest run in each pool."""
    return {**TINY, **POOLS[request.param]}


@pytest.mark.parametrize(
    ("says", "rate"), first_fast([("tensor", 0.0), ("number", 0.0), ("two", None), ("text", None)], 2)
)
def test_success_must_be_a_single_truth_value(says, rate, how, register, tmp_path):
    env_id = register("Telling-v0", "strange_envs:Telling", kwargs={"says": says}, solved_at=-1000.0)
    if rate is None:
        with pytest.raises((RolloutError, ValueError), match=r"info\['is_success'\] must be True or False"):
            train(env_id, run_dir=tmp_path / "run", **how)
    else:
        run = train(env_id, run_dir=tmp_path / "run", **how)
        assert run.history[-1].final.success_rate == rate
        assert not run.history[-1].solved


@pytest.mark.parametrize("action", first_fast(["dict", "tuple"], 1))
def test_several_actions_at_once_are_evolved_scored_and_seen_by_fitnesses(action, how, register, tmp_path):
    kwargs = {"observation": "nested", "action": action}
    env_id = register("Spaces-v0", "space_envs:Spaces", kwargs=kwargs, fitness="space_envs:Activity")
    run = train(env_id, run_dir=tmp_path / "run", **how)
    assert run.history[0].fitness_max > run.history[0].fitness_min
    assert run.evaluate(episodes=2, workers=1).mean == run.evaluate(episodes=2, workers=2).mean
    before = run.history[-1].parameter_hash
    assert run.resume(generations=3, progress=False, pool=how.get("pool", "local")).history[1].parameter_hash == before
    with pytest.raises(ValueError, match="strategy 'sb3:ppo' is not for several actions at once"):
        train(env_id, run_dir=tmp_path / "ppo", strategy="sb3:ppo", generations=1)
    with pytest.raises(ValueError, match=r"no learner is for actions (Dict|Tuple)"):
        train(env_id, run_dir=tmp_path / "erl", strategy="erl", generations=1, action_noise=0)


def test_values_that_cannot_be_unpickled_do_not_end_a_run(register, tmp_path):
    env_id = register("Unpicklable-v0", "strange_envs:Unpicklable")
    run = train(env_id, run_dir=tmp_path / "run", **TINY)
    assert run.history[-1].workers_replaced == 0
    assert evaluate(run, episodes=2, workers=1).episodes == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*a step failed, so all copies are replaced")
def test_a_baseline_that_an_environment_does_not_bear_is_left_out(how, register, tmp_path):
    env_id = register("NeverIdle-v0", "strange_envs:NeverIdle")
    run = train(env_id, run_dir=tmp_path / "run", **{**how, "eval_episodes": 3, "population_size": 6})
    assert list(run.history[0].baselines) == ["random actions"]


def test_candidates_outside_of_the_statistics_are_none_of_their_business(register, tmp_path):
    env_id = register("Walk-v0")
    settings = {**TINY, "population_size": 8, "observation_normalization": True, "statistics_fraction": 0.3}
    ones = [train(env_id, run_dir=tmp_path / name, **{**settings, **how}) for name, how in POOLS.items()]
    counts = [run.checkpoint_at(0).statistics.count for run in ones]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("pool", ["local"])
def test_every_environment_is_closed_when_a_run_ends(pool, register, tmp_path):
    folder = tmp_path / "made"
    folder.mkdir()
    env_id = register("Counted-v0", "strange_envs:Counted", kwargs={"folder": str(folder)})
    train(env_id, run_dir=tmp_path / "run", pool=pool, **{**TINY, "workers": 2})
    assert {file.suffix for file in folder.iterdir()} == {".closed"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_an_environment_may_take_its_time_to_close(register, tmp_path):
    folder = tmp_path / "made"
    folder.mkdir()
    env_id = register("SlowToClose-v0", "strange_envs:SlowToClose", kwargs={"folder": str(folder)})
    train(env_id, run_dir=tmp_path / "run", **{**TINY, "workers": 2})
    assert {file.suffix for file in folder.iterdir()} == {".closed"}


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_environments_that_never_close_are_given_ten_seconds_all_together(register, tmp_path):
    folder = tmp_path / "made"
    folder.mkdir()
    env_id = register("NeverClosing-v0", "strange_envs:NeverClosing", kwargs={"folder": str(folder)})
    with pytest.warns(RuntimeWarning, match="it has not closed its environment within 10 seconds, and is killed"):
        train(env_id, run_dir=tmp_path / "run", **{**TINY, "population_size": 4, "workers": 4})
    ended = time.time()
    began = [file.stat().st_ctime for file in folder.glob("*.closed")]  # when it was renamed
    assert len(began) == 4
    assert ended - min(began) < 25, "less than ten seconds for each"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_simulator_of_a_worker_that_hangs_ends_with_it(register, tmp_path):
    folder = tmp_path / "pids"
    folder.mkdir()
    env_id = register("Simulating-v0", "strange_envs:Simulating", kwargs={"folder": str(folder)})
    with pytest.warns(RuntimeWarning, match="a worker is replaced: a step or reset took more than"):
        train(env_id, run_dir=tmp_path / "run", step_timeout=1.0, **TINY)
    pids = [int(file.name) for file in folder.iterdir() if file.name != "hung"]
    assert len(pids) == 2
    deadline = time.monotonic() + 10
    while any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.filterwarnings("ignore:.*a worker (is replaced|died at its start)")
def test_the_reason_why_a_worker_cannot_be_replaced_is_reported(register, tmp_path):
    env_id = register("Unbearable-v0", "strange_envs:Unbearable", kwargs={"once": str(tmp_path / "once")})
    with pytest.raises((RolloutError, es_envs.PluginError), match="no licence is left"):
        train(env_id, run_dir=tmp_path / "run", **{**TINY, "eval_every": 1})


@pytest.mark.slow
def test_a_constructor_may_take_longer_than_a_step(register, tmp_path):
    env_id = register("Holding-v0", "strange_envs:Holding")
    train(env_id, run_dir=tmp_path / "run", step_timeout=1.0, **TINY)


SPACE = """
import numpy as np
from gymnasium import spaces
from es_core import train
from small_envs import Walk

class Own(spaces.Box):
    pass

class Spaced(Walk):
    def __init__(self):
        super().__init__()
        self.observation_space = Own(self.observation_space.low, self.observation_space.high)

train(Spaced, generations=1, max_episode_steps=5, progress=False)
"""


def test_a_space_that_only_a_script_knows_is_refused_in_a_sentence(python, tmp_path):
    said = python(SPACE, cwd=tmp_path).err
    assert "cannot be sent to another process: Can't pickle <class '__main__.Own'>" in said
    assert "put the class of such a space into a module" in said
    assert "is started again" not in said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_simulator_that_is_forked_ends_with_its_environment(register, tmp_path):
    folder = tmp_path / "pids"
    folder.mkdir()
    env_id = register("Parent-v0", "strange_envs:Parent", kwargs={"folder": str(folder)})
    train(env_id, run_dir=tmp_path / "run", **TINY)
    pids = [int(file.name) for file in folder.iterdir()]
    assert pids
    assert not any(psutil.pid_exists(pid) for pid in pids)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_crash_is_noticed_though_a_child_of_the_worker_lives_on(register, tmp_path):
    env_id = register("Orphaning-v0", "strange_envs:Orphaning", kwargs={"once": str(tmp_path / "once")})
    with pytest.warns(RuntimeWarning, match="a worker is replaced: the process died .exit code -11"):
        train(env_id, run_dir=tmp_path / "run", **TINY)


def test_a_last_observation_that_no_policy_sees_is_no_obstacle(register, tmp_path):
    env_id = register("Endings-v0", "strange_envs:Endings", kwargs={"last": "none"})
    run = train(env_id, run_dir=tmp_path / "run", **TINY)
    assert len(run.history[0].baselines) == 2


@pytest.mark.slow
def test_a_learner_refuses_a_last_observation_that_is_no_number(register, tmp_path):
    env_id = register("Endings-v0", "strange_envs:Endings", kwargs={"last": "nan"})
    settings = {**TINY, "population_size": 4, "hidden_sizes": (4,), "policy": "mlp", "eval_every": 0}
    with pytest.raises(RolloutError, match=r"candidate \d in generation 0 .* the observation is not finite"):
        train(env_id, run_dir=tmp_path / "run", strategy="erl", **settings)


@pytest.mark.parametrize("decision", ["drop", "raise"])
def test_a_contender_for_the_elite_that_fails_is_dropped_like_any_candidate_or_named(decision, register, tmp_path):
    failing = register("Failing-v0", "small_envs:Failing", max_episode_steps=30)
    seed = episode_seeds(0, Purpose.ELITE, 2, 0)[0]
    settings = {**SETTINGS, "generations": 1, "strategy": "ga", "on_candidate_error": decision, "workers": 1,
                "strategy_options": {"elite_candidates": 2, "elite_episodes": 2}, "progress": False}  # fmt: skip
    arguments = {"env_kwargs": {"faults": {str(seed): "raise in step"}}, "run_dir": tmp_path / "run", **settings}
    if decision == "drop":
        assert train(failing, **arguments).history[-1].final
    else:
        told = r"candidate (\d+), which may become the elite, .*the motor is on fire"
        with pytest.raises(RolloutError, match=told) as caught:
            train(failing, **arguments)
        candidate = re.search(told, str(caught.value))[1]
        assert f"--generation 0 --candidate {candidate} --seed {seed}" in caught.value.__notes__[-1]


def test_an_error_named_like_one_of_ours_is_reported_as_a_plugins(register, tmp_path):
    env_id = register("Foreign-v0", "strange_envs:Foreign")
    with pytest.raises(Exception, match=r"Foreign-v0 .*argument 1: TypeError"):
        train(env_id, run_dir=tmp_path / "run", **TINY)


def test_files_of_an_environment_that_failed_are_left(register, tmp_path):
    log = tmp_path / "run" / "crash.log"
    env_id = register("Noting-v0", "strange_envs:Noting", kwargs={"log": str(log)})
    with pytest.raises(Exception, match=r"see crash\.log"):
        train(env_id, run_dir=tmp_path / "run", **TINY)
    assert [file.name for file in log.parent.iterdir()] == ["crash.log"]


def test_a_folder_that_was_half_made_when_its_process_died_may_be_deleted(walk, tmp_path):
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    with pytest.raises(FileExistsError, match="choose another folder, or delete it, if a run that was killed"):
        train(walk, run_dir=tmp_path / "run", **TINY)


def test_an_environment_that_hangs_when_it_is_closed_is_replaced(register, tmp_path):
    once = str(tmp_path / "once")
    env_id = register("HangsAtItsEnd-v0", "strange_envs:HangingAtItsEnd", kwargs={"once": once})
    with pytest.warns(RuntimeWarning, match="a worker is replaced"):
        assert train(env_id, run_dir=tmp_path / "run", step_timeout=1.0, **TINY).history


def test_a_factory_that_changes_the_folder_does_not_move_the_run(tmp_path, monkeypatch):
    from strange_envs import leaving

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    run = train(leaving, run_dir="run", max_episode_steps=5, **TINY)
    assert run.directory == tmp_path / "run"
    assert Run.open(tmp_path / "run", env=leaving).history


@pytest.mark.slow
def test_a_reference_batch_may_take_longer_than_a_step(register, tmp_path):
    env_id = register("SlowToBegin-v0", "strange_envs:SlowToBegin")
    settings = {**TINY, "policy": "mlp", "hidden_sizes": (4,), "virtual_batch_normalization": True}
    run = train(env_id, run_dir=tmp_path / "run", step_timeout=1.0, **settings)
    assert run.history[-1].workers_replaced == 0


@pytest.mark.slow
def test_an_environment_may_take_its_time_to_be_made_again(register, tmp_path):
    env_id = register("SlowToMake-v0", "strange_envs:SlowToMake")
    with pytest.raises(RolloutError, match="the real reason"):
        train(env_id, run_dir=tmp_path / "run", step_timeout=1.0, **TINY)
