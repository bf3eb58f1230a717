"""What ``reset`` and ``step`` return, and a sentence about whatever else an environment returns."""

import reprlib
from collections.abc import Mapping
from typing import Any, SupportsFloat

import gymnasium


class ReturnError(ValueError):
    """``reset`` or ``step`` has returned something else than it must; the message says what, and what it must."""


def of_reset(env: gymnasium.Env[Any, Any], returned: Any) -> tuple[Any, Mapping[str, Any]]:
    """What ``env.reset`` has returned.

    Raises:
        ReturnError: it is not ``(observation, info)``.
    """
    observation, info = _values(env, "reset", returned, "(observation, info)")
    return observation, info


def of_step(env: gymnasium.Env[Any, Any], returned: Any) -> tuple[Any, SupportsFloat, Any, Any, Mapping[str, Any]]:
    """What ``env.step`` has returned.

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


def _values(env: gymnasium.Env[Any, Any], call: str, returned: Any, expected: str) -> tuple[Any, ...]:
    """The values that must be there, of which the last is the info."""
    count = expected.count(",") + 1
    if not isinstance(returned, tuple | list) or len(returned) != count:
        found = f"{len(returned)} values" if isinstance(returned, tuple | list) else reprlib.repr(returned)
        raise ReturnError(f"{_name(env, call)} returned {found}; it must return {expected}")
    if not isinstance(returned[-1], Mapping):
        raise ReturnError(f"{_name(env, call)} returned the info {reprlib.repr(returned[-1])}, expected a dict")
    return tuple(returned)


def _name(env: gymnasium.Env[Any, Any], call: str) -> str:
    return f"{call} of {type(env.unwrapped).__name__}"
