"""The local pool: workers compute their own candidates, and are handed work as they become free."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import wait

from es_core.config import TrainConfig
from es_core.pools.worker import DEAR_NOISE, FailedReply, PlayedReply, Task
from es_core.pools.workers import WorkerPool
from es_core.strategies.population import Population
from es_envs import EnvDefinition

__all__ = ["LocalPool"]


class LocalPool(WorkerPool):
    """Worker processes that each compute the policy for the environments they step; see ``WorkerPool``."""

    def __init__(
        self, definition: EnvDefinition, config: TrainConfig, *, workers: int | None = None, most: int
    ) -> None:
        super().__init__(definition, replace(config, device="cpu"), workers=workers, most=most)

    def _run(self, population: Population, tasks: Sequence[Task]) -> list[PlayedReply]:
        """Hand out ``tasks`` as workers become free; the replies, in the order of the tasks."""
        queue = deque(tasks)
        replies: dict[int, PlayedReply] = {}
        together = 2 if population.base.shape[1] > DEAR_NOISE else 1  # a pair whose noise is dear is not torn apart
        numbers = {child.connection: number for number, child in enumerate(self._children)}
        answered = [1] * self.workers  # tasks in the last message of each worker

        def hand_out(number: int) -> None:
            """Fill a worker's lanes, and give it as much again, or as it answers at once: it never waits for more.

            Near the end no worker gets more than its share, so that none is left with work that others could do.
            """
            held = self._held[number]
            share = (len(tasks) - len(replies)) // self.workers
            wanted = max(together, min(self._lanes + max(self._lanes, answered[number], together), share))
            if len(held) <= wanted - together:
                given = [queue.popleft() for _ in range(min(len(queue), wanted - len(held)))]
                if given:
                    held.update((task.index, task) for task in given)
                    self._send(number, given, population)

        for number in range(self.workers):
            self._send(number, population, population)
            hand_out(number)
        while len(replies) < len(tasks):
            for connection in wait(list(numbers)):
                number = numbers[connection]
                received = self._receive(number)
                for reply in received:
                    if isinstance(reply, FailedReply):
                        raise self._failure(population, reply)
                    del self._held[number][reply.index]
                    replies[reply.index] = reply
                answered[number] = len(received)
                hand_out(number)
        return [replies[task.index] for task in tasks]
