"""Scripted policies that every environment has."""

from copy import deepcopy
from typing import Any

import gymnasium

from es_envs.masks import draw, has_choices


class RandomActions:
    """Draws each action from the action space, uniformly where it is bounded and allowed: the score to beat.

    Args:
        env: the environment.
        seed: seed of the actions.
        masked: False to ignore masks of actions.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], seed: int, *, masked: bool = True) -> None:
        self._actions = deepcopy(env.action_space)
        self._actions.seed(seed)
        self.takes_masks = (masked and has_choices(env.action_space)) or None

    def __call__(self, _: Any, mask: Any = None) -> Any:
        """Draw an action, whatever the observation."""
        return self._actions.sample() if mask is None else draw(self._actions, mask)


SCRIPTS = {"random": f"{__name__}:{RandomActions.__name__}"}
"""Import paths of the policies that drive any environment, by name."""
