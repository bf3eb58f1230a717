"""The local pool: workers compute their own candidates, and are handed work as they become free."""

from dataclasses import replace
from multiprocessing.connection import wait
from typing import Any

from es_core.config import TrainConfig
from es_core.pools.process import BEAT_EVERY, ChildDiedError
from es_core.pools.work import Work
from es_core.pools.worker import DEAR_NOISE
from es_core.pools.workers import WorkerPool
from es_core.strategies.population import Population
from es_envs import EnvDefinition

__all__ = ["LocalPool"]


class LocalPool(WorkerPool):
    """Worker processes that each compute the policy for the environments they step; see ``WorkerPool``."""

    def __init__(self, definition: EnvDefinition, config: TrainConfig, *, most: int, **how: Any) -> None:
        super().__init__(definition, replace(config, device="cpu"), most=most, **how)

    def _play(self, population: Population, work: Work) -> None:
        """Hand out tasks as workers become free."""
        together = 2 if population.base.shape[1] > DEAR_NOISE else 1  # a pair whose noise is dear is not torn apart
        answered = [1] * self.workers  # tasks in the last message of each worker

        def hand_out(number: int) -> None:
            """Give a worker a task and one more, or as many as it answers at once: it never waits for more.

            Near the end no worker gets more than its share, so that none is left with work that others could do.
            """
            held = self._held[number]
            share = work.left // self.workers
            wanted = max(together, min(1 + max(answered[number], together), share))
            if len(held) <= wanted - together:
                given = work.take(held, wanted - len(held))
                if given:
                    held.update((task.index, task) for task in given)
                    self._send(number, given)

        for number in range(self.workers):
            self._send(number, population)
            hand_out(number)
        while work.left:
            ready = set(wait([child.connection for child in self._children], BEAT_EVERY))
            for number, child in enumerate(self._children):
                if not child.look() and child.connection not in ready:
                    continue
                try:
                    replies = child.receive()
                except ChildDiedError as death:
                    self._replace(population, work, number, death)
                else:
                    for reply in replies:
                        self._answered(population, work, number, reply)
                    answered[number] = len(replies)
                hand_out(number)
