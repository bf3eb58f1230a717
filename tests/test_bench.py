import json

import pytest

from es_core import Bench, bench
from es_core.cli import main

QUICK = {"workers": 2, "seconds": 0.01, "population_size": 4, "max_episode_steps": 20}


@pytest.fixture
def wander(register):
    return register("Wander-v0", "small_envs:Wander", max_episode_steps=30, lanes=3)


def test_the_parts_of_a_step_add_up_to_what_a_step_of_training_takes(wander):
    result = bench(wander, **QUICK)
    assert (result.env_id, result.workers, result.lanes) == (wander, 2, 3)
    parts = [result.environment, result.policy, result.noise, result.update, result.waiting]
    assert min(parts) >= 0
    assert min(result.environment, result.policy, result.noise, result.update) > 0
    assert sum(parts) >= 0.999 * result.workers * 1e6 / result.training
    assert result.share == result.training / result.bare


@pytest.mark.parametrize("env_id", ["CartPoleBullet-v0", "CartPole-v1"])
def test_the_command_prints_a_table_or_json(env_id, capsys):
    words = ["bench", env_id, "--seconds", "0.01", "--workers", "1", "--population-size", "2"]
    assert main(words) == 0
    table = capsys.readouterr().out
    assert "bare environment" in table
    assert "a step takes a worker" in table
    assert main([*words, "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["env_id"] == env_id
    assert measured["bare"] > 0


@pytest.mark.parametrize(
    ("parts", "advice"),
    [
        ({"environment": 7.0, "policy": 4.0}, "lanes=3"),
        ({"environment": 7.0, "policy": 4.0, "lanes": 3}, ""),
        ({"environment": 150.0, "policy": 20.0}, ""),
        ({"environment": 150.0, "waiting": 60.0}, "population_size"),
        ({"environment": 150.0, "update": 60.0}, "episodes_per_candidate"),
    ],
)
def test_the_largest_loss_is_answered_with_advice(parts, advice):
    values = {"lanes": 1, "environment": 0.0, "policy": 0.1, "noise": 0.1, "update": 0.1, "waiting": 0.1, **parts}
    total = sum(value for name, value in values.items() if name != "lanes")
    result = Bench(env_id="Walk-v0", workers=2, bare=2e6 / values["environment"], training=2e6 / total, **values)
    assert advice in result.advice
    assert bool(result.advice) == bool(advice)


def test_what_is_wrong_is_said(register, capsys):
    assert main(["bench", "Wanderr-v0"]) == 2
    assert main(["bench", "CartPoleBullet-v0", "--seconds", "0"]) == 2
    assert "seconds must be positive" in capsys.readouterr().err
    faulty = register("Faulty-v0", "small_envs:Walk", kwargs={"fault": "step"})
    assert main(["bench", faulty, "--workers", "1"]) == 1
    assert "the motor is on fire" in capsys.readouterr().err
