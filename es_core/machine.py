"""Cores and threads of this machine."""

import math
import os
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path

from threadpoolctl import ThreadpoolController


def usable_cores() -> int:
    """Number of cores that this process may use, by its CPU affinity and the quota of its control group."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        if quota != "max":
            cores = min(cores, max(1, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):
        pass  # no control group of version 2
    return cores


def one_blas_thread() -> AbstractContextManager[object]:
    """Limit products to one thread, as in workers: their last bits may depend on the number."""
    return _threadpools().limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


@cache
def _threadpools() -> ThreadpoolController:
    return ThreadpoolController()  # cached, since it takes milliseconds to find the libraries
