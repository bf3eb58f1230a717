"""What this machine has to offer."""

import math
import os
from pathlib import Path


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
