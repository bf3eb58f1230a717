"""Workers that are forked from one process, on Linux: what they share, what not, and when each is one of its own."""

import contextlib
import random
import signal
import sys
import textwrap
import warnings

import numpy as np
import psutil
import pytest
from conftest import first_fast, forker_of, left_behind, workers_of
from written import FAULTS, lines

import es_core.processes.forker
from es_core import train
from es_core.processes.forker import Forker
from es_core.processes.process import Child, ChildDiedError, end
from es_envs import definition, registry

OWN_FORKERS = True

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")

SETTINGS = {
    "generations": 3,
    "population_size": 8,
    "eval_episodes": 2,
    "confirm_episodes": 2,
    "hidden_sizes": (4,),
    "action_noise": 0.1,
    "observation_normalization": True,
    "progress": False,
}


@pytest.fixture
def module(tmp_path, monkeypatch):
    """``module(name, code)``: a module that children can import."""
    monkeypatch.syspath_prepend(tmp_path)
    return lambda name, code: (tmp_path / f"{name}.py").write_text(textwrap.dedent(code))


@contextlib.contextmanager
def loaded(modules):
    """A forker that loads modules."""
    with Forker() as forker:
        forker.load(modules)
        yield forker


def ask(*children):
    """What each child answers; they are ended."""
    try:
        return [child.receive() for child in children]
    finally:
        end(children)


def test_forked_workers_give_the_bits_of_processes_of_their_own(walk, tmp_path, monkeypatch):
    monkeypatch.setenv("ES_ENVS_START", "fork")
    forked = train(walk, run_dir=tmp_path / "forked", workers=2, **SETTINGS)
    monkeypatch.setenv("ES_ENVS_START", "spawn")
    spawned = train(walk, run_dir=tmp_path / "spawned", workers=2, **SETTINGS)
    assert lines(forked) == lines(spawned)


def test_a_run_whose_forker_is_killed_continues_with_the_same_bits(walk, tmp_path):
    undisturbed = train(walk, run_dir=tmp_path / "undisturbed", workers=2, **SETTINGS)

    def kill(stats):
        if stats.generation == 0:
            forker_of().kill()
        else:
            assert forker_of() is None

    with pytest.warns(RuntimeWarning, match=r"a worker is replaced: the process died \(exit code -9; killed by a sig"):
        run = train(walk, run_dir=tmp_path / "killed", workers=2, on_generation=kill, **SETTINGS)
    assert lines(run, *FAULTS) == lines(undisturbed, *FAULTS)
    assert sum(stats.workers_replaced for stats in run.history) == 2  # on a busy machine one lives a little longer


def test_workers_that_have_ended_leave_no_zombie(walk, tmp_path):
    def kill(stats):
        processes = psutil.Process().children(recursive=True)
        assert [process for process in processes if process.status() == psutil.STATUS_ZOMBIE] == []
        assert len(left_behind()) == 3
        workers_of()[0].kill()

    with pytest.warns(RuntimeWarning, match="a worker is replaced"):
        train(walk, run_dir=tmp_path / "r", workers=2, episodes_per_worker=16, on_generation=kill, **SETTINGS)
    assert left_behind() == []


ENDS = """
    import os, signal, sys, time

    def exit(connection):
        sys.exit(3)

    def crash(connection):
        os.kill(os.getpid(), signal.SIGSEGV)

    def leave(connection):
        pass
"""


@pytest.mark.parametrize(("how", "code"), [("exit", "3"), ("crash", "-11; killed by a signal"), ("leave", "0")])
def test_the_exit_status_of_a_forked_child_is_reported(how, code, module):
    module("ends", ENDS)
    with loaded(["ends"]) as forker, warnings.catch_warnings(action="error"):
        child, other = (Child(f"ends:{name}", forker=forker) for name in (how, "exit"))
        with pytest.raises(ChildDiedError, match=rf"the process died \(exit code {code}"):
            ask(child)
        with pytest.raises(ChildDiedError, match=r"the process died \(exit code 3"):
            ask(other)


def test_a_child_that_does_not_end_is_killed(module):
    module("busy", "import time\ndef go(connection):\n    connection.send(1)\n    while True: time.sleep(1)")
    with loaded(["busy"]) as forker:
        child = Child("busy:go", forker=forker)
        assert child.receive() == 1
        child.process.kill()
        assert child.process.wait() == -signal.SIGKILL
        end([child])


DRAWS = """
    import os, random, sys
    import numpy

    LOADED = os.getpid()

    def draw(connection):
        numbers = random.random(), numpy.random.random()
        connection.send((LOADED, os.getpgrp() == os.getpid(), os.getcwd(), "torch" in sys.modules, *numbers))
"""


def test_forked_children_share_what_was_loaded_and_no_random_numbers(module, tmp_path, monkeypatch):
    module("draws", DRAWS)
    monkeypatch.chdir(tmp_path)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  (what an environment may use)
    with loaded(["draws"]) as forker:
        one, other = ask(*(Child("draws:draw", forker=forker) for _ in range(2)))
        assert one[0] == other[0] == forker_of().pid
    assert one[1:4] == other[1:4] == (True, str(tmp_path), False)
    assert len({one[4], other[4], random.random()}) == 3
    assert len({one[5], other[5], np.random.random()}) == 3  # noqa: NPY002


ENVIRONMENT = "from small_envs import Walk\n"
UNCLEAN = {
    "a thread": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n",
        "importing unclean starts a thread",
    ),
    "a connection": (
        "from es_envs.bullet import pybullet\npybullet.connect(pybullet.DIRECT)\n",
        "importing unclean opens a connection to Bullet",
    ),
}


@pytest.mark.parametrize("what", first_fast(["a connection", "a thread"]))
def test_a_module_that_does_more_than_define_is_not_forked(what, module, register, tmp_path, monkeypatch):
    code, reason = UNCLEAN[what]
    module("unclean", code + ENVIRONMENT)
    env_id = register("Unclean-v0", "unclean:Walk")
    seen = []
    train(env_id, run_dir=tmp_path / "r", workers=2, on_generation=lambda _: seen.append(len(workers_of())), **SETTINGS)
    assert seen == [2, 2, 2, 2]
    with loaded(registry.modules(definition(env_id))) as forker:
        assert forker.reason == reason
        assert forker_of() is None


def test_a_module_that_loads_too_long_or_not_at_all_is_not_forked(module, monkeypatch):
    module("ends", ENDS)
    module("raises", "raise ValueError('no licence')")
    module("leaves", "import os\nos._exit(7)")
    module("hangs", "import time\nwhile True: time.sleep(1)")
    with loaded(["raises", "ends"]) as forker:  # whoever needs it will see
        assert forker.reason is None
    with loaded(["leaves"]) as forker:
        assert forker.reason == "the process from which workers are forked has ended (exit code 7)"
        with pytest.raises(ChildDiedError, match=r"the process died \(exit code 3"):
            ask(Child("ends:exit", forker=forker))
    monkeypatch.setattr(es_core.processes.forker, "_LOADED_WITHIN", 0.1)
    with loaded(["hangs"]) as forker:
        assert forker.reason == "loading takes more than 0.1 seconds"
    assert left_behind() == []


def test_a_forker_that_is_stopped_is_done_without(module, monkeypatch):
    module("draws", DRAWS)
    monkeypatch.setattr(es_core.processes.forker, "_LOADED_WITHIN", 5.0)
    with loaded(["draws"]) as forker:
        assert forker.reason is None
        monkeypatch.setattr(es_core.processes.forker, "_LOADED_WITHIN", 0.1)
        forker_of().suspend()
        (answer,) = ask(Child("draws:draw", forker=forker))
        assert answer[0] != answer[1]
        assert forker.reason == "the process from which workers are forked does not answer"


def test_how_workers_start_can_be_set(module, monkeypatch):
    module("draws", DRAWS)
    monkeypatch.setenv("ES_ENVS_START", "spawn")
    with loaded(["draws"]) as forker:
        assert forker.reason == "ES_ENVS_START=spawn asks for it"
        one, other = ask(*(Child("draws:draw", forker=forker) for _ in range(2)))
        assert one[0] != other[0]
    monkeypatch.setenv("ES_ENVS_START", "thread")
    with pytest.raises(ValueError, match="the environment variable ES_ENVS_START must be 'fork' or 'spawn', got 'thr"):
        Forker()
