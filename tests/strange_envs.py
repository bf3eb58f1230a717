"""Environments that do what few do, and may: this folder is on ``sys.path`` (see conftest.py)."""

import ctypes
import enum
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import torch
from small_envs import Walk


class Telling(Walk):
    """Says with every step whether it succeeded, as something else than a bool; ``says`` is one of ``SAYINGS``."""

    def __init__(self, *, says):
        super().__init__()
        self.says = SAYINGS[says]

    def step(self, action):
        observation, reward, terminated, truncated, _ = super().step(action)
        return observation, reward, terminated, truncated, {"is_success": self.says}


SAYINGS = {"tensor": torch.tensor(False), "number": np.float32(0), "two": np.array([True, False]), "text": "False"}


class Unpicklable(Walk):
    """Tells values that another process could not unpickle."""

    phase = enum.IntEnum("Nowhere", ["DRIVE"])
    mode = enum.StrEnum("Nothing", ["FAST"])

    def reset(self, **options):
        observation, info = super().reset(**options)
        return torch.from_numpy(observation), {**info, "mode": self.mode.FAST, self.mode.FAST: 1}

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        info |= {"phase": self.phase.DRIVE, "contacts": np.array([Unpicklable.phase, lambda: 1, None], object)}
        return torch.from_numpy(observation), reward, terminated, truncated, info


class NeverIdle(Walk):
    """Does not bear an action of 0."""

    def step(self, action):
        if not np.any(action):
            raise ZeroDivisionError("no thrust")
        return super().step(action)


class Counted(Walk):
    """Notes in a folder when it is made and when it is closed."""

    def __init__(self, *, folder):
        super().__init__()
        self.file = Path(folder) / f"{os.getpid()}-{time.monotonic_ns()}"
        self.file.touch()

    def close(self):
        self.file.rename(self.file.with_suffix(".closed"))


class Parent(Walk):
    """Has a simulator in a process that it forks, and that ends when it is closed."""

    def __init__(self, *, folder):
        super().__init__()
        self.simulator = multiprocessing.get_context("fork").Process(target=threading.Event().wait, daemon=True)
        self.simulator.start()
        (Path(folder) / str(self.simulator.pid)).touch()

    def close(self):
        self.simulator.terminate()
        self.simulator.join()


class Orphaning(Walk):
    """Crashes once, and leaves a process that holds its connection open."""

    def __init__(self, *, once):
        super().__init__()
        self.once = Path(once)

    def step(self, action):
        if not self.once.exists():
            self.once.touch()
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().step(action)


class HangingAtItsEnd(Walk):
    """Fails once, and then hangs when it is closed."""

    def __init__(self, *, once):
        super().__init__()
        self.once, self.has_failed = Path(once), False

    def step(self, action):
        if not self.once.exists():
            self.once.touch()
            self.has_failed = True
            raise RuntimeError("the motor is on fire")
        return super().step(action)

    def close(self):
        if self.has_failed:
            threading.Event().wait()


class Endings(Walk):
    """Its last observation is something else: ``last`` is "none" or "nan"."""

    def __init__(self, *, last):
        super().__init__()
        self.last = {"none": None, "nan": np.full(2, np.nan, np.float32)}[last]

    def step(self, action):
        observation, reward, terminated, *rest = super().step(action)
        return self.last if terminated else observation, reward, terminated, *rest


class Foreign(Walk):
    """Its constructor raises an error that has the name of one of ours."""

    def __init__(self):
        raise ctypes.ArgumentError("argument 1: TypeError: wrong type")


class Noting(Walk):
    """Writes a log beside what it finds, and cannot be made."""

    def __init__(self, *, log):
        Path(log).write_text("no licence", encoding="utf-8")
        raise RuntimeError("see crash.log")


def leaving():
    """Make a walk, and change the current folder."""
    os.chdir("elsewhere")
    return Walk()


class SlowToBegin(Walk):
    """Episodes of one step, and a reset of a twentieth of a second."""

    def reset(self, **options):
        time.sleep(0.05)
        return super().reset(**options)

    def step(self, action):
        observation, reward, _, *rest = super().step(action)
        return observation, reward, True, *rest


class SlowToMake(Walk):
    """Takes two seconds to be made, and fails in its first step."""

    def __init__(self):
        super().__init__()
        time.sleep(2)

    def step(self, action):
        raise ValueError("the real reason")


class SlowToClose(Counted):
    """Takes its time to close."""

    def close(self):
        time.sleep(1.5)
        super().close()


class Simulating(Walk):
    """Has a simulator in a process of its own, and hangs once."""

    def __init__(self, *, folder):
        super().__init__()
        self.folder = Path(folder)
        self.simulator = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        (self.folder / str(self.simulator.pid)).touch()

    def step(self, action):
        if not (self.folder / "hung").exists():
            (self.folder / "hung").touch()
            time.sleep(600)
        return super().step(action)

    def close(self):
        self.simulator.terminate()
        self.simulator.wait()


class Unbearable(Walk):
    """Crashes where nothing is done, and cannot be made again after that."""

    def __init__(self, *, once):
        super().__init__()
        self.once = Path(once)
        if self.once.exists():
            raise OSError("no licence is left")

    def step(self, action):
        if not np.any(action):
            self.once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class Holding(Walk):
    """Its constructor lets nothing else run for a while."""

    def __init__(self):
        super().__init__()
        ctypes.PyDLL(None).usleep(7_000_000)


class NeverClosing(Counted):
    """Never comes to an end when it is closed, and lets nothing else run."""

    def close(self):
        super().close()
        ctypes.PyDLL(None).sleep(1000)
