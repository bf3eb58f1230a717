"""The local pool: worker processes on this machine, which live for the whole run."""

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from es_core.config.objects import pack_objects
from es_core.config.train_config import TrainConfig
from es_core.machine import open_files_left, usable_cores
from es_core.policies.by_name import make_policy
from es_core.pools.messages import (
    TIMED_OUT,
    WORKER_DIED,
    CannotStart,
    Failed,
    Order,
    Ready,
    ReferenceTask,
    Reply,
    Start,
    Task,
    Work,
    too_slow,
)
from es_core.pools.options import PoolOptions
from es_core.pools.pool import RolloutPool, require_ready
from es_core.pools.scheduler import Scheduler
from es_core.processes import forker
from es_core.processes.memory import MemoryWatch
from es_core.processes.process import BEAT_EVERY, Child, ChildDiedError, Record, end, wait
from es_core.processes.watchdog import patience
from es_core.rollout.errors import RolloutError
from es_core.strategies.defaults import make_plan
from es_envs import EnvDefinition, interruption, registry
from es_envs.episode import STEP_TIMEOUT

__all__ = ["LocalPool"]

_CALL_SECONDS = 0.0004  # for an order and its answer
_FILES_OF_A_WORKER = 2  # open in this process: its connection and its report
_OTHER_FILES = 32  # that a run may open in addition: its log, its lock, a film's encoder, modules that are imported
_SOON = 0.05  # seconds between two checks for a worker to start again


class LocalPool(RolloutPool):
    """Worker processes that get their tasks from a ``Scheduler``; see ``RolloutPool``.

    Args:
        definition: the environment's definition.
        config: the run's config, resolved.
        options: of the pool; workers are by default the usable cores.
        most: maximum number of workers that have work.
        probe: True if greetings must contain a probe.

    Attributes:
        greeting: its workers' greeting, the same for all.

    Raises:
        ValueError: the workers need more open files than this process may have, or a space is not supported.
        PluginError: the environment cannot be made.
        RolloutError: a worker could not start, or differs from the others in its spaces.
    """

    greeting: Ready

    def __init__(
        self,
        definition: EnvDefinition,
        config: TrainConfig,
        options: PoolOptions,
        *,
        most: int,
        probe: bool = False,
    ) -> None:
        self.definition, config = definition, replace(config, device="cpu")
        self.workers = _affordable(options.workers, min(options.workers or usable_cores(), most))
        self._step_timeout = options.step_timeout
        self._start = Start(definition, config, options, probe, pack_objects(definition, config))
        self._scheduler = Scheduler[int](call_seconds=_CALL_SECONDS, episodes_per_worker=options.episodes_per_worker)
        self._memory = MemoryWatch[int](definition.label)
        self._forker = forker.take()
        self._children: dict[int, Child] = {}
        self._starting: set[int] = set()
        self._sent: dict[int, Work] = {}  # the last work sent to each worker
        try:
            plain = replace(config, env_kwargs={}).to_json()
            self._forker.load(registry.modules(definition), ["es_core.pools.worker:load", plain])
            for number in range(self.workers):  # if one cannot start, the others are ended
                self._launch(number)
            while len(self._scheduler.workers) < self.workers:
                list(self._messages())
        except BaseException:
            self.close()
            raise
        self.observation_space, self.action_space = self.greeting.observation_space, self.greeting.action_space
        if self.greeting.preprocessing != config.preprocessing:
            names = (*config.decided, "preprocessing")
            config = replace(config, preprocessing=self.greeting.preprocessing, decided=names)
        policy = make_policy(config, self.observation_space, self.action_space)
        self.plan = self.config = replace(make_plan(policy), engine=self.greeting.engine)

    def play(self, work: Work, numbers: Iterable[int] | None = None) -> Iterator[Reply]:
        """Play tasks, and yield replies as they arrive; all workers are ready at the end.

        Args:
            work: the work that contains the tasks.
            numbers: the tasks' numbers; None: all.

        Raises:
            RolloutError: a worker cannot be replaced.
        """
        due_for_recycling = self._scheduler.due_for_recycling()  # replaced now, while nobody plays
        for worker in due_for_recycling:
            self._scheduler.leave(worker)
        self._end(due_for_recycling)
        for worker in due_for_recycling:
            self._launch(worker)
        self._scheduler.begin(range(len(work)) if numbers is None else numbers)
        replies: list[Reply] = []
        while True:
            self._hand_out(work)
            yield from replies  # workers play on meanwhile
            if self._scheduler.done and not self._starting:
                return
            replies = [
                self._replace_dead(worker, message, work) if isinstance(message, ChildDiedError) else message
                for worker, message in self._messages()
            ]

    def extend(self, work: Work, numbers: Iterable[int]) -> None:
        """Add tasks of the current work."""
        self._scheduler.extend(numbers)
        self._hand_out(work)

    def _hand_out(self, work: Work) -> None:
        for worker in self._scheduler.workers:
            if (portion := self._scheduler.order(worker)) is None:
                continue
            order = Order(portion.numbers, portion.answer_at, None if self._sent.get(worker) is work else work)
            self._sent[worker] = work
            with suppress(ChildDiedError):  # which shows when its answer is missing
                self._children[worker].send(order)

    def _messages(self) -> Iterator[tuple[int, Reply | ChildDiedError]]:
        """Yield workers' answers or deaths; wait for one, at most a second."""
        interruption.check()
        for worker in self._scheduler.due(time.monotonic()):
            self._launch(worker)
        connections = [child.connection for child in self._children.values()]
        ready = set(wait(connections, BEAT_EVERY if len(connections) == self.workers else _SOON))
        for worker, child in list(self._children.items()):
            if not child.look() and child.connection not in ready:
                continue
            try:
                message = child.receive()
            except ChildDiedError as death:
                message = death
            if worker in self._starting:
                self._greet(worker, message)
                continue
            if isinstance(message, Reply):
                self._scheduler.answer(worker, message.numbers, seconds=message.seconds, episodes=message.episodes)
                self.retried += message.retried
                self._memory.add(worker, child.process.pid, message.episodes)
            yield worker, message

    def _launch(self, worker: int) -> None:
        """Start a worker process, which will send its greeting."""
        self._end([worker])
        self._starting.add(worker)
        starting = patience(max(STEP_TIMEOUT, self._step_timeout))  # it makes its environment, which is no step
        child = Child("es_core.pools.worker:serve", forker=self._forker, patience=starting)
        self._children[worker] = child
        with suppress(ChildDiedError):  # reported when its greeting is missing
            child.send(self._start)

    def _end(self, workers: Sequence[int]) -> None:
        end([self._children.pop(worker) for worker in workers if worker in self._children])
        for worker in workers:
            self._sent.pop(worker, None)
            self._memory.forget(worker)

    def _greet(self, worker: int, greeting: Ready | CannotStart | ChildDiedError) -> None:
        """Add a worker that has made its environment; one that died before is started again, a few times.

        The system may have lacked memory for a moment.
        """
        label = self.definition.label
        if isinstance(greeting, ChildDiedError):
            pause = self._scheduler.fail_to_start(worker, time.monotonic())
            if pause is not None:
                what = f"{label}: a worker died at its start, and is started again in {pause:g} seconds"
                warnings.warn(f"{what}: {greeting}", RuntimeWarning, stacklevel=2)
                self._end([worker])
                return
            greeting = CannotStart(WORKER_DIED, str(greeting), trace_of(greeting.report))
        ready = require_ready(label, greeting)
        if not hasattr(self, "greeting"):
            self.greeting = ready
        if ready != self.greeting:
            raise RolloutError(
                f"{label}: two workers see different spaces: {self.greeting.observation_space}, "
                f"{self.greeting.action_space} in one and {ready.observation_space}, {ready.action_space} in "
                "the other; an environment's spaces must not depend on the process"
            )
        self._starting.remove(worker)
        self._children[worker].patience = patience(self._step_timeout)
        self._scheduler.join(worker)

    def _replace_dead(self, worker: int, death: ChildDiedError, work: Work) -> Reply:
        """Warn that a worker has died, and start another one; its tasks are played again, or given up."""
        why = too_slow(self._step_timeout) if death.hung else str(death)
        warnings.warn(f"{self.definition.label}: a worker is replaced: {why}", RuntimeWarning, stacklevel=2)
        self.workers_replaced += 1
        record = death.record
        if record is not None and record.task <= 0:  # it played none of its tasks at that moment
            record = None
        suspects = self._scheduler.held(worker) if record is None else [record.task - 1]
        given_up = self._scheduler.die(worker, suspects, hung=death.hung)
        self._launch(worker)
        kind, trace = TIMED_OUT if death.hung else WORKER_DIED, trace_of(death.report)
        seeds = [self._seed_of(work.task(number), record) for number in given_up]
        failures = [Failed(number, seed, kind, why, trace) for number, seed in zip(given_up, seeds, strict=True)]
        return Reply(numbers=given_up, failures=failures)

    @staticmethod
    def _seed_of(task: Task, record: Record | None) -> int | None:
        """Seed of the episode in which a worker died, as far as it is known; None for a reference batch."""
        if isinstance(task, ReferenceTask):
            return None
        return task.seeds[0] if record is None else record.seed

    def close(self) -> None:
        """End the workers, by force if necessary. May be called twice."""
        self._end(list(self._children))
        self._forker.close()


def require_environment(definition: EnvDefinition, config: TrainConfig) -> None:
    """Make an environment once, in a process of its own that ends with it.

    Raises:
        PluginError, ValueError, RolloutError: it cannot be made.
    """
    child = Child("es_core.pools.worker:try_environment", patience=patience(STEP_TIMEOUT))
    try:
        child.send(Start(definition, config, PoolOptions(), probe=False, objects=pack_objects(definition, config)))
        refusal = child.receive()
    except ChildDiedError:  # a pool starts it again, and reports it
        refusal = None
    finally:
        end([child])
    if refusal is not None:
        require_ready(definition.label, refusal)


def _affordable(workers: int | None, wanted: int) -> int:
    """Number of workers for which this process may open enough files: fewer than ``wanted`` if nobody gave a number.

    Raises:
        ValueError: it may not open enough for ``workers``.
    """
    left = open_files_left()
    possible = wanted if left is None else max(1, (left - _OTHER_FILES) // _FILES_OF_A_WORKER)
    if workers is None or wanted <= possible:
        return min(wanted, possible)
    needed = wanted * _FILES_OF_A_WORKER + _OTHER_FILES
    raise ValueError(
        f"{wanted} workers need {needed} more open files, and this process may open {left}: raise its limit, which "
        f"`ulimit -n` shows, or set workers={possible} (--workers {possible})"
    )


def trace_of(report: str) -> str:
    """Main thread's traceback of a process that crashed or hung, from the report of faulthandler."""
    start = max(report.rfind(words) for words in ("Fatal Python error", "Thread 0x"))
    return report[start:].partition("\n\nExtension modules")[0] if start >= 0 else ""
