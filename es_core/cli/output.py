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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import zip_longest
from typing import Any, TextIO, cast

from es_core.formatting import shell_line, wrapped
from es_envs.loading import stdout_kept
from es_envs.streams import LastingStream
from es_envs.text import printable

_BOLD = 1
_HEADING = "1;36"  # bold, cyan
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
    """Print lines on stderr; in a terminal, they are wrapped between words."""
    print(_fitted(printable(text), sys.stderr), file=sys.stderr)


def log_next(*commands: str) -> None:
    """Print the commands to go on with, each in a line that can be copied as it is."""
    print(
        "\n".join([f"{heading('Next', sys.stderr)}:", *(f"  {printable(each)}" for each in commands)]), file=sys.stderr
    )


def print_result(text: object) -> None:
    """Print lines of the result; in a terminal, they are wrapped between words."""
    stdout = _STDOUT.get() or sys.stdout
    print(_fitted(printable(str(text)), stdout), file=stdout, flush=True)


def print_command(command: str) -> None:
    """Print a command as a result, in a line that can be copied as it is."""
    print(printable(command), file=_STDOUT.get(), flush=True)


def heading(text: str, stream: TextIO) -> str:
    """A text in the colour of headings, if the stream takes colours."""
    return _coloured(text, _HEADING, stream)


def _coloured(text: str, code: object, stream: TextIO) -> str:
    in_colour = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[{code}m{text}\x1b[0m" if in_colour else text


def _fitted(text: str, stream: TextIO) -> str:
    """Lines as wide as the terminal, if there is one."""
    if not stream.isatty():
        return text
    return "\n".join(wrapped(line, shutil.get_terminal_size().columns) for line in text.split("\n"))


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


def print_table(
    rows: Sequence[Sequence[str]], *, headed: bool = False, names: int | None = None, below: Sequence[str] = ()
) -> None:
    """Print rows of texts in aligned columns, each with its text of ``below`` in a line of its own.

    In a terminal, a long last column is wrapped to its width, between words; columns that do not fit follow below, with
    the first one again; and unless NO_COLOR is set, the first row, if it is the columns' heads, and words for a status
    are in colour, and column ``names`` is bold.
    """
    stdout = _STDOUT.get() or sys.stdout
    rows = [[printable(text).replace("\n", "\\n") for text in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    columns = shutil.get_terminal_size().columns if stdout.isatty() else sys.maxsize
    blocks = _blocks(widths, columns)
    for block in blocks:
        if block is not blocks[0]:
            print(file=stdout)
        indent = " " * sum(widths[column] + 2 for column in block[:-1])
        for number, (row, beneath) in enumerate(zip_longest(rows, below, fillvalue="")):
            cells = [row[column].ljust(widths[column]) for column in block]
            cells[-1] = cells[-1].rstrip()
            if columns - len(indent) >= min(_NARROWEST, widths[block[-1]]):
                cells[-1] = wrapped(cells[-1], columns - len(indent)).replace("\n", f"\n{indent}")
            for place, column in enumerate(block):
                usual = _BOLD if column == names else 0
                code = _HEADING if headed and number == 0 else _COLOURS.get(row[column], usual)
                if code:
                    cells[place] = _coloured(cells[place], code, stdout)
            print("  ".join(cells).rstrip(), file=stdout, flush=True)
            if beneath and block is blocks[-1]:
                print(f"  {printable(beneath)}".replace("\n", "\\n"), file=stdout)


def _blocks(widths: Sequence[int], room: int) -> list[list[int]]:
    """Columns of the tables, one below the other, into which a table is divided to fit: the first is in all of them."""
    blocks = [[0]]
    for column in range(1, len(widths)):
        last = column == len(widths) - 1  # which can be wrapped
        needed = sum(widths[each] + 2 for each in blocks[-1])
        needed += min(widths[column], _NARROWEST) if last else widths[column]
        if needed > room and len(blocks[-1]) > 1:
            blocks.append([0])
        blocks[-1].append(column)
    return blocks


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
