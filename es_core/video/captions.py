"""Captions: what is written and drawn on the frames of a film."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from es_core.video.layout import SMALLEST_LETTERS, Frame, at_frame, caption_height, label_letters, letters

Colour = tuple[int, int, int]

_WHITE, _SOFT, _ACCENT = (255, 255, 255), (214, 220, 228), (255, 176, 46)
_GOOD, _BAD = (96, 214, 122), (255, 107, 107)
_TITLE = 0.55  # of a caption's width, which a title may have although the score is long
_DARKEST = 200  # of 255: opacity of a caption's background
_SAMPLE = 20  # height of letters that are drawn to see whether a font has them [pixels]
_NO_LETTER = "\uffff"
_SIMILAR = {"→": ">", "←": "<"}  # NFKD knows no letters that are like these
_DIMMED = 160  # of 256: what is left of the picture of a player whose episode has ended


@dataclass(frozen=True, kw_only=True)
class Label:
    """A few words on one of the pictures of a grid, which is dimmed and marked when its episode has ended.

    Attributes:
        texts: the words at each frame of the episode; the last ones, at its end, stay.
        is_good: mark it with a tick at the end, or with a cross; None: with neither.
        corner: upper left corner of the picture (x, y).
        size: its width and height.
        below: height [pixels] under the picture that is left for the words; 0: they lie on the picture.
    """

    texts: tuple[str, ...]
    is_good: bool | None
    corner: tuple[int, int]
    size: tuple[int, int]
    below: int = 0


Legend = tuple[tuple[tuple[Colour, ...], str], ...]
"""The meaning of the colours of ghosts: rows of colours, and a name next to them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Inset:
    """A small map in the corner, with a dot where the player is.

    Attributes:
        picture: the map.
        places: where the dot is at each frame (x, y) [pixels of the map]; the last one stays.
    """

    picture: Frame
    places: tuple[tuple[float, float], ...]

    def smaller(self, times: float) -> "Inset":
        """The same map with ``times`` fewer pixels along each side."""
        height, width = self.picture.shape[:2]
        size = max(1, round(width / times)), max(1, round(height / times))
        picture = np.asarray(Image.fromarray(self.picture).resize(size, Image.Resampling.BOX))
        return Inset(picture=picture, places=tuple((x / times, y / times) for x, y in self.places))


@dataclass(frozen=True, kw_only=True)
class Caption:
    """Caption of a clip. Where there is a text for each frame, the last one stays.

    Attributes:
        titles: text in large letters, on the left, at each frame.
        scores: text in large letters, on the right, at each frame.
        subject: text in small letters, above the title.
        labels: labels of the pictures of a grid.
        legend: legend of ghosts; empty: none.
        inset: a map, or None.
        readout: text in the upper left corner, at each frame; empty: none.
    """

    titles: tuple[str, ...]
    scores: tuple[str, ...]
    subject: str
    labels: tuple[Label, ...] = ()
    legend: Legend = ()
    inset: Inset | None = None
    readout: tuple[str, ...] = ()

    @cached_property
    def longest(self) -> tuple[str, str]:
        """The longest title and score, for which there must be room."""
        return max(self.titles, key=len), max(self.scores, key=len)


def score_text(fitness: float | None, decimals: int, ending: str = "") -> str:
    """The fitness so far, and at the end how it ended; empty where it is not known yet."""
    text = "" if fitness is None else f"fitness {fitness:z.{decimals}f}"
    return f"{text}, {ending}" if ending else text


def captioned(frame: Frame, caption: Caption, number: int) -> Frame:
    """Return a frame with a caption; it has this ``number`` in its clip."""
    written, size = frame.copy(), frame.shape[1::-1]
    for label in caption.labels:
        (x, y), (width, height), is_over = label.corner, label.size, number + 1 >= len(label.texts)
        if is_over:
            part = written[y : y + height, x : x + width]
            part[:] = part.astype(np.uint16) * _DIMMED >> 8
        mark = label.is_good if is_over else None
        strip = _label(label.size, label_letters(label.size, size), at_frame(label.texts, number), mark)
        _lay(written, strip, (x, y + height + label.below - strip[0].shape[0]))
    title, score = at_frame(caption.titles, number), at_frame(caption.scores, number)
    strip = _main(size, title, score, caption.subject, *caption.longest)
    _lay(written, strip, (0, size[1] - strip[0].shape[0]))
    if caption.legend:
        _lay(written, _legend(caption.legend, size), (0, 0))
    if caption.readout:
        plate = _plate(at_frame(caption.readout, number), max(caption.readout, key=len), size)
        _lay(written, plate, (letters(size) * 2 // 3,) * 2)
    if caption.inset is not None:
        _draw_inset(written, caption.inset, number)
    return written


def draw_progress(frame: Frame, ends: Sequence[int], number: int) -> None:
    """Draw a line along the lower edge of a film's frame, which is changed, with a section for each clip.

    Args:
        frame: the frame.
        ends: the number of the film's first frame, 0, and for each clip that of the frame behind its last one.
        number: the frame's own.
    """
    height, width = frame.shape[:2]
    thickness, gap = max(2, height // 120), max(1, width // 320)
    edges = np.round(np.array(ends) / ends[-1] * width).astype(int)
    now = round((number + 1) / ends[-1] * width)
    for start, stop in pairwise(edges):
        last = stop - gap if stop < width else width
        frame[-thickness:, start:last] = frame[-thickness:, start:last] // 3 + 50
        frame[-thickness:, start : min(last, now)] = _ACCENT


Layer = tuple[NDArray[np.uint16], NDArray[np.uint16]]
"""The share of the frame that is kept, and the part that is added, in 256ths."""


@lru_cache(maxsize=64)
def _main(size: tuple[int, int], title: str, score: str, subject: str, long_title: str, long_score: str) -> Layer:
    """Strip with the texts along the lower edge; letters are as large in all frames of a clip."""
    large, strip = letters(size), _ground(size[0], caption_height(size))
    margin, baseline = large * 2 // 3, strip.height - large * 2 // 3
    room = size[0] - 3 * margin
    pen = ImageDraw.Draw(strip)
    left = max(room - _length(long_score, large), room * _TITLE)
    font, text = _fitting(title, long_title, large, left)
    pen.text((margin, baseline), text, _WHITE, font, anchor="ls")
    font, text = _fitting(score, long_score, large, room - min(left, _length(long_title, font.size)))
    pen.text((size[0] - margin, baseline), text, _WHITE, font, anchor="rs")
    font, text = _fitting(subject, subject, max(9, large * 5 // 7), size[0] - 2 * margin)
    pen.text((margin, baseline - large * 1.15), text, _SOFT, font, anchor="ls")
    return _layer(strip)


@lru_cache(maxsize=256)
def _label(size: tuple[int, int], high: int, text: str, mark: bool | None) -> Layer:
    """Strip along the lower edge of a grid's picture; with a tick (True) or a cross (False) on its right."""
    strip = _ground(size[0], min(2 * high, size[1]))
    pen, baseline = ImageDraw.Draw(strip), strip.height - high // 2
    font, text = _fitting(text, text, high, size[0] - high * 5 // 2)
    pen.text((high // 2, baseline), text, _WHITE, font, anchor="ls")
    if mark is not None:
        right, top, side = size[0] - high // 2, baseline - high * 0.8, high * 0.8
        tick = [(right - side, top + side * 0.55), (right - side * 0.62, baseline), (right, top)]
        cross = [(right - side, top), (right, baseline)], [(right - side, baseline), (right, top)]
        for line in [tick] if mark else cross:
            pen.line(line, _GOOD if mark else _BAD, max(2, high // 6), joint="curve")
    return _layer(strip)


@lru_cache(maxsize=64)
def _plate(text: str, longest: str, size: tuple[int, int]) -> Layer:
    """A text on a dark plate, which is as wide for all texts of a clip."""
    high = letters(size)
    font, longest = _fitting(longest, longest, high, size[0] / 2)
    width, height = round(font.getlength(longest)) + high, high * 3 // 2
    plate = Image.new("RGBA", (width, height), (0, 0, 0, 130))
    ImageDraw.Draw(plate).text((high // 2, height // 2), _drawable(text), _WHITE, font, anchor="lm")
    return _layer(plate)


@lru_cache(maxsize=8)
def _legend(legend: Legend, size: tuple[int, int]) -> Layer:
    """Rows of colours, and what they mean."""
    high = max(SMALLEST_LETTERS, min(max(9, letters(size) * 5 // 7), size[1] // (3 * len(legend))))
    margin, most = high * 2 // 3, max(len(colours) for colours, _ in legend)
    side = max(2, high * (8 if most > 1 else 2) // max(1, most))
    room = size[0] - 3 * margin - side * most
    texts = [_fitting(text, text, high, room) for _, text in legend]
    width = 3 * margin + side * most + max(font.getlength(text) for font, text in texts)
    plate = Image.new("RGBA", (round(width), margin + len(texts) * (margin + high)), (0, 0, 0, 130))
    pen = ImageDraw.Draw(plate)
    for row, ((colours, _), (font, text)) in enumerate(zip(legend, texts, strict=True)):
        top = margin + row * (margin + high)
        for k, colour in enumerate(colours):
            pen.rectangle((margin + k * side, top, margin + (k + 1) * side - 1, top + high), colour)
        pen.text((2 * margin + side * most, top + high // 2), text, _WHITE, font, anchor="lm")
    return _layer(plate)


def _draw_inset(frame: Frame, inset: Inset, number: int) -> None:
    """Put the map into the upper right corner."""
    (height, width), edge = inset.picture.shape[:2], max(2, frame.shape[0] // 240)
    picture = Image.fromarray(inset.picture)
    (x, y), radius = at_frame(inset.places, number), max(3, width // 40)
    pen = ImageDraw.Draw(picture)
    pen.ellipse((x - radius, y - radius, x + radius, y + radius), _ACCENT, (0, 0, 0))
    margin = letters(frame.shape[1::-1]) * 2 // 3
    top, left = margin, frame.shape[1] - margin - width
    frame[top - edge : top + height + edge, left - edge : left + width + edge] = _SOFT
    frame[top : top + height, left : left + width] = np.asarray(picture)


def _ground(width: int, height: int) -> Image.Image:
    """Black background, transparent above and dark below."""
    shade = Image.fromarray(
        (_DARKEST * np.linspace(0, 4, height).clip(max=1)).astype(np.uint8)[:, None].repeat(width, axis=1)
    )
    black = Image.new("RGBA", (width, height))
    black.putalpha(shade)
    return black


def _layer(image: Image.Image) -> Layer:
    rgba = np.asarray(image).astype(np.uint16)
    alpha = rgba[..., 3:]
    return 256 - alpha, rgba[..., :3] * alpha


def _lay(frame: Frame, layer: Layer, corner: tuple[int, int]) -> None:
    """Lay a picture over a frame, which is changed; what does not fit is cut."""
    (x, y), (kept, added) = corner, layer
    part = frame[y : y + kept.shape[0], x : x + kept.shape[1]]
    rows, columns = part.shape[:2]
    part[:] = (part * kept[:rows, :columns] + added[:rows, :columns]) >> 8


def _fitting(text: str, longest: str, high: int, room: float) -> tuple[Any, str]:
    """The largest font, at most so ``high``, in which the longest text fits into the room; else the text is cut."""
    while high > SMALLEST_LETTERS and _length(longest, high) > room:
        high -= 1
    text, dots = _drawable(text), ""
    font = _font_for(text, high)
    while text and font.getlength(text + dots) > room:
        text, dots = text[:-1], "…"
    return font, text + dots if text else ""


def _length(text: str, high: int) -> float:
    drawable = _drawable(text)
    return float(_font_for(drawable, high).getlength(drawable))


def _font_for(drawable: str, high: int) -> Any:
    return _font(high, is_rich=not all(_has(letter) for letter in drawable))


@cache
def _font(size: int, *, is_rich: bool = False) -> Any:
    """Pillow's own font, which has little more than ASCII; or pygame's, which is bold and has the letters of Europe."""
    pygame = find_spec("pygame") if is_rich else None  # not imported, which takes long
    if pygame is None or pygame.origin is None:
        return ImageFont.load_default(size)
    return ImageFont.truetype(Path(pygame.origin).with_name("freesansbold.ttf"), size)


@lru_cache(maxsize=1024)
def _drawable(text: str) -> str:
    """``text`` with similar letters, or question marks, for those that no font has; fonts draw a box for them."""
    return "".join(map(_known, unicodedata.normalize("NFC", text)))


def _known(letter: str) -> str:
    if _has(letter) or _has(letter, is_rich=True):
        return letter
    parts = _SIMILAR.get(letter) or unicodedata.normalize("NFKD", letter)
    similar = "".join(part for part in parts if not unicodedata.combining(part))
    return similar if similar and all(map(_has, similar)) else "?"


@cache
def _has(letter: str, *, is_rich: bool = False) -> bool:
    """Return True if a font has a letter."""
    if not letter.isprintable():
        return False
    drawn, box = (_font(_SAMPLE, is_rich=is_rich).getmask(each) for each in (letter, _NO_LETTER))
    return (drawn.size, bytes(drawn)) != (box.size, bytes(box))
