"""Arguments of environments: what they may be, and the sentence that says so."""

import difflib
import math
from collections.abc import Collection
from numbers import Integral, Real


class ArgumentError(ValueError):
    """An environment's argument has a value that it cannot have: the message says all, without a traceback."""


def as_float(value: object) -> float:
    """A number as a float; NaN for all that is no number, and for integers of hundreds of digits."""
    try:
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.nan


def require_one_of(name: str, value: object, choices: Collection[str]) -> None:
    """Refuse an argument that is none of the choices.

    Raises:
        ArgumentError: the message names the argument, the choices, the value, and a choice that is close to it.
    """
    if isinstance(value, str) and value in choices:
        return
    close = difflib.get_close_matches(value, choices, n=1) if isinstance(value, str) else []
    hint = f": did you mean {close[0]!r}?" if close else ""
    raise ArgumentError(f"{name} must be one of {', '.join(choices)}, got {value!r}{hint}")


def require_number(
    name: str, value: object, low: float, high: float, *, above: bool = False, below: bool = False
) -> float:
    """Return an argument as a float, unless it is no number from ``low`` to ``high``.

    Args:
        name: of the argument.
        value: its value.
        low: the least number.
        high: the greatest.
        above: ``low`` itself is too small.
        below: ``high`` itself is too large.

    Raises:
        ArgumentError: the message names the argument, the bounds and the value.
    """
    number = as_float(value)  # NaN is within no bounds
    if (low < number if above else low <= number) and (number < high if below else number <= high):
        return number
    bounds = f"from {low:.4g} to {high:.4g}"
    if above or below:
        bounds = f"{'above' if above else 'at least'} {low:.4g} and {'below' if below else 'at most'} {high:.4g}"
    raise ArgumentError(f"{name} must be {bounds}, got {value!r}")


def require_whole(name: str, value: object, low: int, high: int | None = None) -> int:
    """Return an argument as an int, unless it is no whole number from ``low`` to ``high`` (None: to infinity).

    Raises:
        ArgumentError: the message names the argument, the bounds and the value.
    """
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if low <= number and (high is None or number <= high):
            return number
    bounds = f"of at least {low}" if high is None else f"from {low} to {high}"
    raise ArgumentError(f"{name} must be a whole number {bounds}, got {value!r}")
