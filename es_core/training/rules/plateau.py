"""Begins a search again where it gains nothing, with twice the candidates; or ends the run there."""

from dataclasses import replace
from typing import Any

from es_core.config.checks import whole
from es_core.config.plan import Plan
from es_core.statistics import is_gain
from es_core.training.rules.rule import LONGEST_HISTORY, Change, Evidence, Rule, SearchHistory, State

PLATEAU = LONGEST_HISTORY
"""Generations without any gain that are a plateau."""
_FEWEST_SCORES = 5


class Plateau(Rule):
    """The state is how often the search has begun again.

    Each time it has twice the candidates (Auger and Hansen 2005, "A restart CMA evolution strategy with increasing
    population size"): more of them see further, and are misled less by noise.
    """

    name = "plateau"

    def applies(self, config: Plan) -> bool:
        return config.restarts > 0 or config.stop_when == "plateau"

    def first_state(self, config: Plan, step_limit: int) -> State:
        return 0

    def check(self, config: Plan, state: Any) -> str | None:
        return whole(0, config.restarts)(state)

    def change(self, state: Any, evidence: Evidence) -> Change:
        allowed = evidence.config.restarts
        if state == allowed or not is_plateau(evidence.history):
            return Change(state=state)
        candidates = 2 * evidence.config.population_size
        return Change(
            state=state + 1,
            search_from="initial",
            reason=f"nothing was gained in {PLATEAU} generations: restarted with {candidates} candidates "
            f"(restart {state + 1} of {allowed}); the best so far is kept",
        )

    def ends(self, state: Any, config: Plan, history: SearchHistory) -> bool:
        return config.stop_when == "plateau" and state == config.restarts and is_plateau(history)

    def adapt_settings(self, config: Plan, state: Any) -> Plan:
        names = ("population_size", "steps_per_generation", "steps_limit")
        values = {name: getattr(config, name) for name in names}
        return replace(config, **{name: value << state for name, value in values.items() if value is not None})


def is_plateau(history: SearchHistory) -> bool:
    """Return True if nothing was gained lately: neither in the populations' mean fitness nor in the centres' scores.

    The means of the last 50 generations and of the 50 before them are compared: a gain is more than two standard
    errors. Too few scores of centres say nothing, and populations decide alone.
    """
    halves = history[-PLATEAU:].halves()
    if len(history) < PLATEAU or halves[1].curriculum_grew:
        return False
    scores = [[score.mean for score in half.known_scores] for half in halves]
    fitness = [half.known_fitness for half in halves]
    compared = [fitness] * (min(map(len, fitness)) > 1) + [scores] * (min(map(len, scores)) >= _FEWEST_SCORES)
    return bool(compared) and not any(is_gain(before, after, errors=2) for before, after in compared)
