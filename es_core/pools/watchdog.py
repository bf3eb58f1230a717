"""A worker's watchdog: it ends the process when an environment hangs, however it hangs."""

import faulthandler
import threading
import time
from collections.abc import MutableSequence

from es_core.pools import process

_LOOKS = 4  # at the progress, within the time that a step may take
_GRACE = 5.0  # seconds
_LATEST = 2**63 - 1  # that a record can hold


def patience(step_timeout: float) -> float:
    """Seconds that the main process waits for a sign of life: the worker's own watchdog comes first, if it runs."""
    return min(step_timeout, threading.TIMEOUT_MAX) * (1 + 1 / _LOOKS) + _GRACE


class Watchdog:
    """Ends this process with a traceback in its report when there is no progress for too long.

    Two threads watch, and the loop that steps the environment only counts. One looks at the counts now and then, and
    winds the other up again if they have changed. That other one is faulthandler's: it needs no interpreter, so that it
    runs out, too, while a simulator's own code keeps the interpreter to itself for good.

    Args:
        seconds: without progress, after which the process ends; up to a quarter later, never earlier.
        record: of this process, where what it plays stands, and when it would be ended: see ``process.Record``.
    """

    def __init__(self, seconds: float, record: MutableSequence[int]) -> None:
        self._seconds, self._record = min(seconds, threading.TIMEOUT_MAX), record
        self._seen: list[int] = []
        self._look()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(self._seconds / _LOOKS)
            self._look()

    def _look(self) -> None:
        progress = list(self._record[: process.DEADLINE])
        if progress[process.TASK] == 0 or progress != self._seen:
            self._record[process.DEADLINE] = min(time.monotonic_ns() + int(1e9 * self._seconds), _LATEST)
            faulthandler.dump_traceback_later(self._seconds, exit=True, file=process.report)
        self._seen = progress
