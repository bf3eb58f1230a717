"""Checks of the values that ``reset`` and ``step`` return."""

import reprlib
from collections.abc import Mapping
from typing import Any, SupportsFloat

import gymnasium
import numpy as np


class ReturnError(ValueError):
    """``reset`` or ``step`` returned a wrong value; the message has it, and what was expected."""


def of_reset(env: gymnasium.Env[Any, Any], returned: Any) -> tuple[Any, Mapping[str, Any]]:
    """Return what ``env.reset`` returned, if that is valid.

    Raises:
        ReturnError: it is not ``(observation, info)``.
    """
    observation, info = _values(env, "reset", returned, "(observation, info)")
    return observation, info


def of_step(env: gymnasium.Env[Any, Any], returned: Any) -> tuple[Any, SupportsFloat, Any, Any, Mapping[str, Any]]:
    """Return what ``env.step`` returned, if that is valid.

    Raises:
        ReturnError: it is not ``(observation, reward, terminated, truncated, info)``.
    """
    expected = "(observation, reward, terminated, truncated, info)"
    observation, reward, terminated, truncated, info = _values(env, "step", returned, expected)
    if not isinstance(reward, SupportsFloat):
        raise ReturnError(f"{_name(env, 'step')} returned the reward {reprlib.repr(reward)}, expected a number")
    return observation, reward, terminated, truncated, info


class Checked(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose ``reset`` and ``step`` return what they must, or raise ``ReturnError``."""

    def reset(self, **options: Any) -> Any:
        """Reset the environment."""
        return of_reset(self.env, self.env.reset(**options))

    def step(self, action: Any) -> Any:
        """Step the environment."""
        return of_step(self.env, self.env.step(action))


def info_of(infos: Mapping[str, Any], row: int) -> dict[str, Any]:
    """One copy's info from a vector environment's, which has for each key an array, and perhaps a mask ``_key``."""
    info: dict[str, Any] = {}
    for key, values in infos.items():
        present = infos.get(f"_{key}")
        if (key.startswith("_") and key[1:] in infos) or (present is not None and not present[row]):
            continue
        if isinstance(values, Mapping):
            info[key] = info_of(values, row)
        else:
            value = values[row] if np.ndim(values) else values
            value = np.copy(np.asarray(value)) if hasattr(value, "__dlpack__") else value  # from whatever device
            info[key] = value.item() if isinstance(value, np.ndarray | np.generic) and value.ndim == 0 else value
    return info


def _values(env: gymnasium.Env[Any, Any], call: str, returned: Any, expected: str) -> tuple[Any, ...]:
    """The expected values, of which the last is the info."""
    count = expected.count(",") + 1
    if not isinstance(returned, tuple | list) or len(returned) != count:
        found = f"{len(returned)} values" if isinstance(returned, tuple | list) else reprlib.repr(returned)
        raise ReturnError(f"{_name(env, call)} returned {found}; it must return {expected}")
    if not isinstance(returned[-1], Mapping):
        raise ReturnError(f"{_name(env, call)} returned the info {reprlib.repr(returned[-1])}, expected a dict")
    return tuple(returned)


def _name(env: gymnasium.Env[Any, Any], call: str) -> str:
    return f"{call} of {type(env.unwrapped).__name__}"
