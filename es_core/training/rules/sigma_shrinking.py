"""Begins a search again with a tenth of its sigma where candidates are too far from their centre to learn from."""

import math
from dataclasses import replace
from typing import Any

from es_core.config.checks import whole
from es_core.config.plan import Plan
from es_core.runs.scores import Evaluation
from es_core.statistics import is_gain
from es_core.strategies.by_name import find_strategy
from es_core.training.rules.generation_steps import STALL
from es_core.training.rules.rule import Change, Evidence, Rule, SearchHistory, State

SHRINK_FACTOR = 10
"""Times smaller is sigma then."""
NOT_SHRUNK, OUT_OF_REACH, FAILING_EARLY = 0, 1, 2
_FEW_SCORES = 3
_FAR = 3  # spreads


class SigmaShrinking(Rule):
    """The state is why sigma was shrunk in this search: ``OUT_OF_REACH`` or ``FAILING_EARLY``; else ``NOT_SHRUNK``.

    A strategy that adapts sigma would need many generations to come so far down.
    """

    name = "sigma_shrinking"

    def applies(self, config: Plan) -> bool:
        # With a radius, pgpe's sigmas do not follow from sigma.
        is_ours = "sigma" in config.decided and "radius" not in config.strategy_options
        strategy = find_strategy(config.strategy) if is_ours else None
        return strategy is not None and strategy.adapts_sigma and not strategy.keeps_repertoire

    def first_state(self, config: Plan, step_limit: int) -> State:
        return NOT_SHRUNK

    def check(self, config: Plan, state: Any) -> str | None:
        return whole(NOT_SHRUNK, FAILING_EARLY)(state)

    def change(self, state: Any, evidence: Evidence) -> Change:
        if state != NOT_SHRUNK:
            return Change(state=state)
        if len(evidence.history) == 0 and _all_fall_below_centre(evidence):
            reason = "no candidate comes near its centre: restarted with a tenth of sigma"
            return Change(state=OUT_OF_REACH, search_from="centre", reason=reason)
        if not evidence.from_policy and fails_early(evidence.history, evidence.nothing, surely=True):
            reason = "ending early scored better than continuing: restarted with a tenth of sigma"
            return Change(state=FAILING_EARLY, search_from="initial", reason=reason)
        return Change(state=state)

    def adapt_settings(self, config: Plan, state: Any) -> Plan:
        return config if state == NOT_SHRUNK else replace(config, sigma=config.sigma / SHRINK_FACTOR)


def _all_fall_below_centre(evidence: Evidence) -> bool:
    """Return True if the centre lasts to the limit, and no candidate comes near what it does.

    A centre that falls itself is not worth staying close to: on Walker2d-v5 that learns less. A cap ends candidates'
    episodes, and not the centre's.
    """
    centre = evidence.centre
    if centre is None or centre.length < evidence.step_limit or evidence.population.max_episode_steps is not None:
        return False
    return is_out_of_reach(centre, max(evidence.fitness, default=None), evidence.spread)


def is_out_of_reach(centre: Evaluation, best: float | None, spread: float | None) -> bool:
    """Return True if no candidate comes near what their centre does, so that sigma is far too large; False if unknown.

    They play from other starts, so the difference must be clear compared with what starts change, too.

    Args:
        centre: the centre's score.
        best: the best candidate's fitness.
        spread: standard deviation of the candidates' fitness.
    """
    if best is None or spread is None:
        return False
    return centre.mean - centre.std - best > _FAR * spread


def fails_early(history: SearchHistory, nothing: Evaluation | None, *, surely: bool = False) -> bool:
    """Return True if a search is stuck with episodes that end early, whose steps cost more than doing nothing.

    Where rewards are negative and an early end is a failure, the hasty find failing, which costs less in all, before
    they find what lasts. Where an early end is the goal, and haste costs, it looks the same, unless the environment
    reports whether episodes succeed.

    Args:
        history: the search.
        nothing: score of doing nothing; None if unknown.
        surely: only if the environment reports that no episode succeeds.
    """
    block = history[-STALL:]
    scores, fitness = block.known_scores[-_FEW_SCORES:], block.known_fitness
    if nothing is None or len(scores) < _FEW_SCORES or len(fitness) < STALL:
        return False
    return not is_gain(fitness[: STALL // 2], fitness[STALL // 2 :], errors=2) and all(
        score.success_rate in ({0} if surely else {0, None})
        and math.isclose(score.mean, score.returns)  # the fitness is the sum of rewards, but for its rounding
        and nothing.mean < score.mean < 0
        and score.length < nothing.length / 2
        and score.mean / score.length < nothing.mean / nothing.length
        for score in scores
    )
