"""Output that may lose its reader: a terminal that was closed, a program that has ended, a disk that is full."""

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast


class LastingStream:
    """A text stream that goes silent when it can no longer be written to, instead of raising an error.

    Args:
        stream: the stream itself; all but writing is left to it.
        carries_results: raise errors by which a result is lost, such as that of a full disk. Where nobody reads any
            more, silence is right for results, too.
    """

    def __init__(self, stream: TextIO, *, carries_results: bool = False) -> None:
        self._stream, self._carries_results = stream, carries_results

    def write(self, text: str) -> int:
        """Write a text, if possible."""
        self._attempt(self._stream.write, text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines, if possible."""
        self._attempt(self._stream.writelines, lines)

    def flush(self) -> None:
        """Write what is buffered, if possible."""
        self._attempt(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _attempt(self, function: Callable[..., object], *arguments: object) -> None:
        try:
            function(*arguments)
        except OSError as error:
            if self._carries_results and not self._is_unread(error):
                raise OSError(error.errno, error.strerror, "stdout") from error
            # Its buffer still holds the text, and Python would fail to write it once more at its exit.
            with suppress(OSError, ValueError):
                silence(self._stream.fileno())

    def _is_unread(self, error: OSError) -> bool:
        """Return True if an error means that nobody reads the stream any more."""
        if error.errno == errno.EIO:  # of a terminal that was closed, or of a disk
            return stat.S_ISCHR(os.fstat(self._stream.fileno()).st_mode)
        return isinstance(error, ConnectionError)  # BrokenPipeError, too


def silence(descriptor: int) -> None:
    """Let an open file lead to the null device from now on."""
    target = nowhere()
    os.dup2(target, descriptor)
    os.close(target)


def nowhere() -> int:
    """Open the null device, which takes all and keeps nothing; the lowest free number is its descriptor."""
    return os.open(os.devnull, os.O_RDWR)


def open_closed_streams() -> None:
    """Open the null device in place of standard streams that are closed, here and in processes started from here."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            descriptor = nowhere()  # the number of the stream, which is free
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, "w" if number else "r"))


@contextmanager
def lasting_streams() -> Iterator[None]:
    """Let stdout, which carries results, and stderr outlive their readers meanwhile."""
    stdout, stderr = sys.stdout, sys.stderr
    sys.stdout = cast("TextIO", LastingStream(stdout, carries_results=True))
    sys.stderr = cast("TextIO", LastingStream(stderr))
    lasting = sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdout, sys.stderr = stdout, stderr
        for stream in lasting:
            stream.flush()
