"""Closing environments: an error in ``close`` is a warning, since what the environment was for is done."""

import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from es_envs import interruption
from es_envs.error_text import text_of

_PATIENCE = 12.0  # seconds; a worker is ended before that


class _Closable(Protocol):
    def close(self) -> Any: ...


Env = TypeVar("Env", bound=_Closable)


def close_env(env: _Closable, label: str) -> None:
    """Close an environment, and warn if that fails, or does not come to an end.

    Args:
        env: the environment, or several at once.
        label: its name, for the warning.
    """
    text = f"{label}: close() has not ended after {_PATIENCE:g} s: does its simulator hang? Ctrl-C ends the wait"
    slow = threading.Timer(_PATIENCE, warnings.warn, [text, RuntimeWarning])
    slow.daemon = True
    slow.start()
    try:
        env.close()
    except BaseException as error:  # whatever a plugin raises
        if interruption.is_from_signal(error):
            raise
        own = getattr(sys.modules.get(type(getattr(env, "unwrapped", env)).__module__), "__file__", None)
        frames = traceback.extract_tb(error.__traceback__)
        frame = next((frame for frame in reversed(frames) if frame.filename == own), frames[-1])
        warnings.warn(
            f"{label}: close() failed in line {frame.lineno} of {frame.filename} ({frame.name}): "
            f"{type(error).__name__}: {text_of(error)}; results are not affected, but a simulator may be left behind",
            RuntimeWarning,
            stacklevel=1,  # from here each text is shown once
        )
    finally:
        slow.cancel()


@contextmanager
def closing_env(env: Env, label: str) -> Iterator[Env]:
    """Close an environment afterwards, as ``close_env`` does."""
    try:
        yield env
    finally:
        close_env(env, label)
