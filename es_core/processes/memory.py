"""Memory of worker processes, which grows with the episodes where an environment keeps what it should free."""

import warnings
from collections.abc import Hashable
from itertools import pairwise
from typing import Generic, TypeVar

from es_core.formatting import figures
from es_core.machine import resident_size

W = TypeVar("W", bound=Hashable)

_LEAST = 2**26  # bytes: less is no trouble
_STEADY = 0.75  # of the growth per episode before it: what fills a cache, or is in pieces, grows ever slower
_ROOM = 2**28  # bytes by which a worker may grow until it is replaced, if one does as advised


class MemoryWatch(Generic[W]):
    """Warns once of a worker whose memory grows steadily with the episodes that it plays; on Linux alone.

    A worker is looked at each time that it has played twice as many episodes.

    Args:
        label: the environment, for the warning.
    """

    def __init__(self, label: str) -> None:
        self._label, self._has_warned = label, False
        self._episodes: dict[W, int] = {}
        self._seen: dict[W, list[tuple[int, int]]] = {}  # episodes and bytes

    def forget(self, worker: W) -> None:
        """Forget a worker that has ended."""
        self._episodes.pop(worker, None)
        self._seen.pop(worker, None)

    def add(self, worker: W, pid: int, episodes: int) -> None:
        """Add episodes that a worker has played, and look at its process ``pid`` if it is time."""
        played = self._episodes[worker] = self._episodes.get(worker, 0) + episodes
        seen = self._seen.setdefault(worker, [])
        if self._has_warned or not played or (seen and played < 2 * seen[-1][0]):
            return
        if (size := resident_size(pid)) is None:
            return
        seen.append((played, size))
        rates = [(now - then) / (end - start) for (start, then), (end, now) in pairwise(seen[-4:])]
        if len(rates) < 3 or size - seen[-2][1] < _LEAST or rates[-1] < _STEADY * max(rates):
            return
        self._has_warned = True
        often = max(1, int(_ROOM / rates[-1]))
        start, then = seen[0]
        warnings.warn(
            f"{self._label}: a worker process has grown from {_megabytes(then)} to {_megabytes(size)} MB in "
            f"{figures(played - start)} episodes, and still grows: its environment or fitness keeps what it should "
            f"free. episodes_per_worker={often} (on the command line: --episodes-per-worker {often}) replaces a worker "
            "after so many episodes, and changes no result",
            RuntimeWarning,
            stacklevel=2,
        )


def _megabytes(size: int) -> str:
    return figures(round(size / 1e6))
