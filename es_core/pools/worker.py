"""A worker process: it keeps its environments and one policy for life, and answers tasks with numbers."""

import time
import traceback
import weakref
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from es_core import seeding
from es_core.config import TrainConfig
from es_core.normalizer import ObservationStatistics, Statistics
from es_core.policies import Policy
from es_core.pools import process
from es_core.pools.probe import Probe, take_probe
from es_core.pools.reference import play_reference
from es_core.pools.watchdog import Watchdog
from es_core.rollout import Rollout
from es_core.strategies.population import Population
from es_envs import EnvDefinition, Episode, names

# Policies with more parameters than this hand out pairs together.
DEAR_NOISE = 2**17

_REPLY_EVERY = 0.001  # seconds: many short episodes make one message, a long one is reported at once

_ATTEMPTS = 2  # at a task whose episodes fail
EPISODE = "episode"  # in the report of a worker: the word before the seed of an episode that begins


@dataclass(frozen=True)
class Start:
    """What a worker is sent at first.

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
class Task:
    """Play a candidate of the population, or the centre, on these episode seeds.

    ``index`` counts the candidates, and on from them the centre's tasks. ``reference``: play at random instead, for a
    reference batch. ``alone``: a worker that had it has died; say in the report which episode begins.
    """

    index: int
    seeds: tuple[int, ...]
    explore: bool = True
    reference: bool = False
    alone: bool = False


@dataclass(frozen=True)
class PlayedReply:
    """What the episodes of a task measured; the centre's own are sent as a whole.

    ``statistics`` are those of the observations, or the batch that the task was to find. ``retried``: the first attempt
    has failed; nothing else in here is of it.
    """

    index: int
    fitnesses: list[Mapping[str, float | None]]
    lengths: list[int]
    capped: list[bool]
    statistics: Statistics | None
    episodes: list[Episode]
    retried: bool = False


@dataclass(frozen=True)
class FailedReply:
    """A task, or the start (index None), failed; the seed is that of the episode."""

    index: int | None
    seed: int | None
    kind: str
    message: str
    traceback: str


@dataclass(frozen=True)
class ReadyReply:
    """The worker has made its environment.

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


Reply = PlayedReply | FailedReply


def serve(connection: Any) -> None:
    """What a worker process runs: serve until the other end of the connection is closed."""
    start: Start = connection.recv()
    try:
        worker = _start(connection, start)
    # SystemExit too: a simulator that calls sys.exit must not take the reason with it.
    except (Exception, SystemExit) as error:  # noqa: BLE001  (the main process raises it)
        connection.send([_failed(None, None, error)])
    else:
        worker.serve()


def _start(connection: Any, start: Start) -> "Worker":
    names.receive(start.objects)
    worker = Worker(connection, start)
    rollout = worker.rollout
    probe = take_probe(rollout, start.config) if start.probe else None
    connection.send([ReadyReply(rollout.env.observation_space, rollout.env.action_space, rollout.engine, probe)])
    return worker


class Worker:
    """Plays tasks of the population that was sent last, and replies whenever it has something to say."""

    def __init__(self, connection: Any, start: Start) -> None:
        config = start.config
        self._connection = connection
        self._progress = [0, 0]  # the step of an episode, and a count of what else goes on
        self.rollout = Rollout(start.definition, config, progress=self._progress)
        self._tasks: deque[Task] = deque()
        self._replies: list[Reply] = []
        self._population: Population | None = None
        self._is_waiting = False
        self._seed, self._fraction = config.seed, config.statistics_fraction
        self._collect = config.observation_normalization
        if self._collect:
            self.rollout.actor.collect()
        self._has_message = process.poll(connection)
        self._replied = 0.0
        self._parameters = np.empty(self.rollout.policy.size, np.float32)
        self._watch(start.step_timeout)

    def _watch(self, step_timeout: float) -> None:
        """End this process when a step or reset has taken ``step_timeout`` seconds."""
        weak = weakref.ref(self)  # its thread never ends, and would keep the environment beyond its interpreter

        def progress() -> int | None:
            worker = weak()
            if worker is None or worker._is_waiting:  # noqa: SLF001
                return None
            return hash(tuple(worker._progress))  # noqa: SLF001

        Watchdog(step_timeout, progress)

    def serve(self) -> None:
        """Answer until the connection ends."""
        while True:
            self._take(self._receive())
            while self._has_task():
                self._replies.append(self._play(self._tasks.popleft()))
            self._send()

    def _has_task(self) -> bool:
        if not self._tasks or time.monotonic() - self._replied > _REPLY_EVERY:
            self._send()
        if not self._tasks:
            while self._has_message(0):
                self._take(self._receive())
        return bool(self._tasks)

    def _receive(self) -> Any:
        self._is_waiting = True
        message = self._connection.recv()
        self._progress[1] += 1  # before it waits no longer: what is to come has all its time
        self._is_waiting = False
        return message

    def _send(self) -> None:
        if self._replies:
            self._connection.send(self._replies)
            self._replies, self._replied = [], time.monotonic()

    def _take(self, message: Population | list[Task]) -> None:
        if isinstance(message, Population):
            self._population = message
        else:
            self._tasks.extend(message)

    def _play(self, task: Task) -> Reply:
        """Play a task; should it fail, then once more from its beginning, in an environment made anew."""
        for attempt in range(_ATTEMPTS):
            reply = self._find_reference(task) if task.reference else self._attempt(task)
            if isinstance(reply, PlayedReply):
                return replace(reply, retried=True) if attempt > 0 else reply
            with suppress(Exception, SystemExit):  # it is broken: what counts is what it has raised before
                self.rollout.close()
        return reply

    def _attempt(self, task: Task) -> Reply:
        population, rollout = self._present(), self.rollout
        is_centre = task.index >= len(population)
        index = min(task.index, len(population))
        rollout.use(population.candidate(index, self._parameters), population.statistics)
        episodes: list[Episode] = []
        observed: list[ObservationStatistics] = []
        max_steps = None if is_centre else population.max_episode_steps
        for number, seed in enumerate(task.seeds):
            noise_seed = None
            if task.explore:
                who = None if is_centre else task.index
                noise_seed = action_noise_seed(rollout.policy, population, who, seed)
            if task.alone:
                process.note(f"{EPISODE} {seed}")
            self._progress[1] += 1
            try:
                episode = rollout.episode(seed, noise_seed=noise_seed, max_steps=max_steps)
            except (Exception, SystemExit) as error:  # noqa: BLE001  (the main process raises it)
                return _failed(task.index, seed, error)
            episodes.append(episode)
            if self._collect and not is_centre and self._enters_statistics(task, number):
                observed.append(rollout.actor.statistics(episode.length))
        return PlayedReply(
            task.index,
            [episode.fitnesses for episode in episodes],
            [episode.length for episode in episodes],
            [episode.truncated for episode in episodes],
            observed[0].merged(observed[1:]) if observed else None,
            [_portable(episode) for episode in episodes] if is_centre else [],
        )

    def _enters_statistics(self, task: Task, number: int) -> bool:
        """Whether the observations of a candidate's episode ``number`` enter the statistics."""
        if self._fraction == 1:
            return True
        index = task.index * len(task.seeds) + number
        drawn = seeding.derive(self._seed, seeding.Purpose.STATISTICS, self._present().generation, index)
        return drawn < self._fraction * 2**63

    def _find_reference(self, task: Task) -> Reply:
        self._progress[1] += 1
        try:
            batch = play_reference(self.rollout, task.seeds)
        except (Exception, SystemExit) as error:  # noqa: BLE001  (the main process raises it)
            return _failed(None, None, error)
        return PlayedReply(task.index, [], [], [], batch, [])

    def _present(self) -> Population:
        if self._population is None:
            raise RuntimeError("a task came before its population")
        return self._population


def action_noise_seed(policy: Policy, population: Population, candidate: int | None, seed: int) -> int | None:
    """Of the noise by which an episode is explored; None if the policy's actions have none.

    Args:
        policy: its kind.
        population: of the generation.
        candidate: who plays it; None: the centre.
        seed: of the episode.
    """
    if policy.actions.exploration is None:
        return None
    who = 0 if candidate is None else candidate + 1
    return seeding.derive(seed, seeding.Purpose.ACTION_NOISE, population.generation, who)


def _failed(index: int | None, seed: int | None, error: BaseException) -> FailedReply:
    lines = traceback.format_exception(error)
    return FailedReply(index, seed, type(error).__name__, str(error), "".join(lines))


def _portable(episode: Episode) -> Episode:
    return replace(episode, start_info=_plain(episode.start_info), final_info=_plain(episode.final_info))


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
