"""Pictures of a Bullet world: its bodies, drawn over a ground and boxes that are no bodies; and its window."""

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from es_envs.bullet.camera import Camera, View, from_light
from es_envs.bullet.client import pybullet, redirected
from es_envs.bullet.scenery import Colour, Rectangle, Scenery, Silhouette, ghost_colours, laid_over, striped

Pose = NDArray[np.float64]

_CAMERA_EVERY = 1 / 30  # seconds between two camera updates of a window
_CATCH_UP = 0.25  # maximum delay of steps in a window that faster ones make up for [s]
_PAINT = 0.001  # [m]: thickness of paint in a window
_COARSE = 96  # pixels: height of the picture in which bodies are located
_SMOOTHED = 0.5  # of a picture's pixels: bodies are drawn at twice the size if that is less
_SILHOUETTE = (96, 96)  # pixels


def quiet(*, opengl: bool) -> AbstractContextManager[None]:
    """Keep off the terminal what OpenGL prints, where it is used."""
    return redirected(1, 2) if opengl else nullcontext()


class Drawing:
    """Draws a world, and what decorates it.

    Args:
        client: the physicsClientId of the world.
        scenery: sky, ground, and the boxes and marks on it.
        ground_height: height at which ``mark_ground`` draws [m].
        has_window: True if the world is shown in a window, which shows only bodies.
        egl: True if OpenGL draws without a display.
    """

    def __init__(self, client: int, scenery: Scenery, *, ground_height: float, has_window: bool, egl: bool) -> None:
        self._client, self._scenery, self._ground_height = client, scenery, ground_height
        self._has_window, self._egl = has_window, egl
        self._step_due = self._camera_due = 0.0
        self._camera: Camera | None = None
        self._background: tuple[Camera, int, NDArray[np.uint8]] | None = None  # of the last picture that was ``seen``
        self._in_scenery: set[int] = set()  # bodies that the scenery draws
        self._hidden: set[tuple[int, int]] = set()  # links
        self._marks = 0
        self._shown: set[int] = set()
        self._moving: set[int] = set()

    def find_bodies(self, movable: Mapping[int, object]) -> None:
        """Find the visible bodies, without scenery, once the world is built; ``movable``: bodies that can move."""
        client = self._client
        count = pybullet.getNumBodies(physicsClientId=client)
        bodies = {pybullet.getBodyUniqueId(index, physicsClientId=client) for index in range(count)}
        shapes = {body: pybullet.getVisualShapeData(body, physicsClientId=client) for body in bodies - self._in_scenery}
        self._shown = {body for body in shapes if any((body, shape[1]) not in self._hidden for shape in shapes[body])}
        self._moving = self._shown & movable.keys()

    def see(self, eyes: Camera, size: int) -> NDArray[np.uint8]:
        """Draw what a policy sees, ``(size, size, 3)``: as ``draw`` does, but without shadows and smooth edges."""
        view = View.of(eyes, (size, size))
        if self._background is None or self._background[:2] != (eyes, size):  # painting takes longer than all else
            self._background = eyes, size, self._scenery.seen_by(view)
        picture = self._background[2].copy()
        drawn, owner = self._draw_bodies(view)
        laid_over(picture, drawn, np.isin(owner, list(self._shown)))
        return picture

    def draw(
        self, camera: Camera, size: tuple[int, int], poses: Sequence[Pose], assume: Callable[[Pose], None]
    ) -> NDArray[np.uint8]:
        """Draw the current state as a picture ``(height, width, 3)``, or several poses instead.

        Args:
            camera: the camera.
            size: width and height [pixels].
            poses: all but the last are ghosts, from blue for the first to yellow.
            assume: puts everything that moves into a pose.
        """
        if poses:
            assume(poses[-1])
        view = View.of(camera, size)
        picture = self._scenery.seen_by(view, self._silhouette(camera), paved=True).copy()
        if not poses:
            self._lay(picture, view, self._shown)
            return picture
        self._lay(picture, view, self._shown - self._moving)
        for pose, colour in zip(poses, [*ghost_colours(len(poses) - 1), None], strict=True):
            assume(pose)
            self._lay(picture, view, self._moving, ghost=colour)
        return picture

    def _lay(
        self, picture: NDArray[np.uint8], view: View, bodies: set[int], *, ghost: tuple[int, int, int] | None = None
    ) -> None:
        """Draw bodies in the current state over a picture, which is changed."""
        if not bodies:
            return
        coarse = self._draw_bodies(view.smaller(max(1.0, view.size[1] / _COARSE)))[1]
        part = view.around(np.isin(coarse, list(bodies)), self._bounds(bodies))
        if part is None:
            return
        near = view.part(part)
        smooth = 4 * math.prod(near.size) < _SMOOTHED * math.prod(view.size)
        drawn, owner = self._draw_bodies(near.smaller(0.5) if smooth else near)
        laid_over(picture[part], drawn, np.isin(owner, list(bodies)), ghost=ghost)

    def _bounds(self, bodies: set[int]) -> list[NDArray[np.float64]]:
        """Opposite corners ``(2, 3)`` of boxes around each link that can collide."""
        client = self._client
        return [
            np.array(pybullet.getAABB(body, link, physicsClientId=client))
            for body in bodies
            for link in range(-1, pybullet.getNumJoints(body, physicsClientId=client))
            if (body, link) not in self._hidden
        ]

    def _silhouette(self, camera: Camera) -> Silhouette | None:
        """Silhouette of what moves, as the light sees it around the middle of a picture."""
        if not self._moving:
            return None
        view = View.of(from_light(camera, self._scenery.light), _SILHOUETTE)
        return Silhouette(seen=np.isin(self._draw_bodies(view)[1], list(self._moving)), view=view)

    def _draw_bodies(self, view: View) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """Draw the bodies in the current state: colours ``(height, width, 4)``, and the body of each pixel."""
        width, height = view.size
        with quiet(opengl=self._egl or self._has_window):
            drawn = pybullet.getCameraImage(
                width,
                height,
                view.from_world.T.reshape(-1).tolist(),
                view.projection.T.reshape(-1).tolist(),
                lightDirection=self._scenery.light,
                lightAmbientCoeff=0.65,
                lightDiffuseCoeff=0.4,
                lightSpecularCoeff=0.0,
                shadow=0,
                renderer=pybullet.ER_BULLET_HARDWARE_OPENGL if self._egl else pybullet.ER_TINY_RENDERER,
                physicsClientId=self._client,
            )
        if pybullet.isNumpyEnabled():
            return drawn[2], drawn[4]
        # A flat tuple of numbers each: `np.asarray` would take eight times as long.
        colours = np.frombuffer(bytes(drawn[2]), np.uint8).reshape(height, width, 4)
        return colours, np.fromiter(drawn[4], np.int32, width * height).reshape(height, width)

    def paint(self, body: int, colour: Colour, link: int) -> None:
        """Colour a link of a body; opacity 0 hides it."""
        if colour[3] == 0.0:
            self._hidden.add((body, link))
        pybullet.changeVisualShape(body, link, rgbaColor=colour, physicsClientId=self._client)

    def paint_sectors(self, body: int, colours: Sequence[Colour], link: int) -> None:
        """Colour a sphere in sectors, from pole to pole."""
        from PIL import Image  # only drawing needs it

        texture = np.repeat(np.round(255 * np.array(colours)[:, :3]).astype(np.uint8), 32, axis=0)
        with tempfile.TemporaryDirectory() as folder:  # Bullet reads textures from files alone
            path = str(Path(folder) / "sectors.png")
            Image.fromarray(np.tile(texture, (32, 1, 1))).save(path)
            number = pybullet.loadTexture(path, physicsClientId=self._client)
        white = (1.0, 1.0, 1.0, 1.0)
        pybullet.changeVisualShape(body, link, textureUniqueId=number, rgbaColor=white, physicsClientId=self._client)

    def add_box(
        self, size: Sequence[float], position: Sequence[float], colour: Colour, stripes: Sequence[Colour]
    ) -> None:
        """Add a box that takes no part in the physics."""
        half = np.array(size) / 2
        box = np.array([position - half, position + half])
        self._add_visual(box, colour)
        self._scenery.put(box, colour, stripes)
        if self._has_window:
            for part, stripe in striped(box, stripes):
                part[:, 2] = box[1, 2] + (0.0, _PAINT)
                self._add_visual(part, stripe)

    def add_ground(self, colour: Colour) -> None:
        """Add the ground to a window, which shows only bodies."""
        self.add_box((200.0, 200.0, 0.01), (0.0, 0.0, self._ground_height - 0.005), colour, ())

    def _add_visual(self, box: NDArray[np.float64], colour: Colour) -> None:
        """Add a body between opposite corners ``(2, 3)`` that takes no part in the physics."""
        low, high = box
        shape = pybullet.createVisualShape(
            pybullet.GEOM_BOX,
            halfExtents=((high - low) / 2).tolist(),
            rgbaColor=colour,
            physicsClientId=self._client,
        )
        body = pybullet.createMultiBody(
            baseMass=0.0,
            baseVisualShapeIndex=shape,
            basePosition=((low + high) / 2).tolist(),
            physicsClientId=self._client,
        )
        self._in_scenery.add(body)

    def mark_ground(self, rectangles: Sequence[Rectangle], colour: Colour) -> None:
        """Paint rectangles onto the ground, over those of earlier calls."""
        self._marks += 1
        height = self._ground_height + _PAINT * self._marks  # in a window; at the same one they would flicker
        for x0, y0, x1, y1 in rectangles:
            self._scenery.mark((x0, y0, x1, y1), colour)
            if self._has_window:
                self.add_box((x1 - x0, y1 - y0, _PAINT), ((x0 + x1) / 2, (y0 + y1) / 2, height), colour, ())

    def pave(self, paving: Sequence[tuple[NDArray[np.float64], Colour]]) -> None:
        """Paint quadrilaterals onto the ground of films, in place of earlier ones."""
        self._scenery.pave(paving)

    def update_window(self, find_camera: Callable[[], Camera], seconds: float) -> None:
        """Point the window's camera, and wait for the wall clock to reach the simulated time.

        Args:
            find_camera: returns the camera for the current state.
            seconds: simulated time since the last call [s].
        """
        now = time.monotonic()
        if now >= self._camera_due:  # not at every step: turning the camera takes as long as drawing the window
            self._camera_due = now + _CAMERA_EVERY
            camera = find_camera()
            if camera != self._camera:  # one that stands still may be turned by hand
                self._camera = camera
                pybullet.resetDebugVisualizerCamera(
                    camera.distance, camera.yaw, camera.pitch, camera.target, physicsClientId=self._client
                )
        now = time.monotonic()
        time.sleep(max(0.0, self._step_due - now))
        self._step_due = max(self._step_due, now - _CATCH_UP) + seconds
