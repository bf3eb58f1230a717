"""Errors of other people's code as text: what was raised, and where."""

import sysconfig
import traceback
from pathlib import Path

from es_envs import interruption

_LIBRARIES = {Path(__file__).parent, *(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))}


def text_of(error: BaseException) -> str:
    """Return ``str(error)``, or the kind of error that this raises, since the class may be anybody's."""
    try:
        return str(error)
    except BaseException as fault:
        if interruption.is_from_signal(fault):
            raise
        return f"(its text cannot be made: {type(fault).__name__})"


def message_of(error: BaseException) -> str:
    """Return an error's message; of one without a message, the line that raised it."""
    if text := text_of(error):
        return text
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    last = next((frame for frame in reversed(frames) if not is_library(frame)), frames[-1])
    return f"{last.line}, in line {last.lineno} of {last.filename} ({last.name})"


def describe(error: BaseException) -> str:
    """Return type and message of an error, and the user's line that raised it, on one line."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not is_library(frame)]
    text = text_of(error)
    where = f", in line {frames[-1].lineno} of {frames[-1].filename} ({frames[-1].name})" if frames and text else ""
    return f"{type(error).__name__}: {text or message_of(error)}{where}"


def is_library(frame: traceback.FrameSummary) -> bool:
    """Return True if a frame's file belongs to Python, an installed package or us."""
    file = Path(frame.filename)
    return "site-packages" in file.parts or not _LIBRARIES.isdisjoint(file.parents) or not file.is_file()
