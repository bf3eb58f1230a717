"""Pools of worker processes on this machine, which live for the whole run."""

import time
import warnings
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from es_core.callables import packed
from es_core.config import TrainConfig
from es_core.machine import usable_cores
from es_core.pools import STEP_TIMEOUT, Results
from es_core.pools.process import Child, ChildDiedError, end
from es_core.pools.tasks import TaskPool, require_workers, trace_of
from es_core.pools.watchdog import patience
from es_core.pools.work import Work
from es_core.pools.worker import FailedReply, ReadyReply, Reply, Start, Task
from es_core.rollout import RolloutError
from es_core.strategies.population import Population
from es_envs import EnvDefinition

_DIED = "WorkerDied"
_PAUSES = (0.5, 1.0, 2.0, 4.0)  # seconds in front of another start, each time that a worker has died while it started


class WorkerPool(TaskPool):
    """Worker processes on this machine: how they are started, asked and ended.

    Args:
        definition: see ``TaskPool``; config, step_timeout and recycle_after, too.
        config: of the run.
        workers: processes; None: the usable cores.
        most: start no more than this, since there is no work for more.
        step_timeout: of a worker.
        recycle_after: of a worker.

    Raises:
        ValueError: workers, step_timeout or recycle_after is not positive, or a space is not supported.
        PluginError: the environment cannot be made.
        RolloutError: a worker could not start, or differs from the others in its spaces.
    """

    def __init__(
        self,
        definition: EnvDefinition,
        config: TrainConfig,
        *,
        workers: int | None = None,
        most: int,
        step_timeout: float = STEP_TIMEOUT,
        recycle_after: int | None = None,
    ) -> None:
        super().__init__(definition, config, step_timeout=step_timeout, recycle_after=recycle_after)
        require_workers(workers)
        self.workers = min(usable_cores() if workers is None else workers, most)
        self._children: list[Child] = []
        self._held: list[dict[int, Task]] = [{} for _ in range(self.workers)]  # by index: given, and not answered
        self._episodes = [0] * self.workers  # that each has played
        try:
            for _ in range(self.workers):  # one by one, so that those that were started are ended if one cannot be
                self._children.append(start_worker(self._start()))
            greetings = [self._greeting(worker) for worker in range(self.workers)]
            self._first = greetings[0]
            for greeting in greetings:
                self._require_same(greeting)
        except BaseException:
            self.close()
            raise
        self._use(self._first)

    def _start(self) -> Start:
        objects = packed(self.definition, self.config)
        return Start(self.definition, self.config, self._step_timeout, objects=objects)

    def _greeting(self, number: int) -> ReadyReply:
        """What a worker reports when it has made its environment."""
        self._children[number], reply = greeted(self._children[number], self._start())
        return self._require_ready(reply)

    def _require_same(self, greeting: ReadyReply) -> None:
        if greeting != self._first:
            raise RolloutError(
                f"{self.definition.label}: two workers see different spaces: {self._first.observation_space}, "
                f"{self._first.action_space} in one and {greeting.observation_space}, {greeting.action_space} in "
                "the other; an environment's spaces must not depend on the process"
            )

    def _restart(self, numbers: Sequence[int]) -> None:
        """Put new workers in the places of these."""
        end([self._children[number] for number in numbers])
        for number in numbers:
            self._children[number], self._episodes[number] = start_worker(self._start()), 0
        for number in numbers:
            self._require_same(self._greeting(number))

    def evaluate(
        self, population: Population, episode_seeds: NDArray[np.int64], *, centre_seeds: Sequence[int] = ()
    ) -> Results:
        """See ``RolloutPool.evaluate``."""
        if self._recycle_after is not None:
            self._restart([number for number, played in enumerate(self._episodes) if played >= self._recycle_after])
        return super().evaluate(population, episode_seeds, centre_seeds=centre_seeds)

    def _send(self, number: int, message: object) -> None:
        with suppress(ChildDiedError):  # which shows when it is to be answered
            self._children[number].send(message)

    def _answered(self, population: Population, work: Work, number: int, reply: Reply) -> None:
        """Keep a worker's reply; see ``_keep``."""
        held = self._held[number]
        if reply.index is not None:
            self._episodes[number] += len(held[reply.index].seeds)
        self._keep(population, work, held, reply)

    def _replace(self, population: Population, work: Work, number: int, death: ChildDiedError) -> None:
        """Put a new worker in the place of one that has died; what that one had is played again, or given up."""
        self._bury(population, work, self._held[number], str(death), death.report)
        self._restart([number])
        self._send(number, population)

    def close(self) -> None:
        """End the workers: politely, then by force. May be called twice."""
        end(self._children)
        self._children = []


def start_worker(start: Start) -> Child:
    """A worker process, which is to be ``greeted``."""
    child = Child("es_core.pools.worker:serve", patience=patience(start.step_timeout))
    with suppress(ChildDiedError):  # why, is said when its greeting does not come
        child.send(start)
    return child


def greeted(child: Child, start: Start) -> tuple[Child, ReadyReply | FailedReply]:
    """A worker that has made its environment, and what it reports; or why there is none.

    One that dies before is started again, a few times: the system may have lacked memory for a moment.
    """
    for pause in _PAUSES:
        reply = _greeting(child)
        if not isinstance(reply, FailedReply) or reply.kind != _DIED:
            return child, reply
        what = f"{start.definition.label}: a worker is started again in {pause:g} seconds, since it died at its start"
        warnings.warn(f"{what}: {reply.message}", RuntimeWarning, stacklevel=2)
        end([child])
        time.sleep(pause)
        child = start_worker(start)
    return child, _greeting(child)


def _greeting(child: Child) -> ReadyReply | FailedReply:
    try:
        (reply,) = child.receive()
    except ChildDiedError as death:
        return FailedReply(None, None, _DIED, str(death), trace_of(death.report))
    return reply  # type: ignore[no-any-return]
