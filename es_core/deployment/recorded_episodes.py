"""Recorded episodes: what a policy saw and did in each step."""

from copy import deepcopy
from typing import Any

from es_core.rollout.errors import RolloutError
from es_core.rollout.rollout import Rollout
from es_envs import Episode
from es_envs.masks import KEY

Step = tuple[Any, Any, float, Any]
"""The observation after a step, its action and reward, and the mask of the next action or None."""


def recorded_episode(
    rollout: Rollout, seed: int, label: str, *, max_steps: int | None = None
) -> tuple[list[Step], Episode]:
    """Play an episode; return its steps, too.

    Args:
        rollout: the environment, with the policy in use.
        seed: the episode's seed.
        label: the environment's name, for messages.
        max_steps: a step limit below the environment's own, or None.

    Raises:
        RolloutError: the episode failed.
    """
    steps: list[Step] = []

    def observe(observation: Any, action: Any, reward: float, info: Any) -> None:
        # Copies, since the environment may write into its arrays again.
        steps.append(deepcopy((observation, action, float(reward), info.get(KEY))))

    try:
        return steps, rollout.episode(seed, observers=[observe], max_steps=max_steps)
    except Exception as error:
        raise RolloutError(
            f"{label}: the episode with seed {seed} failed at step {len(steps) + 1}: {type(error).__name__}: {error}"
        ) from error
