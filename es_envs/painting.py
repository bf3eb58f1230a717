"""Painting: the parts of a picture that no physics engine draws, as arrays of numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Colour = tuple[float, float, float, float]
"""Red, green, blue, opacity, each from 0 to 1."""
Rectangle = tuple[float, float, float, float]
"""Seen from above, (x0, y0, x1, y1) [m], with x0 < x1 and y0 < y1."""
_NOTHING = 1.0 - 1e-6
"""Depth from which on there is no body: of an empty pixel it is 1, and a little less after rounding."""


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
    def near(self) -> float:
        """Nothing closer to the camera is seen [m]."""
        return self.distance / 20

    @property
    def far(self) -> float:
        """No body further from it is seen [m]."""
        return self.distance * 30


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

    def seen_by(self, camera: Camera, to_clip: NDArray[np.float64], size: tuple[int, int]) -> NDArray[np.uint8]:
        """A picture of it, ``(height, width, 4)``.

        Args:
            camera: of the picture.
            to_clip: ``(4, 4)``: world coordinates (x, y, z, 1) times it are OpenGL's clip coordinates.
            size: width and height of the picture [pixels].
        """
        from PIL import Image, ImageDraw  # only what draws pays for it

        width, height = size
        slope = math.tan(math.radians(camera.pitch)) / math.tan(math.radians(camera.field_of_view) / 2)
        horizon = min(max(round(height / 2 * (1 + slope)), 0), height)
        image = Image.new("RGBA", size, self._ground)
        image.paste(self._sky, (0, 0, width, horizon))
        draw = ImageDraw.Draw(image)
        for corners, colour in self.markings:
            outline = [
                (width / 2 * (1 + x / w), height / 2 * (1 - y / w))
                for x, y, _, w in _in_front((corners @ to_clip).tolist(), camera.near)
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
