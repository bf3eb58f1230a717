"""Checks of ``reset`` and ``step``: their arguments, and the values that they return."""

import reprlib
from collections.abc import Mapping
from inspect import signature
from typing import Any

import gymnasium
import numpy as np


class ReturnError(ValueError):
    """``reset`` or ``step`` returned a wrong value; the message has it, and what was expected."""


def of_reset(env: gymnasium.Env[Any, Any], returned: Any) -> tuple[Any, Mapping[str, Any]]:
    """Return what ``env.reset`` returned, if that is valid.

    Raises:
        ReturnError: it is not ``(observation, info)``.
    """
    observation, info = _values(env, "reset", returned, "(observation, info)", "the observation alone")
    return observation, info


def require_seed(env: gymnasium.Env[Any, Any]) -> None:
    """Refuse an environment whose ``reset`` takes no seed.

    Raises:
        ReturnError: it takes none.
    """
    parameters = signature(env.unwrapped.reset).parameters.values()
    if not any(each.name == "seed" or each.kind is each.VAR_KEYWORD for each in parameters):
        raise ReturnError(
            f"{_name(env, 'reset')} takes no argument 'seed', like the old gym's: it must be "
            "reset(self, *, seed=None, options=None), and return (observation, info)"
        )


def of_step(env: gymnasium.Env[Any, Any], returned: Any) -> tuple[Any, float, bool, bool, Mapping[str, Any]]:
    """Return what ``env.step`` returned, if that is valid; an array with one entry counts as that entry.

    Raises:
        ReturnError: it is not ``(observation, reward, terminated, truncated, info)``.
    """
    expected = "(observation, reward, terminated, truncated, info)"
    old = "four values, whose `done` is now terminated, or truncated where only time was up"
    observation, reward, terminated, truncated, info = _values(env, "step", returned, expected, old)
    try:
        reward = float(_single(reward) + 0.0)  # text is no number
    except (TypeError, ValueError):
        raise ReturnError(
            f"{_name(env, 'step')} returned the reward {reprlib.repr(reward)}, expected a number"
        ) from None
    return observation, reward, _flag(env, "terminated", terminated), _flag(env, "truncated", truncated), info


def reset(env: gymnasium.Env[Any, Any], **options: Any) -> Any:
    """Return ``env.reset(**options)``.

    Raises:
        ReturnError: it takes no seed.
        Exception: the environment raises it.
    """
    try:
        return env.reset(**options)
    except TypeError:
        require_seed(env)
        raise


class Checked(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose ``reset`` and ``step`` return what they must, or raise ``ReturnError``."""

    def reset(self, **options: Any) -> Any:
        """Reset the environment."""
        return of_reset(self.env, reset(self.env, **options))

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


def _single(value: Any) -> Any:
    """The only entry of an array, such as ``(1,)``; anything else as it is."""
    return value if np.ndim(value) == 0 else np.asarray(value).reshape(()).item()


def _flag(env: gymnasium.Env[Any, Any], name: str, value: Any) -> bool:
    try:
        return bool(_single(value))
    except (TypeError, ValueError):
        raise ReturnError(
            f"{_name(env, 'step')} returned {name}={reprlib.repr(value)}, expected True or False"
        ) from None


def _values(env: gymnasium.Env[Any, Any], call: str, returned: Any, expected: str, old: str) -> tuple[Any, ...]:
    """The expected values, of which the last is the info; ``old``: what the old gym's were."""
    count = expected.count(",") + 1
    is_tuple = isinstance(returned, tuple | list)
    if not is_tuple or len(returned) != count:
        found = f"{len(returned)} values" if is_tuple else reprlib.repr(returned)
        is_old = len(returned) == count - 1 if is_tuple else count == 2
        hint = f" (the old gym's returned {old})" if is_old else ""
        raise ReturnError(f"{_name(env, call)} returned {found}; it must return {expected}{hint}")
    if not isinstance(returned[-1], Mapping):
        raise ReturnError(f"{_name(env, call)} returned the info {reprlib.repr(returned[-1])}, expected a dict")
    return tuple(returned)


def _name(env: gymnasium.Env[Any, Any], call: str) -> str:
    return f"{call} of {type(env.unwrapped).__name__}"
