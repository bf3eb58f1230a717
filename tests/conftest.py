"""What tests share: tests/ on ``sys.path``, so that workers find the modules in it, and environments for one test."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import es_envs
from es_envs import EnvDefinition, registry

TESTS = Path(__file__).parent
sys.path.insert(0, str(TESTS))

TINY = {
    "generations": 1,
    "population_size": 2,
    "eval_episodes": 1,
    "confirm_episodes": 1,
    "hidden_sizes": (),
    "workers": 1,
    "progress": False,
}
"""Arguments of ``train`` for the smallest run there is."""

FAILING_RUN = {
    "generations": 3,
    "population_size": 20,
    "episodes_per_candidate": 2,
    "episode_seeds": "independent",
    "eval_episodes": 2,
    "confirm_episodes": 3,
    "policy": "mlp",
    "hidden_sizes": (8,),
    "sigma": 0.3,
    "observation_normalization": True,
    "action_noise": 0.1,
    "fitness": "final_info:score",
    "engine": "numpy",
}
"""Settings of a run in ``small_envs.Failing``: with all that differs from candidate to candidate."""


@contextlib.contextmanager
def registered(env_id="Walk-v0", entry_point="small_envs:Walk", **fields):
    """Register an environment as plugin "walking" would, for the length of the context."""
    fields = {"max_episode_steps": 5, "plugin": "walking", **fields}
    definition = EnvDefinition(id=env_id, entry_point=entry_point, **fields)
    es_envs.env_ids()  # plugins are discovered before the table is patched
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry._registry._definitions, env_id, definition)
        yield definition


@pytest.fixture(scope="module")
def tiny():
    """Arguments of ``train`` for the smallest run there is."""
    return TINY


@pytest.fixture(scope="module")
def walk():
    """The id of ``small_envs.Walk``, registered for the length of the module."""
    with registered() as definition:
        yield definition.id


@pytest.fixture
def register():
    """``register(id, entry_point, **fields)``: an environment for the length of the test; returns its id."""
    with contextlib.ExitStack() as stack:
        yield lambda *values, **fields: stack.enter_context(registered(*values, **fields)).id


@pytest.fixture(scope="session")
def python():
    """``python(code, ...)``: run code in a process of its own; stdout, stderr and the exit code.

    Without code: the script that ``arguments`` name, or what comes through ``stdin``.
    """

    def run(code=None, *, path=(), stdin=None, environment=None, arguments=(), cwd=None):
        words = [sys.executable, *([] if code is None else ["-c", code]), *arguments]
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*path, TESTS])), **(environment or {})}
        done = subprocess.run(
            words, input=stdin, capture_output=True, text=True, check=False, env=variables, cwd=cwd, timeout=120
        )
        return SimpleNamespace(out=done.stdout, err=done.stderr, code=done.returncode)

    return run
