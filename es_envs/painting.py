"""Painting: the parts of a picture that no physics engine draws, as arrays of numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Colour = tuple[float, float, float, float]
"""Red, green, blue, opacity, each from 0 to 1."""
Rectangle = tuple[float, float, float, float]
"""Seen from above, (x0, y0, x1, y1) [m], with x0 < x1 and y0 < y1."""
_NOTHING = 1.0 - 1e-6
"""Depth from which on there is no body: of an empty pixel it is 1, and a little less after rounding."""

_FIRST_GHOST, _LAST_GHOST = np.array([[60, 130, 255], [255, 205, 70]])
_OPACITY = 0.7  # of a ghost


@dataclass(frozen=True, slots=True, kw_only=True)
class Camera:
    """Where a picture is taken from.

    Attributes:
        target: the point in the middle of the picture, in world coordinates [m].
        distance: from the camera to the target [m].
        yaw: turn around the vertical [degrees]: 0 looks along +y, 90 along -x.
        pitch: [degrees]: 0 looks horizontally, -90 straight down.
        field_of_view: from the picture's lower edge to its upper one [degrees].
    """

    target: tuple[float, float, float]
    distance: float
    yaw: float
    pitch: float
    field_of_view: float = 45.0

    @property
    def axes(self) -> NDArray[np.float64]:
        """Unit vectors in world coordinates ``(3, 3)``: to the right of the picture, up in it, and straight ahead."""
        yaw, pitch = math.radians(self.yaw), math.radians(self.pitch)
        right = np.array([math.cos(yaw), math.sin(yaw), 0.0])
        ahead = np.array([-math.sin(yaw) * math.cos(pitch), math.cos(yaw) * math.cos(pitch), math.sin(pitch)])
        return np.array([right, np.cross(right, ahead), ahead])

    @property
    def near(self) -> float:
        """Nothing closer to the camera is seen [m]."""
        return self.distance / 20

    @property
    def far(self) -> float:
        """No body further from it is seen [m]."""
        return self.distance * 30


Part = tuple[slice, slice]
"""A rectangle of a picture: its rows and columns [pixels]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a camera sees, in OpenGL's terms.

    Attributes:
        camera: see there.
        size: width and height of the picture [pixels].
        from_world: ``(4, 4)``: times world coordinates (x, y, z, 1) are the camera's: right, up, back.
        projection: ``(4, 4)``: times those are clip coordinates.
    """

    camera: Camera
    size: tuple[int, int]
    from_world: NDArray[np.float64]
    projection: NDArray[np.float64]

    @classmethod
    def of(cls, camera: Camera, size: tuple[int, int]) -> "View":
        """The whole picture of a camera."""
        turn = camera.axes * [[1.0], [1.0], [-1.0]]
        from_world, projection = np.eye(4), np.zeros((4, 4))
        from_world[:3, :3], from_world[:3, 3] = turn, -turn @ camera.target
        from_world[2, 3] -= camera.distance
        slope, near, far = math.tan(math.radians(camera.field_of_view) / 2), camera.near, camera.far
        projection[0, 0], projection[1, 1] = size[1] / size[0] / slope, 1 / slope
        projection[2, 2:] = (far + near) / (near - far), 2 * far * near / (near - far)
        projection[3, 2] = -1.0
        return cls(camera=camera, size=size, from_world=from_world, projection=projection)

    @property
    def to_clip(self) -> NDArray[np.float64]:
        """``(4, 4)``: times world coordinates are clip coordinates."""
        return self.projection @ self.from_world

    def around(self, boxes: Sequence[NDArray[np.float64]]) -> Part | None:
        """The rectangle in which boxes, given by opposite corners ``(2, 3)``, are seen; None: they are not."""
        places = np.array([(x, y, z, 1.0) for box in boxes for x, y, z in product(*box.T)]) @ self.to_clip.T
        if (places[:, 3] < self.camera.near).any():
            return slice(0, self.size[1]), slice(0, self.size[0])
        x = self.size[0] / 2 * (1 + places[:, 0] / places[:, 3])
        y = self.size[1] / 2 * (1 - places[:, 1] / places[:, 3])
        rows, columns = (
            slice(max(0, math.floor(along.min()) - 1), min(length, math.ceil(along.max()) + 1))
            for along, length in ((y, self.size[1]), (x, self.size[0]))
        )
        return (rows, columns) if rows.start < rows.stop and columns.start < columns.stop else None

    def part(self, part: Part) -> "View":
        """What is seen in a part of the picture; depth is measured as in the whole."""
        rows, columns = part
        (width, height), (w, h) = self.size, (columns.stop - columns.start, rows.stop - rows.start)
        zoom = np.eye(4)
        zoom[0, 0], zoom[1, 1] = width / w, height / h
        zoom[0, 3] = (width - columns.start - columns.stop) / w
        zoom[1, 3] = (rows.start + rows.stop - height) / h
        return replace(self, size=(w, h), projection=zoom @ self.projection)


@runtime_checkable
class Stage(Protocol):
    """An environment that is drawn from anywhere, and in several states at once: each ``BulletEnv`` is one."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""

    def camera(self) -> Camera:
        """Where the environment's own camera stands in the present state."""

    def pose(self) -> NDArray[np.float64]:
        """Where all is that moves, ``(p,)``."""

    def picture(self, camera: Camera, poses: Sequence[NDArray[np.float64]] = ()) -> NDArray[np.uint8]:
        """The present state as a picture ``(height, width, 3)``, or in its place several poses.

        Args:
            camera: where it is taken from.
            poses: of which all but the last are drawn as ghosts; the present state is lost with them.
        """


class Backdrop:
    """Sky, ground and what is marked on it.

    TinyRenderer takes 0.2 µs for each pixel of a body, so that a floor would cost more than all that stands on it.

    Args:
        sky: its colour.
        ground: likewise.

    Attributes:
        markings: corners ``(4, 4)`` in homogeneous world coordinates, and colour, of what is marked.
    """

    def __init__(self, sky: Colour, ground: Colour) -> None:
        self._sky, self._ground = _rgb(sky), _rgb(ground)
        self.markings: list[tuple[NDArray[np.float64], tuple[int, int, int]]] = []

    def mark(self, rectangle: Rectangle, height: float, colour: Colour) -> None:
        """Mark a rectangle, at ``height`` [m], over what is marked already."""
        x0, y0, x1, y1 = rectangle
        corners = [(x0, y0, height, 1.0), (x1, y0, height, 1.0), (x1, y1, height, 1.0), (x0, y1, height, 1.0)]
        self.markings.append((np.array(corners), _rgb(colour)))

    def seen_by(self, view: View) -> NDArray[np.uint8]:
        """A picture of it, ``(height, width, 4)``."""
        from PIL import Image, ImageDraw  # only what draws pays for it

        camera, (width, height) = view.camera, view.size
        slope = math.tan(math.radians(camera.pitch)) / math.tan(math.radians(camera.field_of_view) / 2)
        horizon = min(max(round(height / 2 * (1 + slope)), 0), height)
        image = Image.new("RGBA", view.size, self._ground)
        image.paste(self._sky, (0, 0, width, horizon))
        draw = ImageDraw.Draw(image)
        for corners, colour in self.markings:
            outline = [
                (width / 2 * (1 + x / w), height / 2 * (1 - y / w))
                for x, y, _, w in _in_front((corners @ view.to_clip.T).tolist(), camera.near)
            ]
            if outline:
                draw.polygon(outline, colour)
        return np.array(image)


def composed(bodies: NDArray[np.uint8], depth: NDArray[np.float32], backdrop: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Bodies before a backdrop, ``(height, width, 3)``.

    Args:
        bodies: a picture of them, ``(height, width, 4)``.
        depth: OpenGL's, ``(height, width)``: 1 where there is no body.
        backdrop: ``(height, width, 4)``; it is written into.
    """
    # Pixels as single numbers: several times faster than by colour.
    np.copyto(backdrop.view(np.uint32)[..., 0], bodies.view(np.uint32)[..., 0], where=depth < _NOTHING)
    rgb = np.empty((*depth.shape, 3), np.uint8)
    for channel in range(3):  # faster than all at once
        rgb[..., channel] = backdrop[..., channel]
    return rgb


def ghost_colours(number: int) -> list[tuple[int, int, int]]:
    """Colours that tell ghosts apart, from blue for the first to yellow for the last."""
    share = np.linspace(0.0, 1.0, max(number, 1))[:number, None]
    colours = (1 - share) * _FIRST_GHOST + share * _LAST_GHOST
    return [tuple(colour) for colour in colours.round().astype(int).tolist()]


def haunt(
    picture: NDArray[np.uint8], ghost: NDArray[np.uint8], seen: NDArray[np.bool_], colour: tuple[int, int, int]
) -> None:
    """Let a ghost shine through a picture ``(height, width, 3)``, which is written into.

    Args:
        picture: what is behind it.
        ghost: a picture of it, ``(height, width, 4)``.
        seen: where it is, ``(height, width)``.
        colour: of the ghost, by which its own are shaded.
    """
    light = ghost[seen, :3].mean(axis=1, keepdims=True) / 255
    picture[seen] = (1 - _OPACITY) * picture[seen] + _OPACITY * (0.5 + 0.5 * light) * colour


def tiled_box(size: Sequence[float]) -> tuple[list[list[float]], list[list[float]], list[int]]:
    """Vertices, normals and triangles of a box whose long faces are divided into squares.

    TinyRenderer visits the whole rectangle of pixels around a triangle; around a long one that is seen at an angle it
    is many times the triangle.

    Args:
        size: along x, y, z [m]; one that is 0 makes a rectangle.
    """
    vertices: list[list[float]] = []
    normals: list[list[float]] = []
    indices: list[int] = []
    for axis in range(3):
        for side in (-1, 1):
            # Along `first`, then along `second`, is counterclockwise as seen from outside.
            first, second = ((axis + 1) % 3, (axis + 2) % 3)[::side]
            short = min(size[first], size[second])
            if short == 0.0:
                continue
            columns, rows = (min(math.ceil(size[along] / short), 16) for along in (first, second))
            normal = [0.0, 0.0, 0.0]
            normal[axis] = float(side)
            start = len(vertices)
            for row in range(rows + 1):
                for column in range(columns + 1):
                    vertex = [0.0, 0.0, 0.0]
                    vertex[axis] = side * size[axis] / 2
                    vertex[first] = size[first] * (column / columns - 0.5)
                    vertex[second] = size[second] * (row / rows - 0.5)
                    vertices.append(vertex)
                    normals.append(normal)
            for row in range(rows):
                for column in range(columns):
                    corner = start + row * (columns + 1) + column
                    above = corner + columns + 1
                    indices += [corner, corner + 1, above + 1, corner, above + 1, above]
    return vertices, normals, indices


def _in_front(outline: list[list[float]], near: float) -> list[list[float]]:
    """The part of a polygon, in clip coordinates (x, y, z, w), that is further than ``near`` before the camera."""
    kept = []
    for here, there in zip(outline, outline[1:] + outline[:1], strict=True):
        if here[3] > near:
            kept.append(here)
        if (here[3] > near) != (there[3] > near):
            part = (near - here[3]) / (there[3] - here[3])
            kept.append([a + part * (b - a) for a, b in zip(here, there, strict=True)])
    return kept


def _rgb(colour: Colour) -> tuple[int, int, int]:
    red, green, blue, _ = (round(255 * part) for part in colour)
    return red, green, blue
