"""The rules of a run and their states: the loop asks them in one place."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from es_core.config.plan import Plan
from es_core.formatting import shown
from es_core.strategies.population import Population
from es_core.training.rules.curriculum import Curriculum
from es_core.training.rules.episode_cap import EpisodeCap
from es_core.training.rules.generation_steps import GenerationSteps
from es_core.training.rules.plateau import Plateau
from es_core.training.rules.rule import Evidence, Rule, SearchHistory, State
from es_core.training.rules.sigma_shrinking import SigmaShrinking

RULES: tuple[Rule, ...] = (Plateau(), SigmaShrinking(), GenerationSteps(), EpisodeCap(), Curriculum())
"""All rules, in the order in which they are asked. One that begins the search again resets those after it."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Changes that all rules together make for the next generation; see ``Change``.

    Attributes:
        rules: new state of each rule, by its name.
        population_size: number of candidates; None: no change.
        search_from: "initial" or "centre", from where the search restarts; None: it continues.
        reason: why, in a sentence for people, if they should know.
    """

    rules: Mapping[str, State]
    population_size: int | None = None
    search_from: Literal["initial", "centre"] | None = None
    reason: str = ""


@dataclass(frozen=True)
class Rules:
    """The rules that apply to a run, and their states before a generation.

    Attributes:
        config: the run's settings.
        states: state of each rule, by its name.
    """

    config: Plan
    states: Mapping[str, State]

    @classmethod
    def begin(cls, config: Plan, step_limit: int) -> Self:
        """The rules of a run that begins; ``step_limit``: that of a whole episode."""
        return cls(config, {rule.name: rule.first_state(config, step_limit) for rule in _applying(config)})

    @classmethod
    def load(cls, config: Plan, states: Mapping[str, Any]) -> Self:
        """The rules of a run that continues, with the ``states`` of a checkpoint.

        Raises:
            ValueError: a state is missing, or none that its rule can have.
        """
        rules = cls(config, dict.fromkeys((rule.name for rule in _applying(config)), None))
        missing = rules.states.keys() - states.keys()
        if missing:
            raise ValueError(f"it has no state of the rules {shown(sorted(missing))}")
        return rules.with_states(states)

    def with_states(self, states: Mapping[str, Any]) -> Self:
        """Return the rules with other states; those that ``states`` lacks keep theirs.

        Raises:
            ValueError: a state is none that its rule can have.
        """
        for rule in self._ours:
            if rule.name in states and (expected := rule.check(self.config, states[rule.name])):
                raise ValueError(f"its {rule.name} must be {expected}, got {shown(states[rule.name])}")
        return replace(self, states={name: states.get(name, state) for name, state in self.states.items()})

    @property
    def search_config(self) -> Plan:
        """The settings of the current search; some strategies' rates follow from its sigma."""
        config = self.config
        for rule in self._ours:
            config = rule.adapt_settings(config, self.states[rule.name])
        return config

    @property
    def has_stalled(self) -> bool:
        """True if the search has gained nothing for a while, and so its generations have more steps."""
        return bool(self.states.get(GenerationSteps.name))

    @property
    def _ours(self) -> list[Rule]:
        return _applying(self.config)

    def limit_population(self, population: Population) -> Population:
        """Return the next population as it is to be played."""
        for rule in self._ours:
            population = rule.limit_population(population, self.states[rule.name])
        return population

    def ending(self, history: SearchHistory) -> str | None:
        """Name of the rule that ends the run here, or None."""
        ends = (rule.name for rule in self._ours if rule.ends(self.states[rule.name], self.config, history))
        return next(ends, None)

    def change(self, evidence: Evidence) -> Changes:
        """Ask each rule what is otherwise in the next generation."""
        changes = Changes(rules={})
        for rule in self._ours:
            if changes.search_from == "initial":  # what it knows is of another search
                state = rule.first_state(self.config, evidence.step_limit)
                changes = replace(changes, rules={**changes.rules, rule.name: state})
                continue
            change = rule.change(self.states[rule.name], evidence)
            changes = Changes(
                rules={**changes.rules, rule.name: change.state},
                population_size=change.population_size or changes.population_size,
                search_from=change.search_from or changes.search_from,
                reason=change.reason or changes.reason,
            )
        return replace(changes, population_size=None) if changes.search_from else changes


def _applying(config: Plan) -> list[Rule]:
    return [rule for rule in RULES if rule.applies(config)]
