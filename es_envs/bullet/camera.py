"""Cameras, and the geometry of their pictures."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Camera:
    """Camera's position, direction and field of view.

    Attributes:
        target: the point in the middle of the picture, in world coordinates [m].
        distance: distance from the camera to the target [m].
        yaw: rotation around the vertical [degrees]: 0 looks along +y, 90 along -x.
        pitch: elevation of its direction [degrees]: 0 looks horizontally, -90 straight down.
        field_of_view: angle from the picture's lower edge to its upper one [degrees].
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
        sin, cos, rise, level = math.sin(yaw), math.cos(yaw), math.sin(pitch), math.cos(pitch)
        return np.array([[cos, sin, 0.0], [sin * rise, -cos * rise, level], [-sin * level, cos * level, rise]])

    @property
    def near(self) -> float:
        """Distance of the near clipping plane [m]: nothing closer is seen."""
        return self.distance / 20

    @property
    def far(self) -> float:
        """Distance of the far clipping plane [m]: no body further away is seen."""
        return self.distance * 30


Part = tuple[slice, slice]
"""A rectangle of a picture: its rows and columns [pixels]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """View of a camera, as OpenGL's matrices.

    Attributes:
        camera: the camera.
        size: width and height of the picture [pixels].
        from_world: ``(4, 4)``, from world coordinates (x, y, z, 1) to the camera's: right, up, back.
        projection: ``(4, 4)``, from the camera's coordinates to clip coordinates.
    """

    camera: Camera
    size: tuple[int, int]
    from_world: NDArray[np.float64]
    projection: NDArray[np.float64]

    @classmethod
    def of(cls, camera: Camera, size: tuple[int, int]) -> "View":
        """Return the view of a camera's whole picture."""
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
        """Matrix ``(4, 4)`` from world coordinates to clip coordinates."""
        to_clip: NDArray[np.float64] = self.projection @ self.from_world
        return to_clip

    @property
    def eye(self) -> NDArray[np.float64]:
        """The camera's position."""
        eye: NDArray[np.float64] = self.camera.target - self.camera.distance * self.camera.axes[2]
        return eye

    @property
    def to_pixels(self) -> NDArray[np.float64]:
        """Matrix ``(3, 4)`` from world coordinates to column, row and 1 in homogeneous coordinates [pixels]."""
        width, height = self.size
        return np.array([[width / 2, 0, 0, width / 2], [0, -height / 2, 0, height / 2], [0, 0, 0, 1]]) @ self.to_clip

    def outlines(self, polygons: Sequence[NDArray[np.float64]]) -> list[list[tuple[float, float]]]:
        """Outlines of polygons, with corners ``(n, 4)``, on the picture [pixels]; empty for one that is not on it."""
        if not polygons:
            return []
        seen, near = np.array(polygons) @ self.to_pixels.T, self.camera.near
        x, y, w = np.moveaxis(seen, 2, 0)
        width, height = self.size
        sides = (x < -w, y < -w, x > (width + 1) * w, y > (height + 1) * w, w <= near)  # a pixel's width outside
        is_out, is_near = np.any([np.all(side, axis=1) for side in sides], axis=0), np.any(w <= near, axis=1)
        outlines: list[list[tuple[float, float]]] = [[] for _ in polygons]
        for k in np.flatnonzero(~is_out).tolist():
            corners = seen[k].tolist()
            outlines[k] = [(x / w, y / w) for x, y, w in (_in_front(corners, near) if is_near[k] else corners)]
        return outlines

    def smaller(self, times: float) -> "View":
        """The same view with ``times`` fewer pixels along each side."""
        width, height = (max(1, math.ceil(length / times)) for length in self.size)
        return replace(self, size=(width, height))

    def around(self, seen: NDArray[np.bool_], boxes: Sequence[NDArray[np.float64]]) -> Part | None:
        """Find the part of the picture that contains something, or None.

        Args:
            seen: its pixels in a ``smaller`` picture.
            boxes: opposite corners ``(2, 3)`` of boxes that contain it: it may be too thin for that picture.
        """
        y, x = (np.nonzero(seen) + np.array(0.5)) * (self.size[1] / seen.shape[0])
        corners = np.array([(*corner, 1.0) for box in boxes for corner in product(*box.T)]).reshape(-1, 4)
        at_x, at_y, w = self.to_pixels @ corners.T
        if np.any(w < self.camera.near):
            return slice(0, self.size[1]), slice(0, self.size[0])
        margin = self.size[1] / seen.shape[0]
        rows, columns = (
            slice(max(0, int(where.min() - margin)), min(length, int(where.max() + margin) + 1))
            for where, length in ((np.append(y, at_y / w), self.size[1]), (np.append(x, at_x / w), self.size[0]))
        )
        return (rows, columns) if rows.start < rows.stop and columns.start < columns.stop else None

    def part(self, part: Part) -> "View":
        """View of a part of the picture; depth is measured as in the whole."""
        rows, columns = part
        (width, height), (w, h) = self.size, (columns.stop - columns.start, rows.stop - rows.start)
        zoom = np.eye(4)
        zoom[0, 0], zoom[1, 1] = width / w, height / h
        zoom[0, 3] = (width - columns.start - columns.stop) / w
        zoom[1, 3] = (rows.start + rows.stop - height) / h
        return replace(self, size=(w, h), projection=zoom @ self.projection)


@runtime_checkable
class FreeCameraEnv(Protocol):
    """An environment that is drawn from anywhere, and in several states at once: each ``BulletEnv`` is one."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""

    def camera(self) -> Camera:
        """The environment's own camera in the current state."""

    def pose(self) -> NDArray[np.float64]:
        """Positions of everything that moves, ``(p,)``."""

    def picture(self, camera: Camera, poses: Sequence[NDArray[np.float64]] = ()) -> NDArray[np.uint8]:
        """Draw the current state as a picture ``(height, width, 3)``, or several poses instead.

        Args:
            camera: the camera.
            poses: poses to draw, all but the last as ghosts; they replace the current state.
        """


def from_light(camera: Camera, light: Sequence[float]) -> Camera:
    """Return a camera that looks from the light at another one's target, from so far that its rays are parallel.

    Args:
        camera: the other camera.
        light: direction towards the light.
    """
    x, y, z = (np.array(light) / np.linalg.norm(light)).tolist()
    return Camera(
        target=camera.target,
        distance=30 * camera.distance,
        yaw=math.degrees(math.atan2(x, -y)),
        pitch=-math.degrees(math.asin(z)),
        field_of_view=camera.field_of_view / 30,
    )


def _in_front(outline: list[list[float]], near: float) -> list[list[float]]:
    """Part of a polygon, with corners (x, y, w), that is more than ``near`` in front of the camera."""
    kept = []
    for here, there in zip(outline, outline[1:] + outline[:1], strict=True):
        if here[2] > near:
            kept.append(here)
        if (here[2] > near) != (there[2] > near):
            part = (near - here[2]) / (there[2] - here[2])
            kept.append([a + part * (b - a) for a, b in zip(here, there, strict=True)])
    return kept
