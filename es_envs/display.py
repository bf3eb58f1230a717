"""Displays, drawing without one, and what shows that it has failed."""

import ctypes
import os
import sys
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray


def draw_unseen() -> None:
    """Let pygame and MuJoCo draw in this process where there is no display, unless the user has chosen how.

    Both would look for a display, and fail. SDL's driver "dummy" would do for pygame's own surfaces, but draws nothing
    where a window is read back.
    """
    if has_display():
        return
    os.environ.setdefault("SDL_VIDEODRIVER", "offscreen")
    for renderer, library in (("egl", "libEGL.so.1"), ("osmesa", "libOSMesa.so.8")):
        with suppress(OSError):  # it is not installed
            ctypes.CDLL(library)
            os.environ.setdefault("MUJOCO_GL", renderer)


def has_display(*, wayland: bool = True) -> bool:
    """Return True if a window can be opened, which only Linux says beforehand.

    Args:
        wayland: accept Wayland, too. Bullet's window needs X11, and ends the process without it.
    """
    names = ("DISPLAY", "WAYLAND_DISPLAY") if wayland else ("DISPLAY",)
    return not sys.platform.startswith("linux") or any(os.environ.get(name) for name in names)


class BlankFinder:
    """Notices pictures in which nothing is drawn.

    Attributes:
        blank: True as long as all pixels of all pictures have one colour.
    """

    def __init__(self) -> None:
        self.blank = True
        self._colour: NDArray[np.uint8] | None = None

    def look(self, picture: NDArray[np.uint8]) -> None:
        """Look at another picture ``(height, width, 3)``; after the first that shows something, this costs nothing."""
        if self.blank:
            self._colour = picture[0, 0].copy() if self._colour is None else self._colour
            self.blank = bool((picture == self._colour).all())


BLANK = (
    "all pixels have one colour, so nothing is drawn here. Without a display, a driver may be the cause: "
    "SDL_VIDEODRIVER=dummy draws nothing where a window is read back (offscreen does), and MuJoCo needs MUJOCO_GL=egl "
    "or osmesa"
)
"""The problem with such pictures, and a remedy."""
