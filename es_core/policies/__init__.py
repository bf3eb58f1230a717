"""Policies: from observations to actions. ``make_policy`` builds the one that a config names."""

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from es_core.config import TrainConfig
from es_core.policies.mlp import MLP

__all__ = ["MLP", "POLICIES", "Policy", "make_policy"]

Policy = MLP

POLICIES: Mapping[str, Callable[..., Policy]] = {"mlp": MLP}


def make_policy(
    config: TrainConfig, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]
) -> Policy:
    """The policy that ``config`` names, for these spaces.

    Raises:
        ValueError: the policy, its activation or a space is not supported.
    """
    if config.policy not in POLICIES:
        raise ValueError(f"policy must be one of {', '.join(POLICIES)}, got {config.policy!r}")
    return POLICIES[config.policy](
        observation_space, action_space, hidden_sizes=config.hidden_sizes, activation=config.activation
    )
