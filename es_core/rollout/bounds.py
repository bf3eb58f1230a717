"""Count the actions of an episode that are at the bounds of their space."""

from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces

from es_core.policies.network import Policy
from es_envs import Episode
from es_envs.episode import Observer

_NEAR = 0.01  # of the distance between the bounds: a tanh never quite reaches them


class BoundsCounter:
    """Counts the entries of one episode's actions that are at a bound.

    It counts nothing in spaces without bounds, nor where the policy chooses among values, such as the bounds.

    Args:
        policy: the policy that acts.

    Attributes:
        observers: what has to see every step of the episode.
    """

    def __init__(self, policy: Policy) -> None:
        space = policy.action_space
        self._at_bounds = self._entries = 0
        self.observers: list[Observer] = []
        if isinstance(space, spaces.Box) and space.is_bounded() and policy.config.action_bins is None:
            with np.errstate(over="ignore"):
                margin = _NEAR * (space.high.astype(float) - space.low)
            self._low, self._high = space.low + margin, space.high - margin
            self.observers.append(lambda _, action, *__: self.count(action))

    def count(self, action: Any) -> None:
        """Count the entries of an action; only for spaces with bounds, which have ``observers``."""
        self._at_bounds += int(np.count_nonzero((action <= self._low) | (action >= self._high)))
        self._entries += np.size(action)

    def with_bounds_share(self, episode: Episode) -> Episode:
        """Return the episode with the share of entries at a bound."""
        return replace(episode, at_bounds=self._at_bounds / self._entries) if self._entries else episode
