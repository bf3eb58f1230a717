"""What a setting may be: each check returns None, or in words what was expected."""

import difflib
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], str | None]


def whole(minimum: int) -> Check:
    """At least ``minimum``."""

    def check(value: Any) -> str | None:
        ok = isinstance(value, int) and not isinstance(value, bool) and value >= minimum
        return None if ok else f"a whole number of at least {minimum}"

    return check


def number(minimum: float, *, above: bool = False) -> Check:
    """Finite, at least ``minimum`` or above it."""

    def check(value: Any) -> str | None:
        ok = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        ok = ok and (value > minimum if above else value >= minimum)
        return None if ok else f"a finite number {'above' if above else 'of at least'} {minimum:g}"

    return check


def maybe(check: Check) -> Check:
    """None, too."""

    def relaxed(value: Any) -> str | None:
        expected = None if value is None else check(value)
        return f"{expected}, or None" if expected else None

    return relaxed


def finite(value: Any) -> str | None:
    """Any finite number."""
    ok = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return None if ok else "a finite number"


def text(value: Any) -> str | None:
    """Not empty."""
    return None if isinstance(value, str) and value else "a non-empty string"


def share(value: Any) -> str | None:
    """A part of a whole."""
    return None if number(0, above=True)(value) is None and value <= 1 else "a number above 0, at most 1"


def flag(value: Any) -> str | None:
    """True or False."""
    return None if isinstance(value, bool) else "True or False"


def one_of(*choices: str) -> Check:
    """One of a few words."""
    return lambda value: None if value in choices else f"one of {', '.join(map(repr, choices))}"


def sizes(value: Any) -> str | None:
    """Widths of layers."""
    expected = "layer sizes, positive whole numbers such as (32, 32)"
    ok = isinstance(value, tuple) and all(whole(1)(size) is None for size in value)
    return None if ok else expected


def bins(value: Any) -> str | None:
    """How many, or which values, for all dimensions or for each."""
    rows = value if isinstance(value, tuple) else ()
    nested = bool(rows) and all(isinstance(row, tuple) for row in rows)
    ok = whole(2)(value) is None or all(
        len(row) >= 2 and all(finite(entry) is None for entry in row) for row in (rows if nested else [rows])
    )
    return None if ok else "a number of bins, at least 2; a list of values; or such a list for each action dimension"


def json_object(value: Any) -> str | None:
    """What JSON can hold."""
    expected = "a dict that JSON can hold (text, finite numbers, booleans, lists, dicts with text keys)"
    if not isinstance(value, Mapping):
        return expected
    try:
        return None if json.loads(json.dumps(value, allow_nan=False)) == lists(value) else expected
    except (TypeError, ValueError):
        return expected


def wrappers(value: Any) -> str | None:
    """Settings of Gymnasium's wrappers, by name."""
    expected = json_object(value)
    if expected:
        return expected
    known = {"skip": whole(2), "grey": flag, "resize": whole(1), "stack": whole(2)}
    for name, setting in value.items():
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            return f"a dict of {', '.join(known)}, and {name!r} is none of them{hint}"
        expected = known[name](setting)
        if expected:
            return f"a dict whose {name!r} is {expected}"
    return None


def lists(value: Any) -> Any:
    """``value`` with tuples as lists, as JSON returns them."""
    if isinstance(value, Mapping):
        return {key: lists(item) for key, item in value.items()}
    return [lists(item) for item in value] if isinstance(value, list | tuple) else value


def require_positive(name: str, value: Any) -> None:
    """Refuse an argument that is no whole number of at least 1.

    Raises:
        ValueError: it names the argument.
    """
    expected = whole(1)(value)
    if expected:
        raise ValueError(f"{name} must be {expected}, got {value!r}")
