"""The base class of rollout pools: it turns workers' replies into results, the same bits in every pool."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, ClassVar, Self

import gymnasium
import numpy as np
from numpy.typing import NDArray

from es_core.config.plan import Plan
from es_core.policies.normalization import REFERENCE_SIZE, ObservationStatistics, ReferenceBatch, Statistics
from es_core.pools.messages import (
    FOR_PEOPLE,
    CandidateTask,
    CannotStart,
    CentreTask,
    Failed,
    Other,
    RandomTask,
    Ready,
    ReferenceTask,
    Reply,
    Work,
)
from es_core.rollout.errors import Failure, RolloutError
from es_core.rollout.fitness import aggregated
from es_core.seeding import Purpose, episode_seeds
from es_core.strategies.population import Population
from es_core.strategies.transitions import Transitions
from es_envs import EnvDefinition, Episode

_SHOWN = 200  # characters of a failure's message


@dataclass(frozen=True, kw_only=True, eq=False)
class Results:
    """Results of a generation, in candidate order whichever worker measured them.

    Attributes:
        population: the population that was played.
        valid: ``(N,)``, False where an episode of the candidate failed again when repeated.
        fitness: ``(N,)`` float64, aggregated over each candidate's episodes; NaN where not valid.
        fitnesses: every named fitness, ``(N, k)`` float64; NaN where a secondary one failed, or not valid.
        lengths: ``(N, k)`` steps; 0 where not valid.
        capped: ``(N, k)``, True where a step limit ended the episode; False where not valid.
        statistics: statistics of each valid candidate's observations, in order; None if they are not collected.
        transitions: transitions of the valid candidates' episodes, in order; empty if the population records none.
        behaviours: ``(N, b)``, each candidate's mean over its episodes, NaN where not valid; None if the population
            does not ask for them.
        centre: the centre's episodes, in the order of their seeds.
        failures: failures of the candidates that are not valid, in their order.
    """

    population: Population
    valid: NDArray[np.bool_]
    fitness: NDArray[np.float64]
    fitnesses: dict[str, NDArray[np.float64]]
    lengths: NDArray[np.int64]
    capped: NDArray[np.bool_]
    statistics: list[ObservationStatistics] | None
    transitions: list[Transitions] = field(default_factory=list)
    behaviours: NDArray[np.float64] | None = None
    centre: list[Episode]
    failures: list[Failure] = field(default_factory=list)

    @classmethod
    def from_episodes(
        cls,
        generation: int,
        mean: NDArray[np.float32],
        episodes: Sequence[Episode | int],
        centre: list[Episode],
        statistics: list[ObservationStatistics] | None = None,
    ) -> Self:
        """Results of a trainer without candidates: its training episodes are in their place.

        Args:
            generation: the generation.
            mean: its centre ``(d,)``.
            episodes: the training episodes; as a number, the steps of one that was cut off, which is not valid.
            centre: the centre's episodes.
            statistics: statistics of the observations in training; None if they are not collected.
        """
        whole = [episode if isinstance(episode, Episode) else None for episode in episodes]
        names = next((list(episode.fitnesses) for episode in whole if episode is not None), [])

        def column(name: str) -> NDArray[np.float64]:
            values = [None if episode is None else episode.fitnesses[name] for episode in whole]
            return np.array([[math.nan if value is None else value] for value in values])

        fitnesses = {name: column(name) for name in names}
        return cls(
            population=Population.explicit(generation, mean, np.empty((0, mean.size))),
            valid=np.array([episode is not None for episode in whole], bool),
            fitness=fitnesses[names[0]][:, 0] if names else np.full(len(whole), math.nan),
            fitnesses=fitnesses,
            lengths=np.array([[each.length if isinstance(each, Episode) else each] for each in episodes], np.int64),
            capped=np.array([[episode is not None and episode.truncated] for episode in whole], bool),
            statistics=statistics,
            centre=centre,
        )

    @property
    def steps(self) -> int:
        """Environment steps of the valid candidates' episodes."""
        return int(self.lengths.sum())


@dataclass
class Playing:
    """Work in progress, for its caller to wait for.

    Attributes:
        what: "candidates", or "episodes" of one policy.
        count: number of these.
        done: number of those that have been played.
        steps: environment steps of their episodes.
        since: when it began [s, of the monotonic clock].
    """

    what: str
    count: int
    done: int = 0
    steps: int = 0
    since: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.since


class RolloutPool(ABC):
    """Workers that play episodes. Leaving the context ends them.

    A worker that dies is replaced, with a warning, and its tasks are played again; so is a task whose episode fails,
    once.

    Attributes:
        definition: the environment's definition.
        plan: the run's settings, with those that the pool chose.
        contender: number of the contender that plays now.
        config: its settings.
        choice: the workers in words.
        observation_space: the environment's.
        action_space: the environment's.
        workers: number of workers that play now.
        workers_replaced: number of workers replaced since the pool was made.
        retried: number of tasks that failed at first and succeeded when repeated, since then.
        playing: what it plays now, or None.
        can_record: True if it returns transitions of the episodes where a population records them.
    """

    definition: EnvDefinition
    plan: Plan
    contender: int = 0
    config: Plan
    choice: str = ""
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    workers: int
    workers_replaced: int = 0
    retried: int = 0
    playing: Playing | None = None
    can_record: ClassVar[bool] = True

    def play_as(self, contender: int) -> None:
        """Let this contender play from now on."""
        if contender != self.contender:
            self.contender, self.config = contender, self.plan.of_contender(contender)

    @contextmanager
    def playing_as(self, contender: int) -> Iterator[None]:
        """Let another contender play for a while."""
        before = self.contender
        self.play_as(contender)
        try:
            yield
        finally:
            self.play_as(before)

    @abstractmethod
    def play(self, work: Work) -> Iterator[Reply]:
        """Play the tasks of ``work``, and yield replies as they arrive: each task is answered once, in any order.

        Raises:
            RolloutError, ConnectionError: a worker cannot be replaced.
        """

    @abstractmethod
    def close(self) -> None:
        """End the workers. May be called twice."""

    def evaluate(
        self, population: Population, episode_seeds: NDArray[np.int64], *, centre_seeds: Sequence[int] = ()
    ) -> Results:
        """Play every candidate's episodes, and the centre's in the same queue.

        Args:
            population: ``N`` candidates.
            episode_seeds: ``(k,)``, shared by all candidates, or ``(N, k)``.
            centre_seeds: seeds of the centre's evaluation.

        Raises:
            RolloutError: the centre failed, or more than a tenth of the candidates, or one if the config says "raise";
                or a worker cannot be replaced.
        """
        count, shape = len(population), (len(population), np.shape(episode_seeds)[-1])
        # The centre's episodes are the smallest tasks: at the end of the queue they fill the gaps.
        work = Work(
            population=population,
            seeds=np.broadcast_to(episode_seeds, shape),
            others=tuple(CentreTask(int(seed), explore=False) for seed in centre_seeds),
            settings=self.plan.settings_of(self.contender),
        )
        valid = np.zeros(count, np.bool_)
        names: tuple[str, ...] = ()
        values = np.zeros((*shape, 0))
        observed: dict[int, ObservationStatistics] = {}
        transitions: dict[int, Sequence[Transitions]] = {}
        centre: dict[int, Episode] = {}
        failed: list[Failed] = []
        self.playing = playing = Playing("candidates", count)
        for reply in self.play(work):
            for failure in reply.failures:
                failed.append(failure)
                self._raise_if_fatal(work, failure, len(failed))
            playing.done += sum(number < count for number in reply.numbers)
            centre |= reply.centre
            transitions |= reply.transitions
            if (scores := reply.scores) is None:
                continue
            if not names:
                names = scores.names
                values = np.full((*shape, scores.values.shape[2]), math.nan)
                values[:, :, len(names) : len(names) + 2] = 0
            if scores.values.shape[2] != values.shape[2]:
                sizes = sorted(each.shape[2] - len(names) - 2 for each in (values, scores.values))
                raise RolloutError(
                    f"{self.definition.label}: behaviour {self.definition.behaviour!r} returned {sizes[0]} numbers for "
                    f"one episode and {sizes[1]} for another, expected always as many"
                )
            playing.steps += int(scores.values[:, :, len(names)].sum())
            valid[scores.candidates], values[scores.candidates] = True, scores.values
            if scores.counts is not None and scores.sums is not None:
                for candidate, number, (total, squares) in zip(
                    scores.candidates, scores.counts.tolist(), scores.sums, strict=True
                ):
                    observed[candidate] = ObservationStatistics(number, total, squares)
        self.playing = None
        fitness = np.full(count, math.nan)
        fitness[valid] = aggregated(values[valid, :, 0].copy(), self.config.fitness_aggregation)
        return Results(
            population=population,
            valid=valid,
            fitness=fitness,
            fitnesses={name: values[:, :, place].copy() for place, name in enumerate(names)},
            lengths=values[:, :, len(names)].astype(np.int64),
            capped=values[:, :, len(names) + 1].astype(np.bool_),
            statistics=[observed[each] for each in sorted(observed)] if self.config.observation_normalization else None,
            transitions=[episode for candidate in sorted(transitions) for episode in transitions[candidate]],
            behaviours=values[:, :, len(names) + 2 :].mean(axis=1) if population.describes else None,
            centre=[centre[number] for number in sorted(centre)],
            failures=[_failure(work, each) for each in sorted(failed, key=attrgetter("number"))],
        )

    def rollouts(
        self,
        parameters: NDArray[np.float32],
        statistics: Statistics | None,
        seeds: Sequence[int],
        *,
        explore: bool = False,
        who: str = "the centre",
    ) -> list[Episode]:
        """Play episodes of one policy, in the order of ``seeds``.

        Args:
            parameters: the policy's.
            statistics: those by which it normalises observations, if it does.
            seeds: the episodes'.
            explore: with action noise, as in training.
            who: what an error calls it.

        Raises:
            RolloutError: an episode has failed, or a worker cannot be replaced.
        """
        return self._episodes(parameters, statistics, [CentreTask(int(seed), explore) for seed in seeds], who)

    def random_rollouts(self, seeds: Sequence[int]) -> list[Episode]:
        """Play episodes of random actions, in the order of ``seeds``."""
        return self._episodes(
            np.zeros(0, np.float32), None, [RandomTask(int(seed)) for seed in seeds], "random actions"
        )

    def _episodes(
        self, parameters: NDArray[np.float32], statistics: Statistics | None, tasks: Sequence[Other], who: str
    ) -> list[Episode]:
        work = self._centre_work(parameters, statistics, tuple(tasks))
        episodes: dict[int, Episode] = {}
        self.playing = playing = Playing("episodes", len(tasks))
        for reply in self._replies(work, who):
            episodes |= reply.centre
            playing.done = len(episodes)
            playing.steps += sum(episode.length for episode in reply.centre.values())
        self.playing = None
        return [episodes[number] for number in range(len(work))]

    def reference_batch(self) -> ReferenceBatch:
        """Observations of random actions, the same for every run with the config's seed.

        Raises:
            RolloutError: an episode has failed.
        """
        seeds = episode_seeds(self.config.seed, Purpose.REFERENCE_BATCH, REFERENCE_SIZE)
        work = self._centre_work(np.zeros(0), None, (ReferenceTask(tuple(seeds)),))
        found: list[ReferenceBatch] = []
        for reply in self._replies(work):
            found += [] if reply.reference is None else [reply.reference]
        return found[0]

    def _centre_work(self, parameters: NDArray[Any], statistics: Statistics | None, others: tuple[Other, ...]) -> Work:
        """Work of a centre without a population."""
        none = np.zeros(0, np.int64)
        population = Population(
            generation=0,
            base=np.asarray(parameters, np.float32)[np.newaxis],
            parent=none,
            scale=0.0,
            noise_seed=none,
            sign=none.astype(np.int8),
            statistics=statistics,
        )
        return Work(
            population=population,
            seeds=np.zeros((0, 0), np.int64),
            others=others,
            settings=self.plan.settings_of(self.contender),
        )

    def _replies(self, work: Work, who: str = "") -> list[Reply]:
        """Play ``work``, that of ``who``, to its end, since what workers still played would answer the next one.

        Raises:
            RolloutError: a task has failed.
        """
        replies = list(self.play(work))
        failures = [failure for reply in replies for failure in reply.failures]
        if failures:
            self._raise_if_fatal(work, min(failures, key=attrgetter("number")), 1, who)
        return replies

    def _raise_if_fatal(self, work: Work, failed: Failed, lost: int, who: str = "the centre") -> None:
        """Raise an error if a failure must end the run.

        Args:
            work: the work that was played.
            failed: the failure.
            lost: number of failures in this generation, this one included.
            who: plays the tasks that are no candidate's.

        Raises:
            RolloutError: the centre failed, or too many candidates, or one if the config says "raise".
        """
        failure, label = _failure(work, failed), self.definition.label
        if failed.seed is None:
            raise RolloutError(f"{label}: no reference batch could be found: {_cause(failed)}")
        who = who if failure.candidate is None else f"candidate {failure.candidate}"
        candidates = len(work.population)
        when = f" in generation {work.population.generation}" if candidates else ""  # `rollouts` has none
        seeds = f"(episode seed {failed.seed}, run seed {self.config.seed})"
        message = f"an episode of {who}{when} {seeds} failed: {_cause(failed)}"
        if failure.candidate is None or self.config.on_candidate_error == "raise":
            raise RolloutError(f"{label}: {message}", failure)
        if 10 * lost > candidates:
            raise RolloutError(
                f"{label}: {lost} of {candidates} candidates failed{when}, more than a tenth, so the run stops. "
                f"The last failure: {message}",
                failure,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def require_ready(label: str, greeting: Ready | CannotStart) -> Ready:
    """Return a worker's greeting if it is ready.

    Raises:
        PluginError, ValueError, RolloutError: the worker could not start.
    """
    if isinstance(greeting, Ready):
        return greeting
    if greeting.kind in FOR_PEOPLE:
        raise FOR_PEOPLE[greeting.kind](greeting.message)
    raise RolloutError(f"{label}: a worker could not start: {_cause(greeting)}")


def _failure(work: Work, failed: Failed) -> Failure:
    task = work.task(failed.number)
    line = (failed.message.splitlines() or [""])[0]
    return Failure(
        task.candidate if isinstance(task, CandidateTask) else None,
        failed.seed or 0,
        failed.kind,
        line if len(line) <= _SHOWN else f"{line[:_SHOWN]}...",
    )


def _cause(failed: Failed | CannotStart) -> str:
    if not failed.traceback:
        return failed.message
    return f"{failed.kind}: {failed.message}\nThe worker's traceback:\n{failed.traceback}"
