"""Recording of an episode's transitions, for strategies that ask for them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from es_core.policies.network import Policy, Vector
from es_core.strategies.transitions import Transitions
from es_envs import Episode
from es_envs.episode import Observer

_GREATEST = 1e15  # reward: a learner computes squares of its distances from others, in float32


def require_storable(reward: float) -> None:
    """Refuse a reward that a learner would never forget.

    Raises:
        ValueError: it is not finite, or far too large for a float32.
    """
    if not abs(reward) <= _GREATEST:
        raise ValueError(f"the reward is {reward:.4g}, and a learner needs finite ones of at most {_GREATEST:g}")


class TransitionRecorder:
    """Records one episode.

    Args:
        policy: the policy that plays it, which knows how observations are flattened.

    Attributes:
        observers: what has to see every step of the episode.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._observations: list[Vector] = []
        self._actions: list[Vector] = []
        self._rewards: list[float] = []
        self.observers: list[Observer] = [self._record]

    def _record(self, observation: Any, action: Any, reward: float, _: Mapping[str, Any]) -> None:
        self._observations.append(self._flat(observation))
        self._actions.append(np.array(action, np.float32).ravel())
        require_storable(reward)
        self._rewards.append(reward)

    def _flat(self, observation: Any) -> Vector:
        flat = np.empty(self._policy.inputs, np.float32)
        self._policy.encode(observation, flat)
        if not np.isfinite(flat).all():  # a learner would never forget it
            raise ValueError(f"the observation is not finite: {observation!r}")
        return flat

    def transitions(self, episode: Episode) -> Transitions:
        """Return the transitions of the episode, which has ended."""
        return Transitions(
            observations=np.array([self._flat(episode.first_observation), *self._observations]),
            actions=np.array(self._actions),
            rewards=np.array(self._rewards, np.float32),
            terminated=episode.terminated,
        )
