"""Checks of settings: each returns None, or in words what was expected."""

import difflib
import json
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache, partial
from types import UnionType
from typing import Any, get_args, get_origin

import numpy as np

from es_core.formatting import lists, shown
from es_envs.arguments import as_float

Check = Callable[[Any], str | None]

AUTO = "auto"
"""Value of a setting that is chosen when the run begins."""

LARGEST_PARAMETER = 1e30
"""Parameters are float32, which ends at 3e38, and their noise is several times sigma."""

_LARGEST = 2**63 - 1
_MOST_NAMES = 1000  # of fitnesses, say: a report has a chart for each
_DEEPEST = 50  # nested lists and dicts, far below Python's limit


def whole(minimum: int, maximum: int | None = None) -> Check:
    """Check for a whole number from ``minimum`` to ``maximum``, by default to the largest that 64 bits hold."""
    least = f"a whole number of at least {minimum}"
    most = _LARGEST if maximum is None else maximum

    def check(value: Any) -> str | None:
        ok = isinstance(value, int) and not isinstance(value, bool) and value >= minimum
        if ok and value <= most:
            return None
        return least if maximum is None and not ok else f"{least}, at most {most}"

    return check


def number(minimum: float, *, above: bool = False, most: float = math.inf) -> Check:
    """Check for a finite number, at least ``minimum`` or above it, and at most ``most``."""
    least = f"a finite number {'above' if above else 'of at least'} {minimum:g}"

    def check(value: Any) -> str | None:
        ok = finite(value) is None and (value > minimum if above else value >= minimum)
        if ok and value <= most:
            return None
        return f"{least}, at most {most:g}" if ok else least

    return check


def maybe(check: Check) -> Check:
    """Check that also allows None."""

    def relaxed(value: Any) -> str | None:
        expected = None if value is None else check(value)
        return f"{expected}, or None" if expected else None

    return relaxed


def auto(check: Check) -> Check:
    """Check that also allows "auto"."""

    def relaxed(value: Any) -> str | None:
        expected = None if isinstance(value, str) and value == AUTO else check(value)
        return f"{expected}, or {AUTO!r}" if expected else None

    return relaxed


def names(value: Any) -> str | None:
    """Check for names in a tuple."""
    ok = isinstance(value, tuple) and all(text(name) is None for name in value)
    return None if ok else "a list of names"


def finite(value: Any) -> str | None:
    """Check for a finite number in the range of a float."""
    ok = isinstance(value, int | float) and math.isfinite(as_float(value))
    return None if ok else "a finite number"


def text(value: Any) -> str | None:
    """Check for a non-empty string."""
    return None if isinstance(value, str) and value else "a non-empty string"


def share(value: Any) -> str | None:
    """Check for a share: above 0, at most 1."""
    return None if number(0, above=True)(value) is None and value <= 1 else "a number above 0, at most 1"


def decay(value: Any) -> str | None:
    """Check for the share of itself that an average keeps: at least 0, below 1."""
    return None if number(0)(value) is None and value < 1 else "a number of at least 0, below 1"


def flag(value: Any) -> str | None:
    """Check for True or False."""
    return None if isinstance(value, bool) else "True or False"


def one_of(*choices: str) -> Check:
    """Check for one of a few words."""
    expected = f"one of {', '.join(map(repr, choices))}"
    return lambda value: None if isinstance(value, str) and value in choices else expected


def sizes(value: Any) -> str | None:
    """Check for widths of layers."""
    expected = "layer sizes, positive whole numbers such as (32, 32)"
    ok = isinstance(value, tuple) and all(whole(1)(size) is None for size in value)
    return None if ok else expected


def bins(value: Any) -> str | None:
    """Check for a number of bins, or values, for all dimensions or for each."""
    rows = value if isinstance(value, tuple) else ()
    nested = bool(rows) and all(isinstance(row, tuple) for row in rows)
    ok = whole(2)(value) is None or all(
        len(row) >= 2 and all(finite(entry) is None for entry in row) for row in (rows if nested else [rows])
    )
    return None if ok else "a number of bins, at least 2; a list of values; or such a list for each action dimension"


def json_object(value: Any) -> str | None:
    """Check for a dict that JSON can hold."""
    expected = "a dict that JSON can hold (text, finite numbers, booleans, lists, dicts with text keys)"
    if not isinstance(value, Mapping):
        return expected
    if not _is_shallow(value, _DEEPEST):
        return f"{expected}, nested at most {_DEEPEST} deep"
    try:
        return None if json.loads(json.dumps(value, allow_nan=False)) == lists(value) else expected
    except (TypeError, ValueError):
        return expected


def _is_shallow(value: Any, depth: int) -> bool:
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return depth >= 0 and all(_is_shallow(part, depth - 1) for part in parts)


def json_objects(value: Any) -> str | None:
    """Check for dicts that JSON can hold, in a tuple."""
    ok = isinstance(value, tuple) and all(json_object(each) is None for each in value)
    return None if ok else "a list of dicts that JSON can hold"


def wrappers(value: Any) -> str | None:
    """Check for settings of Gymnasium's wrappers, by name."""
    expected = json_object(value)
    if expected:
        return expected
    side = whole(1, 4096)
    many = whole(2, 1000)
    known = {"skip": many, "pixels": side, "grey": flag, "resize": side, "stack": many, "flatten": flag}
    for name, setting in value.items():
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            return f"a dict of {', '.join(known)}, and {name!r} is none of them{hint}"
        expected = known[name](setting)
        if expected:
            return f"a dict whose {name!r} is {expected}"
    return None


def converted(value: Any, hint: Any) -> Any:
    """Convert ``value`` to the type of a field's annotation, so that 1, 1.0 and ``np.float32(1)`` are one setting.

    A value that the field cannot hold is returned unchanged, for a check to refuse.
    """
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        return lists(value)
    if isinstance(value, list | tuple):
        inner = next((get_args(kind)[0] for kind in kinds if get_origin(kind) is tuple), None)
        return value if inner is None else tuple(converted(item, inner) for item in value)
    if float in kinds and int not in kinds and isinstance(value, int) and not isinstance(value, bool):
        with suppress(OverflowError):  # an integer of hundreds of digits
            return float(value)
    return value


def require_positive(name: str, value: Any) -> None:
    """Refuse an argument that is not a whole number of at least 1.

    Raises:
        ValueError: the message names the argument.
    """
    require(name, value, whole(1))


def require_seconds(name: str, value: Any) -> None:
    """Refuse an argument that is not a finite time above 0.

    Raises:
        ValueError: the message names the argument.
    """
    require(name, value, number(0, above=True))


def require_real(name: str, value: Any, check: Check) -> float:
    """Return an argument as a float, whatever type of number it is, if it passes a check.

    Raises:
        ValueError: the message names the argument, and says what was expected.
    """
    try:
        real = float(value)
    except (TypeError, ValueError):
        real = math.nan
    if expected := check(real):
        raise ValueError(f"{name} must be {expected}, got {shown(value)}")
    return real


def require(name: str, value: Any, check: Check) -> None:
    """Refuse an argument that does not pass a check.

    Raises:
        ValueError: the message names the argument, and says what was expected.
    """
    expected = check(value)
    if expected:
        raise ValueError(f"{name} must be {expected}, got {shown(value)}")


def alike(name: str, own: Any, given: Any) -> Any:
    """Copy ``given``, an array or a number of a state, to replace ``own``.

    Raises:
        ValueError: its shape or type differs, so that it belongs to another state.
    """
    if np.shape(given) != np.shape(own):
        raise ValueError(f"{name} has shape {np.shape(given)}, expected {np.shape(own)}")
    if isinstance(own, np.ndarray):
        array = np.array(given)
        if array.dtype != own.dtype:
            raise ValueError(f"{name} is of type {array.dtype}, expected {own.dtype}")
        return array
    number = type(own)(given)
    if number != given:
        raise ValueError(f"{name} is {shown(given)}, expected {type(own).__name__}")
    return number


def require_fields(kind: type[Any], values: Any) -> None:
    """Refuse anything but a JSON object with exactly the fields of a dataclass, each of its type.

    Raises:
        ValueError: the message names the missing or unknown fields, or the one of another type.
    """
    hints = _hints(kind)  # type: ignore[arg-type]
    if not isinstance(values, dict):
        raise ValueError(f"expected a JSON object, got {shown(values)}")
    if values.keys() != hints.keys():
        raise ValueError(f"expected other fields; missing or unknown: {shown(sorted(hints.keys() ^ values.keys()))}")
    for name, is_fitting in hints.items():
        if not is_fitting(values[name]):
            raise ValueError(f"{name} cannot be {shown(values[name])}")


@cache
def _hints(kind: Hashable) -> Mapping[str, Callable[[Any], bool]]:
    """Functions that tell whether a value from JSON has the type of each field of a dataclass."""
    return {field.name: _fits(field.type) for field in fields(kind)}  # type: ignore[arg-type]


@cache
def _fits(hint: Hashable) -> Callable[[Any], bool]:
    """Return a function that tells whether a value from JSON has this type: it is asked for every line of a log."""
    origin, parts = get_origin(hint), tuple(map(_fits, get_args(hint)))
    if origin is UnionType:
        return lambda value: any(fits(value) for fits in parts)
    if origin is not None:
        return partial(_has_items, origin, parts)
    if hint in {int, float}:
        check = finite if hint is float else whole(0)  # all whole numbers in a run's files are counts
        return lambda value: check(value) is None
    kind: Any = dict if is_dataclass(hint) else hint  # a dataclass within this one checks itself
    return lambda value: isinstance(value, kind)


def _has_items(kind: type, parts: Sequence[Callable[[Any], bool]], value: Any) -> bool:
    if kind is tuple:
        return (
            isinstance(value, list | tuple)
            and len(value) == len(parts)
            and all(fits(item) for fits, item in zip(parts, value, strict=True))
        )
    if kind is list:
        return isinstance(value, list) and all(map(parts[-1], value))
    return isinstance(value, dict) and len(value) <= _MOST_NAMES and all(map(parts[-1], value.values()))
