"""Arguments that are one of a few words."""

import difflib
from collections.abc import Collection


class ArgumentError(ValueError):
    """An environment's argument has a value that it cannot have: the message says all, without a traceback."""


def require_one_of(name: str, value: object, choices: Collection[str]) -> None:
    """Refuse an argument that is none of the choices.

    Raises:
        ArgumentError: the message names the argument, the choices, the value, and a choice that is close to it.
    """
    if value in choices:
        return
    close = difflib.get_close_matches(value, choices, n=1) if isinstance(value, str) else []
    hint = f": did you mean {close[0]!r}?" if close else ""
    raise ArgumentError(f"{name} must be one of {', '.join(choices)}, got {value!r}{hint}")
