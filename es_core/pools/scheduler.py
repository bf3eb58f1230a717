"""The scheduler: which worker plays which task next, and what follows when something goes wrong.

It knows no process, no connection and no clock: its caller reports events, and it decides what to do. A worker is
anything that plays tasks: a process on this machine, or a node of a cluster with many CPUs.
"""

import math
from collections import Counter, deque
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

W = TypeVar("W", bound=Hashable)

PAUSES = (0.5, 1.0, 2.0, 4.0)  # seconds before another start, each time that a worker has died while it started

# A task is given up when so many workers have died while they played it. A hang is the task's own fault; but a worker
# may have been killed from outside while it happened to play the task, even twice.
_HANGS, _DEATHS = 2, 3

_SHARE = 0.75  # of the tasks left is handed out; the rest evens out that some workers have longer tasks
_OVERHEAD = 0.02  # of an order and its answer, as a share of the playing time
_PLENTY = 4  # a worker has at most so many times the tasks that keep the overhead low
_RECENT = 0.2  # weight of the latest answer in the seconds that a task takes


@dataclass(frozen=True)
class Portion:
    """Tasks to give a worker now.

    Attributes:
        numbers: the tasks' numbers.
        answer_at: the worker answers as soon as no more tasks than this are left, to get others in time.
    """

    numbers: list[int]
    answer_at: int


@dataclass
class _Worker:
    """State of a worker: ``held`` are the tasks that it was given and has not answered, in order."""

    cpus: int
    held: dict[int, None] = field(default_factory=dict)
    is_alone: bool = False  # True if it plays a suspect, and nothing else
    episodes: int = 0


class Scheduler(Generic[W]):
    """Hands out tasks once, or again if the worker that had them is gone.

    A generation's tasks are handed out in large portions at first, and in smaller ones toward its end, so that few
    messages are needed and no worker is left with work that others could do. A task that was being played when its
    worker died is a suspect: it is repeated alone, so that no other task suffers, and given up after a few deaths.

    Args:
        call_seconds: seconds that an order and its answer take in addition to playing.
        episodes_per_worker: episodes after which a worker is replaced, between two generations; None: never.

    Attributes:
        task_seconds: seconds that a task took lately, on one CPU; 0: none has been played yet.
    """

    def __init__(self, *, call_seconds: float, episodes_per_worker: int | None = None) -> None:
        self.call_seconds, self.task_seconds = call_seconds, 0.0
        self._episodes_per_worker = episodes_per_worker
        self._workers: dict[W, _Worker] = {}
        self._starts: dict[W, int] = {}  # failed starts in a row
        self._due: dict[W, float] = {}
        self._queue, self._suspects = deque[int](), deque[int]()
        self._deaths = Counter[int]()
        self._left: set[int] = set()
        self._is_under_way = False  # True if tasks of this generation have been answered

    # ---- Workers come and go

    def join(self, worker: W, cpus: int = 1) -> None:
        """Add a worker that is ready, without tasks."""
        self._workers[worker] = _Worker(cpus)
        self._starts.pop(worker, None)

    def leave(self, worker: W) -> None:
        """Remove a worker that is gone through no fault of its tasks, which are handed out next."""
        state = self._workers.pop(worker)
        self._queue.extendleft(reversed(state.held))

    def die(self, worker: W, suspects: Collection[int], *, hung: bool = False) -> list[int]:
        """Remove a worker that died while it played.

        Args:
            worker: the worker.
            suspects: tasks of which one may have killed it; those that it has answered do not count.
            hung: True if it died because a step took too long.

        Returns:
            The tasks that are given up.
        """
        state = self._workers[worker]
        given_up = []
        for number in [number for number in suspects if number in state.held]:
            del state.held[number]
            self._deaths[number] += 1
            if self._deaths[number] < (_HANGS if hung else _DEATHS):
                self._suspects.append(number)
            else:
                given_up.append(number)
                self._left.discard(number)
        self.leave(worker)
        return given_up

    def fail_to_start(self, worker: W, now: float) -> float | None:
        """Note that a worker died while it started; return the seconds until it is ``due`` again, None to give up."""
        failed = self._starts.get(worker, 0)
        if failed == len(PAUSES):
            return None
        self._starts[worker] = failed + 1
        self._due[worker] = now + PAUSES[failed]
        return PAUSES[failed]

    def due(self, now: float) -> list[W]:
        """Workers to start again now; each is named once."""
        due = [worker for worker, when in self._due.items() if when <= now]
        for worker in due:
            del self._due[worker]
        return due

    def due_for_recycling(self) -> list[W]:
        """Workers without a task that have played so many episodes that they must be replaced."""
        most = math.inf if self._episodes_per_worker is None else self._episodes_per_worker
        return [worker for worker, state in self._workers.items() if state.episodes >= most and not state.held]

    # ---- tasks are handed out and answered

    def begin(self, tasks: Iterable[int]) -> None:
        """Begin a generation of these tasks, in their order.

        Raises:
            RuntimeError: other tasks are not done yet.
        """
        if self._left:
            raise RuntimeError(f"{len(self._left)} tasks are not done yet")
        self._is_under_way = False
        self._deaths.clear()
        self.extend(tasks)

    def extend(self, tasks: Iterable[int]) -> None:
        """Add these tasks after those that there are."""
        tasks = list(tasks)
        self._queue.extend(tasks)
        self._left.update(tasks)

    @property
    def done(self) -> bool:
        """True if every task is answered or given up."""
        return not self._left

    @property
    def workers(self) -> list[W]:
        """Workers that are ready or play."""
        return list(self._workers)

    def held(self, worker: W) -> list[int]:
        """Tasks that a worker was given and has not answered, in order."""
        return list(self._workers[worker].held)

    def order(self, worker: W) -> Portion | None:
        """Return the tasks to give a worker now; None: nothing."""
        state = self._workers[worker]
        if self._suspects and not state.held:
            state.is_alone = True
            return self._give(state, [self._suspects.popleft()], 0)
        if not self._queue or state.is_alone:
            return None
        busy = state.cpus - 1  # others of its CPUs play a task each, while one of them needs the next
        wanted = min(busy + self._portion(state) - len(state.held), len(self._queue))
        if wanted <= 0:
            return None
        numbers = [self._queue.popleft() for _ in range(wanted)]
        return self._give(state, numbers, busy + self._portion(state) // 2 if self._queue else 0)

    def answer_at(self, worker: W) -> int:
        """Number of tasks left at which a worker that gets nothing now, having more than its share, must answer."""
        state = self._workers[worker]
        return max(len(state.held) // 2, min(len(state.held), state.cpus) - 1) if self._queue else 0

    def answer(self, worker: W, numbers: Collection[int], *, seconds: float, episodes: int) -> None:
        """Note that a worker has played tasks, or that they failed again when repeated.

        Args:
            worker: the worker.
            numbers: the tasks' numbers.
            seconds: total time that they took, on one CPU.
            episodes: number of episodes played.
        """
        state = self._workers[worker]
        for number in numbers:
            del state.held[number]
            self._left.discard(number)
        self._is_under_way = True
        state.episodes += episodes
        state.is_alone = state.is_alone and bool(state.held)
        if numbers:
            weight = _RECENT if self.task_seconds else 1.0
            self.task_seconds += weight * (seconds / len(numbers) - self.task_seconds)

    @staticmethod
    def _give(state: _Worker, numbers: list[int], answer_at: int) -> Portion:
        state.held.update(dict.fromkeys(numbers))
        return Portion(numbers, answer_at)

    def _portion(self, state: _Worker) -> int:
        """Number of tasks that a worker should have now: most of its share of all that are left.

        They take at least as long as an order, so that the worker never waits; long tasks are no more than it takes to
        make the overhead small, so that little is lost with a worker.
        """
        left = len(self._queue) if self._is_under_way else len(self._left)  # at first all workers get the same
        share = left * state.cpus / sum(each.cpus for each in self._workers.values())
        if not self.task_seconds:
            return math.ceil(_SHARE * share)
        least = min(math.ceil(self.call_seconds / self.task_seconds) * state.cpus, share)
        return math.ceil(max(least, 1, min(_SHARE * share, _PLENTY * self.enough * state.cpus)))

    @property
    def enough(self) -> int:
        """Number of tasks for which the cost of an order is small."""
        return math.ceil(self.call_seconds / (_OVERHEAD * self.task_seconds)) if self.task_seconds else 1
