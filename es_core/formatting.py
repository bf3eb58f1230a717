"""Values as text: numbers for people, any value for an error message, settings as JSON."""

import json
import math
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np


def shell_line(words: Sequence[str]) -> str:
    """Words as a line for this system's shell."""
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)


def wrapped(text: str, width: int, *, first: str = "", rest: str = "") -> str:
    """A text in lines of at most ``width`` characters, broken only between words.

    A longer word has a line of its own, and a command in backticks is not broken if a line can hold it.

    Args:
        text: a sentence or several.
        width: of a line, with what it begins with.
        first: what the first line begins with.
        rest: what the others begin with.
    """

    def glued(command: re.Match[str]) -> str:
        return command[0].replace(" ", "\0") if len(rest + command[0]) <= width else command[0]

    lines = textwrap.wrap(
        re.sub(r"`[^`]+`", glued, text),
        max(1, width),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines).replace("\0", " ")


def figures(value: float | None, interval: tuple[float, float] | None = None) -> str:
    """A number for people, thousands apart.

    Args:
        value: the number; None: "-".
        interval: in which it, or its like, lies: two digits of its width are shown. None: about four digits.
    """
    if value is None:
        return "-"
    edges = interval or (value, value)
    width, exponent = edges[1] - edges[0], _exponent(max(map(abs, (value, *edges))))
    if isinstance(value, int) or not math.isfinite(width):
        decimals = 0
    elif width > 0:
        # No more than a float64 holds, which is what an interval as wide as a rounding error would ask for.
        decimals = max(0, min(1 - _exponent(width), 15 - exponent))
    elif abs(value) >= 1000:
        decimals = 0
    elif abs(value) >= 1 or value == 0:
        decimals = 2
    else:
        return f"{value:.3g}"
    if exponent < -4:
        return f"{value:.{max(0, decimals + exponent)}e}"
    return f"{value:z,.{decimals}f}".replace(",", "\u202f")


def interval_text(interval: tuple[float, float] | None) -> str:
    """The ends of an interval, for people; empty if there is none."""
    return " to ".join(figures(end, interval) for end in interval or ())


def duration(seconds: float) -> str:
    """A time, for people, in the unit that suits it."""
    if seconds < 120:
        return f"{seconds:.{0 if seconds >= 10 else 1}f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def percent(share: float, decimals: int = 0) -> str:
    """A share as text: 0.95 as "95 %"."""
    return f"{100 * share:.{decimals}f} %"


def counted(number: int, thing: str) -> str:
    """A number of things: "1 episode", "2 episodes"."""
    return f"{figures(number)} {thing}{'' if number == 1 else 's'}"


def html_table(*rows: Sequence[str]) -> str:
    """A table for a notebook; the first cell of a row is its name."""
    lines = (
        "".join([f'<th style="text-align: left">{escape(name)}</th>', *(f"<td>{escape(cell)}</td>" for cell in cells)])
        for name, *cells in rows
    )
    return f"<table><tr>{'</tr><tr>'.join(lines)}</tr></table>"


def _exponent(value: float) -> int:
    return math.floor(math.log10(abs(value))) if 0 < abs(value) < math.inf else 0


def text_of(value: Any) -> str:
    """A value as Optuna stores it, and as people read it."""
    return value if isinstance(value, str) else json.dumps(lists(value))


_SHOWN = 200  # characters of a value in a message


def lists(value: Any, depth: int = 50) -> Any:
    """``value`` as JSON returns it: tuples as lists, NumPy's numbers as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    if depth and isinstance(value, Mapping):
        return {key: lists(item, depth - 1) for key, item in value.items()}
    return [lists(item, depth - 1) for item in value] if depth and isinstance(value, list | tuple) else value


def shown(value: Any) -> str:
    """``value`` for a message: not all of it if it is long, and its type if it cannot be written down."""
    try:
        written = repr(value)
    except Exception:  # noqa: BLE001  (an endless nesting, a number of ten thousand digits, a __repr__ that raises)
        return f"a {type(value).__name__} that cannot be shown"
    return written if len(written) <= _SHOWN else f"{written[:_SHOWN]}... ({len(written)} characters)"
