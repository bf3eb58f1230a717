"""The window in which pictures are shown, and what the user does in it."""

import os
import time
from dataclasses import replace

import numpy as np

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

import pygame

from es_core.video.layout import Frame
from es_envs.bullet.camera import Camera

_NEXT = {pygame.K_SPACE, pygame.K_n}
_END = {pygame.K_ESCAPE, pygame.K_q}
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

    Raises:
        OSError: no window can be opened.
    """

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
        self._size = (0, 0)
        self._turned = self._lifted = 0.0
        self._distance = 1.0

    def show(self, frame: Frame) -> None:
        """Show a picture, ``(height, width, 3)``."""
        size = frame.shape[1], frame.shape[0]
        screen, picture = self._screen(size), pygame.image.frombuffer(frame.tobytes(), size, "RGB")
        width, height = screen.get_size()
        scale = min(width / size[0], height / size[1])  # the user may enlarge the window
        if scale != 1:
            picture = pygame.transform.smoothscale_by(picture, scale)
        screen.fill(0)
        screen.blit(picture, ((width - picture.get_width()) // 2, (height - picture.get_height()) // 2))
        pygame.display.flip()

    def _screen(self, size: tuple[int, int]) -> pygame.Surface:
        screen = pygame.display.get_surface()
        if screen is None or size != self._size:
            self._size, room = size, pygame.display.get_desktop_sizes()[0]
            width, height = min(size[0], room[0]), min(size[1], room[1])
            screen = pygame.display.set_mode((width, height), pygame.RESIZABLE)
            # Else one that has grown may leave the screen.
            pygame.display.set_window_position(((room[0] - width) // 2, (room[1] - height) // 2))
        return screen

    def wait(self, seconds: float) -> bool:
        """Wait, and return True as soon as the user asks for the next start.

        Raises:
            WindowClosedError: the user has closed the window.
        """
        end = time.monotonic() + seconds
        while True:
            left = round(1000 * (end - time.monotonic()))
            event = pygame.event.wait(left) if left > 0 else pygame.event.poll()
            if event.type == pygame.QUIT or (event.type == pygame.KEYDOWN and event.key in _END):
                raise WindowClosedError
            if event.type == pygame.KEYDOWN and event.key in _NEXT:
                return True
            if event.type == pygame.MOUSEMOTION and event.buttons[0]:
                self._turned -= _TURN * event.rel[0]
                self._lifted -= _TURN * event.rel[1]
            elif event.type == pygame.MOUSEWHEEL:
                self._distance *= _ZOOM**event.y
            elif event.type == pygame.NOEVENT and left <= 0:
                return False

    def turned(self, camera: Camera) -> Camera:
        """Turn a camera around its target, as far as the user has done so with the mouse."""
        pitch = camera.pitch
        if self._lifted:
            pitch = float(np.clip(pitch + self._lifted, -_STEEPEST, _STEEPEST))
        return replace(camera, distance=camera.distance * self._distance, yaw=camera.yaw + self._turned, pitch=pitch)
