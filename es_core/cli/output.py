"""What a command says: its result on stdout, everything else on stderr.

Names, summaries and errors come from plugins and files: whatever is shown passes through ``printable``.
"""

import json
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from es_envs.printable import printable


def say(text: str) -> None:
    """A line on stderr."""
    print(printable(text), file=sys.stderr)


def put(text: object) -> None:
    """A line of the result."""
    print(printable(str(text)), flush=True)


def say_error(text: str, error: BaseException) -> None:
    """An error, and the notes that were added to it on its way."""
    say("\n".join([text, *getattr(error, "__notes__", ())]))


def command_line(*words: object) -> str:
    """A command to be copied into a shell."""
    return shlex.join(["es-envs", *map(str, words)])


def print_json(value: Any) -> None:
    """A result for programs."""
    print(json.dumps(value, indent=2, allow_nan=False, default=str))


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Rows of texts in aligned columns."""
    rows = [[printable(text).replace("\n", "\\n") for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
