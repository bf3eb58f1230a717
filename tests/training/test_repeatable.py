"""A run finds out if an episode that it plays twice is not the same one, and says so wherever its numbers are."""

import json
import re
import warnings

import pytest
from conftest import TINY

from es_core import Run, report, train

GOES_ON_DIFFERENTLY = {
    "GloballyNoisy": 1,
    "HistoryDependent": 1,
    "NormalizingReward": 1,
    "PaidByProcessId": 2,
    "RealTime": 1,
}
"""Environments of tests/broken_envs.py, and the workers that it takes to notice."""


def trained(register, name, folder, **how):
    env_id = register(f"{name}-v0", f"broken_envs:{name}", max_episode_steps=60)
    return train(env_id, run_dir=folder, **{**TINY, "eval_every": 1, **how})


@pytest.mark.parametrize(("name", "workers"), GOES_ON_DIFFERENTLY.items())
def test_an_episode_that_cannot_be_repeated_is_reported_and_recorded(register, tmp_path, name, workers):
    with pytest.warns(RuntimeWarning, match=f"begin alike and continue differently, .* `es-envs check {name}-v0` says"):
        trained(register, name, tmp_path / "run", workers=workers)

    assert json.loads((tmp_path / "run" / "config.json").read_text())["repeatable"] is False
    run = Run.open(tmp_path / "run")
    page = report(run, tmp_path / "page.html").read_text(encoding="utf-8")
    assert re.search(r"Repeatable.{0,200}>no<", page, re.DOTALL)
    assert "the same numbers, to the last bit" not in page
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run.resume(generations=2).config.repeatable is False


def test_the_best_policy_of_the_generation_that_finds_it_out_belongs_to_its_run(register, tmp_path):
    with pytest.warns(RuntimeWarning, match="continue differently"):
        run = trained(register, "GloballyNoisy", tmp_path / "run", workers=1, on_generation=lambda _: False)
    assert run.best.generation == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run.resume().history[-1].verdict is not None


@pytest.mark.parametrize("pool", ["local", "vector"])
def test_a_repeatable_environment_is_not_suspected(register, tmp_path, pool):
    how = {"workers": None, "vector_envs": 2} if pool == "vector" else {"workers": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = trained(register, "Good", tmp_path / "run", pool=pool, **how)

    assert run.config.repeatable is None
    page = report(run, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "the same numbers, to the last bit" in page
