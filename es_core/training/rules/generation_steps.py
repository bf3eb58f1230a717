"""Plays as many candidates as a generation's steps allow, and doubles these steps where nothing is gained."""

from typing import Any

import numpy as np

from es_core.config.budgets import candidates_within, most_doublings
from es_core.config.checks import whole
from es_core.config.plan import Plan
from es_core.training.rules.rule import Change, Evidence, Rule, SearchHistory, State

STALL = 20
"""Generations without a clear gain, after which larger ones are worth their steps."""


class GenerationSteps(Rule):
    """The state is how often the steps of a generation have doubled in this search."""

    name = "generation_steps"

    def applies(self, config: Plan) -> bool:
        return config.steps_per_generation is not None

    def first_state(self, config: Plan, step_limit: int) -> State:
        return 0

    def check(self, config: Plan, state: Any) -> str | None:
        return whole(0, most_doublings(config))(state)

    def change(self, state: Any, evidence: Evidence) -> Change:
        """Double the steps after a stall; then take as many candidates as fit, if episodes last as long as these did.

        Their number is even, since candidates may come in pairs, and within the bounds of ``candidates_within``.
        """
        config, lengths = evidence.config, evidence.lengths
        doublings = state + (state < most_doublings(config) and is_stalled(evidence.history))
        steps = (config.steps_per_generation or 1) << doublings
        pairs = round(steps / (lengths.mean() * config.episodes_per_candidate) / 2)
        size = int(np.clip(2 * pairs, *candidates_within(config, doublings)))
        return Change(state=doublings, population_size=size)


def is_stalled(history: SearchHistory) -> bool:
    """Return True if a block of ``STALL`` generations ends here whose second half was not clearly better.

    A gain is more than a standard error. With fewer steps than it needs, a search is lost in noise; with more, it only
    takes longer.
    """
    block = history[-STALL:]
    if len(block) < STALL or (block.last + 1) % STALL or block.curriculum_grew:
        return False
    is_known = all(len(half.known_fitness) > 1 for half in block.halves())
    return is_known and not block.gained(errors=1)
