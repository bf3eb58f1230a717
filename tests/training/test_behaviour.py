"""Behaviours: what describes an episode, its way to the strategy that asks for it, and what happens when it fails."""

import sys
from pathlib import Path

import numpy as np
import pytest
from written import lines, require_equal

import es_envs
from es_core import RolloutError, TrainConfig, rebuild, train
from es_core.pools.local import LocalPool
from es_core.pools.options import PoolOptions
from es_core.strategies.ga import GA
from es_core.strategies.nsra_es import NSRAES
from es_envs import Episode, PluginError
from es_envs.behaviour import final_position, last_observation

EXAMPLES = Path(__file__).parents[2] / "examples"
SEEKS = {"strategy": "nsra_es", "population_size": 8, "strategy_options": {"weight": 0.5, "patience": 1}}


def episode(**fields):
    return Episode(seed=0, total_reward=0.0, length=1, terminated=True, truncated=False, **fields)


def test_ready_made_behaviours_are_flat_numbers():
    assert final_position(episode(final_info={"position": (1, 2.5)})).tolist() == [1, 2.5]
    nested = {"body": (np.array([[1.0], [2.0]], np.float32), np.int64(3)), "on": np.array([1, 0], np.int8)}
    assert last_observation(episode(last_observation=nested)).tolist() == [1, 2, 3, 1, 0]
    with pytest.raises(KeyError, match=r"needs info\['position'\] at the last step; got \['speed'\]"):
        final_position(episode(final_info={"speed": 1}))


@pytest.mark.parametrize("env_id", ["RaceCar-v0", "RaceTrack-v0"])
def test_cars_are_described_by_where_they_end(env_id):
    assert es_envs.definition(env_id).load_behaviour() is final_position


@pytest.mark.parametrize("workers", [1, 2])
def test_behaviours_come_back_in_the_order_of_candidates(workers, register, tiny):
    env_id = register(behaviour="small_envs:place_and_steps")
    config = TrainConfig.for_env(env_id, policy="linear").resolved()
    population = NSRAES(np.linspace(-1, 1, 2, dtype=np.float32), population_size=8, sigma=0.5).ask()
    seeds = np.arange(16).reshape(8, 2)
    with LocalPool(es_envs.definition(env_id), config, PoolOptions(workers=workers), most=8) as pool:
        behaviours = pool.evaluate(population, seeds).behaviours
        one = [
            [pool.rollouts(population.candidate(index), None, [seed])[0].last_observation for seed in own]
            for index, own in enumerate(seeds.tolist())
        ]
    np.testing.assert_allclose(behaviours, np.mean(one, axis=1), rtol=1e-6)


def test_behaviours_are_computed_only_for_strategies_that_use_them(register, tiny, tmp_path):
    env_id = register(behaviour="no_such_module:behaviour")
    config = TrainConfig.for_env(env_id, policy="linear").resolved()
    with LocalPool(es_envs.definition(env_id), config, PoolOptions(workers=1), most=4) as pool:
        results = pool.evaluate(GA(np.zeros(2, np.float32), population_size=4, sigma=0.1).ask(), np.zeros((4, 1), int))
    assert results.behaviours is None
    run = train(env_id, run_dir=tmp_path / "run", **tiny)
    assert all("behaviours" not in line["log"] for line in lines(run)[:-1])


def test_two_workers_and_an_interruption_change_no_bit(register, tiny, tmp_path):
    env_id = register(behaviour="small_envs:place_and_steps")
    settings = {**tiny, **SEEKS, "generations": 4, "checkpoint_every": 1}
    whole = train(env_id, run_dir=tmp_path / "whole", **{**settings, "workers": 2})
    stopped = train(env_id, run_dir=tmp_path / "other", **settings, on_generation=lambda stats: stats.generation < 1)
    require_equal(stopped.resume(workers=1, progress=False), whole)
    state = whole.checkpoint.strategy
    assert state["archive"].shape == (4, 2)
    assert state["weight"] != 0.5
    whole.checkpoint_path(3).unlink()
    rebuild(whole, 3).save(tmp_path / "rebuilt")
    assert (tmp_path / "rebuilt").read_bytes() == stopped.checkpoint_path(3).read_bytes()


def test_the_vector_pool_describes_episodes_too(register, tiny, tmp_path):
    env_id = register(behaviour="small_envs:place_and_steps")
    settings = {**tiny, **SEEKS, "pool": "vector", "workers": None, "vector_envs": 2}
    archive = train(env_id, run_dir=tmp_path / "run", **settings).checkpoint.strategy["archive"]
    assert archive.shape == (settings["generations"], 2)
    assert (archive[:, 1] == 5).all()  # steps


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("no_place", "it returned array([ 0., nan]), expected a sequence of 1 to 1000 finite numbers"),
        ("a_number", "it returned array(1.), expected a sequence"),
        ("failing", "ArithmeticError: "),
    ],
)
def test_a_behaviour_that_fails_ends_the_run_and_is_named(name, cause, register, tiny, tmp_path):
    env_id = register(behaviour=f"small_envs:{name}")
    with pytest.raises(RolloutError) as error:
        train(env_id, run_dir=tmp_path / "run", **{**tiny, **SEEKS})
    for text in (f"behaviour 'small_envs:{name}' failed: ", cause, "Walk-v0 (plugin 'walking')", "candidate 0 in gener",
                 "episode seed "):  # fmt: skip
        assert text in str(error.value)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_behaviour_whose_length_varies_is_refused(workers, register, tiny, tmp_path):
    env_id = register(behaviour="small_envs:ever_longer")
    settings = {**tiny, **SEEKS, "episode_seeds": "independent", "workers": workers}
    with pytest.raises(RolloutError, match=r"behaviour 'small_envs:ever_longer' .*returned . numbers.* (another|and)"):
        train(env_id, run_dir=tmp_path / "run", **settings)


def test_a_behaviour_that_cannot_be_imported_is_refused_before_training(register, tiny, tmp_path):
    env_id = register(behaviour="no_such_module:behaviour")
    with pytest.raises(PluginError, match=r"plugin 'walking'\): behaviour 'no_such_module:behaviour' cannot be imp"):
        train(env_id, run_dir=tmp_path / "run", **{**tiny, **SEEKS})
    assert not (tmp_path / "run").exists()


def test_ranks_within_groups_are_refused(walk, tiny, tmp_path):
    with pytest.raises(ValueError, match="'nsra_es' compares fitness between generations, and episode_seeds='grouped'"):
        train(walk, run_dir=tmp_path / "run", **{**tiny, **SEEKS}, episode_seeds="grouped")


@pytest.mark.slow
def test_novelty_leads_out_of_the_trap_in_which_fitness_alone_stays(monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "trap", raising=False)  # what it registers ends with each test
    monkeypatch.syspath_prepend(EXAMPLES)
    settings = {"policy": "mlp", "hidden_sizes": (16,), "population_size": 64, "sigma": 0.3, "learning_rate": 0.1,
                "weight_decay": 0.01, "eval_every": 5, "workers": 1, "progress": False, "seed": 4}  # fmt: skip
    found = {}
    for strategy, options in (("nsra_es", {"patience": 5}), ("openai_es", {})):
        how = {"strategy": strategy, "strategy_options": options, "generations": 300, **settings}
        found[strategy] = train("trap:Trap-v0", run_dir=tmp_path / strategy, **how).history[-1]
    assert found["nsra_es"].solved
    assert not found["openai_es"].solved
