"""Whether a window can be opened here."""

import os
import sys


def has_display(*, wayland: bool = True) -> bool:
    """Tell whether a window can be opened; only Linux says so beforehand.

    Args:
        wayland: the window can be one of Wayland's, too. Bullet's needs X11, and ends the process without it.
    """
    names = ("DISPLAY", "WAYLAND_DISPLAY") if wayland else ("DISPLAY",)
    return not sys.platform.startswith("linux") or any(os.environ.get(name) for name in names)
