"""The batched pool: workers step environments, and the main process computes the policy for all of them at once."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_core.config import TrainConfig
from es_core.machine import one_blas_thread
from es_core.policies import Policy, make_network, make_policy
from es_core.policies.engines import choices, measure
from es_core.pools.process import ChildDiedError
from es_core.pools.remote import Step
from es_core.pools.shared import Exchange, Slots
from es_core.pools.work import Work
from es_core.pools.worker import Task
from es_core.pools.workers import WorkerPool
from es_core.strategies.population import Population
from es_envs import EnvDefinition

_SLOTS = 128  # episodes at once, at most: each needs an environment
_PARAMETERS = 2**26  # of all candidates at once, at most: 256 MB


class BatchedPool(WorkerPool):
    """Workers that step environments for a policy that is computed here, by one forward pass for all live candidates.

    Observations and raw outputs go through shared memory. The batch of a step is all live candidates in the order of
    their tasks, whatever the number of workers: a task that ends makes room for the next one at the same step.

    Args:
        definition: see ``WorkerPool``; the others, too.

    Attributes:
        config: with the engine and device that compute: those that a moment's measuring found fastest, if left open.
        choice: a sentence about what was chosen and why; empty if there was no choice.
    """

    def __init__(self, definition: EnvDefinition, config: TrainConfig, *, most: int, **how: Any) -> None:
        exchange = Exchange.create()
        super().__init__(definition, config, most=most, exchange=exchange, **how)
        try:
            self._policy = make_policy(config, self.observation_space, self.action_space)
            total = max(self.workers, min(_SLOTS, most, _PARAMETERS // self._policy.size))
            shares = np.full(self.workers, total // self.workers)
            shares[: total % self.workers] += 1
            firsts = np.cumsum(shares) - shares
            self._slots = [Slots(int(first), int(count), total) for first, count in zip(firsts, shares, strict=True)]
            self._inputs, self._outputs = exchange.map(total, self._policy.inputs, self._policy.outputs)
            for number in range(self.workers):
                self._send(number, self._slots[number])
            self.config, self.choice = _settled(config, self._policy, total)
            self._network = make_network(self._policy, total, engine=self.config.engine, device=self.config.device)
        except BaseException:
            self.close()
            raise

    def _restart(self, numbers: Sequence[int]) -> None:
        super()._restart(numbers)
        for number in numbers:
            self._send(number, self._slots[number])

    def _play(self, population: Population, work: Work) -> None:
        with one_blas_thread():
            self._step_all(population, work)

    def _step_all(self, population: Population, work: Work) -> None:
        for number in range(self.workers):
            self._send(number, population)
        rows: list[int] = []  # which task is in each row of the network
        places: dict[int, int] = {}  # in which slot each live task is
        gather = np.zeros(0, np.int64)
        while work.left:
            asked = self._hand_out(work)
            before, places, fresh = places, {}, []
            for number in asked:
                try:
                    step: Step = self._children[number].receive()
                except ChildDiedError as death:
                    self._replace(population, work, number, death)
                    continue
                for reply in step.replies:
                    self._answered(population, work, number, reply)
                places |= {task: self._slots[number].first + row for row, task in enumerate(step.tasks)}
                fresh += step.fresh
            if places != before:
                rows = self._arrange(rows, places, population)
                gather = np.array([places[task] for task in rows], np.int64)
            for task in fresh:
                if task in places:
                    self._network.reset(rows.index(task))
            if rows:
                self._network.inputs[: len(rows), : self._policy.inputs] = self._inputs[gather]
                self._outputs[gather] = self._network.forward(len(rows))

    def _hand_out(self, work: Work) -> list[int]:
        """Give the next tasks to the workers with the most free slots, and ask all that play for a step."""
        given: list[list[Task]] = [[] for _ in range(self.workers)]
        free = [slots.count - len(held) for slots, held in zip(self._slots, self._held, strict=True)]
        while (work.queue or work.suspects) and any(free):
            number = free.index(max(free))
            tasks = work.take(self._held[number], 1)
            free[number] = free[number] - 1 if tasks else 0
            given[number] += tasks
            self._held[number].update((task.index, task) for task in tasks)
        asked = [number for number in range(self.workers) if self._held[number]]
        for number in asked:
            self._send(number, given[number])
        return asked

    def _arrange(self, rows: list[int], live: Collection[int], population: Population) -> list[int]:
        """Have the network compute the live tasks: first those that it has already, then the new ones in order."""
        stay = [row for row, task in enumerate(rows) if task in live]
        if len(stay) < len(rows):
            self._network.keep(stay)
        rows = [rows[row] for row in stay]
        new = sorted(set(live).difference(rows))
        for row, task in enumerate(new, start=len(rows)):
            self._network.load(row, partial(self._write, population, min(task, len(population))))
        return rows + new

    def _write(self, population: Population, index: int, out: NDArray[np.float32]) -> None:
        """Write a candidate's parameters ``(d,)``."""
        population.candidate(index, out)
        self._policy.settle(out, population.statistics)


def _settled(config: TrainConfig, policy: Policy, rows: int) -> tuple[TrainConfig, str]:
    """The config with an engine and a device, and a sentence about why these."""
    options = choices(config, policy)
    if len(options) == 1:
        (engine, device), text = options[0], ""
    else:
        seconds = measure(policy, rows, options)
        engine, device = min(options, key=lambda option: seconds[option])
        measured = ", ".join(f"{name} on {place} {1e6 * seconds[name, place]:.0f}" for name, place in options)
        text = f"{engine} on {device} computes the policy: the fastest of (µs for {rows} candidates) {measured}"
    return replace(config, engine=engine, device=device), text
