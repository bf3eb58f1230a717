"""An interruption that a signal asks for, and that is not lost where Python discards the exception.

It discards what the signal's handler raises within ``__del__``, or the callback of a weak reference or of ctypes.
"""

import signal

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals that end a command. SIGHUP: of a terminal that was closed; Windows has none."""

_pending: list[BaseException] = []  # at most one


def interrupt(error: BaseException) -> None:
    """Raise ``error``, here and, if it is discarded, at the next ``check``."""
    _pending[:] = [error]
    raise error


def check() -> None:
    """Raise the interruption that was discarded, if there is one."""
    if _pending:
        raise _pending.pop()


def is_from_signal(error: BaseException) -> bool:
    """Return True if a signal has raised an error, rather than an environment.

    Where Python's own handler of Ctrl-C is in place, as in a script, nobody knows, and it may be the user's.
    """
    is_handled = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    return isinstance(error, KeyboardInterrupt) and not (is_handled and all(error is not ours for ours in _pending))


def settle() -> None:
    """Note that the interruption has been noticed: what then ends a command in order must not be interrupted again."""
    _pending.clear()
