"""Caps the steps of candidates' episodes while a search learns to make them last."""

from dataclasses import replace
from typing import Any

import numpy as np

from es_core.config.checks import maybe, whole
from es_core.config.plan import Plan
from es_core.strategies.population import Population
from es_core.training.rules.rule import Change, Evidence, Rule, State


class EpisodeCap(Rule):
    """The state is the cap [steps], or None where whole episodes are played.

    "twice_mean": twice the mean length of the last generation's episodes (Salimans et al. 2017, section 2.1).
    "growing": doubled when half of the episodes reach it (``adaptive_tslimit`` of their released code).
    """

    name = "episode_cap"

    def applies(self, config: Plan) -> bool:
        return config.episode_cap is not None

    def first_state(self, config: Plan, step_limit: int) -> State:
        return _below(config.episode_cap_start, step_limit)

    def check(self, config: Plan, state: Any) -> str | None:
        return maybe(whole(1))(state)

    def change(self, state: Any, evidence: Evidence) -> Change:
        lengths, limit = evidence.lengths, evidence.step_limit
        if evidence.config.episode_cap == "twice_mean":
            return Change(state=_below(-(-2 * int(lengths.sum()) // lengths.size), limit))
        grows = state is not None and np.mean(lengths >= state) >= 0.5
        return Change(state=_below(2 * state, limit) if grows else state)

    def limit_population(self, population: Population, state: Any) -> Population:
        return replace(population, max_episode_steps=state)


def _below(cap: int, limit: int) -> int | None:
    return cap if cap < limit else None
