"""An interruption that a signal asks for, and that is not lost where Python discards the exception.

It discards what the signal's handler raises within ``__del__``, or the callback of a weak reference or of ctypes.
"""

_pending: list[BaseException] = []  # at most one


def interrupt(error: BaseException) -> None:
    """Raise ``error``, here and, if it is discarded, at the next ``check``."""
    _pending[:] = [error]
    raise error


def check() -> None:
    """Raise the interruption that was discarded, if there is one."""
    if _pending:
        raise _pending.pop()


def settle() -> None:
    """Note that the interruption has been noticed: what then ends a command in order must not be interrupted again."""
    _pending.clear()
