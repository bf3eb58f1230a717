"""What all pools have in common: populations become tasks, and replies become results, or a bearable failure."""

import math
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from es_core import checks
from es_core.config import TrainConfig
from es_core.normalizer import REFERENCE_SIZE, ObservationStatistics, ReferenceBatch, Statistics
from es_core.pools import PolicyState, Results
from es_core.pools.work import Work
from es_core.pools.worker import EPISODE, FailedReply, PlayedReply, ReadyReply, Reply, Task
from es_core.rollout import Failure, RolloutError
from es_core.scoring import aggregated
from es_core.seeding import Purpose, episode_seeds
from es_core.strategies.population import Population
from es_envs import EnvDefinition, Episode, PluginError

# Raised by our own checks at the start; their message says it all, and a traceback would bury it.
_FOR_PEOPLE = {"PluginError": PluginError, "SpaceError": ValueError, "KeywordError": ValueError}

# A task is given up when so many workers have died that had it. It hangs by itself; but a worker may have been killed
# from outside, while it played the task by chance, and once more.
_HANGS, _DEATHS = 2, 3
_SHOWN = 200  # characters of a failure's message


class TaskPool(ABC):
    """A pool as seen from the run: it has tasks played, wherever, and judges what comes of them.

    Args:
        definition: of the environment.
        config: of the run, resolved.
        step_timeout: see ``make_pool``; recycle_after, too.

    Attributes:
        config: of the run, the engine and device settled.
        choice: a sentence about why these; empty if nothing was left open.
        observation_space: of the environment, as the workers report it.
        action_space: likewise.
        workers: at work at present.
        workers_replaced: since they had died.
        retried: tasks that were played again, since an episode had failed.

    Raises:
        ValueError: step_timeout or recycle_after is not positive.
    """

    choice = ""
    observation_space: Any
    action_space: Any
    workers: int

    def __init__(
        self, definition: EnvDefinition, config: TrainConfig, *, step_timeout: float, recycle_after: int | None
    ) -> None:
        checks.require_seconds("step_timeout", step_timeout)
        if recycle_after is not None:
            checks.require_positive("recycle_after", recycle_after)
        self.definition, self.config = definition, config
        self._step_timeout, self._recycle_after = step_timeout, recycle_after
        self.workers_replaced = self.retried = 0

    def evaluate(
        self, population: Population, episode_seeds: NDArray[np.int64], *, centre_seeds: Sequence[int] = ()
    ) -> Results:
        """See ``RolloutPool.evaluate``."""
        seeds = np.broadcast_to(episode_seeds, (len(population), np.shape(episode_seeds)[-1]))
        tasks = [Task(index, tuple(int(seed) for seed in row)) for index, row in enumerate(seeds)]
        # The centre's episodes are the smallest tasks: at the end of the queue they fill the gaps.
        tasks += [Task(len(population) + index, (seed,), explore=False) for index, seed in enumerate(centre_seeds)]
        replies = self._run(population, tasks)
        candidates, centre = replies[: len(population)], _those_played(replies[len(population) :])
        valid = np.array([isinstance(reply, PlayedReply) for reply in candidates])
        played = _those_played(candidates)
        rows = {
            name: np.array([[_or_nan(episode[name]) for episode in reply.fitnesses] for reply in played])
            for name in played[0].fitnesses[0]
        }
        fitness = aggregated(next(iter(rows.values())), self.config.fitness_aggregation)
        collected = [reply.statistics for reply in played if isinstance(reply.statistics, ObservationStatistics)]
        return Results(
            valid=valid,
            fitness=_spread(valid, fitness, math.nan),
            fitnesses={name: _spread(valid, values, math.nan) for name, values in rows.items()},
            lengths=_spread(valid, np.array([reply.lengths for reply in played]), 0),
            capped=_spread(valid, np.array([reply.capped for reply in played]), False),
            statistics=collected if self.config.observation_normalization else None,
            centre=[reply.episodes[0] for reply in centre],
            failures=[self._failure(population, reply) for reply in candidates if isinstance(reply, FailedReply)],
        )

    def rollouts(self, policy_state: PolicyState, seeds: Sequence[int], *, explore: bool = False) -> list[Episode]:
        """See ``RolloutPool.rollouts``."""
        tasks = [Task(index, (seed,), explore) for index, seed in enumerate(seeds)]
        return [reply.episodes[0] for reply in _those_played(self._run(_centre(*policy_state), tasks))]

    def reference_batch(self) -> ReferenceBatch:
        """See ``RolloutPool.reference_batch``."""
        seeds = episode_seeds(self.config.seed, Purpose.REFERENCE_BATCH, REFERENCE_SIZE)
        (reply,) = _those_played(self._run(_centre(np.zeros(0), None), [Task(0, seeds, reference=True)]))
        return cast("ReferenceBatch", reply.statistics)

    def _run(self, population: Population, tasks: Sequence[Task]) -> list[Reply]:
        """Have ``tasks`` played; the replies, in the order of the tasks."""
        work = Work(tasks)
        self._play(population, work)
        return [work.replies[task.index] for task in tasks]

    @abstractmethod
    def _play(self, population: Population, work: Work) -> None:
        """Have all of ``work`` played, and keep the replies.

        Raises:
            RolloutError: see ``RolloutPool.evaluate``.
        """

    def _keep(self, population: Population, work: Work, held: dict[int, Task], reply: Reply) -> None:
        """Keep the reply to one of the tasks that a worker held.

        Raises:
            RolloutError: it is a failure with which the run must end.
        """
        if reply.index is None:
            raise RolloutError(f"{self.definition.label}: a worker failed: {_cause(reply)}")
        del held[reply.index]
        work.replies[reply.index] = reply
        if isinstance(reply, PlayedReply):
            self.retried += reply.retried
        else:
            self._require_bearable(population, work, reply)

    def _require_bearable(self, population: Population, work: Work, reply: FailedReply) -> None:
        failure = self._failure(population, reply)
        who = "the centre" if failure.candidate is None else f"candidate {failure.candidate}"
        when = f" in generation {population.generation}" if len(population) else ""  # `rollouts` knows of none
        message = (
            f"an episode of {who}{when} (episode seed {reply.seed}, run seed {self.config.seed}) failed: "
            f"{_cause(reply)}"
        )
        lost = sum(isinstance(other, FailedReply) for other in work.replies.values())
        if failure.candidate is None or self.config.on_candidate_error == "raise":
            raise RolloutError(f"{self.definition.label}: {message}", failure)
        if 10 * lost > len(population):
            raise RolloutError(
                f"{self.definition.label}: {lost} of {len(population)} candidates have failed{when}, which is more "
                f"than a tenth: that is no accident. The last of them: {message}",
                failure,
            )

    def _failure(self, population: Population, reply: FailedReply) -> Failure:
        candidate = cast("int", reply.index)
        line = (reply.message.splitlines() or [""])[0]
        return Failure(
            candidate if candidate < len(population) else None,
            cast("int", reply.seed),
            reply.kind,
            line if len(line) <= _SHOWN else f"{line[:_SHOWN]}...",
        )

    def _bury(self, population: Population, work: Work, held: dict[int, Task], death: str, report: str) -> None:
        """Say that a worker has died; the tasks that it held are suspected, or given up if this happens again.

        Args:
            population: that it played.
            work: where its tasks go.
            held: its tasks, by index; empty afterwards.
            death: how it ended.
            report: what it left.
        """
        hung = re.search(r"^Timeout \(", report, re.MULTILINE) is not None
        why = f"a step or reset took more than {self._step_timeout:g} seconds (step_timeout)" if hung else death
        warnings.warn(f"{self.definition.label}: a worker is replaced: {why}", RuntimeWarning, stacklevel=2)
        self.workers_replaced += 1
        for index, task in list(held.items()):
            work.deaths[index] += 1
            if work.deaths[index] < (_HANGS if hung else _DEATHS):
                work.suspect(held.pop(index))
                continue
            seeds = re.findall(rf"^{EPISODE} (\d+)$", report, re.MULTILINE)
            seed = int(seeds[-1]) if seeds else task.seeds[0]
            kind = "StepTimeout" if hung else "WorkerDied"
            self._keep(population, work, held, FailedReply(index, seed, kind, why, trace_of(report)))

    def _require_ready(self, reply: Reply | ReadyReply) -> ReadyReply:
        """A worker's first reply: it has made its environment.

        Raises:
            PluginError, ValueError, RolloutError: it has not.
        """
        if not isinstance(reply, FailedReply):
            return cast("ReadyReply", reply)
        if reply.kind in _FOR_PEOPLE:
            raise _FOR_PEOPLE[reply.kind](reply.message)
        raise RolloutError(f"{self.definition.label}: a worker could not start: {_cause(reply)}")

    def _use(self, ready: ReadyReply) -> None:
        """Take spaces and engine from what a worker has reported."""
        self.observation_space, self.action_space = ready.observation_space, ready.action_space
        self.config = replace(self.config, engine=ready.engine)

    @abstractmethod
    def close(self) -> None:
        """End the workers. May be called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def require_workers(workers: int | None) -> None:
    """Refuse a number of workers that cannot be.

    Raises:
        ValueError: it is not positive.
    """
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise ValueError(f"workers must be a whole number of at least 1, or None for all usable cores; got {workers!r}")


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


def _those_played(replies: Sequence[Reply]) -> list[PlayedReply]:
    return [reply for reply in replies if isinstance(reply, PlayedReply)]


def _spread(valid: NDArray[np.bool_], rows: NDArray[Any], fill: float) -> NDArray[Any]:
    """The rows of the valid candidates, between those of the others, which are all ``fill``."""
    spread = np.full((len(valid), *rows.shape[1:]), fill, rows.dtype)
    spread[valid] = rows
    return spread


def trace_of(report: str) -> str:
    """Where the process was when it crashed, or hung, by the report of faulthandler; the main thread stands last."""
    start = max(report.rfind(words) for words in ("Fatal Python error", "Thread 0x"))
    return report[start:].partition("\n\nExtension modules")[0] if start >= 0 else ""
