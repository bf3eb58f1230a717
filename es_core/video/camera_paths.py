"""Camera paths: the camera at each frame of a film."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from es_core.video.renderer import ScoredEpisode
from es_envs.bullet.camera import Camera

_ORBIT = 55.0, 16.0  # degrees to either side, and seconds for the way there and back
_FRAMED = 0.81, 0.75  # of the picture's width and height, in which a fixed camera keeps its targets
_DEFAULT_SHAPE = 4 / 3  # of a picture, its width by its height, for which environments choose their cameras


def is_narrow(size: tuple[int, int]) -> bool:
    """Return True if a picture is too narrow for an environment's own camera, which would cut both sides."""
    return size[0] < math.floor(_DEFAULT_SHAPE * size[1])


def camera_path(
    view: str, scored: Sequence[ScoredEpisode], size: tuple[int, int], rate: float
) -> list[tuple[Camera, ...]]:
    """Cameras at each frame of each episode, moved back where the picture is narrow.

    Args:
        view: "follow": the environment's own camera; "fixed": one camera that sees all targets of the others; "orbit":
            a camera that swings around its target, but never so far that it looks along a rail.
        scored: the episodes of a whole film.
        size: width and height of a picture.
        rate: frames per second.
    """
    back = max(1.0, _DEFAULT_SHAPE * size[1] / size[0])
    paths = [tuple(replace(camera, distance=back * camera.distance) for camera in one.cameras) for one in scored]
    if view == "fixed":
        still = _still([camera for path in paths for camera in path], size[0] / size[1])
        return [(still,) * len(path) for path in paths]
    if view == "orbit":
        turn, seconds = _ORBIT
        return [
            tuple(
                replace(camera, yaw=camera.yaw + turn * math.sin(2 * math.pi * number / rate / seconds))
                for number, camera in enumerate(path)
            )
            for path in paths
        ]
    return paths


def camera_above(cameras: Sequence[Camera], size: tuple[int, int]) -> Camera | None:
    """Return a camera that sees all targets from above, or None if the others see about as much."""
    targets, aspect = np.array([camera.target for camera in cameras]), size[0] / size[1]
    seen = 2 * max(camera.distance * math.tan(math.radians(camera.field_of_view) / 2) for camera in cameras)
    extent = np.ptp(targets[:, :2], axis=0)
    if extent.max() < seen:
        return None
    is_along = (extent[0] >= extent[1]) == (aspect >= 1)
    own = replace(cameras[0], yaw=0.0 if is_along else 90.0, pitch=-89.0)
    return _moved_back(own, targets, aspect)


def _still(cameras: Sequence[Camera], aspect: float) -> Camera:
    """Return a camera that sees all targets of these, near enough and with much motion in the picture.

    The closest place alone may be at the end of a rail, from where a cart on it seems to stand still.
    """
    targets = np.array([camera.target for camera in cameras])

    def worth(camera: Camera) -> float:
        x, y, z = camera.axes @ (targets - camera.target).T
        depth = camera.distance + z
        moved = max(np.ptp(x / (aspect * depth)), np.ptp(y / depth))
        return round(float(moved) / camera.distance, 6)

    turned = [replace(cameras[0], yaw=cameras[0].yaw + turn) for turn in sorted(range(-90, 91, 15), key=abs)]
    return max((_moved_back(camera, targets, aspect) for camera in turned), key=worth)


def _moved_back(own: Camera, targets: NDArray[np.float64], aspect: float) -> Camera:
    """Move the camera back until it sees all targets ``(n, 3)``."""
    middle = (targets.min(axis=0) + targets.max(axis=0)) / 2
    x, y, z = own.axes @ (targets - middle).T
    across, slope = (share * math.tan(math.radians(own.field_of_view) / 2) for share in _FRAMED)
    needed = np.maximum(np.abs(x) / (across * aspect), np.abs(y) / slope) - z
    room = own.distance / 6 * max(1.0, _DEFAULT_SHAPE / aspect)  # bodies at a target have a size
    distance = max(own.distance, float(needed.max()) + room)
    middle = middle - 0.12 * slope * distance * own.axes[1]  # the caption is below
    return replace(own, target=tuple(middle.tolist()), distance=distance)
