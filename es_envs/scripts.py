"""Scripted policies that every environment has."""

from copy import deepcopy
from typing import Any

import gymnasium


class RandomActions:
    """Draws each action from the action space, uniformly where it is bounded: the score to beat.

    Args:
        env: the environment.
        seed: seed of the actions.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], seed: int) -> None:
        self._actions = deepcopy(env.action_space)
        self._actions.seed(seed)

    def __call__(self, _: Any) -> Any:
        """Draw an action, whatever the observation."""
        return self._actions.sample()


SCRIPTS = {"random": f"{__name__}:{RandomActions.__name__}"}
"""Import paths of the policies that drive any environment, by name."""
