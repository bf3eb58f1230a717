"""What every pool promises, through the public interface."""

from contextlib import closing
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace

import numpy as np
import pytest
from conftest import first_fast, left_behind
from threadpoolctl import threadpool_limits
from written import require_equal

from es_core import RolloutError, TrainConfig, evaluate, train
from es_core.pools import messages
from es_core.pools.by_name import make_pool
from es_core.pools.options import PoolOptions
from es_core.rollout.rollout import Rollout
from es_envs import definition

OWN_FORKERS = True

# How a run is carried out, by name; those of one engine give the same bits.
LOCAL = {"pool": "local", "engine": "compiled"}
LOCAL_TORCH = {"pool": "local", "engine": "torch"}
POOLS = [LOCAL, LOCAL_TORCH]

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


@pytest.mark.slow
@pytest.mark.parametrize("how", [LOCAL, pytest.param(LOCAL_TORCH, marks=pytest.mark.long)], ids=str)
def test_the_number_of_workers_does_not_change_a_bit(how, wander, tmp_path):
    one, *others = (
        train(wander, run_dir=tmp_path / str(workers), workers=workers, **how, **SETTINGS) for workers in (1, 2, 3)
    )
    assert len({stats.episode_length for stats in one.history}) > 2, "the episodes should differ in length"
    for other in others:
        require_equal(other, one)


@pytest.mark.parametrize("how", [LOCAL, pytest.param(LOCAL_TORCH, marks=pytest.mark.long)], ids=str)
def test_a_resumed_run_equals_one_that_never_stopped(how, wander, tmp_path):
    whole = train(wander, run_dir=tmp_path / "whole", workers=2, **how, **SETTINGS)
    options = {**how, **SETTINGS, "on_generation": lambda stats: stats.generation < 1}
    stopped = train(wander, run_dir=tmp_path / "stopped", workers=1, **options)
    assert len(stopped.history) == 2
    require_equal(stopped.resume(pool=how["pool"], workers=2, progress=False), whole)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_episode_played_here_has_a_workers_bits_for_any_threads(threads, register):
    # Of all policies, one whose products depend on the number of threads.
    env_id = register("Seen-v0", "small_envs:Seen", kwargs={"shape": (84, 84, 4)})
    config = TrainConfig(env_id=env_id, policy="cnn_nature", fitness="episode_return", engine="compiled")
    with closing(Rollout(definition(env_id), config)) as rollout, threadpool_limits(threads):
        parameters = 3 * rollout.policy.initial(0)
        rollout.use(parameters, None)
        here = [rollout.episode(seed).total_reward for seed in range(3)]
    with make_pool(definition(env_id), config, PoolOptions(workers=1)) as pool:
        there = [episode.total_reward for episode in pool.rollouts(parameters, None, range(3))]
    assert here == there


@pytest.mark.filterwarnings("ignore:.*a worker is replaced")
@pytest.mark.parametrize("how", [LOCAL, pytest.param(LOCAL_TORCH, marks=pytest.mark.long)], ids=str)
@pytest.mark.parametrize(
    ("fault", "message"),
    first_fast(
        [
            ("step", "RuntimeError: the motor is on fire"),
            ("crash", r"the process died \(exit code -9"),
            ("exit", "SystemExit: the licence has expired"),
            ("nan", "the observation is not finite"),
            ("shape", r"observation has shape \(1,\), its space says \(2,\)"),
            ("reward", "step of Walk returned the reward 'much', expected a number"),
        ],
        2,
    ),
)
def test_a_failing_episode_is_reported_with_who_played_it(fault, message, how, register, tiny, tmp_path):
    env_id = register("Faulty-v0", "small_envs:Walk", kwargs={"fault": fault})
    with pytest.raises(RolloutError, match=message) as caught:
        train(env_id, run_dir=tmp_path / "r", **tiny, **how)
    assert "Faulty-v0 (plugin 'walking')" in str(caught.value)
    assert "an episode of candidate" in str(caught.value)
    assert "episode seed" in str(caught.value)
    assert left_behind() == []


@pytest.mark.slow
@pytest.mark.parametrize("how", POOLS, ids=str)
def test_the_pool_plays_the_same_episodes_of_one_policy(how, wander):
    config = TrainConfig(env_id=wander, fitness="episode_return", engine=how["engine"], policy="mlp", population_size=8)
    with make_pool(definition(wander), config, PoolOptions(pool=how["pool"], workers=2)) as pool:
        policy_size = 2 * 32 + 32 + 32 * 32 + 32 + 32 + 1
        mean = np.random.default_rng(0).normal(size=policy_size).astype(np.float32)
        episodes = pool.rollouts(mean, None, range(40))
        assert [episode.seed for episode in episodes] == list(range(40))
        again = pool.rollouts(mean, None, range(40))
        assert [episode.fitness for episode in again] == [episode.fitness for episode in episodes]
        reverse = pool.rollouts(mean, None, range(39, -1, -1))
        assert [episode.fitness for episode in reverse[::-1]] == [episode.fitness for episode in episodes]
    assert len({episode.length for episode in episodes}) > 2


@pytest.mark.long
def test_a_run_keeps_its_engine_when_it_is_resumed(wander, tmp_path):
    options = {**SETTINGS, "generations": 1}
    run = train(wander, run_dir=tmp_path / "r", workers=1, **LOCAL_TORCH, **options)
    with pytest.raises(ValueError, match="engine cannot change in a resumed run: it was 'torch', now 'compiled'"):
        train(wander, run_dir=tmp_path / "r", resume=True, workers=1, **LOCAL, **options)
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
    before = np.array([unseen(run, 0) for run in runs[0]])  # where those of all pools begin
    scores = np.array([[unseen(run, 10) for run in of_pool] for of_pool in runs])
    assert all(interval(score - before)[0] > 0 for score in scores)
    lows, highs = zip(*(interval(score) for score in scores), strict=True)
    assert max(lows) <= min(highs)


def unseen(run, generation):
    """Mean fitness of a centre on 50 starts that training did not see; NumPy is the judge of all."""
    checkpoint = run.checkpoint_at(generation)
    return evaluate(replace(checkpoint, config=replace(checkpoint.config, engine="compiled")), episodes=50).mean


def interval(values):
    """Of the mean of five values, with 95 % confidence: Student's t with 4 degrees of freedom."""
    assert len(values) == 5
    half = 2.776 * np.std(values, ddof=1) / np.sqrt(5)
    return np.mean(values) - half, np.mean(values) + half


def test_messages_between_processes_cannot_be_changed():
    found = [each for each in vars(messages).values() if is_dataclass(each) and each.__module__ == messages.__name__]
    assert len(found) > 8
    for each in found:
        message = each.__new__(each)
        with pytest.raises(FrozenInstanceError):
            setattr(message, fields(each)[0].name, None)
