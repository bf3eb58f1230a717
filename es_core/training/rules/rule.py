"""Rules: the facts that they read, their answers, and the settings that their states change."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from es_core.config.plan import Plan
from es_core.runs.metrics import GenerationStats
from es_core.runs.scores import Evaluation
from es_core.statistics import is_gain
from es_core.strategies.population import Population

State = int | float | None
"""State of a rule: a number, or None."""

LONGEST_HISTORY = 100
"""Generations by which a search is judged, at most."""


@dataclass(frozen=True, kw_only=True)
class SearchHistory:
    """The latest generations of a search, at most ``LONGEST_HISTORY``, as numbers.

    Attributes:
        fitness: mean fitness of each population; None if all its candidates failed.
        scores: score of each centre; None if it was not evaluated.
        range_shares: share of the ranges of ``randomize`` in which each population played.
        last: number of the latest generation; -1 if there is none.
    """

    fitness: Sequence[float | None] = ()
    scores: Sequence[Evaluation | None] = ()
    range_shares: Sequence[float] = ()
    last: int = -1

    @classmethod
    def of(cls, generations: Sequence[GenerationStats]) -> Self:
        """Take the numbers from lines of metrics, all with a population and of one search."""
        return cls(
            fitness=[stats.fitness_mean for stats in generations],
            scores=[stats.evaluation for stats in generations],
            range_shares=[stats.rules.get("curriculum", 1) or 0 for stats in generations],
            last=generations[-1].generation if generations else -1,
        )

    def __len__(self) -> int:
        return len(self.fitness)

    def __getitem__(self, part: slice) -> Self:
        return replace(self, fitness=self.fitness[part], scores=self.scores[part], range_shares=self.range_shares[part])

    def halves(self) -> tuple[Self, Self]:
        """The first and the second half of the generations."""
        return self[: len(self) // 2], self[len(self) // 2 :]

    @property
    def known_fitness(self) -> list[float]:
        """Mean fitness of the populations that have one."""
        return [value for value in self.fitness if value is not None]

    @property
    def known_scores(self) -> list[Evaluation]:
        """Scores of the centres that have one."""
        return [score for score in self.scores if score is not None]

    @property
    def curriculum_grew(self) -> bool:
        """True if the ranges became wider meanwhile: then equal fitness is a gain, in a harder world."""
        return bool(self.range_shares) and self.range_shares[-1] > self.range_shares[0]

    def gained(self, *, errors: float) -> bool:
        """Return True if populations became better by so many standard errors, from the first half to the second."""
        before, after = (half.known_fitness for half in self.halves())
        return min(len(before), len(after)) > 1 and is_gain(before, after, errors=errors)


def recent_generations(history: Sequence[GenerationStats], search: int) -> list[GenerationStats]:
    """The latest lines with a population, at most ``LONGEST_HISTORY``, of this ``search``."""
    ours = (stats for stats in reversed(history) if stats.search == search and stats.population_size is not None)
    return list(islice(ours, LONGEST_HISTORY))[::-1]


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Facts about a generation that has been played, before the strategy learns from it.

    Attributes:
        config: the settings of the current search.
        history: this search, without this generation.
        fitness: ``(M,)``, of the candidates that have not failed.
        spread: standard deviation of the fitness among candidates that are compared with each other; None if unknown.
        lengths: ``(M, k)``, steps of these candidates' episodes.
        centre: score of this generation's centre; None if it was not evaluated.
        nothing: score of doing nothing, from the run's first generation; None if unknown.
        step_limit: step limit of a whole episode.
        population: the population that was played.
        from_policy: True if the run starts from a policy that was given.
    """

    config: Plan
    history: SearchHistory
    fitness: NDArray[np.float64]
    spread: float | None
    lengths: NDArray[np.int64]
    centre: Evaluation | None
    nothing: Evaluation | None
    step_limit: int
    population: Population
    from_policy: bool


@dataclass(frozen=True, kw_only=True)
class Change:
    """Changes that a rule makes for the next generation.

    Attributes:
        state: the rule's new state.
        population_size: number of candidates; None: no change.
        search_from: parameters from which the search restarts: "initial", where it began (with it begin the rules
            that are asked after this one), or "centre", where it is; None: it continues.
        reason: why, in a sentence for people, if they should know.
    """

    state: State
    population_size: int | None = None
    search_from: Literal["initial", "centre"] | None = None
    reason: str = ""


class Rule(ABC):
    """Changes a search between two generations. It has no attributes: its state is a value that the run carries.

    Attributes:
        name: of its state in checkpoints, logs and metrics.
    """

    name: ClassVar[str]

    @abstractmethod
    def applies(self, config: Plan) -> bool:
        """Return True if the run's settings ask for it."""

    @abstractmethod
    def first_state(self, config: Plan, step_limit: int) -> State:
        """State when a search begins; ``step_limit``: that of a whole episode."""

    @abstractmethod
    def check(self, config: Plan, state: Any) -> str | None:
        """Return None if the state is one that it can have, else in words what was expected."""

    @abstractmethod
    def change(self, state: Any, evidence: Evidence) -> Change:
        """Decide, after a generation was played, what is otherwise in the next one."""

    def ends(self, state: Any, config: Plan, history: SearchHistory) -> bool:
        """Return True if the run is to end; its reason is then the rule's name."""
        return False

    def adapt_settings(self, config: Plan, state: Any) -> Plan:
        """Return the settings of a search that begins in this state.

        The strategy is made with them when a search begins and when a run is resumed, and at no other time: a state
        with other settings must come with ``Change.search_from``, or a resumed run would differ.
        """
        return config

    def limit_population(self, population: Population, state: Any) -> Population:
        """Return the next population as it is to be played."""
        return population
