"""Pools of worker processes on this machine, which live for the whole run."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from es_core.config import TrainConfig
from es_core.machine import usable_cores
from es_core.normalizer import REFERENCE_SIZE, ObservationStatistics, ReferenceBatch, Statistics
from es_core.pools import PolicyState, Results
from es_core.pools.process import Child, ChildDiedError, end
from es_core.pools.shared import Exchange
from es_core.pools.worker import FailedReply, PlayedReply, ReadyReply, Task
from es_core.rollout import RolloutError
from es_core.scoring import aggregated
from es_core.seeding import Purpose, episode_seeds
from es_core.strategies.population import Population
from es_envs import EnvDefinition, Episode, PluginError

# Raised by our own checks at the start; their message says it all, and a traceback would bury it.
_FOR_PEOPLE = {"PluginError": PluginError, "SpaceError": ValueError}


class WorkerPool(ABC):
    """Worker processes on this machine: how they are started, asked and ended.

    Args:
        definition: of the environment.
        config: of the run, resolved.
        workers: processes; None: the usable cores.
        most: start no more than this, since there is no work for more.
        exchange: memory that is shared with the workers, or None.

    Attributes:
        config: of the run, the engine and device settled.
        choice: a sentence about why these; empty if nothing was left open.
        observation_space: of the environment, as the workers report it.
        action_space: likewise.
        workers: processes at work.

    Raises:
        ValueError: workers is not positive, or a space is not supported.
        PluginError: the environment cannot be made.
        RolloutError: a worker could not start, or differs from the others in its spaces.
    """

    choice = ""

    def __init__(
        self,
        definition: EnvDefinition,
        config: TrainConfig,
        *,
        workers: int | None = None,
        most: int,
        exchange: Exchange | None = None,
    ) -> None:
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
            raise ValueError(
                f"workers must be a whole number of at least 1, or None for all usable cores; got {workers!r}"
            )
        self.definition, self.config, self._exchange = definition, config, exchange
        self.workers = min(usable_cores() if workers is None else workers, most)
        self._children: list[Child] = []
        self._held: list[dict[int, Task]] = []  # by index: what each worker has been given and has not answered
        try:
            for _ in range(self.workers):
                self._start()
            greetings = [self._greeting(number) for number in range(self.workers)]
            first = greetings[0]
            for greeting in greetings:
                if greeting != first:
                    raise RolloutError(
                        f"{definition.label}: two workers see different spaces: {first.observation_space}, "
                        f"{first.action_space} in one and {greeting.observation_space}, {greeting.action_space} in "
                        "the other; an environment's spaces must not depend on the process"
                    )
        except BaseException:
            self.close()
            raise
        self.observation_space, self.action_space = first.observation_space, first.action_space
        self.config = replace(config, engine=first.engine)
        self._lanes = first.lanes

    def _start(self) -> None:
        child = Child("es_core.pools.worker:serve", self._exchange.descriptors if self._exchange is not None else ())
        self._children.append(child)
        self._held.append({})
        child.send((self.definition, self.config, self._exchange))

    def _greeting(self, number: int) -> ReadyReply:
        """What a worker reports when it has made its environment."""
        (reply,) = self._receive(number)
        if isinstance(reply, FailedReply):
            if reply.kind in _FOR_PEOPLE:
                raise _FOR_PEOPLE[reply.kind](reply.message)
            raise RolloutError(f"{self.definition.label}: a worker could not start: {_cause(reply)}")
        return cast("ReadyReply", reply)

    def _receive(self, number: int) -> list[Any]:
        """The next replies; that the worker has died is one, too."""
        try:
            replies: list[Any] = self._children[number].receive()
        except ChildDiedError as error:
            return [self._death(number, error)]
        return replies

    def _death(self, number: int, error: ChildDiedError) -> FailedReply:
        task = next(iter(self._held[number].values()), None)  # the oldest: most likely the culprit
        return FailedReply(task.index if task else None, task.seeds[0] if task else None, "", str(error), "")

    def evaluate(
        self, population: Population, episode_seeds: NDArray[np.int64], *, centre_seeds: Sequence[int] = ()
    ) -> Results:
        """See ``RolloutPool.evaluate``."""
        seeds = np.broadcast_to(episode_seeds, (len(population), np.shape(episode_seeds)[-1]))
        tasks = [Task(index, tuple(int(seed) for seed in row)) for index, row in enumerate(seeds)]
        # The centre's episodes are the smallest tasks: at the end of the queue they fill the gaps.
        tasks += [Task(len(population) + index, (seed,), explore=False) for index, seed in enumerate(centre_seeds)]
        replies = self._run(population, tasks)
        candidates, centre = replies[: len(population)], replies[len(population) :]
        names = list(candidates[0].fitnesses[0])
        fitnesses = {
            name: np.array([[_or_nan(episode[name]) for episode in reply.fitnesses] for reply in candidates])
            for name in names
        }
        collected = [reply.statistics for reply in candidates if isinstance(reply.statistics, ObservationStatistics)]
        return Results(
            fitness=aggregated(fitnesses[names[0]], self.config.fitness_aggregation),
            fitnesses=fitnesses,
            lengths=np.array([reply.lengths for reply in candidates]),
            capped=np.array([reply.capped for reply in candidates]),
            statistics=collected if self.config.observation_normalization else None,
            centre=[reply.episodes[0] for reply in centre],
        )

    def rollouts(self, policy_state: PolicyState, seeds: Sequence[int], *, explore: bool = False) -> list[Episode]:
        """See ``RolloutPool.rollouts``."""
        tasks = [Task(index, (seed,), explore) for index, seed in enumerate(seeds)]
        return [reply.episodes[0] for reply in self._run(_centre(*policy_state), tasks)]

    def reference_batch(self) -> ReferenceBatch:
        """See ``RolloutPool.reference_batch``."""
        seeds = episode_seeds(self.config.seed, Purpose.REFERENCE_BATCH, REFERENCE_SIZE)
        (reply,) = self._run(_centre(np.zeros(0), None), [Task(0, seeds, reference=True)])
        return cast("ReferenceBatch", reply.statistics)

    @abstractmethod
    def _run(self, population: Population, tasks: Sequence[Task]) -> list[PlayedReply]:
        """Have ``tasks`` played; the replies, in the order of the tasks.

        Raises:
            RolloutError: an episode failed, or a worker died.
        """

    def _send(self, number: int, message: object, population: Population) -> None:
        try:
            self._children[number].send(message)
        except ChildDiedError as error:
            raise self._failure(population, self._death(number, error)) from error

    def _failure(self, population: Population, reply: FailedReply) -> RolloutError:
        if reply.index is None:
            return RolloutError(f"{self.definition.label}: a worker failed: {_cause(reply)}")
        who = f"candidate {reply.index}" if reply.index < len(population) else "the centre"
        when = f" in generation {population.generation}" if len(population) else ""  # `rollouts` knows of none
        return RolloutError(
            f"{self.definition.label}: an episode of {who}{when} (episode seed {reply.seed}, "
            f"run seed {self.config.seed}) failed: {_cause(reply)}"
        )

    def close(self) -> None:
        """End the workers: politely, then by force. May be called twice."""
        end(self._children)
        self._children = []
        if self._exchange is not None:
            self._exchange.close()
            self._exchange = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _centre(parameters: NDArray[Any], statistics: Statistics | None) -> Population:
    """A population without candidates, of which tasks play the centre."""
    nobody = np.zeros(0, np.int64)
    return Population(
        generation=0,
        base=np.asarray(parameters, np.float32)[np.newaxis],
        parent=nobody,
        scale=0.0,
        noise_seed=nobody,
        sign=nobody.astype(np.int8),
        statistics=statistics,
    )


def _cause(reply: FailedReply) -> str:
    if not reply.traceback:
        return reply.message
    return f"{reply.kind}: {reply.message}\nThe worker's traceback:\n{reply.traceback}"


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
