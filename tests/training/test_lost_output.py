"""No failure to print changes a run: terminals that go away, readers that end, full disks, closed streams."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from conftest import first_fast, generations, running, wait_until
from written import lines

from es_core import Run

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs terminals and signals of POSIX")

LOUD = """
import os
import subprocess
import sys
import time
from pathlib import Path
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Loud(CartPoleEnv):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}

    def reset(self, **how):
        print("on stdout", flush=True)
        print("on stderr", file=sys.stderr, flush=True)
        for stream in (1, 2):
            os.write(stream, b"from compiled code\\n")
        subprocess.run(["echo", "from a simulator"], check=True)
        return super().reset(**how)

if gate := os.environ.get("GATE"):  # wait, so that a test can do something before the first episode
    Path(gate).with_suffix(".here").touch()
    while not Path(gate).exists():
        time.sleep(0.01)

gymnasium.register(id="Loud-v0", entry_point=Loud, max_episode_steps=9)
"""
SETTINGS = [
    "--generations", 3, "--population-size", 4, "--eval-episodes", 1, "--confirm-episodes", 1, "--solved-at", "none",
    "--strategy", "openai_es", "--policy", "mlp", "--hidden-sizes", "4",
]  # fmt: skip


def words(command, *options):
    name = ["loud:Loud-v0"] if command in {"train", "tune", "check"} else []
    return [sys.executable, "-m", "es_core", command, *name, *map(str, options)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A run in the environment that prints; the environment's module lies beside it."""
    folder = tmp_path_factory.mktemp("loud")
    (folder / "loud.py").write_text(LOUD)
    train = words("train", "--run-dir", folder / "run", "--workers", 2, *SETTINGS)
    done = subprocess.run(train, env=beside(folder), capture_output=True, text=True, check=True)
    assert {"on stdout", "on stderr", "from compiled code", "from a simulator"} <= {*done.stderr.splitlines()}
    assert done.stdout.splitlines() == [str(folder / "run")]
    return Run.open(folder / "run")


def beside(folder):
    return {**os.environ, "PYTHONPATH": str(folder)}


@contextlib.contextmanager
def full():
    """stderr on a full disk."""
    with Path("/dev/full").open("w") as file:
        yield {"stderr": file}


@contextlib.contextmanager
def unread():
    """stderr into a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    yield {"stderr": writer}
    os.close(writer)


@contextlib.contextmanager
def closed():
    """No stderr."""
    yield {"preexec_fn": lambda: os.close(2)}


@contextlib.contextmanager
def all_closed():
    """No standard stream at all."""
    yield {"preexec_fn": lambda: os.closerange(0, 3)}


@pytest.mark.parametrize(
    ("end", "quiet"),
    first_fast([(unread, []), (full, ["--quiet"]), (closed, []), (all_closed, []), (unread, ["--quiet"])], fast=3),
)
def test_a_run_whose_output_goes_nowhere_has_the_same_bits(end, quiet, undisturbed, tmp_path):
    train = words("train", "--run-dir", tmp_path / "run", "--workers", 2, *SETTINGS, *quiet)
    with end() as streams:
        done = subprocess.run(train, env=beside(undisturbed.directory.parent), check=False, **streams)
    assert done.returncode == 0
    assert lines(Run.open(tmp_path / "run")) == lines(undisturbed)


COMMANDS = {
    "train": ["--pool", "vector", "--vector-envs", 2, "--run-dir", "OUT", *SETTINGS],
    "train ": ["--seeds", "0,1", "--run-dir", "OUT", "--workers", 2, *SETTINGS],
    "finetune": ["RUN", "--algorithm", "ppo", "--steps", 300, "--run-dir", "OUT", "--workers", 1],
    "record": ["RUN", "OUT.mp4", "--width", 96, "--height", 64, "--workers", 1],
    "evaluate": ["RUN", "--episodes", 3, "--workers", 1],
    "tune": ["--search", "sigma=0.1|0.2", "--trials", 2, "--seeds", 1, "--dir", "OUT", "--workers", 1, *SETTINGS],
    "replay": ["RUN", "--generation", 0, "--candidate", 0, "--seed", 1],
    "check": [],
}


def words_of(command, undisturbed, folder):
    if "vector" in COMMANDS[command]:
        pytest.importorskip("torch")
    run, out = str(undisturbed.directory), str(folder / "out")
    options = [str(option).replace("RUN", run).replace("OUT", out) for option in COMMANDS[command]]
    trust = [] if command.strip() in {"train", "tune", "check"} else ["--trust-names"]
    return words(command.strip(), *options, *trust)


@pytest.mark.parametrize("command", first_fast(COMMANDS, fast=2))
def test_a_command_whose_stderr_nobody_reads_does_its_work(command, undisturbed, tmp_path):
    with unread() as streams:
        done = subprocess.run(words_of(command, undisturbed, tmp_path), env=beside(undisturbed.directory.parent),
                              stdout=subprocess.PIPE, text=True, check=False, **streams)  # fmt: skip
    assert done.returncode == 0
    assert done.stdout.strip()


@pytest.mark.parametrize("command", first_fast(COMMANDS, fast=1))
def test_a_command_whose_terminal_goes_away_does_its_work(command, terminal, undisturbed, tmp_path):
    gate, out = tmp_path / "gate", tmp_path / "stdout"
    env = {**beside(undisturbed.directory.parent), "GATE": str(gate)}
    streams = {"stdin": terminal[1], "stderr": terminal[1]}
    with (
        out.open("w") as stdout,
        running(
            words_of(command, undisturbed, tmp_path), env=env, stdout=stdout, start_new_session=True, **streams
        ) as process,
    ):
        wait_until(lambda: read(terminal) or gate.with_suffix(".here").exists(), process)
        close_window(terminal)
        gate.touch()
        assert process.wait(120) == 0
    assert out.read_text().strip()


@pytest.fixture
def terminal():
    """Both ends of a terminal: the one that a window has, and the one that programs use."""
    ends = os.openpty()
    yield ends
    for end in ends:
        with contextlib.suppress(OSError):
            os.close(end)


def in_terminal(words, terminal, folder, *, hangs_up):
    """A process in that terminal; with ``hangs_up`` it is the terminal's own, and gets SIGHUP when that goes away."""

    def begin():
        os.setsid()
        if hangs_up:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as if no test ran under nohup

    theirs = terminal[1]
    return running(words, env=beside(folder), stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=begin)


def close_window(terminal):
    for end in terminal:
        os.close(end)


@pytest.mark.parametrize("hangs_up", [False, True])
def test_a_run_whose_terminal_goes_away_ends_in_order(hangs_up, terminal, undisturbed, tmp_path):
    folder, many = tmp_path / "run", 10**6 if hangs_up else 40
    train = words("train", "--run-dir", folder, "--workers", 1, *SETTINGS, "--generations", many)
    with in_terminal(train, terminal, undisturbed.directory.parent, hangs_up=hangs_up) as process:
        wait_until(lambda: read(terminal) or generations(folder) > 1, process)
        close_window(terminal)
        code = process.wait(120)
    run = Run.open(folder)
    if hangs_up:
        assert code == 129
        assert run.next_generation == run.checkpoint_generations()[-1]
    else:
        assert code == 0
        assert len(run.history) == many + 1


def read(terminal):
    """Read what a terminal shows, so that it takes more."""
    os.set_blocking(terminal[0], False)
    with contextlib.suppress(BlockingIOError):
        os.read(terminal[0], 2**16)


def test_results_that_a_full_disk_loses_are_an_error(undisturbed):
    with Path("/dev/full").open("w") as file:
        done = subprocess.run(words("runs", undisturbed.directory.parent), stdout=file, stderr=subprocess.PIPE,
                              text=True, check=False)  # fmt: skip
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
