"""Detection of a display."""

import os
import sys


def draw_unseen() -> None:
    """Let pygame draw where there is no display: SDL would look for one, and print an error for what is none."""
    if not has_display():
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def has_display(*, wayland: bool = True) -> bool:
    """Return True if a window can be opened, which only Linux says beforehand.

    Args:
        wayland: accept Wayland, too. Bullet's window needs X11, and ends the process without it.
    """
    names = ("DISPLAY", "WAYLAND_DISPLAY") if wayland else ("DISPLAY",)
    return not sys.platform.startswith("linux") or any(os.environ.get(name) for name in names)
