"""What a user sees of rewards that nobody would choose: always the same, no number on some starts, of a huge scale."""

import re

import numpy as np
import pytest

from es_core import RolloutError, Run, train
from es_core.cli import main


@pytest.fixture
def paid(register):
    """``paid(**kwargs)``: the id of an environment with these rewards."""
    return lambda **kwargs: register(
        "Paid-v0", "small_envs:Paid", fitness="episode_return", max_episode_steps=50, kwargs=kwargs
    )


def test_a_constant_reward_is_reported_after_ten_generations(paid, tmp_path, capsys):
    assert (
        main(["train", paid(scale=0.0), "--generations", "12", "--workers", "1", "--run-dir", str(tmp_path / "r")]) == 0
    )
    told = capsys.readouterr()
    assert "all candidates had the same fitness as others with their start, 0 on average" in told.out + told.err


@pytest.mark.parametrize(("strategy", "kwargs"), [("sb3:a2c", {"nan": -9.0}), ("erl", {"scale": 1e37})])
def test_a_reward_that_no_learner_can_hold_ends_the_run_in_words(strategy, kwargs, paid, tmp_path):
    few = {"eval_every": 0, "workers": 1, "progress": False, "population_size": 8} if strategy == "erl" else {
        "eval_every": 0, "workers": 1, "progress": False, "steps_per_generation": 20}  # fmt: skip
    with pytest.raises(RolloutError, match=r"the reward is (nan|-?\d.*), and a learner needs finite ones of at most"):
        train(paid(**kwargs), strategy=strategy, run_dir=tmp_path / "run", **few)


def test_a_start_without_a_number_ends_the_run_in_words(paid, tmp_path, capsys):
    folder = tmp_path / "r"
    words = ["train", paid(nan=0.4), "--generations", "12", "--workers", "1", "--run-dir", str(folder)]
    assert main(words) == 1
    told = capsys.readouterr().err
    assert re.search(r"generation \d+ \(episode seed \d+, run seed 0\) failed: ValueError: the rewards of", told)
    assert "add up to nan, expected a finite number" in told
    assert "Nothing is lost: `es-envs resume" in told
    replay = re.search(r"To see that episode fail: es-envs (replay .*)", told)
    assert main(replay[1].split()) == 1
    assert "add up to nan" in capsys.readouterr().err


def test_a_fitness_whose_variance_would_be_infinite_is_refused_in_words(paid, tmp_path, capsys):
    words = ["train", paid(scale=1e200), "--generations", "2", "--workers", "1", "--run-dir", str(tmp_path / "r")]
    assert main(words) == 1
    assert "expected a size of at most 1e+150: divide it" in capsys.readouterr().err


@pytest.mark.parametrize("strategy", ["auto", "openai_es", "ars", "pgpe", "snes", "ga"])
@pytest.mark.parametrize("scale", [2.0**30, 2.0**-30])
def test_the_scale_of_rewards_changes_nothing(strategy, scale, paid, tmp_path):
    how = {"strategy": strategy, "generations": 5, "workers": 1, "progress": False, "eval_every": 0}
    usual = train(paid(), run_dir=tmp_path / "usual", **how)
    scaled = train(paid(scale=scale), run_dir=tmp_path / "scaled", **how)
    assert Run.open(usual.directory).checkpoint is not None
    assert np.array_equal(usual.checkpoint.mean, scaled.checkpoint.mean)
