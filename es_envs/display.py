"""Detection of a display."""

import os
import sys


def has_display(*, wayland: bool = True) -> bool:
    """Return True if a window can be opened, which only Linux says beforehand.

    Args:
        wayland: accept Wayland, too. Bullet's window needs X11, and ends the process without it.
    """
    names = ("DISPLAY", "WAYLAND_DISPLAY") if wayland else ("DISPLAY",)
    return not sys.platform.startswith("linux") or any(os.environ.get(name) for name in names)
