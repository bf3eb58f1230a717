"""What a command says: its result on stdout, everything else on stderr.

Names, summaries and errors come from plugins and files: whatever is shown passes through ``printable``.
"""

import json
import re
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


def print_sheet(rows: Sequence[tuple[str, str]], markdown: str) -> None:
    """Names with their values, and a text in Markdown, as wide as the terminal."""
    from rich.console import Console, Group
    from rich.markdown import Markdown
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(*(Text(printable(text).replace("\n", "\\n")) for text in (name, value)))
    console = Console(highlight=False, emoji=False)
    with console.capture() as capture:
        console.print(Group(table, "", Markdown(printable(markdown), hyperlinks=False)))
    lines = "\n".join(line.rstrip() for line in capture.get().rstrip().splitlines())
    print(re.sub(r"\n{3,}", "\n\n", lines))
