import json
import re

import pytest
from conftest import ENV_IDS, STRATEGIES, first_fast, options_for

from es_core import Bench, bench
from es_core.cli import main

QUICK = {"workers": 2, "seconds": 0.01, "population_size": 4, "max_episode_steps": 20}


def measured(**values):
    """A result of which a test gives what matters to it."""
    usual = {"env_id": "Walk-v0", "speeds": {1: 10_000.0, 2: 19_000.0}, "environment": 80.0, "policy": 10.0}
    return Bench(**{**usual, "population_size": 4, "candidates": 4, "episode_cap": None, **values})


def test_one_two_and_all_workers_are_measured_and_the_parts_of_a_step(wander):
    result = bench(wander, **{**QUICK, "workers": 3})
    assert result.env_id == wander
    assert list(result.speeds) == [1, 2, 3]
    assert min(*result.speeds.values(), result.environment, result.policy) > 0
    assert result.workers in result.speeds
    assert (result.candidates, result.population_size) == (4, 4)


def test_the_rest_is_what_environment_and_policy_leave_of_a_step():
    assert measured().rest == pytest.approx(10.0)
    assert measured(environment=200.0).rest == 0.0  # measured apart, it may seem to take longer than the whole


@pytest.mark.parametrize(
    ("speeds", "workers"),
    [([10.0], 1), ([10.0, 19.0, 19.5], 2), ([10.0, 19.0, 38.0], 4), ([10.0, 9.9, 9.0], 1)],
)
def test_the_fewest_workers_that_are_nearly_as_fast_are_recommended(speeds, workers):
    assert measured(speeds={2**power: speed for power, speed in enumerate(speeds)}).workers == workers


def test_the_command_shows_speeds_and_the_shares_of_a_step(wander, capsys):
    assert main(["bench", wander, "--seconds", "0.01", "--workers", "2", "--population-size", "4"]) == 0
    shown = capsys.readouterr()
    rows = [line.split() for line in shown.out.splitlines() if re.match(r" *\d", line)]
    assert [row[0] for row in rows][:2] == ["1", "2"]
    assert "1.0" in rows[0]
    shares = [int(share) for share in re.findall(r"\((\d+) %\)", shown.out)]
    assert sum(shares) == pytest.approx(100, abs=2)  # each is rounded
    assert re.search(r"Recommended: --workers [12],", shown.err)


@pytest.mark.parametrize("env_id", first_fast(["CartPole-v1", *ENV_IDS]))
def test_every_environment_is_measured_with_what_it_recommends(env_id, capsys):
    words = ["bench", env_id, "--seconds", "0.01", "--workers", "1", "--json"]
    assert main(words) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["env_id"] == env_id
    assert measured["speeds"]["1"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        *({"strategy": strategy, **options_for(strategy)} for strategy in STRATEGIES),
        {"observation_normalization": True, "action_noise": 0.1, "episode_seeds": "independent"},
        {"virtual_batch_normalization": True, "episodes_per_candidate": 2, "on_candidate_error": "drop"},
    ],
    ids=lambda fields: ", ".join(map(str, fields.values())),
)
def test_every_strategy_and_normalization_is_measured(wander, fields):
    result = bench(wander, **{**QUICK, "population_size": 8, "workers": 1}, **fields)
    assert min(result.speeds[1], result.environment, result.policy) > 0


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_a_slow_environment_is_measured_in_the_time_that_was_given(register, capsys, monkeypatch):
    monkeypatch.setenv("ES_ENVS_START", "spawn")
    slow = register("Slow-v0", "small_envs:Slow", max_episode_steps=100_000)  # a generation would take hours
    assert main(["bench", slow, "--seconds", "3", "--workers", "2"]) == 0
    said = capsys.readouterr()
    assert "A step takes one worker" in said.out
    assert "There was time for only 4 of 16 candidates, and of their episodes the first" in said.err


@pytest.mark.parametrize(
    ("values", "advice"),
    [
        ({}, ""),
        ({"environment": 60.0}, "episodes_per_candidate would make updates rarer"),
        ({"environment": 60.0, "candidates": 2}, ""),
        ({"environment": 60.0, "episode_cap": 16}, ""),
        ({"environment": 10.0, "policy": 80.0}, "hidden_sizes"),
        ({"speeds": {1: 10_000.0, 2: 14_000.0}}, "2 workers lose a fifth"),
    ],
)
def test_the_largest_loss_is_answered_with_advice(values, advice):
    result = measured(**values)
    assert advice in result.advice
    assert bool(result.advice) == bool(advice)


def test_bench_refuses_wrong_arguments(register, capsys):
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
