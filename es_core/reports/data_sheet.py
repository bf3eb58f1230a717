"""Data sheet of an environment: its docstring as Markdown, and its spaces in a few words."""

import inspect
import re
from typing import Any

import gymnasium

# A section of a docstring in Google's style, whose lines are indented.
_SECTION = re.compile(r"^(Args|Arguments|Attributes|Raises|Returns):\n((?:(?: {4}.*)?(?:\n|\Z))+)", re.MULTILINE)
_BOUNDS = re.compile(r"\[ *([^\s\[\]]+)\s+([^\s\[\]]+)\s[^\[\]]{12,}\s([^\s\[\]]+)\]")


def data_sheet(env: gymnasium.Env[Any, Any]) -> str:
    """Docstring of the unwrapped environment, with its sections as headings and lists."""
    return _SECTION.sub(_as_list, inspect.getdoc(env.unwrapped) or "").strip()


def space_text(space: object) -> str:
    """A space on one line, without most of the numbers of long bounds."""
    return _BOUNDS.sub(r"[\1 \2 … \3]", " ".join(str(space).split()))


def _as_list(section: re.Match[str]) -> str:
    heading = "Arguments" if section[1] == "Args" else section[1]
    lines = re.sub(r"^    (\*{0,2}\w+)( \([^)]*\))?: ", r"- `\1`\2: ", section[2], flags=re.MULTILINE)
    return f"## {heading}\n\n{re.sub('^    ', '', lines, flags=re.MULTILINE)}"
