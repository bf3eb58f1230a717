"""What environments and machines do: workers that die or hang, episodes that fail, and how they are seen again."""

import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from conftest import FAILING_RUN as SETTINGS
from conftest import TINY, first_fast, generations, registered, running, seed_of, wait_until, workers_of
from written import FAULTS, lines

import es_core.pools.local
import es_core.pools.scheduler
from es_core import RolloutError, Run, TrainConfig, replay, train
from es_core.cli import main
from es_core.policies.by_name import make_policy
from es_core.policies.normalization import ObservationStatistics
from es_core.pools.by_name import make_pool
from es_core.pools.options import PoolOptions
from es_core.runs.checkpoint import parameter_hash
from es_core.seeding import Purpose, episode_seeds
from es_core.strategies.by_name import make_strategy
from es_envs import definition

OWN_FORKERS = True

PLAIN = {
    **SETTINGS,
    "generations": 1,
    "strategy": "openai_es",
    "observation_normalization": True,
    "population_size": 10,
    "episodes_per_candidate": 1,
    "eval_every": 0,
}

# By fault: the kind and the message of the failure.
FAILING = {
    "raise in reset": ("RuntimeError", "the motor is on fire"),
    "raise in step": ("RuntimeError", "the motor is on fire"),
    "nan in reset": ("NotFiniteError", "the observation is not finite"),
    "nan in step": ("NotFiniteError", "the observation is not finite"),
    "shape in step": ("ValueError", "observation has shape (1,), its space says (2,)"),
    "text in step": ("ValueError", "could not convert string to float"),
    "nothing in reset": ("ValueError", "observation has shape (), its space says (2,)"),
    "objects in step": ("TypeError", "float() argument must be a string or a real number"),
    "infinite reward in step": ("ValueError", "steps add up to inf, expected a finite number"),
    "no fitness in step": ("ValueError", "fitness 'final_info:score' failed"),
}
DEADLY = {
    "kill in step": ("WorkerDied", "the process died (exit code -9; killed by a signal"),
    "exit in reset": ("WorkerDied", "the process died (exit code 3)"),
    "crash in step": ("WorkerDied", "the process died (exit code -11; killed by a signal"),
}
HANGING = {
    "hang in step": ("StepTimeout", "a step or reset took more than 0.8 seconds (step_timeout)"),
    "hang in reset": ("StepTimeout", "a step or reset took more than 0.8 seconds (step_timeout)"),
    "hang in its own code in step": ("StepTimeout", "a step or reset took more than 0.8 seconds (step_timeout)"),
}
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="has no such signal")


@pytest.fixture
def failing(register):
    return register("Failing-v0", "small_envs:Failing", max_episode_steps=30)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The lines of a run without a fault."""
    with registered("Failing-v0", "small_envs:Failing", max_episode_steps=30) as env:
        run = train(env.id, run_dir=tmp_path_factory.mktemp("runs") / "r", workers=1, progress=False, **SETTINGS)
    assert len({stats.episode_length for stats in run.history}) > 2, "the episodes should differ, or this shows little"
    return lines(run, *FAULTS)


def spread(faults, generation):
    """One fault for each of the first candidates."""
    return {seed_of(candidate, generation): fault for candidate, fault in enumerate(faults)}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("pool", ["local"])
def test_faults_that_show_only_once_leave_no_trace(pool, workers, failing, undisturbed, tmp_path):
    once = tmp_path / "once"
    once.mkdir()
    faults = spread(FAILING, 0) | spread(DEADLY, 1)
    kwargs = {"faults": faults, "once": str(once)}
    with pytest.warns(RuntimeWarning, match=r"Failing-v0 \(plugin 'walking'\): a worker is replaced: the process died"):
        run = train(
            failing,
            run_dir=tmp_path / "r",
            pool=pool,
            workers=workers,
            env_kwargs=kwargs,
            progress=False,
            **SETTINGS,
        )
    assert {path.name for path in once.iterdir()} == set(faults)
    assert lines(run, *FAULTS) == undisturbed
    assert [stats.retried for stats in run.history] == [len(FAILING), 0, 0, 0]
    assert [stats.workers_replaced for stats in run.history] == [0, len(DEADLY), 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pool", "hanging"),
    [("local", ["hang in step", "hang in its own code in step", "hang in reset"])],
    ids=["local"],
)
def test_a_worker_that_hangs_once_leaves_no_trace(pool, hanging, failing, undisturbed, tmp_path):
    once = tmp_path / "once"
    once.mkdir()
    faults = {seed_of(5, generation): fault for generation, fault in enumerate(hanging)}
    how = {"pool": pool, "workers": 2, "step_timeout": 0.8, "progress": False}
    with pytest.warns(RuntimeWarning, match=r"a step or reset took more than 0.8 seconds \(step_timeout\)"):
        run = train(
            failing, run_dir=tmp_path / "r", env_kwargs={"faults": faults, "once": str(once)}, **how, **SETTINGS
        )
    assert {path.name for path in once.iterdir()} == set(faults)
    assert lines(run, *FAULTS) == undisturbed
    assert sum(stats.workers_replaced for stats in run.history) == len(hanging)


SILENT = r"the process gave no sign of life for 6 seconds \(was it stopped\?\) and was killed"


@pytest.mark.slow
@POSIX
@pytest.mark.parametrize("pool", ["local"])
def test_a_worker_that_is_stopped_leaves_no_trace(pool, failing, undisturbed, tmp_path):
    once = tmp_path / "once"
    once.mkdir()
    faults = {seed_of(5, 1): "stop in step"}
    how = {"pool": pool, "workers": 2, "step_timeout": 0.8, "progress": False}
    with pytest.warns(RuntimeWarning, match=rf"a worker is replaced: {SILENT}"):
        run = train(
            failing, run_dir=tmp_path / "r", env_kwargs={"faults": faults, "once": str(once)}, **how, **SETTINGS
        )
    assert {path.name for path in once.iterdir()} == set(faults)
    assert lines(run, *FAULTS) == undisturbed
    assert run.history[1].workers_replaced


@POSIX
@pytest.mark.filterwarnings("ignore:.*a worker is")
@pytest.mark.slow
@pytest.mark.parametrize(
    "hidden",
    [
        pytest.param((8,), id="a small policy"),
        pytest.param((400, 400), id="one larger than a pipe", marks=pytest.mark.long),
    ],
)
def test_workers_stopped_between_generations_leave_no_trace(hidden, failing, tmp_path):
    settings = {**SETTINGS, "generations": 1, "population_size": 4, "eval_episodes": 1, "hidden_sizes": hidden}

    def stop(stats):
        for worker in workers_of():
            worker.send_signal(signal.SIGSTOP)

    how = {"workers": 2, "step_timeout": 0.8, "progress": False}
    runs = [train(failing, run_dir=tmp_path / str(i), on_generation=[None, stop][i], **how, **settings) for i in (0, 1)]
    assert lines(runs[0], *FAULTS) == lines(runs[1], *FAULTS)
    assert runs[1].history[1].workers_replaced > 0


@pytest.mark.filterwarnings("ignore:.*a worker is replaced")
@pytest.mark.parametrize(
    ("pool", "when"),
    first_fast([("local", "as a replacement"), ("local", "at the first start")]),
)
def test_a_worker_that_dies_while_it_starts_is_started_again(pool, when, failing, undisturbed, tmp_path):
    once = tmp_path / "once"
    once.mkdir()
    faults = {} if when == "at the first start" else {seed_of(5, 1): "kill in step"}
    kwargs = {"faults": faults, "once": str(once), "stillborn": 2}
    with pytest.warns(RuntimeWarning, match="a worker died at its start, and is started again in .* seconds: the"):
        run = train(
            failing, run_dir=tmp_path / "r", pool=pool, workers=1, env_kwargs=kwargs, progress=False, **SETTINGS
        )
    assert len(list(once.iterdir())) == len(faults) + 2
    assert lines(run, *FAULTS) == undisturbed


@POSIX
@pytest.mark.long
def test_a_worker_that_is_stopped_while_it_starts_is_started_again(failing, undisturbed, tmp_path, monkeypatch):
    monkeypatch.setattr(es_core.pools.local, "STEP_TIMEOUT", 0.8)  # a worker has at least this to make its environment
    kwargs = {"once": str(tmp_path), "stillborn": 1, "birth": "SIGSTOP"}
    how = {"workers": 2, "step_timeout": 0.8, "progress": False}
    with pytest.warns(RuntimeWarning, match=f"a worker died at its start, and is started again in .*: {SILENT}"):
        run = train(failing, run_dir=tmp_path / "r", env_kwargs=kwargs, **how, **SETTINGS)
    assert lines(run, *FAULTS) == undisturbed


def test_workers_that_die_at_every_start_end_the_run_with_the_reason(failing, tmp_path, monkeypatch):
    monkeypatch.setattr(es_core.pools.scheduler, "PAUSES", (0.0, 0.0))
    kwargs = {"once": str(tmp_path), "stillborn": 1000}
    with (
        pytest.warns(RuntimeWarning, match="a worker died at its start, and is started again"),
        pytest.raises(RolloutError, match=r"a worker could not start: the process died \(exit code -9; kill"),
    ):
        train(failing, run_dir=tmp_path / "r", workers=1, env_kwargs=kwargs, progress=False, **PLAIN)
    assert len(list(tmp_path.iterdir())) == 3


# es-envs, whose main process waits no longer than 3.5 seconds for a sign of life, though a step may take 30.
HASTY = """
import sys
import es_core.processes.watchdog
es_core.processes.watchdog.GRACE = -34
from es_core.cli import main
sys.exit(main(sys.argv[1:]))
"""


@POSIX
@pytest.mark.long
def test_time_while_the_run_is_suspended_does_not_count_for_workers(tmp_path):
    words = ["train", "CartPole-v1", "--run-dir", "r", "--workers", "1", "--step-timeout", "30", "--quiet"]
    endless = ["--generations", "100000", "--solved-at", "none", "--population-size", "8"]
    with running([sys.executable, "-c", HASTY, *words, *endless], cwd=tmp_path) as process:
        wait_until(lambda: generations(tmp_path / "r") > 1, process)
        main = psutil.Process(process.pid)
        (worker,) = workers_of(main)
        for each in worker, main:  # as when a container is paused
            each.suspend()
        done = generations(tmp_path / "r")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=7)
        for each in main, worker:
            each.resume()
        wait_until(lambda: generations(tmp_path / "r") > done + 2, process)
        assert workers_of(main) == [worker]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*a worker is replaced", "ignore:.*candidates of generation 0 have failed")
@pytest.mark.parametrize(
    ("pool", "fatal"),
    [
        ("local", ["kill in step", "crash in step", "hang in step", "hang in its own code in step"]),
        pytest.param("local", ["exit in reset", "hang in reset"], marks=pytest.mark.slow),
    ],
    ids=["in step", "in reset"],
)
def test_faults_that_persist_cost_their_candidates_and_no_others(pool, fatal, failing, tmp_path):
    expected = FAILING | {fault: (DEADLY | HANGING)[fault] for fault in fatal}
    settings = {**PLAIN, "population_size": 10 * len(expected)}
    seeds = {10 * place + 3: fault for place, fault in enumerate(expected)}
    faults = {seed_of(candidate, 0, settings): fault for candidate, fault in seeds.items()}
    how = {"pool": pool, "workers": 2, "step_timeout": 0.8, "progress": False, "on_candidate_error": "drop"}
    run = train(failing, run_dir=tmp_path / "r", env_kwargs={"faults": faults}, **how, **settings)
    stats = Run.open(run.directory).history[0]
    assert [failed["candidate"] for failed in stats.failed_candidates] == list(seeds)
    for failed, (fault, (kind, message)) in zip(stats.failed_candidates, expected.items(), strict=True):
        assert (failed["kind"], faults[str(failed["seed"])]) == (kind, fault)
        assert message in failed["message"]
    assert stats.retried == 0
    assert stats.population_size == settings["population_size"]


@pytest.mark.parametrize("policy", ["drop", "worst"])
def test_a_lost_candidate_counts_as_the_config_says(policy, failing, tmp_path):
    config = TrainConfig.for_env(failing, **PLAIN)
    with make_pool(definition(failing), config, PoolOptions(workers=1)) as pool:
        strategy = make_strategy(pool.config, make_policy(config, pool.observation_space, pool.action_space).initial(0))
        seeds = np.array(episode_seeds(0, Purpose.TRAINING, 10)).reshape(10, 1)
        population = replace(strategy.ask(), statistics=ObservationStatistics.empty(2))
        results = pool.evaluate(population, seeds)
    valid = np.arange(10) != 3
    told = np.where(valid, results.fitness, results.fitness[valid].min())
    strategy.tell(told, valid if policy == "drop" else None)

    kwargs = {"faults": {seed_of(3, 0, PLAIN): "raise in step"}}
    with pytest.warns(RuntimeWarning, match="1 of 10 candidates of generation 0 have failed. Candidate 3"):
        run = train(
            failing,
            run_dir=tmp_path / "r",
            workers=2,
            env_kwargs=kwargs,
            on_candidate_error=policy,
            progress=False,
            **PLAIN,
        )
    stats = run.history[0]
    assert stats.next_hash == parameter_hash(strategy.mean)
    assert stats.fitness_mean == results.fitness[valid].mean()
    assert stats.steps == stats.total_steps == results.lengths[valid].sum()
    assert stats.episode_length == results.lengths[valid].mean()
    assert stats.total_episodes == 9
    expected = ObservationStatistics.empty(2).after(np.array(results.statistics)[valid])
    assert np.array_equal(run.checkpoint.statistics.total, expected.total)
    assert np.array_equal(run.checkpoint.statistics.squares, expected.squares)


def test_a_run_that_loses_more_than_a_tenth_of_its_candidates_ends(failing, tmp_path):
    faults = {seed_of(candidate, 0, PLAIN): "raise in step" for candidate in (3, 7)}
    with pytest.raises(RolloutError, match=r"2 of 10 candidates failed in generation 0, .*more than a tenth"):
        train(
            failing,
            run_dir=tmp_path / "r",
            env_kwargs={"faults": faults},
            on_candidate_error="drop",
            workers=1,
            progress=False,
            **PLAIN,
        )
    assert Run.open(tmp_path / "r").checkpoint_generations() == [0]


@pytest.mark.parametrize(("pool", "workers"), [("local", 2), ("local", 1)])
def test_workers_killed_from_outside_change_nothing(pool, workers, failing, undisturbed, tmp_path):
    def kill(stats):
        for worker in workers_of():
            worker.send_signal(signal.SIGKILL)

    with pytest.warns(RuntimeWarning, match="a worker is replaced"):
        run = train(
            failing, run_dir=tmp_path / "r", pool=pool, workers=workers, on_generation=kill, progress=False, **SETTINGS
        )
    assert lines(run, *FAULTS) == undisturbed
    assert [stats.workers_replaced for stats in run.history] == [0, workers, workers, workers]


@pytest.mark.parametrize("pool", ["local"])
def test_workers_are_recycled_between_generations_without_changing_a_bit(pool, failing, undisturbed, tmp_path):
    processes = []

    def note(stats):
        processes.append({worker.pid for worker in workers_of()})

    how = {"pool": pool, "workers": 1, "episodes_per_worker": 1, "on_generation": note, "progress": False}
    run = train(failing, run_dir=tmp_path / "r", **how, **SETTINGS)
    assert lines(run, *FAULTS) == undisturbed
    assert not any(stats.workers_replaced for stats in run.history)
    assert [len(pids) for pids in processes] == [1, 1, 1, 1]
    assert len(set.union(*processes)) == 4


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not say how much memory they take")
@pytest.mark.parametrize("how", [{"pool": "local"}, {"pool": "vector", "vector_envs": 1, "workers": None}], ids=str)
def test_a_worker_that_grows_with_every_episode_is_reported_with_a_remedy(how, register, tmp_path):
    settings = {**TINY, "population_size": 64, "generations": 20, **how}
    env_id = register("Hoarding-v0", "small_envs:Hoarding")
    text = r"a worker process has grown from \d+ to \d+ MB .*episodes_per_worker=1\d{3} "
    with pytest.warns(RuntimeWarning, match=text) as warnings:
        train(env_id, run_dir=tmp_path / "leaking", **settings)
    assert len(warnings) == 1
    train(env_id, run_dir=tmp_path / "recycled", **settings, episodes_per_worker=300)  # a warning would be an error
    full = register("Full-v0", "small_envs:Hoarding", kwargs={"most": 600})
    train(full, run_dir=tmp_path / "full", **settings)


@pytest.mark.filterwarnings("ignore:.*a worker is replaced")
@pytest.mark.parametrize("fault", ["kill in step", "raise in step"])
def test_an_environment_that_cannot_be_recreated_ends_the_run(fault, failing, tmp_path):
    once = tmp_path / "once"
    once.mkdir()
    kwargs = {"faults": {seed_of(3, 0, PLAIN): fault}, "once": str(once), "fragile": True}
    with pytest.raises(RolloutError, match="the simulator is out of licences"):
        train(failing, run_dir=tmp_path / "r", workers=1, env_kwargs=kwargs, progress=False, **PLAIN)


def test_an_evaluation_is_repeated_once_and_then_ends_the_run(failing, undisturbed, tmp_path, capsys):
    once = tmp_path / "once"
    once.mkdir()
    seed = episode_seeds(0, Purpose.EVALUATION, 1, 1)[0]
    kwargs = {"faults": {str(seed): "raise in step"}}
    how = {"workers": 1, "progress": False, "on_candidate_error": "drop", **SETTINGS}
    run = train(failing, run_dir=tmp_path / "r", env_kwargs={**kwargs, "once": str(once)}, **how)
    assert lines(run, *FAULTS) == undisturbed
    assert run.history[1].retried == 1

    with pytest.raises(RolloutError, match=f"an episode of the centre in generation 1 .*{seed}.*on fire") as caught:
        train(failing, run_dir=tmp_path / "lost", env_kwargs=kwargs, **how)
    command = shlex.join(["es-envs", "replay", str(tmp_path / "lost"), "--generation", "1", "--seed", str(seed)])
    assert caught.value.__notes__[-1] == f"To see that episode fail: {command}"
    assert main(shlex.split(command)[1:]) == 1
    assert "the failure is reproduced: an episode of the centre" in capsys.readouterr().err


def test_a_candidate_is_replayed_to_its_generations_step_limit(tmp_path):
    how = {"generations": 1, "population_size": 2, "episode_cap": "growing", "episode_cap_start": 5, "workers": 1}
    run = train("CartPole-v1", run_dir=tmp_path / "r", confirm_episodes=1, progress=False, **how)
    assert run.history[0].rules["episode_cap"] == 5
    assert replay(run, generation=0, candidate=1, seed=3).length == 5
    assert replay(run, generation=0, seed=3).length > 5
    with pytest.raises(ValueError, match="seed must be a whole number of at least 0, got -7"):
        replay(run, generation=0, seed=-7)
    for generation, candidate, message in (
        (0.0, 1, "generation must be a whole number of at least 0, got 0.0"),
        (True, 1, "generation must be a whole number of at least 0, got True"),
        (0, 1.0, "candidate must be from 0 to 1 in generation 0; got 1.0"),
        (0, "1", "candidate must be from 0 to 1 in generation 0; got '1'"),
    ):
        with pytest.raises(ValueError, match=message):
            replay(run, generation=generation, candidate=candidate, seed=3)


def test_a_failed_candidate_is_replayed_as_training_played_it(failing, tmp_path, capsys):
    seed = seed_of(4, 1)
    how = {"on_candidate_error": "drop", "checkpoint_every": 100, "workers": 2, "progress": False, **SETTINGS}
    with pytest.warns(RuntimeWarning, match="to see it: es-envs replay"):
        run = train(failing, run_dir=tmp_path / "r", env_kwargs={"faults": {seed: "raise in step"}}, **how)
    (failed,) = run.history[1].failed_candidates

    with pytest.raises(RolloutError, match="the failure is reproduced: an episode of candidate 4 in gen") as caught:
        replay(run, generation=1, candidate=4, seed=int(seed))
    # The place depends on parameters, statistics and noise of the action.
    assert str(caught.value.__cause__) == failed["message"]

    words = shlex.split(failed["command"])[1:]
    assert main(words) == 1
    said = capsys.readouterr().err
    assert said.startswith("Traceback")
    assert "small_envs.py" in said
    assert failed["message"] in said

    assert main([*words[:-1], seed_of(4, 2)]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("not reproduced: the episode ended after")
    assert "failed_candidates in metrics.jsonl names the seeds" in said.err
    assert main([*words[:-3], "20", *words[-2:]]) == 2
    assert "candidate must be from 0 to 19" in capsys.readouterr().err

    run.checkpoint_path(1).unlink()
    assert main(words) == 1
    said = capsys.readouterr().err
    assert said.startswith("generation 1 has no checkpoint: it is rebuilt from the log")
    assert failed["message"] in said


@pytest.mark.parametrize(("name", "value"), [("step_timeout", 0), ("step_timeout", "soon"), ("episodes_per_worker", 0)])
def test_impossible_care_is_refused(name, value, failing, tmp_path):
    with pytest.raises(ValueError, match=f"{name} must be a .*got {value!r}"):
        train(failing, run_dir=tmp_path / "r", workers=1, progress=False, **{name: value}, **PLAIN)
    assert not (tmp_path / "r").exists()
