"""All messages between a run and its workers: values, which say what is to be played and what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_core.config.train_config import TrainConfig
from es_core.policies.normalization import ReferenceBatch
from es_core.pools.probe import Probe
from es_core.strategies.population import Population
from es_envs import EnvDefinition, Episode


@dataclass(frozen=True)
class Start:
    """The first message to a worker.

    Attributes:
        definition: of the environment.
        config: of the run, resolved.
        step_timeout: seconds that a step or reset may take.
        probe: whether its greeting has a probe.
        objects: ``packed`` ones that these name.
    """

    definition: EnvDefinition
    config: TrainConfig
    step_timeout: float
    probe: bool = False
    objects: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Ready:
    """The greeting of a worker that has made its environment.

    Attributes:
        observation_space: of the environment.
        action_space: likewise.
        engine: what computes the policy.
        probe: of its arithmetic, if the start asked for one.
    """

    observation_space: Any
    action_space: Any
    engine: str
    probe: Probe | None = None


@dataclass(frozen=True)
class CannotStart:
    """The greeting of a worker that could not start; the attributes are those of ``Failed``."""

    kind: str
    message: str
    traceback: str


@dataclass(frozen=True)
class CandidateTask:
    """Play a candidate of the population on these episode seeds."""

    candidate: int
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class CentreTask:
    """Play one episode of the centre; ``explore``: as training does, with action noise."""

    seed: int
    explore: bool

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of all its episodes: as of other tasks."""
        return (self.seed,)


@dataclass(frozen=True)
class ReferenceTask:
    """Find the reference batch, in episodes of random actions."""

    seeds: tuple[int, ...]


Task = CandidateTask | CentreTask | ReferenceTask


@dataclass(frozen=True, kw_only=True, eq=False)
class Work:
    """Tasks, counted from 0: first the candidates, in their order, then what is listed in ``others``.

    It is sent to each worker once, as arrays; from then on a task is a number.

    Attributes:
        population: whose candidates play, and whose centre.
        seeds: ``(N, k)``, of the candidates' episodes.
        others: tasks of other kinds.
    """

    population: Population
    seeds: NDArray[np.int64]
    others: tuple[CentreTask | ReferenceTask, ...] = ()

    def __len__(self) -> int:
        return len(self.seeds) + len(self.others)

    def task(self, number: int) -> Task:
        """The task of this number."""
        if number < len(self.seeds):
            return CandidateTask(number, tuple(self.seeds[number].tolist()))
        return self.others[number - len(self.seeds)]


@dataclass(frozen=True, eq=False)
class Order:
    """Tasks that a worker is to play after those that it has.

    Attributes:
        numbers: of the tasks.
        answer_at: it answers as soon as it has no more tasks left than this, since then it gets others.
        work: that the tasks are of; None: the same as those before.
    """

    numbers: Sequence[int]
    answer_at: int = 0
    work: Work | None = None


@dataclass(frozen=True, eq=False)
class Scores:
    """What candidates have measured, a row for each.

    It is one array, since each has a price of its own on its way between processes.

    Attributes:
        candidates: which they are.
        names: of the fitness values.
        values: ``(n, k, len(names) + 2)`` float64, for each episode: its fitness values, NaN where a secondary one has
            failed; its steps; and whether a step limit ended it.
        counts: ``(n,)``, observations that enter the statistics; None: none are collected.
        sums: ``(n, 2, entries)`` float64, of these observations and of their squares.
    """

    candidates: Sequence[int]
    names: tuple[str, ...]
    values: NDArray[np.float64]
    counts: NDArray[np.int64] | None = None
    sums: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Failed:
    """A task has failed for good.

    Attributes:
        number: of the task.
        seed: of the episode; None: it is one of many, of a reference batch.
        kind: type of what was raised; WORKER_DIED or TIMED_OUT of a process that has ended.
        message: what it says.
        traceback: of the worker.
    """

    number: int
    seed: int | None
    kind: str
    message: str
    traceback: str


WORKER_DIED, TIMED_OUT = "WorkerDied", "StepTimeout"


@dataclass(frozen=True, kw_only=True, eq=False)
class Reply:
    """What came of some tasks.

    Attributes:
        numbers: of the tasks, those that have failed for good, too.
        episodes: that were played.
        seconds: that they have taken in all.
        retried: how many of them have failed at first; nothing else in here is of a first attempt.
        scores: of the candidates among them.
        centre: the centre's episodes, by number.
        reference: the batch that was to be found.
        failures: of those that have failed for good.
    """

    numbers: Sequence[int]
    episodes: int = 0
    seconds: float = 0.0
    retried: int = 0
    scores: Scores | None = None
    centre: Mapping[int, Episode] = field(default_factory=dict)
    reference: ReferenceBatch | None = None
    failures: Sequence[Failed] = ()
