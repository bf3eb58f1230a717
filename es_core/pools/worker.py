"""A worker process: it keeps its environment and policy as long as it lives, and answers orders with numbers."""

import math
import time
import traceback
from collections import deque
from collections.abc import Mapping, MutableSequence, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium.vector
import numpy as np
from gymnasium.error import DependencyNotInstalled

import es_envs
from es_core import seeding
from es_core.config.train_config import TrainConfig
from es_core.policies.compilation import load_kernels
from es_core.policies.network import Policy
from es_core.policies.normalization import ObservationStatistics, ReferenceBatch
from es_core.pools.messages import (
    FOR_PEOPLE,
    CandidateTask,
    CannotStart,
    CentreTask,
    Failed,
    Order,
    Other,
    RandomTask,
    Ready,
    ReferenceTask,
    Reply,
    Scores,
    Start,
    Task,
    Work,
    plain,
)
from es_core.pools.probe import take_probe
from es_core.pools.reference import play_reference
from es_core.processes import process
from es_core.processes.watchdog import Watchdog
from es_core.rollout.bounds import BoundsCounter
from es_core.rollout.environment import make_env
from es_core.rollout.errors import SpaceError
from es_core.rollout.rollout import Rollout
from es_core.rollout.transition_recorder import TransitionRecorder
from es_core.strategies.population import Drawn, Population
from es_core.strategies.transitions import Transitions
from es_envs import Episode, import_path
from es_envs.closing import close_env
from es_envs.episode import EpisodeStopped
from es_envs.error_text import message_of
from es_envs.spaces import require_portable

_REPLY_EVERY = 0.05  # seconds: many short episodes make one message, a long one is reported at once
ATTEMPTS = 2
"""Attempts to play a task whose episodes fail."""
_CALLERS = {Path(__file__).parents[1], Path(es_envs.__file__).parent, Path(gymnasium.vector.__file__).parent}
"""Folders of the code that calls the environment: an error's traceback begins where it leaves them."""
_STARTING = -1  # in the record: the episode belongs to no task


def load(config: Mapping[str, Any]) -> None:
    """Load the kernels for workers before they are forked; the config is JSON."""
    load_kernels(TrainConfig.from_json(config))


def serve(connection: Any) -> None:
    """Run a worker process until the other end of the connection is closed."""
    start: Start = connection.recv()
    with ExitStack() as stack:
        try:
            import_path.receive(start.objects)
            worker = Worker(connection, start)
            stack.enter_context(process.closing_at_the_end(worker))
            worker.greet(start)
        except EpisodeStopped:
            raise
        # Whatever else it is: signals to the main process raise nothing here, so the environment has raised it.
        except BaseException as error:  # noqa: BLE001  (the main process raises it)
            connection.send(CannotStart(*described(error)))
        else:
            worker.serve()


def try_environment(connection: Any) -> None:
    """Make the environment of a start, and close it; answer None, or why it cannot be made."""
    start: Start = connection.recv()
    try:
        import_path.receive(start.objects)
        close_env(make_env(start.definition, start.config), start.definition.label)
    except BaseException as error:  # noqa: BLE001  (the main process raises it)
        connection.send(CannotStart(*described(error)))
    else:
        connection.send(None)


@dataclass(frozen=True)
class TaskResult:
    """A task's episodes, with statistics of their observations and, if recorded, transitions; or a reference batch."""

    episodes: Sequence[Episode] = ()
    observed: ObservationStatistics | None = None
    found: ReferenceBatch | None = None
    transitions: Sequence[Transitions] = ()


class Worker:
    """Plays the tasks of its orders, one after the other.

    Args:
        connection: connection to the main process.
        start: the first message.

    Raises:
        PluginError: the environment cannot be made.
        SpaceError: a space is not supported, or the config's engine cannot compute the policy.
    """

    def __init__(self, connection: Any, start: Start) -> None:
        self._connection, self._record = connection, process.open_record()
        self._rollout = Rollout(start.definition, start.config, progress=self._record)
        self._adopt({})
        self._has_message = process.poll(connection)
        self._queue = deque[int]()
        self._answer_at = 0
        self._work: Work | None = None
        self._watchdog = Watchdog(start.options.step_timeout, self._record)

    def greet(self, start: Start) -> None:
        """Send the greeting of this worker."""
        rollout = self._rollout
        self._record[process.TASK] = _STARTING
        probe = take_probe(rollout, start.config) if start.probe else None
        self._record[process.TASK] = 0
        spaces = rollout.env.observation_space, rollout.env.action_space
        try:
            for space in spaces:
                require_portable(space)
        except ValueError as error:
            raise SpaceError(f"{start.definition.label}: {error}") from error
        self._connection.send(Ready(*spaces, rollout.engine, rollout.policy.config.preprocessing, probe))

    def serve(self) -> None:
        """Answer until the connection ends."""
        while True:
            self._take(self._connection.recv())
            self._play_all()

    def close(self) -> None:
        """Close the environment, whose simulator may be a process of its own."""
        self._rollout.close()

    def _adopt(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._rollout.adopt(settings)
        self._config, size = self._rollout.policy.config, self._rollout.policy.size
        if self._config.observation_normalization:
            self._rollout.actor.collect()
        self._parameters, self._drawn = np.empty(size, np.float32), Drawn(size)

    def _take(self, order: Order) -> None:
        if order.work is not None:
            self._work = order.work
            if order.work.settings != self._settings:
                self._adopt(order.work.settings)
        self._queue.extend(order.numbers)
        self._answer_at = order.answer_at

    def _play_all(self) -> None:
        """Play the tasks that there are; answer when all are done, when others can come, or when it is time."""
        answer, began = Answer(), time.perf_counter()
        while self._queue:
            number = self._queue.popleft()
            self._play(number, answer)
            seconds = time.perf_counter() - began
            while self._has_message(0):
                self._take(self._connection.recv())
            if len(self._queue) <= self._answer_at or seconds > _REPLY_EVERY:
                self._answer_at = 0  # more is on its way, or there is no more
                self._connection.send(answer.reply(seconds))
                answer, began = Answer(), time.perf_counter()

    def _play(self, number: int, answer: "Answer") -> None:
        """Play a task; if it fails, play it once more from its beginning, in a fresh environment."""
        if self._work is None:
            raise RuntimeError("a task came before its work")
        task = self._work.task(number)
        for attempt in range(ATTEMPTS):
            with suppress(BaseException):  # the attempt raises it, too
                self._rollout.reopen()  # which may take any time
            self._record[process.TASK] = number + 1
            played = self._attempt(number, task, self._work.population)
            if isinstance(played, TaskResult):
                self._record[process.TASK] = 0
                answer.add(number, task, played, retried=attempt > 0)
                return
            failed = played
            self.close()
            self._record[process.TASK] = 0
        answer.fail(failed)

    def _attempt(self, number: int, task: Task, population: Population) -> TaskResult | Failed:
        rollout, seed = self._rollout, None
        episodes: list[Episode] = []
        observed: list[ObservationStatistics] = []
        transitions: list[Transitions] = []
        try:
            if isinstance(task, CentreTask | RandomTask):
                self._record[process.SEED] = seed = task.seed
            if not isinstance(task, CandidateTask):
                return played_alone(rollout, task, population, self._record)
            rollout.use(population.candidate(task.candidate, self._parameters, self._drawn), population.statistics)
            for place, seed in enumerate(task.seeds):
                self._record[process.SEED] = seed
                noise = action_noise_seed(rollout.policy, population, task.candidate, seed)
                recorder = TransitionRecorder(rollout.policy) if population.records else None
                episode = rollout.episode(
                    seed,
                    observers=recorder.observers if recorder else (),
                    noise_seed=noise,
                    max_steps=population.max_episode_steps,
                    range_share=population.range_share,
                    describes=population.describes,
                )
                episodes.append(episode)
                if recorder:
                    transitions.append(recorder.transitions(episode))
                if enters_statistics(self._config, population, task.candidate * len(task.seeds) + place):
                    observed.append(rollout.actor.statistics(episode.length))
        except EpisodeStopped:
            raise
        except BaseException as error:  # noqa: BLE001  (the main process raises it)
            return Failed(number, seed, *described(error))
        empty = ObservationStatistics.empty(rollout.policy.inputs)
        statistics = empty.merged(observed) if self._config.observation_normalization else None
        return TaskResult(episodes, statistics, transitions=transitions)


def played_alone(
    rollout: Rollout, task: Other, population: Population, record: MutableSequence[int] | None = None
) -> TaskResult:
    """Play a task that is no candidate's; the ``record`` gets the seed of each episode of a reference batch.

    Raises:
        Exception: an episode raises it.
    """
    if isinstance(task, ReferenceTask):
        return TaskResult(found=play_reference(rollout, task.seeds, record))
    if isinstance(task, RandomTask):
        return TaskResult([_portable(rollout.random_episode(task.seed))])
    rollout.use(population.base[0], population.statistics)
    noise = action_noise_seed(rollout.policy, population, None, task.seed) if task.explore else None
    bounds = BoundsCounter(rollout.policy)
    return TaskResult(
        [_portable(bounds.with_bounds_share(rollout.episode(task.seed, observers=bounds.observers, noise_seed=noise)))]
    )


class Answer:
    """Results of the tasks since the last reply."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._candidates: list[int] = []
        self._played: list[TaskResult] = []
        self._centre: dict[int, Episode] = {}
        self._reference: ReferenceBatch | None = None
        self._failures: list[Failed] = []
        self._episodes = self._retried = 0

    def add(self, number: int, task: Task, played: TaskResult, *, retried: bool) -> None:
        """Add a task that was played; ``retried``: its first attempt failed."""
        self._numbers.append(number)
        self._episodes += len(task.seeds)
        self._retried += retried
        if isinstance(task, CandidateTask):
            self._candidates.append(task.candidate)
            self._played.append(played)
        elif isinstance(task, CentreTask | RandomTask):
            self._centre[number] = played.episodes[0]
        else:
            self._reference = played.found

    def fail(self, failed: Failed) -> None:
        """Add a task that failed again when repeated."""
        self._numbers.append(failed.number)
        self._failures.append(failed)

    def reply(self, seconds: float) -> Reply:
        """Return the reply with all results, which took ``seconds``."""
        return Reply(
            numbers=self._numbers,
            episodes=self._episodes,
            seconds=seconds,
            retried=self._retried,
            scores=self._scores() if self._candidates else None,
            transitions={
                candidate: played.transitions
                for candidate, played in zip(self._candidates, self._played, strict=True)
                if played.transitions
            },
            centre=self._centre,
            reference=self._reference,
            failures=self._failures,
        )

    def _scores(self) -> Scores:
        names = tuple(self._played[0].episodes[0].fitnesses)
        observed = [played.observed for played in self._played if played.observed is not None]
        return Scores(
            self._candidates,
            names,
            np.array([[_row(episode, names) for episode in played.episodes] for played in self._played]),
            np.array([each.count for each in observed]) if observed else None,
            np.array([(each.total, each.squares) for each in observed]) if observed else None,
        )


def enters_statistics(config: TrainConfig, population: Population, index: int) -> bool:
    """Return True if the observations of an episode enter the statistics.

    Args:
        config: the run's config.
        population: the generation's population.
        index: the episode's index among those of all candidates.
    """
    if not config.observation_normalization or config.statistics_fraction == 1:
        return config.observation_normalization
    drawn = seeding.derive(config.seed, seeding.Purpose.STATISTICS, population.generation, index)
    return drawn < config.statistics_fraction * 2**63


def action_noise_seed(policy: Policy, population: Population, candidate: int | None, seed: int) -> int | None:
    """Seed of the noise by which an episode is explored; None if the policy's actions have none.

    Args:
        policy: the policy.
        population: the generation's population.
        candidate: index of the candidate that plays it; None: the centre.
        seed: the episode's seed.
    """
    explored = candidate is None or population.explores is None or bool(population.explores[candidate])
    if policy.actions.exploration is None or not explored:
        return None
    who = 0 if candidate is None else candidate + 1
    return seeding.derive(seed, seeding.Purpose.ACTION_NOISE, population.generation, who)


def _row(episode: Episode, names: Sequence[str]) -> list[float]:
    values = (episode.fitnesses[name] for name in names)
    numbers = (math.nan if value is None else value for value in values)
    return [*numbers, episode.length, episode.truncated, *episode.behaviour]


class DescribedError(Exception):
    """An error of another process; its only argument is what ``described`` said there."""


def described(error: BaseException) -> tuple[str, str, str]:
    """Kind, message and traceback of an error, from where it leaves the code that calls environments, if it does.

    An error without a message, such as that of an assertion, gets the line that raised it. A missing package has no
    traceback, since Gymnasium says what to install.
    """
    if isinstance(error, DescribedError):
        return error.args[0]  # type: ignore[no-any-return]
    place = error.__traceback__
    while place is not None and _CALLERS & {*Path(place.tb_frame.f_code.co_filename).parents}:
        place = place.tb_next
    lines = traceback.format_exception(type(error), error, place or error.__traceback__)
    kind, package = type(error).__name__, type(error).__module__.partition(".")[0]
    if kind in FOR_PEOPLE and package not in {"es_core", "es_envs"}:  # such as that of ctypes
        kind = f"{package}.{kind}"
    return kind, message_of(error), "" if isinstance(error, DependencyNotInstalled) else "".join(lines)


def _portable(episode: Episode) -> Episode:
    episode = replace(
        episode,
        start_info=plain(episode.start_info),
        final_info=plain(episode.final_info),
        first_observation=plain(episode.first_observation),
        last_observation=plain(episode.last_observation),
    )
    _ = episode.is_success  # raises here, where the episode is known
    return episode
