"""What this machine has to offer."""

import math
import os
import platform
import sys
from contextlib import AbstractContextManager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from threadpoolctl import ThreadpoolController

import es_envs
from es_envs import EnvDefinition


def usable_cores() -> int:
    """Cores that this process may use: its CPU affinity, and the quota of its control group."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        if quota != "max":
            cores = min(cores, max(1, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):
        pass  # no control group of version 2
    return cores


def has_display() -> bool:
    """Whether a window can be opened; only Linux tells."""
    return not sys.platform.startswith("linux") or any(os.environ.get(n) for n in ("DISPLAY", "WAYLAND_DISPLAY"))


def description() -> dict[str, str | int]:
    """The system, processor, usable cores and Python, for people."""
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": usable_cores(),
        "python": platform.python_version(),
    }


def versions(*distributions: str) -> dict[str, str]:
    """Which of the distributions are installed here."""
    found = {}
    for name in distributions:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def requirements(definition: EnvDefinition) -> tuple[list[str], list[str]]:
    """The distributions on which the numbers of a run depend, and those of them that are this project's and a plugin's.

    Args:
        definition: of its environment.
    """
    own = ["es-envs", *(each.distribution for each in es_envs.plugins() if each.name == definition.plugin)]
    return [*own, "gymnasium", "numpy", "pybullet", "torch"], own


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def one_blas_thread() -> AbstractContextManager[object]:
    """Products within it have one thread, as in workers: their last bits may depend on the number."""
    return _threadpools().limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


@cache
def _threadpools() -> ThreadpoolController:
    return ThreadpoolController()  # which looks for the libraries once: that takes milliseconds
