"""A race: searches with other settings, or another seed, may overtake the search of a run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Self

from es_core.config.plan import Plan
from es_core.runs.metrics import GenerationStats
from es_core.statistics import is_gain
from es_core.strategies.defaults import first_bound

FIRST_CHECK = 25
"""Generations after which the leader is challenged: many tasks are solved before, and other rules look at 20."""
_GROWTH = 1.5  # from one check to the next
_CHALLENGE = 5  # generations after which a challenger is first compared with the leader, then twice as many, and so on
_SHARE = 0.3  # of a bounded run's steps, after which what begins has no time left to learn
_BEST_QUARTER = 1.27  # standard deviations by which the mean of the best quarter is above that of all


def quality(stats: GenerationStats) -> float | None:
    """Mean fitness of the best quarter of a population, if fitness is normally distributed; None if all failed."""
    return None if stats.fitness_mean is None else stats.fitness_mean + _BEST_QUARTER * (stats.fitness_std or 0.0)


@dataclass
class Race:
    """Says which contender plays the next generation, as a function of the generations so far.

    The leader begins alone, so what is solved at once costs nothing more. After ``FIRST_CHECK`` generations challengers
    play, one after the other. One that is not better than the leader was after as many generations is dropped; one
    that is still better when it has played as many as the leader takes its place. If none does, the leader goes on.
    Later, each time when it has played half as many generations more, it is challenged again if it has gained nothing
    clear in the later half of them. So what is tried takes steps only as long as it is promising. A run with few steps
    tries nothing after the first third of them.

    Contender 0 has the run's own settings, and those after it the settings of ``Plan.contenders``, in turn, with the
    run's own among them; each begins from other parameters.

    Attributes:
        settings: number of settings that differ.
        horizon: steps for which the run was planned.
        leader: number of the contender that leads.
        contender: number of the contender whose turn it is.
    """

    settings: int = 1
    horizon: float = math.inf
    leader: int = 0
    contender: int = 0
    _begun: int = 1
    _tried: int = 0
    _check: int = FIRST_CHECK
    _steps: int = 0
    _quality: dict[int, list[float]] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, history: Sequence[GenerationStats] = (), *, contender: int = 0, search: int = 0) -> Self:
        """The race of a run after these generations; ``contender`` plays the next one, which belongs to ``search``."""
        race = cls(len(plan.contenders) + 1, horizon=first_bound(plan))
        plays = [*((stats.contender, stats.search) for stats in history), (contender, search)]
        for stats, (who, which) in zip(history, plays[1:], strict=True):
            race.add(quality(stats), stats.steps, restarts=who == stats.contender and which != stats.search)
        return race

    def add(self, quality: float | None, steps: int = 0, *, restarts: bool = False) -> str:
        """See how good a generation's population was, and decide who plays the next one.

        Args:
            quality: that of the population; None if it is unknown.
            steps: environment steps of its episodes.
            restarts: a rule lets this contender's search begin again: what it has gained so far says nothing more.

        Returns:
            What changes, in a clause for people; empty if the same contender goes on.
        """
        self._steps += steps
        ours = self._quality.setdefault(self.contender, [])
        if restarts:
            ours.clear()
            self._check = FIRST_CHECK if self.contender == self.leader else self._check
        if self.settings == 1 or quality is None or restarts:
            return ""
        ours.append(quality)
        if self.contender == self.leader:
            if not self._is_due(ours) or self._steps > _SHARE * self.horizon:
                return ""
            self._tried = 0
            return self._challenge()
        if self._falls_behind(ours):
            self._tried += 1
            return f"contender {self.contender} is not better: {self._challenge()}"
        if len(ours) < len(self._quality[self.leader]):
            return ""
        self.leader, self._check = self.contender, int(len(ours) * _GROWTH)
        return f"contender {self.leader} leads now"

    def _challenge(self) -> str:
        """Let the next challenger begin; after as many as there are settings the leader goes on."""
        if self._tried == self.settings - 1:
            self.contender = self.leader
            return f"contender {self.contender} leads, and goes on"
        self.contender, self._begun = self._begun, self._begun + 1
        return f"contender {self.contender} begins"

    def _is_due(self, values: list[float]) -> bool:
        """Return True if the leader is to be challenged: the first time, and later if it has gained nothing clear."""
        if len(values) < self._check:
            return False
        is_first, self._check = self._check == FIRST_CHECK, int(len(values) * _GROWTH)
        if is_first:
            return True
        later = values[len(values) // 2 :]
        half = len(later) // 2
        return not is_gain(later[:half], later[half:], errors=1)

    def _falls_behind(self, values: list[float]) -> bool:
        """Return True if a challenger is due for a comparison with the leader, and is not better."""
        leader, count = self._quality[self.leader], len(values)
        is_power = count % _CHALLENGE == 0 and (count // _CHALLENGE).bit_count() == 1
        part = slice(count // 2, count)
        return (is_power or count == len(leader)) and fmean(values[part]) <= fmean(leader[part])
