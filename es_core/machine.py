"""Cores, threads and memory of this machine."""

import math
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from functools import cache
from pathlib import Path, PurePosixPath

from threadpoolctl import ThreadpoolController

_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_NO_LIMIT = 2**60  # bytes: version 1 writes a number near 2**63 for no limit


def usable_cores() -> int:
    """Number of cores that this process may use, by its CPU affinity and the quotas of its control groups."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([cores, *(max(1, math.ceil(quota)) for quota in _cpu_quotas())])


def memory_limit() -> int | None:
    """Memory that this process's control groups may use together [bytes]; None: there is no limit."""
    limits = []
    for group in _control_groups("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):  # of version 2 and 1
            with suppress(OSError, ValueError):  # there is none, or "max"
                limits.append(int((group / name).read_text(encoding="ascii")))
    least = min(limits, default=_NO_LIMIT)
    return None if least >= _NO_LIMIT else least


def _cpu_quotas() -> Iterator[float]:
    """Quotas of processor time of this process's control groups [cores]."""
    for group in _control_groups("cpu"):
        for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):  # of version 2 and 1
            with suppress(OSError, ValueError):  # there is none, or "max"
                quota, period = " ".join((group / name).read_text(encoding="ascii") for name in names).split()
                if int(quota) > 0:  # -1: none, in version 1
                    yield int(quota) / int(period)


def _control_groups(controller: str) -> Iterator[Path]:
    """Folders of this process's control groups of both versions, and of the groups that contain them.

    In a container, /proc/self/cgroup may name a group by its path outside; then the folder at the top is this group's.
    """
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        group = PurePosixPath(path).relative_to("/")
        for mount in (controllers, controller) if controllers else ("", "unified"):
            yield from (_CONTROL_GROUPS / mount / each for each in (group, *group.parents))


def open_files_left() -> int | None:
    """Number of files that this process may still open; None: nobody says so."""
    try:
        import resource  # not on Windows

        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return limit - sum(1 for _ in Path("/dev/fd").iterdir())
    except (ImportError, OSError):
        return None


def one_blas_thread() -> AbstractContextManager[object]:
    """Limit products to one thread, as in workers: their last bits may depend on the number."""
    return _threadpools().limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


@cache
def _threadpools() -> ThreadpoolController:
    return ThreadpoolController()  # cached, since it takes milliseconds to find the libraries


def resident_size(pid: int) -> int | None:
    """Bytes of memory that a process takes now; None if the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return None
