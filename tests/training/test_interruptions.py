"""Interrupted runs: no signal is lost, and environments are closed, or what they have started is ended."""

import gc
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import psutil
import pytest
from conftest import TESTS, first_fast, registered, require_gone, running, started, wait_until
from conftest import TINY as SMALLEST

from es_core import train
from es_core.cli import main

OWN_FORKERS = True

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs signals of POSIX")

CLOSING = r"Unclosable-v0 .*: close\(\) failed in line \d+ of .*small_envs.py \(close\): OSError: closed already"
TINY = [
    "--generations", 6, "--population-size", 4, "--eval-episodes", 1, "--confirm-episodes", 1, "--solved-at", "none",
    "--strategy", "openai_es", "--policy", "mlp", "--hidden-sizes", "4", "--max-episode-steps", 20,
]  # fmt: skip

# es-envs, which gets SIGTERM while Python discards exceptions: in ``__del__``, at the first event of a name.
DISCARDING = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_DFL)
class Dying:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(100):
            pass
def hook(event, arguments):
    if f"{event} {arguments[0]}".startswith(name) and not done:
        done.append(Dying())
        done[0] = None
done, name = [], sys.argv.pop()
sys.addaudithook(hook)
from es_core.cli import main
sys.exit(main(sys.argv[1:]))
"""
COMMANDS = {
    "train": ["CartPole-v1", "--run-dir", "OUT", "--workers", 2, *TINY],
    "evaluate": ["RUN", "--episodes", 3000, "--workers", 1],
    "train ": ["CartPole-v1", "--seeds", "0,1", "--run-dir", "OUT", "--workers", 2, *TINY],
    "record": ["RUN", "OUT.mp4", "--workers", 2],
    "tune": ["CartPole-v1", "--search", "sigma=0.1|0.2", "--trials", 2, "--dir", "OUT", "--workers", 1, *TINY],
    "finetune": ["RUN", "--algorithm", "ppo", "--steps", 3000, "--run-dir", "OUT", "--workers", 1],
    "collect": ["RUN", "OUT", "--episodes", 3000],
    "show": ["CartPole-v1"],
    "check": ["CartPole-v1"],
}
EVENTS = {"collect": "os.mkdir", "show": "import gymnasium.envs.classic_control.cartpole"}  # others start a process


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert main(["train", "CartPole-v1", "--run-dir", str(folder), "--quiet", *map(str, TINY)]) == 0
    return folder


@pytest.mark.parametrize("command", first_fast(COMMANDS))
def test_a_signal_whose_exception_is_discarded_ends_a_command(command, run, tmp_path):
    words = [str(word).replace("RUN", str(run)).replace("OUT", str(tmp_path / "out")) for word in COMMANDS[command]]
    words = [sys.executable, "-c", DISCARDING, command.strip(), *words, EVENTS.get(command, "subprocess.Popen")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 143, done.stderr
    assert "terminated" in done.stderr.splitlines()
    assert "Traceback" not in done.stderr
    assert "ignored" not in done.stderr


# es-envs, interrupted when it imports a module for the first time.
EARLY = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
module = sys.argv.pop()
def hook(event, arguments):
    if event == "import" and arguments[0] == module:
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(hook)
from es_core.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("module", ["es_core.cli", "numpy", "gymnasium", "es_core.cli.training"])
def test_ctrl_c_while_modules_are_imported_is_answered_by_a_sentence(module):
    done = subprocess.run([sys.executable, "-c", EARLY, "list", module], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


SIMULATED = '''
"""An environment whose simulator is a process in a session of its own."""
import os
import subprocess
import time
from pathlib import Path
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Simulated(CartPoleEnv):
    def __init__(self, folder, naps):
        super().__init__()
        self.folder, self.nap = Path(folder), naps
        self.simulator = subprocess.Popen(["sleep", "100000"], start_new_session=True)

    def step(self, action):
        (self.folder / f"{self.simulator.pid} steps").touch()
        time.sleep(self.nap)
        if (self.folder / f"{os.getpid()} fails").exists():
            raise RuntimeError("the simulator is lost")
        return super().step(action)[0], 0.0, False, False, {}

    def close(self):
        self.simulator.kill()
        self.simulator.wait()
        (self.folder / f"{self.simulator.pid} closed").touch()

gymnasium.register(id="Simulated-v0", entry_point=Simulated, max_episode_steps=10**6)
'''


@contextmanager
def simulated(folder, *words, nap=0.01, workers=2):
    """A run in the middle of its first episodes, and all that it has started."""
    (folder / "simulated.py").write_text(SIMULATED)
    env_kwargs = json.dumps({"folder": str(folder), "naps": nap})
    train = ["train", "simulated:Simulated-v0", "--env-kwargs", env_kwargs, "--quiet", "--run-dir", folder / "run",
             *TINY, "--max-episode-steps", 10**6, *words]  # fmt: skip
    train = [sys.executable, "-c", HEARING, *map(str, train)]
    with started(train, environment={"PYTHONPATH": str(folder)}) as (process, marked):
        wait_until(lambda: len(list(folder.glob("* steps"))) >= workers, process)
        yield process, marked


HEARING = """
import signal, sys
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
from es_core.cli import main
sys.exit(main(sys.argv[1:]))
"""


def names(folder, word):
    return {path.name.split()[0] for path in folder.glob(f"* {word}")}


@pytest.mark.parametrize(
    ("words", "number", "workers"),
    first_fast(
        [
            (["--workers", 2], signal.SIGINT, 2),
            (["--workers", 2], signal.SIGKILL, 2),
            (["--pool", "vector", "--vector-envs", 2], signal.SIGINT, 2),
        ],
        1,
    ),
)
def test_environments_are_closed_when_a_run_ends_within_an_episode(words, number, workers, tmp_path):
    if "vector" in words:
        pytest.importorskip("torch")
    with simulated(tmp_path, *words, workers=workers) as (process, marked):
        process.send_signal(number)
        code = process.wait(30)
        assert code == (130 if number == signal.SIGINT else -number)
        require_gone(marked, 15)
    assert names(tmp_path, "steps") <= names(tmp_path, "closed")


def test_environments_are_closed_when_one_of_two_workers_ends_the_run(tmp_path):
    # Without evaluations two candidates play at once, one of whose failures is fatal, while the other plays on.
    with simulated(tmp_path, "--workers", 2, "--eval-every", 0) as (process, marked):
        simulator, other = sorted(names(tmp_path, "steps"))
        (tmp_path / f"{psutil.Process(int(simulator)).ppid()} fails").touch()
        assert "the simulator is lost" in process.communicate(timeout=60)[1]
        assert process.returncode == 1
        require_gone(marked, 15)
    assert other in names(tmp_path, "closed")
    assert names(tmp_path, "steps") <= names(tmp_path, "closed")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_processes_of_an_environment_end_with_its_killed_worker(number, start, tmp_path, monkeypatch):
    monkeypatch.setenv("ES_ENVS_START", start)
    with simulated(tmp_path, "--workers", 2, nap=3600.0) as (process, marked):
        assert len(marked()) > 4
        process.send_signal(number)
        process.wait(30)
        require_gone(marked, 15)
    assert not names(tmp_path, "steps") & names(tmp_path, "closed")  # where it is only tried, nothing is played


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_simulator_ends_with_the_worker_that_hangs_in_it(tmp_path):
    with simulated(tmp_path, "--step-timeout", 1, nap=3600.0, workers=1) as (process, marked):
        assert "took more than 1 seconds (step_timeout)" in process.communicate(timeout=60)[1]
        require_gone(marked, 15)
    assert len(names(tmp_path, "steps")) > 2


@pytest.fixture(scope="module")
def unclosable(tmp_path_factory):
    """The id of an environment whose ``close`` fails, and a run in it."""
    with registered("Unclosable-v0", "small_envs:Unclosable", max_episode_steps=5) as definition:
        folder = tmp_path_factory.mktemp("unclosable") / "run"
        yield definition.id, train(definition.id, run_dir=folder, **SMALLEST).directory


@pytest.mark.filterwarnings("always:.*close.. failed:RuntimeWarning")
@pytest.mark.parametrize(
    "words",
    first_fast(
        [
            "train ID --generations 1 --run-dir OUT --workers 1",
            "evaluate RUN --workers 1",
            "record RUN OUT.mp4 --workers 1",
            "show ID",
            "train ID --generations 1 --run-dir OUT --pool vector",
            "finetune RUN --algorithm a2c --steps 20 --run-dir OUT --workers 1",
            "tune ID --search sigma=0.1|0.2 --trials 2 --seeds 1 --generations 1 --dir OUT --workers 1",
            "bench ID --seconds 0.01 --workers 1",
            "collect RUN OUT",
            "export RUN OUT.onnx",
            "replay RUN --generation 0 --candidate 0 --seed 1",
        ],
        fast=5,
    ),
)
def test_an_error_in_close_is_a_warning_with_its_line(words, unclosable, tmp_path, capfd):
    env_id, run = unclosable
    words = words.replace("ID", env_id).replace("RUN", str(run)).replace("OUT", str(tmp_path / "new"))
    assert main(words.split()) == 0
    gc.collect()  # an algorithm's environment is closed with the algorithm, which is in a circle
    assert re.search(CLOSING, capfd.readouterr().err)


@pytest.mark.filterwarnings("always:.*close.. failed:RuntimeWarning")
@pytest.mark.parametrize("kind", ["Mute", "GeneratorExit", "KeyboardInterrupt"])
def test_an_error_of_any_kind_in_close_is_a_warning(kind, unclosable, tmp_path, capfd):
    _, run = unclosable
    words = ["--env-kwargs", json.dumps({"kind": kind}), "--workers", "1"]
    assert main(["record", str(run), str(tmp_path / "film.mp4"), *words]) == 0
    assert main(["evaluate", str(run), "--episodes", "2", *words]) == 0
    told = capfd.readouterr().err
    assert len(re.findall(rf"warning: Unclosable-v0 .*: close\(\) failed in line .*: {kind}:", told)) > 1


@pytest.mark.slow
def test_a_close_that_hangs_in_the_main_process_is_named(tmp_path):
    gate = tmp_path / "gate"
    words = [sys.executable, "-m", "es_core", "show", "small_envs:ClosesLate-v0"]
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "GATE": str(gate)}
    with running(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        line = next(line for line in process.stderr if line.startswith("warning:"))
        assert "ClosesLate-v0" in line
        assert "close() has not ended after 12 s" in line
        gate.touch()
        assert process.wait() == 0


def test_warnings_of_the_workers_of_several_seeds_are_shown(tmp_path):
    words = ["train", "small_envs:Unclosable-v1", "--seeds", "0,1", "--run-dir", str(tmp_path / "out"), *map(str, TINY)]
    done = subprocess.run(
        [sys.executable, "-m", "es_core", *words],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"seed 0: warning: .*close\(\) failed in line", done.stderr)
