"""What runs on the nodes of a cluster: an actor that keeps a worker process for life, as the local pool does here."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from es_core.machine import description, versions
from es_core.pools.local import LocalPool
from es_core.pools.messages import WORKER_DIED, CannotStart, Ready, Reply, Start, Work
from es_core.rollout import RolloutError


@dataclass(frozen=True)
class Played:
    """What a call has measured.

    Attributes:
        replies: to its tasks.
        warnings: that were given meanwhile.
        replaced: worker processes that have died.
    """

    replies: list[Reply]
    warnings: list[str]
    replaced: int


class Host:
    """Plays tasks in a local pool of one worker, so that an environment that crashes or hangs ends nothing else."""

    _pool: LocalPool
    _work: Work

    def __init__(self) -> None:
        self._number: int | None = None  # of the work that is known

    def meet(self, distributions: Iterable[str]) -> dict[str, Any]:
        """Where this is, in plain types, which every version of this package can read."""
        return {**description(), "versions": versions(*distributions)}

    def begin(self, start: Start, recycle_after: int | None) -> Ready | CannotStart:
        """Start the worker process; its greeting."""
        how: Any = {"step_timeout": start.step_timeout, "recycle_after": recycle_after, "probe": True}
        try:
            self._pool = LocalPool(start.definition, start.config, workers=1, most=1, **how)
        except RolloutError as error:
            return CannotStart(WORKER_DIED, str(error), "")
        except Exception as error:  # noqa: BLE001  (the driver names the node)
            return CannotStart(type(error).__name__, str(error), "")
        return self._pool.greeting

    def ping(self) -> None:
        """Do nothing: how long a call takes."""

    def play(self, number: int, work: Work, numbers: Sequence[int]) -> Played:
        """Have tasks played.

        Args:
            number: of the work.
            work: as it was sent to this node.
            numbers: of the tasks.

        Raises:
            RolloutError: the worker process has died, and no other could be started.
        """
        if number != self._number:
            self._pool.recycle()
            self._number, self._work = number, work
        replaced = self._pool.workers_replaced
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            replies = list(self._pool.play(self._work, numbers))
        return Played(replies, [str(each.message) for each in caught], self._pool.workers_replaced - replaced)
