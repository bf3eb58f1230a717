"""Errors of the conformance kit."""

import sysconfig
import traceback
from pathlib import Path

_LIBRARIES = {Path(__file__).parents[1], *(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))}


class ConformanceError(AssertionError):
    """An environment breaks promises; the message has one sentence for each.

    Attributes:
        raised: what the environment has raised, if that is the fault.
    """

    raised = ""


class HopelessError(ConformanceError):
    """An environment hangs, ends its process or returns nonsense: no further check can be made."""


class Note(Exception):  # noqa: N818  (not an error)
    """Training bears this, but other programs may not, or advise against it; the message says what it is."""


class Skip(Exception):  # noqa: N818  (not an error)
    """A check cannot be made here; the message says why."""


def told(error: BaseException) -> str:
    """Type and message of an error, and the user's line that raised it, on one line of a fault."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if not _is_library(Path(frame.filename))]
    where = f", in line {users[-1].lineno} of {users[-1].filename} ({users[-1].name})" if users else ""
    return f"{type(error).__name__}: {error}{where}"


def _is_library(file: Path) -> bool:
    return "site-packages" in file.parts or not _LIBRARIES.isdisjoint(file.parents) or not file.is_file()
