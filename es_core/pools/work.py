"""The tasks of a generation: which are still to be handed out, which are suspected, and what came of the others."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from es_core.pools.worker import Reply, Task


class Work:
    """Tasks that are handed out once, or again if the worker that had them has died.

    Which of its tasks has killed a worker, nobody knows. All of them are suspects: from then on each is played alone.

    Args:
        tasks: in the order in which they are handed out.

    Attributes:
        queue: tasks that nobody has been given.
        suspects: tasks that were in a worker when it died.
        replies: to the other tasks, by index.
        deaths: of workers, by the index of a task that they had.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks
        self.queue, self.suspects = deque(tasks), deque[Task]()
        self.replies: dict[int, Reply] = {}
        self.deaths = Counter[int]()

    @property
    def left(self) -> int:
        """Tasks without a reply."""
        return len(self.tasks) - len(self.replies)

    def take(self, held: Mapping[int, Task], count: int) -> list[Task]:
        """The next tasks, at most ``count``, for a worker that has already been given those ``held``, by index."""
        if self.suspects and not held:
            return [self.suspects.popleft()]
        if any(task.alone for task in held.values()):
            return []
        return [self.queue.popleft() for _ in range(min(count, len(self.queue)))]

    def suspect(self, task: Task) -> None:
        """Have a task repeated that a worker had when it died."""
        self.suspects.append(replace(task, alone=True))
