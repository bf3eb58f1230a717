"""Safe loading of plugins: messages name the plugin that hangs, exits or crashes, and stdout stays ours."""

import contextlib
import ctypes
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import NoReturn, TextIO

from es_envs.interruption import SIGNALS
from es_envs.text import printable

PATIENCE = 3.0
"""Seconds after which a message on stderr names a plugin that is still loading."""


@contextlib.contextmanager
def stdout_kept() -> Iterator[TextIO]:
    """Redirect stdout to stderr meanwhile, for Python and compiled code, in all threads.

    Yields:
        What stdout was, to write to.
    """
    stdout = sys.stdout
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, ValueError, AttributeError):  # a process without one of the two
            _flush()
            kept = os.dup(1)
            stack.callback(os.close, kept)
            os.dup2(2, 1)
            stack.callback(os.dup2, kept, 1)
            stack.callback(_flush)
            if stdout.fileno() == 1:  # else it is another file, or none
                encoding, errors = stdout.encoding, stdout.errors
                stdout = stack.enter_context(open(kept, "w", encoding=encoding, errors=errors, closefd=False))
        yield stdout


def _flush() -> None:
    """Flush Python's and C's buffers of stdout."""
    sys.__stdout__.flush()  # type: ignore[union-attr]  # None in a process without stdout, which the caller expects
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)


def _stderr() -> int:
    """The number of Python's stderr, which may be another one than that of compiled code."""
    try:
        return sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):  # a notebook's, or none
        return 2


@contextlib.contextmanager
def named(label: str, advice: str) -> Iterator[None]:
    """Name a plugin that hangs, exits or crashes while it is loaded, and undo what it changes for all.

    One that hangs is named after ``PATIENCE`` seconds. ``os._exit``, called by its own thread, becomes a SystemExit.
    A crash of compiled code leaves Python's traceback, with the plugin's file. Code that stops every thread, or
    compiled code that ends the process, is not covered. Handlers of signals and the limit of recursion are as before.

    Args:
        label: the plugin's name in messages.
        advice: how to disable it.
    """
    leave, here, loading = os._exit, (os.getpid(), threading.get_ident()), True

    def exit_by_name(code: int) -> NoReturn:
        # A forked process or another thread may exit.
        if loading and here == (os.getpid(), threading.get_ident()):
            raise SystemExit(f"os._exit({code})")
        leave(code)

    def tell() -> None:
        with contextlib.suppress(OSError):
            os.write(_stderr(), printable(f"still loading {label}; {advice}\n").encode())

    crashes = not faulthandler.is_enabled()
    timer = threading.Timer(PATIENCE, tell)
    timer.daemon = True
    os._exit = exit_by_name  # type: ignore[assignment]
    if crashes:
        faulthandler.enable(_stderr())
    timer.start()
    recursion_limit = sys.getrecursionlimit()
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    except KeyboardInterrupt as error:
        error.add_note(f"while {label} was loading; {advice}")
        raise
    finally:
        loading = False
        timer.cancel()
        os._exit = leave
        if crashes:
            faulthandler.disable()
        sys.setrecursionlimit(recursion_limit)
        for number, handler in handlers.items():
            if (
                signal.getsignal(number) is not handler is not None
                and threading.current_thread() is threading.main_thread()
            ):
                signal.signal(number, handler)
