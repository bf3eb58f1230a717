"""The window in which pictures are shown, and what the user does in it."""

import os
import time
from dataclasses import replace
from typing import Literal

import numpy as np

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

import pygame

from es_core.video.layout import Frame
from es_envs.bullet.camera import Camera

_END = {pygame.K_ESCAPE, pygame.K_q}
_FASTER = {pygame.K_PLUS, pygame.K_EQUALS, pygame.K_KP_PLUS}  # "+" is often Shift and "="
_SLOWER = {pygame.K_MINUS, pygame.K_KP_MINUS}
_PERIODS = {pygame.K_PERIOD, pygame.K_KP_PERIOD}
_SPEEDS = 1 / 16, 16.0
_CAMERAS = "follow", "fixed", "orbit"
_ORBIT = 20.0  # degrees a second
_SMALLEST = 160, 120  # pixels of a picture in which one can read
_PAUSED = 0.2  # seconds between two pictures of a pause
KEYS = (
    "Space: pause, continue",
    ". (period): pause, one frame",
    "N: next start",
    "R: this start again",
    "+ and -: faster, slower",
    "C: camera follows, fixed, orbit",
    "mouse: turn, wheel: distance",
    "H: hide this",
    "Esc or Q: end",
)
"""What the keys and the mouse do, a line each."""

Wish = Literal["next", "again", "look"]
"""The next start; this start from its beginning; or another picture of this moment."""
_UNSEEN = {"dummy", "offscreen"}  # drivers that SDL falls back to
_TURN = 0.4  # degrees for each pixel that the mouse moves
_ZOOM = 0.9  # times as far away for each notch of the wheel
_STEEPEST = 89.0  # degrees


class WindowClosedError(Exception):
    """The user has closed the window."""


class Window:
    """A window, opened by the first picture.

    Args:
        title: its title.

    Attributes:
        speed: how many times faster than in reality the user wants time to pass.
        is_paused: the user wants time to stand still.
        shows_help: the user wants to see what the keys do.

    Raises:
        OSError: no window can be opened.
    """

    _held: Camera | None

    def __init__(self, title: str) -> None:
        # SDL would use OpenGL: where a simulator draws with it, too, the window would not change any more.
        os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")
        if os.environ.get("SDL_VIDEODRIVER") in _UNSEEN:  # this process, or its parent, has filmed without a display
            del os.environ["SDL_VIDEODRIVER"]
        try:
            pygame.display.init()
        except pygame.error as error:
            raise OSError(str(error)) from error
        if pygame.display.get_driver() in _UNSEEN:
            raise OSError("the display does not answer")
        pygame.display.set_caption(title)
        self.speed, self.is_paused, self.shows_help = 1.0, False, False
        self._size = (0, 0)
        self._turned = self._lifted = 0.0
        self._distance = 1.0
        self._camera, self._held, self._orbit_began = _CAMERAS[0], None, 0.0

    @property
    def size(self) -> tuple[int, int] | None:
        """Width and height [pixels] that the window has been given; None: it is as large as its pictures."""
        screen = pygame.display.get_surface()
        if screen is None or screen.get_size() == self._size:
            return None
        width, height = screen.get_size()
        return max(width, _SMALLEST[0]), max(height, _SMALLEST[1])

    def show(self, frame: Frame) -> None:
        """Show a picture, ``(height, width, 3)``: draw it at the window's ``size``, or it is scaled."""
        size = frame.shape[1], frame.shape[0]
        screen, picture = self._screen(size), pygame.image.frombuffer(frame.tobytes(), size, "RGB")
        width, height = screen.get_size()
        scale = min(width / size[0], height / size[1])  # the window may have changed since the picture was drawn
        if scale != 1:
            picture = pygame.transform.smoothscale_by(picture, scale)
        screen.fill(0)
        screen.blit(picture, ((width - picture.get_width()) // 2, (height - picture.get_height()) // 2))
        pygame.display.flip()

    def _screen(self, size: tuple[int, int]) -> pygame.Surface:
        screen = pygame.display.get_surface()
        if screen is None or (self.size is None and size != self._size):
            self._size, room = size, pygame.display.get_desktop_sizes()[0]
            width, height = min(size[0], room[0]), min(size[1], room[1])
            screen = pygame.display.set_mode((width, height), pygame.RESIZABLE)
            # Else one that has grown may leave the screen.
            pygame.display.set_window_position(((room[0] - width) // 2, (room[1] - height) // 2))
        return screen

    def wait(self, seconds: float) -> Wish | None:
        """Wait, and return what the user wants as soon as it is something; None: go on.

        In a pause it waits until the user goes on, but asks for another picture now and then.

        Raises:
            WindowClosedError: the user has closed the window.
        """
        end = time.monotonic() + seconds
        while True:
            left = _PAUSED if self.is_paused else end - time.monotonic()
            event = pygame.event.wait(max(1, round(1000 * left))) if left > 0 else pygame.event.poll()
            if event.type == pygame.QUIT:
                raise WindowClosedError
            if event.type == pygame.KEYDOWN:
                if event.key in _PERIODS:
                    self.is_paused = True
                    return None
                if wish := self._press(event.key):
                    return wish
            elif event.type == pygame.MOUSEMOTION and event.buttons[0]:
                self._turned -= _TURN * event.rel[0]
                self._lifted -= _TURN * event.rel[1]
            elif event.type == pygame.MOUSEWHEEL:
                self._distance *= _ZOOM**event.y
            elif event.type == pygame.NOEVENT and self.is_paused:
                return "look"
            elif event.type == pygame.NOEVENT and left <= 0:
                return None

    def _press(self, key: int) -> Wish | None:
        """Do what a key is for, or return what the user wants."""
        if key in _END:
            raise WindowClosedError
        if key in {pygame.K_n, pygame.K_r}:
            self.is_paused = False
            return "next" if key == pygame.K_n else "again"
        if key == pygame.K_SPACE:
            self.is_paused = not self.is_paused
        elif key == pygame.K_h:
            self.shows_help = not self.shows_help
        elif key == pygame.K_c:
            self._camera = _CAMERAS[(_CAMERAS.index(self._camera) + 1) % len(_CAMERAS)]
            self._held, self._orbit_began = None, time.monotonic()
        elif key in _FASTER | _SLOWER:
            self.speed = float(np.clip(self.speed * (2 if key in _FASTER else 0.5), *_SPEEDS))
        return None

    def turned(self, camera: Camera) -> Camera:
        """Return the camera that the user has chosen by keys and mouse, in place of the environment's own."""
        if self._camera != "follow":
            camera = self._held = self._held or camera
        pitch, yaw = camera.pitch, camera.yaw + self._turned
        if self._camera == "orbit":
            yaw += _ORBIT * (time.monotonic() - self._orbit_began)
        if self._lifted:
            pitch = float(np.clip(pitch + self._lifted, -_STEEPEST, _STEEPEST))
        return replace(camera, distance=camera.distance * self._distance, yaw=yaw, pitch=pitch)
