"""Each process that makes environments has a number of its own, for ports and displays, and it changes no result."""

import os
from collections import Counter

import pytest
from documents import block

import es_envs
from es_core import Run, train
from es_core.cli import main
from es_envs import testing
from es_envs.worker_number import worker_number

SETTINGS = {"generations": 2, "population_size": 8, "max_episode_steps": 20, "eval_episodes": 2, "confirm_episodes": 2}
OPTIONS = [f"--{name.replace('_', '-')}={value}" for name, value in SETTINGS.items()]

NOTING = """
import os
from pathlib import Path

import small_envs

def note(kind, worker):
    assert os.environ["ES_ENVS_WORKER"] == str(worker)
    with Path(os.environ["NUMBERS"]).open("a") as file:
        file.write(f"{kind} {os.getpid()} {worker}\\n")

def start(worker):
    note("initializer", worker)

class Noting(small_envs.Walk):
    def __init__(self, *, worker, **kwargs):
        super().__init__(**kwargs)
        note("environment", worker)

class Heir(Noting):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
"""


@pytest.fixture
def noted(tmp_path, monkeypatch, register):
    """An environment and its initializer note processes and numbers; returns its id, and a function that reads them."""
    (tmp_path / "noting.py").write_text(NOTING, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("NUMBERS", str(tmp_path / "numbers"))
    env_id = register("Noting-v0", "noting:Heir", initializer="noting:start")

    def read():
        lines = [line.split() for line in (tmp_path / "numbers").read_text().splitlines()]
        (tmp_path / "numbers").unlink()
        return {kind: {int(process): int(number) for k, process, number in lines if k == kind}
                for kind in ("initializer", "environment")}  # fmt: skip

    return env_id, read


@pytest.mark.parametrize("pool", ["local", "vector"])
def test_workers_of_a_pool_have_different_numbers(pool, noted, tmp_path):
    env_id, read = noted
    how = {"workers": 3} if pool == "local" else {"vector_envs": 3}
    own = worker_number()  # taken before the workers take theirs, which are free again afterwards
    run = train(env_id, run_dir=tmp_path / "run", pool=pool, progress=False, **how, **SETTINGS)
    numbers = read()
    assert numbers["initializer"] == numbers["environment"]
    numbers["environment"].pop(os.getpid(), None)
    assert len(numbers["environment"]) == 3
    assert len({own, *numbers["environment"].values()}) == 4
    assert run.config.env_kwargs == {}


def test_a_given_worker_number_is_used_unchanged(noted):
    env_id, read = noted
    es_envs.make(env_id).close()
    es_envs.make(env_id).close()
    assert read()["environment"] == {os.getpid(): worker_number()}
    with pytest.raises(AssertionError):
        es_envs.make(env_id, worker=17)


@pytest.fixture
def puck(tmp_path, monkeypatch):
    """The documents' example, whose simulators listen at ports of their own."""
    (tmp_path / "puck.py").write_text(block("simulator"), encoding="utf-8")
    (tmp_path / "puck_simulator.py").write_text(block("its server"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "puck:Puck-v0"


@pytest.mark.slow
def test_a_simulator_behind_a_socket_trains_side_by_side_with_the_same_bits(puck, tmp_path):
    whole = train(puck, run_dir=tmp_path / "one", workers=1, progress=False, **SETTINGS)
    words = ["train", puck, "--run-dir", str(tmp_path / "two"), "--seeds", "0,1", "--workers", "4", *OPTIONS]
    assert main([*words, "--trust-names"]) == 0
    other = Run.open(tmp_path / "two" / "seed-0", trust=True)
    assert [stats.parameter_hash for stats in other.history] == [stats.parameter_hash for stats in whole.history]


@pytest.mark.slow
def test_a_simulator_behind_a_socket_keeps_all_promises_but_to_render(puck):
    report = testing.check_env(puck)
    assert Counter(result.status for result in report.results)["failed"] == 0
