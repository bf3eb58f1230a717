"""Captions: text on the frames of a film."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from es_core.video.layout import Frame

Colour = tuple[int, int, int]

_WHITE, _SOFT, _ACCENT = (255, 255, 255), (214, 220, 228), (255, 176, 46)
_DARKEST = 200  # of 255: opacity of a caption's background


@dataclass(frozen=True, kw_only=True)
class Label:
    """A few words on one of the pictures of a grid.

    Attributes:
        text: the words.
        corner: upper left corner of the picture (x, y).
        size: its width and height.
    """

    text: str
    corner: tuple[int, int]
    size: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Caption:
    """Caption of a clip.

    Attributes:
        title: text in large letters, on the left.
        score: text in large letters, on the right.
        subject: text in small letters, above the title.
        labels: labels of the pictures of a grid.
    """

    title: str
    score: str
    subject: str
    labels: tuple[Label, ...] = ()


class Captioner:
    """Writes captions and a progress bar on frames.

    Args:
        lengths: lengths of the film's clips [frames].
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self._ends = np.cumsum([0, *lengths])
        self._written: tuple[Caption, tuple[int, int]] | None = None
        self._layers: list[tuple[slice, slice, NDArray[np.uint16], NDArray[np.uint16]]] = []

    def caption(self, frame: Frame, caption: Caption, number: int) -> Frame:
        """Write a caption on ``frame``, which has this ``number`` in the film."""
        if caption.labels:  # the lowest pictures have their own labels, which must stay readable
            below = 3 * max(11, frame.shape[0] // 22) // 2 * 2
            frame = np.concatenate([frame, np.zeros((below, *frame.shape[1:]), np.uint8)])
        height, width = frame.shape[:2]
        if self._written != (caption, (width, height)):
            self._written = caption, (width, height)
            self._layers = [_layer(image, at) for image, at in _drawn(caption, width, height)]
        captioned = frame.copy()
        for rows, columns, kept, added in self._layers:
            part = captioned[rows, columns]
            part[:] = (part * kept + added) >> 8
        self._progress(captioned, number)
        return captioned

    def _progress(self, frame: Frame, number: int) -> None:
        """Draw a line along the lower edge, with a section for each clip."""
        height, width = frame.shape[:2]
        thickness, gap = max(2, height // 120), max(1, width // 320)
        edges = np.round(self._ends / self._ends[-1] * width).astype(int)
        now = round((number + 1) / self._ends[-1] * width)
        for start, stop in pairwise(edges):
            last = stop - gap if stop < width else width
            frame[-thickness:, start:last] = frame[-thickness:, start:last] // 3 + 50
            frame[-thickness:, start : min(last, now)] = _ACCENT


def _drawn(caption: Caption, width: int, height: int) -> list[tuple[Image.Image, tuple[int, int]]]:
    """Pictures with transparency, and their upper left corners (x, y)."""
    large, small = max(11, height // 20), max(9, height // 28)
    margin = large * 2 // 3
    strip = _ground(width, min(3 * large, height))
    pen, baseline = ImageDraw.Draw(strip), strip.height - margin
    pen.text((margin, baseline), caption.title, _WHITE, _font(large), anchor="ls")
    pen.text((width - margin, baseline), caption.score, _WHITE, _font(large), anchor="rs")
    pen.text((margin, baseline - large * 1.15), caption.subject, _SOFT, _font(small), anchor="ls")
    layers = [(strip, (0, height - strip.height))]
    for label in caption.labels:
        size = max(8, label.size[1] // 11)
        strip = _ground(label.size[0], min(2 * size, label.size[1]))
        ImageDraw.Draw(strip).text((size // 2, strip.height - size // 2), label.text, _WHITE, _font(size), anchor="ls")
        layers.append((strip, (label.corner[0], label.corner[1] + label.size[1] - strip.height)))
    return layers


def _ground(width: int, height: int) -> Image.Image:
    """Black background, transparent above and dark below."""
    shade = Image.fromarray(
        (_DARKEST * np.linspace(0, 2.2, height).clip(max=1)).astype(np.uint8)[:, None].repeat(width, axis=1)
    )
    black = Image.new("RGBA", (width, height))
    black.putalpha(shade)
    return black


def _layer(image: Image.Image, at: tuple[int, int]) -> tuple[slice, slice, NDArray[np.uint16], NDArray[np.uint16]]:
    """Place of a picture, the share of the frame that is kept there, and the part that is added, in 256ths."""
    (x, y), rgba = at, np.asarray(image).astype(np.uint16)
    alpha = rgba[..., 3:]
    return slice(y, y + image.height), slice(x, x + image.width), 256 - alpha, rgba[..., :3] * alpha


@cache
def _font(size: int) -> Any:
    return ImageFont.load_default(size)
