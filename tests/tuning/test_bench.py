import json

import pytest
from conftest import ENV_IDS, first_fast

from es_core import STRATEGIES, Bench, bench
from es_core.cli import main

QUICK = {"workers": 2, "seconds": 0.01, "population_size": 4, "max_episode_steps": 20}


def of_parts(**values):
    """What was measured of an environment, if a step's parts take a worker so many microseconds."""
    parts = {"environment": 0.0, "policy": 0.1, "noise": 0.1, "update": 0.1, "waiting": 0.1}
    parts |= {name: value for name, value in values.items() if name in parts}
    counts = {
        "env_id": "Walk-v0",
        "workers": 2,
        "population_size": 4,
        "candidates": 4,
        "episode_cap": None,
        "not_forked": None,
    }
    speeds = {"bare": 2e6 / parts["environment"], "training": 2e6 / sum(parts.values()), "shares": (0.9, 1.0)}
    return Bench(**{**counts, **speeds, **parts, **values})


def test_the_parts_of_a_step_add_up_to_what_a_step_of_training_takes(wander):
    result = bench(wander, **QUICK)
    assert (result.env_id, result.workers) == (wander, 2)
    parts = [result.environment, result.policy, result.noise, result.update, result.waiting]
    assert min(parts) >= 0
    assert min(result.environment, result.policy, result.noise, result.update) > 0
    assert sum(parts) >= 0.999 * result.workers * 1e6 / result.training
    assert 0 < result.shares[0] <= result.shares[1]
    assert (result.candidates, result.population_size) == (4, 4)


def test_a_share_of_more_than_all_is_noise_and_not_shown():
    assert of_parts(environment=5.0, bare=1.0).share == 1.0
    assert of_parts(environment=5.0, bare=1e6).share < 1.0


def test_the_shares_of_a_step_add_up_to_the_whole(wander, capsys):
    assert main(["bench", wander, "--seconds", "0.01", "--workers", "1", "--population-size", "4"]) == 0
    said = capsys.readouterr().out
    shares = [int(line.split()[-2]) for line in said.splitlines() if line.startswith("  ")]
    assert len(shares) == 5
    assert sum(shares) == pytest.approx(100, abs=3)  # each is rounded
    assert "1 worker at once" in said


@pytest.mark.parametrize("env_id", first_fast(["CartPole-v1", *ENV_IDS]))
def test_every_environment_is_measured_with_what_it_recommends(env_id, capsys):
    words = ["bench", env_id, "--seconds", "0.01", "--workers", "1", "--json"]
    assert main(words) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["env_id"] == env_id
    assert measured["bare"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        *({"strategy": strategy} for strategy in STRATEGIES),
        {"observation_normalization": True, "action_noise": 0.1, "episode_seeds": "independent"},
        {"virtual_batch_normalization": True, "episodes_per_candidate": 2, "on_candidate_error": "drop"},
    ],
    ids=lambda fields: ", ".join(map(str, fields.values())),
)
def test_every_strategy_and_normalization_is_measured(wander, fields):
    result = bench(wander, **{**QUICK, "population_size": 8, "workers": 1}, **fields)
    assert min(result.bare, result.training, result.update) > 0


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_a_slow_environment_is_measured_in_the_time_that_was_given(register, capsys, monkeypatch):
    monkeypatch.setenv("ES_ENVS_START", "spawn")
    slow = register("Slow-v0", "small_envs:Slow", max_episode_steps=100_000)  # a generation would take hours
    assert main(["bench", slow, "--seconds", "3", "--workers", "2"]) == 0
    said = capsys.readouterr()
    assert "bare environment" in said.out
    assert "a step takes a worker" in said.out
    assert "There was time for only 4 of 16 candidates, and of their episodes the first" in said.err
    assert "Workers were separate processes, not forked: ES_ENVS_START=spawn asks for it." in said.err


@pytest.mark.parametrize(
    ("parts", "advice"),
    [
        ({"environment": 150.0, "policy": 20.0}, ""),
        ({"environment": 150.0, "waiting": 60.0}, "population_size"),
        ({"environment": 150.0, "update": 60.0}, "episodes_per_candidate"),
        ({"environment": 150.0, "waiting": 60.0, "candidates": 2}, ""),
        ({"environment": 150.0, "update": 60.0, "episode_cap": 16}, ""),
    ],
)
def test_the_largest_loss_is_answered_with_advice(parts, advice):
    result = of_parts(**parts)
    assert advice in result.advice
    assert bool(result.advice) == bool(advice)


def test_what_is_wrong_is_said(register, capsys):
    assert main(["bench", "Wanderr-v0"]) == 2
    capsys.readouterr()
    for seconds in ("0", "inf", "nan"):
        assert main(["bench", "CartPoleBullet-v0", "--seconds", seconds]) == 2
        said = capsys.readouterr().err
        assert "seconds must be a finite number above 0" in said
        assert "measuring" not in said
    faulty = register("Faulty-v0", "small_envs:Walk", kwargs={"fault": "step"})
    assert main(["bench", faulty, "--workers", "1"]) == 1
    assert "the motor is on fire" in capsys.readouterr().err
