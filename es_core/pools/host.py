"""The actor on a node of a cluster: it holds a local pool of the node's CPUs."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from es_core.pools.local import LocalPool
from es_core.pools.messages import WORKER_DIED, CannotStart, Ready, Reply, Scores, Start, Work
from es_core.rollout.errors import RolloutError
from es_core.runs.provenance import description, versions


@dataclass(frozen=True)
class HostResult:
    """Results of a node since its last answer.

    Attributes:
        reply: its tasks' results.
        warnings: warnings issued meanwhile.
        replaced: number of worker processes that died.
    """

    reply: Reply
    warnings: list[str]
    replaced: int


class Host:
    """Plays tasks in a local pool; its workers go on with what they have while it waits for the next call."""

    _pool: LocalPool
    _work: Work
    _playing: Iterator[Reply]

    def __init__(self) -> None:
        self._number: int | None = None  # of the current work
        self._left = 0  # tasks that are not answered

    def meet(self, distributions: Iterable[str]) -> dict[str, Any]:
        """Describe this process in plain types, which every version of this package can read."""
        return {**description(), "versions": versions(*distributions)}

    def begin(self, start: Start, workers: int) -> Ready | CannotStart:
        """Start the worker processes, and return their greeting."""
        options = replace(start.options, pool="local", ray_address=None, workers=workers)
        try:
            self._pool = LocalPool(start.definition, start.config, options, most=workers, probe=True)
        except RolloutError as error:
            return CannotStart(WORKER_DIED, str(error), "")
        except Exception as error:  # noqa: BLE001  (the driver names the node)
            return CannotStart(type(error).__name__, str(error), "")
        return self._pool.greeting

    def ping(self) -> None:
        """Do nothing, to measure the time of a call."""

    def play(self, number: int, work: Work, numbers: Sequence[int], answer_at: int) -> HostResult:
        """Play these tasks, and those that are left.

        Args:
            number: the work's number.
            work: the work, as it was sent to this node.
            numbers: the tasks' numbers.
            answer_at: answer as soon as no more tasks than this are left.

        Raises:
            RolloutError: a worker process died, and no other could be started.
        """
        replaced = self._pool.workers_replaced
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if number != self._number:
                self._number, self._work, self._left = number, work, 0
            if self._left:
                self._pool.extend(self._work, numbers)
            else:
                self._playing = self._pool.play(self._work, numbers)
            self._left += len(numbers)
            replies = []
            for reply in self._playing:
                replies.append(reply)
                self._left -= len(reply.numbers)
                if self._left <= answer_at:
                    break
        return HostResult(
            merged(replies), [str(each.message) for each in caught], self._pool.workers_replaced - replaced
        )


def merged(replies: Sequence[Reply]) -> Reply:
    """Merge replies into one."""
    scores = [reply.scores for reply in replies if reply.scores is not None]
    reference = [reply.reference for reply in replies if reply.reference is not None]
    return Reply(
        numbers=[number for reply in replies for number in reply.numbers],
        episodes=sum(reply.episodes for reply in replies),
        seconds=sum(reply.seconds for reply in replies),
        retried=sum(reply.retried for reply in replies),
        scores=_merged_scores(scores) if scores else None,
        transitions={number: episodes for reply in replies for number, episodes in reply.transitions.items()},
        centre={number: episode for reply in replies for number, episode in reply.centre.items()},
        reference=reference[0] if reference else None,
        failures=[failure for reply in replies for failure in reply.failures],
    )


def _merged_scores(scores: Sequence[Scores]) -> Scores:
    counts = [each.counts for each in scores if each.counts is not None]
    sums = [each.sums for each in scores if each.sums is not None]
    return Scores(
        [candidate for each in scores for candidate in each.candidates],
        scores[0].names,
        np.concatenate([each.values for each in scores]),
        np.concatenate(counts) if counts else None,
        np.concatenate(sums) if sums else None,
    )
