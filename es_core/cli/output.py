"""Output of commands: results on stdout, everything else on stderr, also what environments print.

Names, summaries and errors come from plugins and files: all of them pass through ``printable``.
"""

import codecs
import io
import json
import math
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import zip_longest
from typing import Any, TextIO, cast

from es_core.formatting import shell_line
from es_envs.loading import stdout_kept
from es_envs.streams import LastingStream
from es_envs.text import printable

_BOLD = 1
_COLOURS = {
    "ok": 32,
    "active": 32,
    "solved": 32,
    "running": 36,
    "interrupted": 33,
    "failed": 31,
    "damaged": 31,
    "missing": 33,
    "incomplete": 33,
    "disabled": 33,
    "clash": 31,
    "broken": 31,
    "error": 31,
}
"""ANSI codes of words for a status."""
_NARROWEST = 24  # characters of a column whose texts are wrapped
_STDOUT: ContextVar[TextIO | None] = ContextVar("stdout", default=None)  # while it is kept for results


@contextmanager
def stdout_for_results() -> Iterator[None]:
    """Keep stdout for results meanwhile: whatever else is printed, by environments and libraries, goes to stderr."""
    with stdout_kept() as stdout:
        results = LastingStream(stdout, carries_results=True)
        token = _STDOUT.set(cast("TextIO", results))
        try:
            yield
            results.flush()
        finally:
            _STDOUT.reset(token)


def log(text: str) -> None:
    """Print a line on stderr."""
    print(printable(text), file=sys.stderr)


def print_result(text: object) -> None:
    """Print a line of the result."""
    print(printable(str(text)), file=_STDOUT.get(), flush=True)


def log_error(text: str, error: BaseException) -> None:
    """Print an error and its notes."""
    log("\n".join([text, *getattr(error, "__notes__", ())]))


def command_line(*words: object) -> str:
    """Quote a command for a shell."""
    return shell_line(["es-envs", *map(str, words)])


def print_json(value: Any) -> None:
    """Print a result for programs; JSON has no infinite numbers, so they are text."""
    print(json.dumps(_as_json(value), indent=2, allow_nan=False, default=str), file=_STDOUT.get())


def _as_json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _as_json(item) for key, item in value.items()}
    return list(map(_as_json, value)) if isinstance(value, list | tuple) else value


def tolerate_narrow_encodings() -> None:
    """Let stdout and stderr replace what their encoding lacks, such as the narrow space between thousands."""
    codecs.register_error("es_envs", _replaced)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors="es_envs")


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end].replace("\u202f", " ")
    return lacking.encode("ascii", "backslashreplace").decode(), error.end


def print_table(rows: Sequence[Sequence[str]], *, names: int | None = None, below: Sequence[str] = ()) -> None:
    """Print rows of texts in aligned columns, each with its text of ``below`` in a line of its own.

    In a terminal, a long last column is wrapped to its width, between words; and unless NO_COLOR is set, words for a
    status are in colour, and column ``names`` is bold.
    """
    rows = [[printable(text).replace("\n", "\\n") for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    is_terminal = (_STDOUT.get() or sys.stdout).isatty()
    in_colour = is_terminal and not os.environ.get("NO_COLOR")
    indent = sum(widths[:-1]) + 2 * len(widths[:-1])
    room = shutil.get_terminal_size().columns - indent
    for row, beneath in zip_longest(rows, below, fillvalue=""):
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        cells[-1] = cells[-1].rstrip()
        if is_terminal and room >= _NARROWEST:
            lines = textwrap.wrap(cells[-1], room, break_long_words=False, break_on_hyphens=False)
            cells[-1] = f"\n{' ' * indent}".join(lines)
        for column, text in enumerate(row):
            code = _COLOURS.get(text, _BOLD if column == names else 0)
            if in_colour and code:
                cells[column] = f"\x1b[{code}m{cells[column]}\x1b[0m"
        print("  ".join(cells).rstrip(), file=_STDOUT.get(), flush=True)
        if beneath:
            print(f"  {printable(beneath)}".replace("\n", "\\n"), file=_STDOUT.get())


def print_sheet(rows: Sequence[tuple[str, str]], markdown: str) -> None:
    """Print names with their values, and a text in Markdown, as wide as the terminal."""
    from rich.console import Console, Group
    from rich.markdown import Markdown
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(*(Text(printable(text).replace("\n", "\\n"), overflow="fold") for text in (name, value)))
    console = Console(file=_STDOUT.get(), highlight=False, emoji=False)
    with console.capture() as capture:
        console.print(Group(table, "", Markdown(printable(markdown), hyperlinks=False)))
    lines = "\n".join(line.rstrip() for line in capture.get().rstrip().splitlines())
    print(re.sub(r"\n{3,}", "\n\n", lines), file=_STDOUT.get())
