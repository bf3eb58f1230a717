"""What every pool promises, through the public interface; and what is the batched pool's own."""

import json
from contextlib import closing
from dataclasses import replace

import numpy as np
import psutil
import pytest
from threadpoolctl import threadpool_limits

import es_core.pools.batched
from es_core import RolloutError, Run, TrainConfig, evaluate, train
from es_core.pools import make_pool
from es_core.rollout import Rollouts
from es_envs import definition

# How a run is carried out, by name; those of one engine give the same bits.
LOCAL = {"pool": "local", "engine": "numpy"}
BATCHED = {"pool": "batched", "engine": "numpy"}
BATCHED_TORCH = {"pool": "batched", "engine": "torch"}
POOLS = [LOCAL, BATCHED, BATCHED_TORCH]

SETTINGS = {
    "generations": 3,
    "population_size": 8,
    "episodes_per_candidate": 2,
    "eval_episodes": 3,
    "confirm_episodes": 5,
    "policy": "mlp",
    "hidden_sizes": (8, 8),
    "sigma": 0.3,
    "observation_normalization": True,
    "action_noise": 0.1,
    "progress": False,
}


@pytest.fixture
def wander(register):
    return register("Wander-v0", "small_envs:Wander", fitness="episode_return", max_episode_steps=30, lanes=3)


def lines(run):
    """The metrics, but for times."""
    return [{**stats.to_json(), "seconds": None} for stats in Run.open(run.directory).history]


def require_equal(runs):
    first, *others = runs
    lengths = {stats.episode_length for stats in first.history}
    assert len(lengths) > 2, "the episodes should differ in length, or this shows little"
    for other in others:
        assert lines(other) == lines(first)
        for file in ("checkpoints/000000.safetensors", "checkpoints/000003.safetensors", "best.safetensors"):
            assert (other.directory / file).read_bytes() == (first.directory / file).read_bytes()


def test_pools_lanes_and_workers_do_not_change_a_bit_of_the_numpy_engine(wander, register, tmp_path):
    alone = register("Wander-v0", "small_envs:Wander", fitness="episode_return", max_episode_steps=30, lanes=1)
    reference = train(alone, run_dir=tmp_path / "reference", workers=1, **SETTINGS)
    register("Wander-v0", "small_envs:Wander", fitness="episode_return", max_episode_steps=30, lanes=3)
    runs = [
        train(wander, run_dir=tmp_path / f"{how['pool']}{workers}", workers=workers, **how, **SETTINGS)
        for how, workers in [(LOCAL, 1), (LOCAL, 2), (BATCHED, 1), (BATCHED, 2), (BATCHED, 3)]
    ]
    require_equal([reference, *runs])


@pytest.mark.slow
def test_workers_slots_and_pools_do_not_change_a_bit_of_the_torch_engine(wander, tmp_path, monkeypatch):
    runs = [
        train(wander, run_dir=tmp_path / str(workers), workers=workers, **BATCHED_TORCH, **SETTINGS)
        for workers in (1, 2, 3)
    ]
    monkeypatch.setattr(es_core.pools.batched, "_SLOTS", 5)  # fewer than candidates: some wait for others to end
    runs.append(train(wander, run_dir=tmp_path / "few", workers=2, **BATCHED_TORCH, **SETTINGS))
    runs.append(train(wander, run_dir=tmp_path / "local", workers=2, pool="local", engine="torch", **SETTINGS))
    require_equal(runs)


@pytest.mark.parametrize("how", POOLS, ids=str)
def test_a_resumed_run_equals_one_that_never_stopped(how, wander, tmp_path):
    whole = train(wander, run_dir=tmp_path / "whole", workers=2, **how, **SETTINGS)
    options = {**how, **SETTINGS, "on_generation": lambda stats: stats.generation < 1}
    stopped = train(wander, run_dir=tmp_path / "stopped", workers=1, **options)
    assert len(stopped.history) == 2
    require_equal([whole, stopped.resume(pool=how["pool"], workers=2, progress=False)])


def test_more_candidates_than_slots_take_turns(wander, tmp_path, monkeypatch):
    many = train(wander, run_dir=tmp_path / "many", workers=2, **BATCHED, **SETTINGS)
    monkeypatch.setattr(es_core.pools.batched, "_SLOTS", 3)
    few = train(wander, run_dir=tmp_path / "few", workers=2, **BATCHED, **SETTINGS)
    require_equal([many, few])


def test_a_pair_that_shares_its_noise_has_the_candidates_of_one_that_does_not(walk, tmp_path):
    # So many parameters that local workers keep a pair's noise; the batched pool draws it for each candidate.
    options = {"generations": 1, "population_size": 6, "eval_every": 0, "hidden_sizes": (400, 400), "progress": False}
    runs = [train(walk, run_dir=tmp_path / how["pool"], workers=2, **how, **options) for how in (LOCAL, BATCHED)]
    assert runs[0].history[-1].parameter_hash == runs[1].history[-1].parameter_hash
    assert runs[0].history[0].fitness_std > 0


@pytest.mark.parametrize("threads", [1, 2])
def test_an_episode_played_here_has_the_bits_of_a_worker_whatever_the_number_of_threads_here(threads, register):
    # Of all policies, one whose products depend on the number of threads.
    env_id = register("Seen-v0", "small_envs:Seen", kwargs={"shape": (84, 84, 4)})
    config = TrainConfig(env_id=env_id, policy="cnn_nature", fitness="episode_return", engine="numpy")
    with closing(Rollouts(definition(env_id), config)) as rollouts, threadpool_limits(threads):
        parameters = 3 * rollouts.policy.initial(0)
        rollouts.use(parameters, None)
        here = [rollouts.episode(seed).total_reward for seed in range(3)]
    with make_pool("local", definition(env_id), config, workers=1) as pool:
        there = [episode.total_reward for episode in pool.rollouts((parameters, None), range(3))]
    assert here == there


@pytest.mark.filterwarnings("ignore:.*a worker is replaced")
@pytest.mark.parametrize("how", POOLS, ids=str)
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("step", "RuntimeError: the motor is on fire"),
        ("exit", "SystemExit: the licence has expired"),
        ("nan", "the observation is not finite"),
        ("shape", r"observation has shape \(1,\), its space says \(2,\)"),
        ("reward", "the reward of step 1 is 'much', expected a number"),
        ("crash", r"the process died \(exit code -9"),
    ],
)
def test_a_failing_episode_is_reported_with_who_played_it(fault, message, how, register, tiny, tmp_path):
    env_id = register("Faulty-v0", "small_envs:Walk", kwargs={"fault": fault}, lanes=2)
    with pytest.raises(RolloutError, match=message) as caught:
        train(env_id, run_dir=tmp_path / "r", **tiny, **how)
    assert "Faulty-v0 (plugin 'walking')" in str(caught.value)
    assert "an episode of candidate" in str(caught.value)
    assert "episode seed" in str(caught.value)
    assert not psutil.Process().children()


@pytest.mark.parametrize("how", POOLS, ids=str)
def test_the_pool_plays_the_same_episodes_of_one_policy(how, wander):
    config = TrainConfig(env_id=wander, fitness="episode_return", engine=how["engine"], population_size=8)
    with make_pool(how["pool"], definition(wander), config, workers=2) as pool:
        policy_size = 2 * 32 + 32 + 32 * 32 + 32 + 32 + 1
        mean = np.random.default_rng(0).normal(size=policy_size).astype(np.float32)
        episodes = pool.rollouts((mean, None), range(40))
        assert [episode.seed for episode in episodes] == list(range(40))
        again = pool.rollouts((mean, None), range(40))
        assert [episode.fitness for episode in again] == [episode.fitness for episode in episodes]
        if how != BATCHED_TORCH:  # whose bits may depend on who else is in the batch
            reverse = pool.rollouts((mean, None), range(39, -1, -1))
            assert [episode.fitness for episode in reverse[::-1]] == [episode.fitness for episode in episodes]
        noisy = pool.rollouts((mean, None), range(40), explore=True)
        assert [episode.fitness for episode in noisy] == [episode.fitness for episode in episodes]  # no action noise
    assert len({episode.length for episode in episodes}) > 2


def test_the_engine_is_measured_said_and_kept(wander, tmp_path, capfd):
    options = {**SETTINGS, "generations": 1, "progress": True}
    run = train(wander, run_dir=tmp_path / "r", workers=1, pool="batched", device="auto", **options)
    stored = json.loads((run.directory / "config.json").read_text())
    assert (stored["engine"], stored["device"]) == (run.config.engine, run.config.device)
    assert stored["engine"] in {"numpy", "torch"}
    said = capfd.readouterr().err
    assert f"{stored['engine']} on {stored['device']} computes the policy: the fastest of" in said
    assert "numpy on cpu" in said
    assert "torch on cpu" in said


def test_a_run_keeps_its_engine_when_it_is_resumed(wander, tmp_path):
    options = {**SETTINGS, "generations": 1}
    run = train(wander, run_dir=tmp_path / "r", workers=1, **BATCHED_TORCH, **options)
    with pytest.raises(ValueError, match="engine cannot change in a resumed run: it was 'torch', now 'numpy'"):
        train(wander, run_dir=tmp_path / "r", resume=True, workers=1, **BATCHED, **options)
    assert run.resume(generations=2, workers=1, progress=False).config.engine == "torch"


@pytest.mark.long
def test_all_pools_learn_to_balance_a_pole_equally_well(tmp_path):
    options = {"generations": 10, "population_size": 32, "episodes_per_candidate": 1, "eval_every": 0}
    runs = [
        [
            train("CartPoleBullet-v0", run_dir=tmp_path / f"{k}-{seed}", seed=seed, progress=False, **how, **options)
            for seed in range(5)
        ]
        for k, how in enumerate(POOLS)
    ]
    hashes = [[run.checkpoint.parameter_hash for run in of_pool] for of_pool in runs]
    assert hashes[POOLS.index(BATCHED)] == hashes[POOLS.index(LOCAL)]

    before = np.array([unseen(run, 0) for run in runs[0]])  # where those of all pools begin
    scores = np.array([[unseen(run, 10) for run in of_pool] for of_pool in runs])
    assert all(interval(score - before)[0] > 0 for score in scores)
    lows, highs = zip(*(interval(score) for score in scores), strict=True)
    assert max(lows) <= min(highs)


def unseen(run, generation):
    """Mean fitness of a centre on 50 starts that training did not see; NumPy is the judge of all."""
    checkpoint = run.checkpoint_at(generation)
    return evaluate(replace(checkpoint, config=replace(checkpoint.config, engine="numpy")), episodes=50).mean


def interval(values):
    """Of the mean of five values, with 95 % confidence: Student's t with 4 degrees of freedom."""
    assert len(values) == 5
    half = 2.776 * np.std(values, ddof=1) / np.sqrt(5)
    return np.mean(values) - half, np.mean(values) + half
