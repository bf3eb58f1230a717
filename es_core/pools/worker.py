"""A worker process: it keeps one environment and one policy for life, and answers tasks with numbers."""

import os
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from es_core import seeding
from es_core.normalizer import ObservationStatistics, StatisticsCollector
from es_core.rollout import Rollouts
from es_core.strategies.population import Population
from es_envs import Episode

# Set while this process serves as a worker: importing the user's module here must not start another run.
serving = False


@dataclass(frozen=True)
class CandidateTask:
    """Play one candidate on these episode seeds."""

    index: int
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class CentreTask:
    """Play the population's centre on one seed."""

    index: int
    seed: int
    explore: bool = False


@dataclass(frozen=True)
class CandidateReply:
    """What the episodes of one candidate measured."""

    index: int
    fitnesses: list[Mapping[str, float | None]]
    lengths: list[int]
    statistics: ObservationStatistics | None


@dataclass(frozen=True)
class CentreReply:
    """One episode of the centre."""

    index: int
    episode: Episode


@dataclass(frozen=True)
class FailedReply:
    """A task, or the start (task None), failed."""

    task: CandidateTask | CentreTask | None
    seed: int | None
    kind: str
    message: str
    traceback: str


@dataclass(frozen=True)
class ReadyReply:
    """The worker has made its environment."""

    observation_space: Any
    action_space: Any


def main(handle: int) -> None:
    """Serve until the other end of the connection is closed."""
    global serving  # noqa: PLW0603
    serving = True
    os.dup2(2, 1)  # what an environment prints must not end up among the results on stdout
    connection = _connection(handle)
    try:
        definition, config = connection.recv()
        worker = _start(connection, definition, config)
        if worker is not None:
            worker.serve()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the main process has closed the pool, or is gone


def _connection(handle: int) -> Any:
    if sys.platform == "win32":
        from multiprocessing.connection import PipeConnection

        return PipeConnection(handle)
    return Connection(handle)


def _start(connection: Any, definition: Any, config: Any) -> "Worker | None":
    try:
        rollouts = Rollouts(definition, config)
    # SystemExit too: a simulator that calls sys.exit must not take the reason with it.
    except (Exception, SystemExit) as error:  # noqa: BLE001  (the main process raises it)
        connection.send(FailedReply(None, None, type(error).__name__, str(error), traceback.format_exc()))
        return None
    connection.send(ReadyReply(rollouts.env.observation_space, rollouts.env.action_space))
    return Worker(connection, rollouts, collect=config.observation_normalization)


class Worker:
    """Answers tasks about the population that was sent last."""

    def __init__(self, connection: Any, rollouts: Rollouts, *, collect: bool) -> None:
        self._connection, self._rollouts = connection, rollouts
        self._collector = StatisticsCollector(rollouts.policy.inputs) if collect else None
        self._population: Population | None = None

    def serve(self) -> None:
        """Answer until the connection ends."""
        while True:
            message = self._connection.recv()
            if isinstance(message, Population):
                self._population = message
                self._rollouts.policy.normalize(message.statistics)
            else:
                self._connection.send(self._answer(message))

    def _answer(self, task: CandidateTask | CentreTask) -> CandidateReply | CentreReply | FailedReply:
        self._seed: int | None = None
        try:
            return self._candidate(task) if isinstance(task, CandidateTask) else self._centre(task)
        except (Exception, SystemExit) as error:  # noqa: BLE001  (the main process raises it)
            return FailedReply(task, self._seed, type(error).__name__, str(error), traceback.format_exc())

    def _candidate(self, task: CandidateTask) -> CandidateReply:
        population, policy = self._present(), self._rollouts.policy
        population.candidate(task.index, out=policy.parameters)
        policy.collect(self._collector)
        episodes = [self._play(seed, population.generation, task.index) for seed in task.seeds]
        statistics = self._collector.take() if self._collector is not None else None
        return CandidateReply(
            task.index,
            [episode.fitnesses for episode in episodes],
            [episode.length for episode in episodes],
            statistics,
        )

    def _centre(self, task: CentreTask) -> CentreReply:
        population, policy = self._present(), self._rollouts.policy
        policy.parameters[:] = population.base[0]
        policy.collect(None)
        episode = self._play(task.seed, population.generation, -1, explore=task.explore)
        plain = {name: _plain(getattr(episode, name)) for name in ("start_info", "final_info")}
        return CentreReply(task.index, replace(episode, **plain))

    def _play(self, seed: int, generation: int, candidate: int, *, explore: bool = True) -> Episode:
        self._seed = seed
        noise_seed = None
        if explore and self._rollouts.action_noise:
            noise_seed = seeding.derive(seed, seeding.Purpose.ACTION_NOISE, generation, candidate + 1)
        return self._rollouts.episode(seed, noise_seed=noise_seed)

    def _present(self) -> Population:
        if self._population is None:
            raise RuntimeError("a task came before its population")
        return self._population


def _plain(value: Any) -> Any:
    """``value`` as numbers, text, arrays, lists and dicts; anything else as its repr, since it may not travel."""
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return value
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return repr(value)
