"""A worker's watchdog: it ends the process when an environment hangs in any way."""

import faulthandler
import threading
import time
from collections.abc import MutableSequence

from es_core.processes import process

_LOOKS = 4  # at the progress, within the time that a step may take
GRACE = 5.0  # seconds
_LATEST = 2**63 - 1  # latest time that a record can hold


def patience(step_timeout: float) -> float:
    """Seconds that the main process waits for a sign of life: the worker's own watchdog comes first, if it runs."""
    return min(step_timeout, threading.TIMEOUT_MAX) * (1 + 1 / _LOOKS) + GRACE


class Watchdog:
    """Ends this process with a traceback in its report when there is no progress for too long.

    Two threads watch, and the loop that steps the environment only counts. One looks at the counts now and then, and
    resets the other's timer if they have changed. The other is faulthandler's: it needs no interpreter, so that its
    timer runs out even if a simulator's own code never releases the interpreter.

    Args:
        seconds: time without progress after which the process ends; up to a quarter later, never earlier.
        record: this process's record of what it plays, and of the time when it would be ended: see ``process.Record``.
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
        if progress[process.TASK] in {0, process.CLOSING} or progress != self._seen:
            self._record[process.DEADLINE] = min(time.monotonic_ns() + int(1e9 * self._seconds), _LATEST)
            faulthandler.dump_traceback_later(self._seconds, exit=True, file=process.report)
        self._seen = progress
