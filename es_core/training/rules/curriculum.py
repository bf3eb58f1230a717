"""Widens the ranges of ``randomize`` as a search succeeds: from easy worlds to all of them."""

from dataclasses import replace
from typing import Any

from es_core.config.checks import number
from es_core.config.plan import Plan
from es_core.strategies.population import Population
from es_core.training.rules.rule import Change, Evidence, Rule, State

_STEPS = 10  # successes until the ranges are complete


class Curriculum(Rule):
    """The state is the share of the ranges in which the next population plays, 0 to 1."""

    name = "curriculum"

    def applies(self, config: Plan) -> bool:
        return config.curriculum is not None

    def first_state(self, config: Plan, step_limit: int) -> State:
        return 0.0

    def check(self, config: Plan, state: Any) -> str | None:
        expected = "a number from 0 to 1"
        return expected if number(0)(state) or state > 1 else None

    def change(self, state: Any, evidence: Evidence) -> Change:
        succeeds = evidence.fitness.mean() >= evidence.config.curriculum
        return Change(state=min(1.0, (round(_STEPS * state) + 1) / _STEPS) if succeeds else state)

    def limit_population(self, population: Population, state: Any) -> Population:
        return replace(population, range_share=state)
