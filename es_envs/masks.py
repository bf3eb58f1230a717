"""Masks of actions: which choices an environment allows in the next step.

An environment gives them as Gymnasium's own do, in the infos of ``reset`` and ``step``, as ``info["action_mask"]``, or
as sb3-contrib wants them, by a method ``action_masks()``.
"""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from es_envs.return_values import of_reset, of_step

KEY = "action_mask"
"""The mask's key in an info. None, or an info without it, allows all."""


def has_choices(space: gymnasium.Space[Any]) -> bool:
    """Return True if masks are for actions of this space."""
    return isinstance(space, spaces.Discrete | spaces.MultiDiscrete)


def require_choices(space: gymnasium.Space[Any]) -> None:
    """Refuse masks for actions that are no choices.

    Raises:
        ValueError: they are of another space.
    """
    if not has_choices(space):
        raise ValueError(
            f"info['{KEY}'] is for Discrete and MultiDiscrete actions, and those here are {space}: leave it out of the "
            "infos, or set action_masks=False to ignore it"
        )


def sizes_of(space: gymnasium.Space[Any]) -> list[int]:
    """Number of choices of a Discrete action, or of each entry of a MultiDiscrete one."""
    return [int(space.n)] if isinstance(space, spaces.Discrete) else space.nvec.ravel().tolist()  # type: ignore[attr-defined]


def allowed(space: gymnasium.Space[Any], mask: Any) -> NDArray[np.bool_]:
    """Return which choices a mask allows, those of all entries in a row.

    Args:
        space: Discrete or MultiDiscrete.
        mask: an entry for each choice, not 0 where it is allowed; for MultiDiscrete in a row, or a sequence of masks,
            one for each entry.

    Raises:
        ValueError: the mask has another size, or allows nothing.
    """
    sizes = sizes_of(space)
    values = np.concatenate([np.ravel(part) for part in mask]) if isinstance(mask, tuple | list) else np.ravel(mask)
    if values.size != sum(sizes) or values.dtype.kind not in "biuf":
        raise ValueError(
            f"info['{KEY}'] must have {sum(sizes)} entries, 0 or 1 for each choice of {space}, got {mask!r}"
        )
    chosen: NDArray[np.bool_] = values != 0
    if not all(part.any() for part in np.split(chosen, np.cumsum(sizes)[:-1])):
        raise ValueError(f"info['{KEY}'] must allow a choice of each entry of {space}, got {mask!r}")
    return chosen


def is_allowed(space: gymnasium.Space[Any], action: Any, mask: Any) -> bool:
    """Return True if a mask allows an action; for errors see ``allowed``."""
    firsts = np.cumsum([0, *sizes_of(space)[:-1]])
    return bool(allowed(space, mask)[firsts + np.ravel(action) - np.ravel(space.start)].all())  # type: ignore[attr-defined]


def draw(space: gymnasium.Space[Any], mask: Any) -> Any:
    """Draw an action from those that a mask allows, uniformly, by the space's random numbers."""
    parts = np.split(allowed(space, mask).astype(np.int8), np.cumsum(sizes_of(space))[:-1])
    return space.sample(mask=parts[0] if isinstance(space, spaces.Discrete) else tuple(parts))


class _MaskInInfo(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Puts what a method ``action_masks()`` returns into the infos."""

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = of_reset(self.env, self.env.reset(**options))
        return observation, self._masked(info)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        *values, info = of_step(self.env, self.env.step(action))
        return *values, self._masked(info)

    def _masked(self, info: Mapping[str, Any]) -> dict[str, Any]:
        return {**info, KEY: self.env.get_wrapper_attr("action_masks")()}


def with_masks(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Return the environment with its masks in the infos, where it has a method ``action_masks()``."""
    return _MaskInInfo(env) if has_choices(env.action_space) and env.has_wrapper_attr("action_masks") else env
