"""Text from elsewhere (a plugin, an exception, a file), made safe to print."""

import re

# What moves a terminal's cursor, colours, hides or reorders text, or cannot be encoded; all but newline and tab.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str) -> str:
    """``text`` with its control characters, except newlines and tabs, escaped as in a Python string."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
