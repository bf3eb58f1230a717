"""Layout: several pictures in one, side by side or on top of each other."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Frame = NDArray[np.uint8]

_GAP = 2  # pixels between the pictures of a grid
_SHAPES = 1.0, 2.1  # of a picture in which one sees well: its width by its height
_DIM = 0.55  # weight of a ghost
_LARGE_ENOUGH = 480  # pixels of a picture's longer side
SMALLEST_LETTERS = 8
"""Height of letters [pixels]."""


def at_frame(sequence: Any, number: int) -> Any:
    """Item of a frame with this number: after an episode's end the last one."""
    return sequence[min(number, len(sequence) - 1)]


def even(frame: Frame) -> Frame:
    """Cut ``frame`` to even sides, which H.264 with yuv420p needs, rather than rescale it."""
    height, width = frame.shape[:2]
    return np.ascontiguousarray(frame[: height - height % 2, : width - width % 2])


def frame_size(width: int | None, height: int | None, aspect: str | None, *, usual: int = 640) -> tuple[int, int]:
    """Width and height of a frame, cut to even ones, from at most two of these; by default ``usual``, at 4:3.

    Raises:
        ValueError: all three are given.
    """
    if None not in (width, height, aspect):
        raise ValueError(f"width, height and aspect: two of them are enough, got {width}, {height} and {aspect}")
    across, down = map(int, (aspect or "4:3").split(":"))
    if width is None:
        width = usual if height is None else round(height * across / down)
    if height is None:
        height = round(width * down / across)
    return max(2, width // 2 * 2), max(2, height // 2 * 2)


def letters(size: tuple[int, int]) -> int:
    """Height of a caption's large letters [pixels] in a frame of this size."""
    return max(11, min(size[1], size[0] * 3 // 4) // 20)


def caption_height(size: tuple[int, int]) -> int:
    """Height of the caption along the lower edge of a frame of this size [pixels]."""
    return min(3 * letters(size), size[1])


def label_letters(picture: tuple[int, int], frame: tuple[int, int]) -> int:
    """Height of the letters of a label [pixels] of a picture of this size in a grid's frame of that size."""
    return max(SMALLEST_LETTERS, min(letters(frame), picture[1] // 11, picture[0] // 15))


def _strip(size: tuple[int, int]) -> int:
    """Height of the caption [pixels] of a picture of this size when it lies below it: the frame is then higher."""
    height = caption_height(size)
    while (needed := caption_height((size[0], size[1] + height))) > height:
        height = needed
    return height + height % 2


@dataclass(frozen=True, kw_only=True)
class Arrangement:
    """The places that the pictures of a clip have in a frame.

    Attributes:
        layout: "alone" or "grid"; "ghosts": on top of each other.
        size: width and height of a frame [pixels], even numbers.
        picture: width and height of each picture.
        corners: the upper left corner (x, y) of each picture.
        fits: fit a picture of another size into its place; else the frame is as large as the picture.
        apart: captions and labels lie below the pictures, not on them; small pictures without a place are enlarged.
    """

    layout: str
    size: tuple[int, int]
    picture: tuple[int, int]
    corners: tuple[tuple[int, int], ...] = ((0, 0),)
    fits: bool = True
    apart: bool = False

    @property
    def below(self) -> int:
        """Height under a picture in a grid that is left for its label [pixels]."""
        return 2 * label_letters(self.picture, self.size) if self.apart and self.layout == "grid" else 0

    def without_strip(self, frame: Frame) -> Frame:
        """Return the part of a frame that is above the caption, if that lies apart."""
        return frame[: max(1, frame.shape[0] - caption_height(frame.shape[1::-1]))] if self.apart else frame

    def frame(self, pictures: Sequence[Frame]) -> Frame:
        """Put pictures into a frame, scaled but not distorted; what they leave empty is black."""
        if self.layout == "ghosts" and len(pictures) > 1:
            pictures = [_blended(pictures)]
        if self.apart and not self.fits:
            return _with_strip(_enlarged(pictures[0]))
        if not self.fits or (len(pictures) == 1 and pictures[0].shape[1::-1] == self.size):
            return pictures[0]
        frame = np.zeros((*self.size[::-1], 3), np.uint8)
        width, height = self.picture
        for picture, (x, y) in zip(pictures, self.corners, strict=True):
            fitted = _fitted(picture, self.picture)
            top, left = y + (height - fitted.shape[0]) // 2, x + (width - fitted.shape[1]) // 2
            frame[top : top + fitted.shape[0], left : left + fitted.shape[1]] = fitted
        return frame


def alone(size: tuple[int, int], *, layout: str = "alone", fits: bool, apart: bool = False) -> Arrangement:
    """Arrange one picture, or several on top of each other.

    Args:
        size: width and height of the frame.
        layout: "alone" or "ghosts".
        fits: see ``Arrangement``.
        apart: see there, too.
    """
    picture = (size[0], max(2, size[1] - caption_height(size) // 2 * 2)) if fits and apart else size
    return Arrangement(layout=layout, size=size, picture=picture, fits=fits, apart=apart)


def grid(
    number: int, size: tuple[int, int], *, below: int = 0, apart: bool = False, across: int | None = None
) -> Arrangement:
    """Arrange pictures side by side, with the least area empty or in pictures of unusual shape.

    Args:
        number: number of pictures.
        size: width and height of the frame.
        below: height that is left for a caption.
        apart: see ``Arrangement``.
        across: number of pictures in a row; None: as fits best.

    Raises:
        ValueError: the pictures have no room.
    """
    width, height = size[0], max(2, size[1] - below)

    def filled(across: int) -> float:
        down = math.ceil(number / across)
        shape = (width / across) / (height / down)
        return number / (across * down) * min(1.0, shape / _SHAPES[0], _SHAPES[1] / shape)

    across = min(across, number) if across else max(range(number, 0, -1), key=filled)
    picture = _share(width, across), _share(height, math.ceil(number / across))
    corners: list[tuple[int, int]] = []
    for first in range(0, number, across):
        in_row = min(across, number - first)
        left = max(0, width - in_row * (picture[0] + _GAP) + _GAP) // 2
        top = first // across * (picture[1] + _GAP)
        corners += [(left + k * (picture[0] + _GAP), top) for k in range(in_row)]
    if any(x + picture[0] > size[0] or y + picture[1] > size[1] for x, y in corners):
        raise ValueError(f"a film of {size[0]} by {size[1]} has no room for a grid of {number}: give it a larger width")
    if apart:
        picture = picture[0], max(2, picture[1] - 2 * label_letters(picture, size))
    return Arrangement(layout="grid", size=size, picture=picture, corners=tuple(corners), apart=apart)


def _share(length: int, count: int) -> int:
    """Length of each of so many pictures, an even number."""
    return max(2, (length - (count - 1) * _GAP) // count // 2 * 2)


def _enlarged(frame: Frame) -> Frame:
    """A small picture, such as that of a grid's world, enlarged a whole number of times, so that it stays sharp."""
    times = -(-_LARGE_ENOUGH // max(frame.shape[:2]))
    return frame.repeat(times, axis=0).repeat(times, axis=1) if times > 1 else frame


def _with_strip(frame: Frame) -> Frame:
    """A picture with an empty strip below it."""
    return np.pad(frame, ((0, _strip(frame.shape[1::-1])), (0, 0), (0, 0)))


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
    is_lead = away[-1] > away[:-1].max(axis=0)
    blended: Frame = np.where(is_lead[..., None], lead, seen).astype(np.uint8)
    return blended
