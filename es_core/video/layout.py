"""Layout: several pictures in one, side by side or on top of each other."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Frame = NDArray[np.uint8]

LAYOUTS = ("grid", "ghosts")
"""Names of the layouts."""

_GAP = 2  # pixels between the pictures of a grid
_USUAL_SHAPE = 4 / 3  # of a picture: its width by its height
_DIM = 0.55  # weight of a ghost


def at_frame(sequence: Any, number: int) -> Any:
    """Item of a frame with this number: after an episode's end the last one."""
    return sequence[min(number, len(sequence) - 1)]


def even(frame: Frame) -> Frame:
    """Cut ``frame`` to even sides, which H.264 with yuv420p needs, rather than rescale it."""
    height, width = frame.shape[:2]
    return np.ascontiguousarray(frame[: height - height % 2, : width - width % 2])


def columns(number: int, size: tuple[int, int]) -> int:
    """Number of columns of a grid that fills ``size`` with so many pictures: few gaps, and pictures of usual shape."""

    def cost(across: int) -> float:
        rows = math.ceil(number / across)
        shape = (size[0] / across) / (size[1] / rows)
        return (across * rows - number) / number + abs(math.log(shape / _USUAL_SHAPE))

    return min(range(number, 0, -1), key=cost)


def cell(size: tuple[int, int], number: int, across: int) -> tuple[int, int]:
    """Width and height of each of ``number`` pictures in a grid of ``size`` with so many columns."""
    counts = across, math.ceil(number / across)
    width, height = (
        (length - (count - 1) * _GAP) // count // 2 * 2 for length, count in zip(size, counts, strict=True)
    )
    return max(2, width), max(2, height)


def corners(number: int, size: tuple[int, int], across: int) -> list[tuple[int, int]]:
    """Upper left corners (x, y) of a grid's pictures, row by row; each picture has this ``size``."""
    width, height = size
    return [(k % across * (width + _GAP), k // across * (height + _GAP)) for k in range(number)]


def arranged(frames: Sequence[Frame], layout: str, size: tuple[int, int], across: int) -> Frame:
    """Arrange frames in one picture: a "grid", each fitted into ``size``; or "ghosts", on top of each other."""
    if layout == "grid":
        return _grid(frames, size, across)
    return _blended(frames) if layout == "ghosts" else frames[0]


def _grid(frames: Sequence[Frame], size: tuple[int, int], across: int) -> Frame:
    (width, height), places = size, corners(len(frames), size, across)
    picture = np.zeros((places[-1][1] + height, across * (width + _GAP) - _GAP, 3), np.uint8)
    for frame, (x, y) in zip(frames, places, strict=True):
        fitted = _fitted(frame, size)
        top, left = y + (height - fitted.shape[0]) // 2, x + (width - fitted.shape[1]) // 2
        picture[top : top + fitted.shape[0], left : left + fitted.shape[1]] = fitted
    return picture


def _fitted(frame: Frame, size: tuple[int, int]) -> Frame:
    """Scale ``frame`` to fit into ``size``."""
    height, width = frame.shape[:2]
    if (width, height) == size:
        return frame
    scale = min(size[0] / width, size[1] / height)
    fitted = max(1, round(width * scale)), max(1, round(height * scale))
    return np.asarray(Image.fromarray(frame).resize(fitted, Image.Resampling.BOX if scale < 1 else None))


def _blended(frames: Sequence[Frame]) -> Frame:
    """Blend frames on top of each other: the last one as it is, the others translucent where they differ from most.

    The background is what most frames share; each pixel shows the frame that differs the most from the mean.
    """
    stack = np.stack(frames).astype(np.int16)
    away = np.abs(stack - stack.mean(axis=0).astype(np.int16)).sum(axis=3)
    ghost = np.take_along_axis(stack, away.argmax(axis=0)[None, :, :, None], axis=0)[0]
    lead = stack[-1]
    seen = (1 - _DIM) * np.median(stack, axis=0) + _DIM * ghost if len(stack) > 2 else (lead + ghost) / 2
    is_lead = away[-1] > away[:-1].max(axis=0) if len(stack) > 1 else np.ones(lead.shape[:2], bool)
    blended: Frame = np.where(is_lead[..., None], lead, seen).astype(np.uint8)
    return blended
