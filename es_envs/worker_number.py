"""The number of a process among those of this machine that make environments: for ports, displays, scene files."""

import os
import socket
import sys
import tempfile
from pathlib import Path

VARIABLE = "ES_ENVS_WORKER"
"""The environment variable that holds it, also for what the process starts."""

_MOST = 4096
_numbers: dict[int, int] = {}  # by process id: a fork has a number of its own
_held: list[object] = []  # what holds them until the process ends


def worker_number() -> int:
    """Return the least number, from 0 on, that no other process on this machine had when this one first asked.

    It is this process's until it ends, and is in the environment variable ``ES_ENVS_WORKER`` from then on.
    """
    process = os.getpid()
    if process not in _numbers:
        assign(next(filter(_take, range(_MOST)), process))
    return _numbers[process]


def assign(number: int) -> None:
    """Give this process a number, whoever else has it."""
    _numbers[os.getpid()] = number
    os.environ[VARIABLE] = str(number)


def _take(number: int) -> bool:
    """Take a number, which the system gives back when this process ends, however it does; False: another has it."""
    name = f"es-envs-worker-{number}"
    if sys.platform == "linux":  # an abstract socket: no file, the same for all users, as ports are
        with socket.socket(socket.AF_UNIX) as taken:
            try:
                taken.bind(f"\0{name}")
            except OSError:
                return False
            _held.append(taken.detach())
        return True
    from filelock import FileLock, Timeout

    lock = FileLock(Path(tempfile.gettempdir(), f"{name}.lock"))
    try:
        _held.append(lock.acquire(timeout=0))
    except (Timeout, OSError):
        return False
    return True
