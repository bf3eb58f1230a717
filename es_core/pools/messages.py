"""All messages between a run and its workers: tasks to play, and their results, as values."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_core.config.train_config import TrainConfig
from es_core.policies.normalization import ReferenceBatch
from es_core.pools.options import PoolOptions
from es_core.pools.probe import Probe
from es_core.strategies.population import Population
from es_core.strategies.transitions import Transitions
from es_envs import EnvDefinition, Episode, PluginError

FOR_PEOPLE = {
    "PluginError": PluginError,
    "SpaceError": ValueError,
    "KeywordError": ValueError,
    "ArgumentError": ValueError,
}
"""Errors of our own checks at the start: their message is complete, and is shown without a traceback."""


@dataclass(frozen=True)
class Start:
    """The first message to a worker.

    Attributes:
        definition: the environment's definition.
        config: the run's config, resolved.
        options: of the pool.
        probe: True if the greeting must contain a probe.
        objects: the pickled objects that these name.
    """

    definition: EnvDefinition
    config: TrainConfig
    options: PoolOptions
    probe: bool = False
    objects: bytes = b""


@dataclass(frozen=True)
class Ready:
    """The greeting of a worker that has made its environment.

    Attributes:
        observation_space: the environment's.
        action_space: the environment's.
        engine: the engine that computes the policy.
        preprocessing: the config's, or what the rule has chosen.
        probe: probe of its arithmetic, if the start asked for one.
    """

    observation_space: Any
    action_space: Any
    engine: str
    preprocessing: Mapping[str, Any]
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
class _Episode:
    seed: int

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of all its episodes, as in other tasks."""
        return (self.seed,)


@dataclass(frozen=True)
class RandomTask(_Episode):
    """Play one episode of random actions."""


@dataclass(frozen=True)
class CentreTask(_Episode):
    """Play one episode of the centre; ``explore``: with action noise, as in training."""

    explore: bool


@dataclass(frozen=True)
class ReferenceTask:
    """Find the reference batch, in episodes of random actions."""

    seeds: tuple[int, ...]


Other = CentreTask | ReferenceTask | RandomTask
Task = CandidateTask | Other


@dataclass(frozen=True, kw_only=True, eq=False)
class Work:
    """Tasks, counted from 0: first the candidates, in their order, then those in ``others``.

    It is sent to each worker once, as arrays; from then on a task is a number.

    Attributes:
        population: the candidates and the centre that play.
        seeds: ``(N, k)``, seeds of the candidates' episodes.
        others: tasks of other kinds.
        settings: those in which the contender that plays differs from the run's config.
    """

    population: Population
    seeds: NDArray[np.int64]
    others: tuple[Other, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.seeds) + len(self.others)

    def task(self, number: int) -> Task:
        """The task of this number."""
        if number < len(self.seeds):
            return CandidateTask(number, tuple(self.seeds[number].tolist()))
        return self.others[number - len(self.seeds)]


@dataclass(frozen=True, eq=False)
class Order:
    """Tasks that a worker must play after those that it has.

    Attributes:
        numbers: the tasks' numbers.
        answer_at: answer as soon as no more tasks than this are left, to get others in time.
        work: the work that contains the tasks; None: the same as before.
    """

    numbers: Sequence[int]
    answer_at: int = 0
    work: Work | None = None


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of candidates, a row for each.

    They are one array, since each array costs extra time between processes.

    Attributes:
        candidates: the candidates' indices.
        names: names of the fitness values.
        values: ``(n, k, len(names) + 2 + b)`` float64, for each episode: its fitness values, NaN where a secondary
            one failed; its steps; 1 if a step limit ended it; and the b numbers of its behaviour, if the population
            asks for them.
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
    """A task that failed again when repeated.

    Attributes:
        number: the task's number.
        seed: the episode's seed; None: one of the many episodes of a reference batch.
        kind: the error's type; WORKER_DIED or TIMED_OUT if the process ended.
        message: the error's message.
        traceback: the worker's traceback.
    """

    number: int
    seed: int | None
    kind: str
    message: str
    traceback: str


WORKER_DIED, TIMED_OUT = "WorkerDied", "StepTimeout"


def too_slow(step_timeout: float) -> str:
    """Say that a step or reset took more than ``step_timeout`` seconds."""
    return f"a step or reset took more than {step_timeout:g} seconds (step_timeout)"


@dataclass(frozen=True, kw_only=True, eq=False)
class Reply:
    """Results of some tasks.

    Attributes:
        numbers: the tasks' numbers, including those that failed.
        episodes: number of episodes played.
        seconds: total time that they took.
        retried: number of tasks that failed at first and succeeded when repeated; their first attempts are not in here.
        scores: scores of the candidates among them.
        transitions: those of the candidates' episodes, by candidate, if the population records them.
        centre: episodes of the centre, or of random actions, by number.
        reference: the reference batch, if that was the task.
        failures: tasks that failed again when repeated.
    """

    numbers: Sequence[int]
    episodes: int = 0
    seconds: float = 0.0
    retried: int = 0
    scores: Scores | None = None
    transitions: Mapping[int, Sequence[Transitions]] = field(default_factory=dict)
    centre: Mapping[int, Episode] = field(default_factory=dict)
    reference: ReferenceBatch | None = None
    failures: Sequence[Failed] = ()


def plain(value: Any) -> Any:
    """``value`` as numbers, text, arrays, lists, tuples and dicts; anything else as its repr.

    What a script or notebook defines cannot be unpickled in another process, nor can much else.
    """
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        value = value.tolist()
    if value is None or type(value) in {bool, int, float, str} or isinstance(value, np.ndarray | np.generic):
        return value
    for kind, basic in ((int, int), (float, float), (str, str.__str__)):
        if isinstance(value, kind):  # an IntEnum, say
            return basic(value)
    if isinstance(value, Mapping):
        return {plain(key) if isinstance(key, str) else str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return (tuple if isinstance(value, tuple) else list)(map(plain, value))
    if hasattr(value, "__dlpack__"):  # a tensor of torch, or an array of JAX
        with suppress(Exception):
            return np.asarray(value)
    return repr(value)
