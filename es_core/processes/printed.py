"""Output of child processes, and of programs that this one starts: one pipe, which this process empties to its stderr.

So a terminal that goes away, or a full disk, fails nobody's ``print``: an environment and its simulator never see the
user's own stderr.
"""

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from threading import Lock, Thread

_STDERR = 2
_MOST = 2**16  # bytes in a pipe


def descriptors() -> tuple[int, int]:
    """The pipe's ends: children print to the second, and keep the first open, so that it outlives this process.

    On Windows, where no signal tells a program that its reader has gone, both are stderr itself.
    """
    if sys.platform == "win32":
        stderr = subprocess.DEVNULL if sys.__stderr__ is None else _STDERR
        return stderr, stderr
    pipe = _pipe()
    return pipe.reader, pipe.writer


def pass_on() -> None:
    """Pass on what children have printed so far."""
    if sys.platform != "win32":
        _pipe().pass_on()


@contextmanager
def stderr_apart() -> Iterator[None]:
    """Let compiled code and programs that are started here print to the pipe meanwhile; Python keeps stderr itself."""
    stderr = sys.stderr
    try:
        is_apart = sys.platform == "win32" or stderr.fileno() != _STDERR
    except (OSError, ValueError, AttributeError):  # a notebook's, or none
        is_apart = True
    if is_apart:
        yield
        return
    pipe = _pipe()
    stderr.flush()
    kept = os.dup(_STDERR)
    os.dup2(pipe.writer, _STDERR)
    pipe.target = kept
    with open(kept, "w", encoding=stderr.encoding, errors=stderr.errors, buffering=1, closefd=False) as own:
        sys.stderr = own
        try:
            yield
        finally:
            pipe.pass_on()
            sys.stderr, pipe.target = stderr, _STDERR
            os.dup2(kept, _STDERR)
    os.close(kept)


class _Pipe:
    def __init__(self) -> None:
        self.target = _STDERR
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self._lock = Lock()
        Thread(target=self._pass_on_always, daemon=True).start()

    def _pass_on_always(self) -> None:
        poller = select.poll()
        poller.register(self.reader, select.POLLIN)
        while True:
            poller.poll()
            self.pass_on()

    def pass_on(self) -> None:
        with self._lock, suppress(OSError):  # BlockingIOError: there is nothing
            text = os.read(self.reader, _MOST)
            while text and sys.__stderr__ is not None:  # else its number is that of another file
                text = text[os.write(self.target, text) :]


@cache
def _pipe() -> _Pipe:
    return _Pipe()
