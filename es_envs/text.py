"""Text from elsewhere (a plugin, an exception, a file), made safe to print or to name a file."""

import re

# What moves a terminal's cursor, colours, hides or reorders text, or cannot be encoded; all but newline and tab.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # devices of Windows


def printable(text: str) -> str:
    """``text`` with its control characters, except newlines and tabs, escaped as in a Python string."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def warning_line(message: Warning | str) -> str:
    """A warning as a line of a command's stderr."""
    return printable(f"warning: {uncoloured(str(message))}")


def uncoloured(text: str) -> str:
    """``text`` without colours, such as those of Gymnasium's warnings."""
    return re.sub(r"\x1b\[\d+m", "", text)


def file_name(env_id: str) -> str:
    """Convert an environment's id to a name that every file system accepts."""
    name = re.sub(r"[^\w.-]+", "-", env_id).strip(".")
    return f"{name}_" if _RESERVED.fullmatch(name) else name
