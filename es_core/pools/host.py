"""What runs on the nodes of a cluster: an actor that keeps a worker process for life, as the local pool does here."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from es_core.machine import description, versions
from es_core.pools.process import Child, ChildDiedError, end
from es_core.pools.worker import FailedReply, ReadyReply, Reply, Start, Task
from es_core.pools.workers import greeted, start_worker
from es_core.strategies.population import Population


@dataclass(frozen=True)
class Played:
    """What a call has measured.

    Attributes:
        replies: to its tasks; to those before the death, if there was one.
        seconds: that it took.
        death: how the worker process died; None: it did not, or another one has taken its place.
        report: what that process left.
    """

    replies: list[Reply]
    seconds: float
    death: str | None = None
    report: str = ""


class Host:
    """Passes tasks on to a worker process of its own, and replies back.

    An environment that crashes or hangs ends that process and nothing else: what it was is told as in the local pool.
    """

    _child: Child
    _start: Start

    def __init__(self) -> None:
        self._recycle_after: int | None = None
        self._number: int | None = None  # of the population that the process knows
        self._episodes = 0  # that the process has played

    def meet(self, distributions: Iterable[str]) -> dict[str, Any]:
        """Where this is, in plain types, which every version of this package can read."""
        return {**description(), "versions": versions(*distributions)}

    def begin(self, start: Start, recycle_after: int | None) -> ReadyReply | FailedReply:
        """Start the worker process; its greeting."""
        self._start, self._recycle_after = start, recycle_after
        self._child, reply = greeted(start_worker(start), start)
        return reply

    def ping(self) -> None:
        """Do nothing: how long a call takes."""

    def play(self, number: int, population: Population, tasks: list[Task]) -> Played:
        """Have tasks of a population played.

        Args:
            number: of the population: it is passed on once.
            population: as it was sent to this node.
            tasks: of it.

        Raises:
            RuntimeError: the worker process has died, and no other could be started.
        """
        started = time.perf_counter()
        is_new = number != self._number
        if is_new and self._recycle_after is not None and self._episodes >= self._recycle_after:
            self._restart()
        replies: list[Reply] = []
        death: ChildDiedError | None = None
        try:
            if number != self._number:  # or the process is
                self._child.send(population)
                self._number = number
            self._child.send(tasks)
            while len(replies) < len(tasks):
                replies += self._child.receive()
                if replies[-1].index is None:  # it is the worker that failed
                    break
        except ChildDiedError as error:
            death = error
            self._restart()
        self._episodes += sum(len(task.seeds) for task in tasks)
        seconds = time.perf_counter() - started
        return Played(replies, seconds) if death is None else Played(replies, seconds, str(death), death.report)

    def _restart(self) -> None:
        end([self._child])
        start = replace(self._start, probe=False)  # it is the same machine
        self._child, reply = greeted(start_worker(start), start)
        self._number, self._episodes = None, 0
        if isinstance(reply, FailedReply):
            raise RuntimeError(f"no worker can be started: {reply.kind}: {reply.message}")
