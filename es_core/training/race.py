"""A race: says whose turn it is, where a run has several contenders."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from es_core.config.plan import Plan
from es_core.runs.metrics import GenerationStats


@dataclass
class Race:
    """Whose turn it is: a function of the generations so far."""

    contenders: int = 1
    heat: int = 0
    contender: int = 0
    racing: set[int] = field(default_factory=lambda: {0})

    @classmethod
    def of(cls, plan: Plan, history: Iterable[GenerationStats] = ()) -> Self:
        """The race of a run after these generations."""
        count = len(plan.contenders) + 1
        race = cls(count, racing=set(range(count)))
        for stats in history:
            race.add(stats)
        return race

    def add(self, stats: GenerationStats) -> None:
        """See a generation."""
        if self.contenders > 1:  # for now: in turn
            self.contender = (stats.contender + 1) % self.contenders
