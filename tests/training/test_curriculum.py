"""A curriculum: training begins where nothing varies, and its ranges grow as the population's fitness does."""

import shutil

import numpy as np
import pytest
from conftest import TINY

from es_core import Run, evaluate, rebuild, replay, train
from es_core.runs.scores import Evaluation
from es_core.seeding import Purpose, episode_seeds
from es_envs import Episode

SETTINGS = {
    **TINY,
    "generations": 6,
    "population_size": 8,
    "sigma": 1.0,
    "max_episode_steps": 60,
    "randomize": {"motor_strength": [0.2, 2.0], "sensor_noise": [0.0, 0.2]},
    "checkpoint_every": 1,
}


def trained(folder, **settings):
    return train("CartPoleBullet-v0", run_dir=folder, **{**SETTINGS, **settings})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs") / "run", curriculum=12)


def test_the_ranges_grow_by_a_tenth_whenever_the_population_is_good_enough(run):
    share = 0.0
    for stats in run.history[:-1]:
        assert stats.rules["curriculum"] == pytest.approx(share)
        share += 0.1 * (stats.fitness_mean >= 12)
    assert 0 < share < 0.55


def test_without_success_nothing_varies_and_with_it_everything_does_in_the_end(run, tmp_path):
    never = trained(tmp_path / "never", curriculum=1000.0)
    assert {stats.rules["curriculum"] for stats in never.history[:-1]} == {0.0}
    plain = trained(tmp_path / "plain", randomize={})
    assert [stats.fitness_mean for stats in never.history] == [stats.fitness_mean for stats in plain.history]
    ranges = {**SETTINGS["randomize"], "latency": [1, 3]}  # at first too narrow for a whole number
    always = trained(tmp_path / "always", curriculum=0.0, generations=12, randomize=ranges)
    assert [stats.rules["curriculum"] for stats in always.history[-3:]] == [1.0, 1.0, 1.0]


def test_the_centre_is_always_evaluated_in_all_of_the_ranges(run):
    first = run.history[0].evaluation
    seeds = episode_seeds(0, Purpose.EVALUATION, 1)
    checkpoint = run.checkpoint_at(0)
    assert first.steps == sum(replay(run, generation=0, seed=seed).length for seed in seeds)
    ranges = run.config.randomize
    assert evaluate(checkpoint, episodes=5) == evaluate(checkpoint, episodes=5, env_kwargs={"randomize": ranges})


def test_a_score_tells_what_varied_on_average(run):
    score = evaluate(run, episodes=20, workers=1)
    assert score.randomized.keys() >= run.config.randomize.keys()
    assert score.randomized["latency"] == 0
    assert 0.7 < score.randomized["motor_strength"] < 1.5
    assert 0.05 < score.randomized["sensor_noise"] < 0.15
    assert run.history[0].evaluation.randomized.keys() == score.randomized.keys()
    still = evaluate(run, episodes=2, workers=1, env_kwargs={"randomize": {"motor_strength": 1.5}})
    assert still.randomized["motor_strength"] == 1.5


def test_numeric_randomized_values_are_averaged_over_episodes():
    told = [{"wind": np.float32(1), "gust": np.nan, "place": "here"}, {"wind": 2, "gust": 1.0, "place": "there"}]
    how = {"seed": 0, "total_reward": 0.0, "length": 1, "terminated": True, "truncated": False}
    infos = [*({"randomized": each} for each in told), {}]
    episodes = [Episode(**how, fitnesses={"f": 0.0}, final_info=info) for info in infos]
    assert Evaluation.from_episodes(episodes[:2]).randomized == {"wind": 1.5}
    assert Evaluation.from_episodes(episodes).randomized == {}


def test_the_result_is_that_of_other_workers_of_a_resumed_run_and_of_the_log(run, tmp_path):
    others = trained(tmp_path / "others", curriculum=12, workers=2)
    assert others.checkpoint.parameter_hash == run.checkpoint.parameter_hash
    stopped = trained(tmp_path / "stopped", curriculum=12, on_generation=lambda stats: stats.generation < 2)
    assert len(stopped.history) == 3
    resumed = Run.open(stopped.directory).resume(progress=False)
    assert resumed.checkpoint.parameter_hash == run.checkpoint.parameter_hash
    assert [stats.rules["curriculum"] for stats in resumed.history] == [
        stats.rules["curriculum"] for stats in run.history
    ]
    bare = shutil.copytree(run.directory, tmp_path / "bare", ignore=shutil.ignore_patterns("*.safetensors"))
    rebuilt = rebuild(bare, 5)
    rebuilt.save(tmp_path / "rebuilt.safetensors")
    assert (tmp_path / "rebuilt.safetensors").read_bytes() == run.checkpoint_path(5).read_bytes()


def test_a_candidate_is_replayed_in_the_ranges_of_its_generation(run):
    seeds = episode_seeds(0, Purpose.TRAINING, 1, 5)
    assert run.history[5].rules["curriculum"] > 0
    lengths = [replay(run, generation=5, seed=seeds[0], candidate=candidate).length for candidate in range(8)]
    assert sum(lengths) / 8 == run.history[5].episode_length


def test_a_curriculum_needs_ranges_and_a_pool_that_can_tell_them(tmp_path):
    with pytest.raises(ValueError, match="curriculum=12: there are no ranges that could grow; give some"):
        trained(tmp_path / "none", curriculum=12, randomize={})
    with pytest.raises(ValueError, match="curriculum is for the pools 'local' and 'ray'"):
        trained(tmp_path / "vector", curriculum=12, pool="vector", workers=None)
    assert not list(tmp_path.iterdir())
