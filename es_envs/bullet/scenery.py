"""Scenery: the parts of a picture that no physics engine draws, as arrays of numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_envs.bullet.camera import View

Colour = tuple[float, float, float, float]
"""Red, green, blue, opacity, each from 0 to 1."""
Rectangle = tuple[float, float, float, float]
"""Seen from above, (x0, y0, x1, y1) [m], with x0 < x1 and y0 < y1."""
_Rgb = tuple[int, int, int]
_Mark = tuple[NDArray[np.float64], _Rgb]  # corners ``(4, 4)`` in homogeneous coordinates

_FIRST_GHOST, _LAST_GHOST = np.array([[60, 130, 255], [255, 205, 70]])
_OPACITY = 0.7  # of a ghost
_SHADOW = (12, 18, 34)
_SHADE = 95  # of 255: darkness of a shadow
_ZENITH = np.array([0.32, 0.17, 0.05])  # difference in brightness between the sky at the horizon and above
_STRIPE = 0.5  # [m]
_FLAT = 1e-9  # determinant of a map of the ground that appears as a line


@dataclass(frozen=True, slots=True, kw_only=True)
class Silhouette:
    """Silhouette of bodies, as the light sees them.

    Attributes:
        seen: their pixels, ``(height, width)``.
        view: the light's view.
    """

    seen: NDArray[np.bool_]
    view: View


class Scenery:
    """Sky, ground with marks, and fixed boxes, with their shadows.

    TinyRenderer takes 0.2 µs for each pixel of a body and has no smooth edges: this is painted without it, at twice
    the size.

    Args:
        sky: the sky's colour at the horizon.
        ground: the ground's colour.
        height: the ground's height [m].
        light: direction towards it, in world coordinates.
    """

    def __init__(self, sky: Colour, ground: Colour, height: float, light: Sequence[float]) -> None:
        self._sky, self._ground, self._height = _rgb(sky), _rgb(ground), height
        self.light = tuple(light)  # direction towards it
        self._light = np.array(light) / np.linalg.norm(light)
        self._marks: list[_Mark] = []
        self._paving: list[_Mark] = []
        self._shadows: list[NDArray[np.float64]] = []
        self._boxes: list[tuple[NDArray[np.float64], list[_Face]]] = []

    def mark(self, rectangle: Rectangle, colour: Colour) -> None:
        """Mark a rectangle on the ground, over earlier marks."""
        x0, y0, x1, y1 = rectangle
        self._marks.append((_face((x0, y0, self._height), (x1, y1, self._height), 2, 1), _rgb(colour)))

    def pave(self, paving: Sequence[tuple[NDArray[np.float64], Colour]]) -> None:
        """Paint quadrilaterals under the marks, those of a colour ``(n, 4, 2)``, in place of earlier ones."""
        self._paving = []
        for quadrilaterals, colour in paving:
            corners = np.ones((len(quadrilaterals), 4, 4))
            corners[..., :2], corners[..., 2] = quadrilaterals, self._height
            self._paving += [(each, _rgb(colour)) for each in corners]

    def put(self, box: NDArray[np.float64], colour: Colour, stripes: Sequence[Colour] = ()) -> None:
        """Add a box.

        Args:
            box: opposite corners ``(2, 3)``; two boxes must not overlap, but may touch.
            colour: the sides' colour.
            stripes: alternating colours of its top along the longer side; none: ``colour``.
        """
        low, high = box
        faces = []
        for axis in range(3):
            for side in (-1, 1):
                bright = min(1.0, 0.62 + 0.5 * max(0.0, side * self._light[axis]))
                faces.append(_Face(axis, side, _face(low, high, axis, side), _rgb(colour, bright)))
        faces += [_Face(2, 1, _face(part[0], part[1], 2, 1), _rgb(stripe)) for part, stripe in striped(box, stripes)]
        self._boxes.append((box, faces))
        sides = [face.corners for face in faces[:6] if face.axis < 2 or face.side > 0]
        fall = np.append(self._light / self._light[2], 0.0)
        self._shadows += [corners - (corners[:, 2:3] - self._height) * fall for corners in sides]

    def seen_by(self, view: View, silhouette: Silhouette | None = None, *, paved: bool = False) -> NDArray[np.uint8]:
        """Draw a picture of it ``(height, width, 3)``, with the shadow of a silhouette; ``paved``: with the paving."""
        from PIL import Image, ImageDraw  # only drawing needs it

        fine = replace(view, size=(2 * view.size[0], 2 * view.size[1]))
        image = self._open_air(fine)
        pen = ImageDraw.Draw(image)
        marks = [*(self._paving if paved else ()), *self._marks]
        for mark, outline in zip(marks, fine.outlines([corners for corners, _ in marks]), strict=True):
            if outline:
                pen.polygon(outline, mark[1])
        shade = Image.new("L", fine.size)
        if silhouette is not None:
            self._cast(shade, fine, silhouette)
        pen = ImageDraw.Draw(shade)
        for outline in fine.outlines(self._shadows):
            if outline:
                pen.polygon(outline, _SHADE)
        where = shade.getbbox()
        if where is not None:
            image.paste(_SHADOW, where, shade.crop(where))
        pen = ImageDraw.Draw(image)
        eye = view.eye
        boxes = _back_to_front(self._boxes, eye)
        faces = [face for box, its_faces in boxes for face in its_faces if face.faces(box, eye)]
        for face, outline in zip(faces, fine.outlines([face.corners for face in faces]), strict=True):
            if outline:
                pen.polygon(outline, face.colour)
        return np.asarray(image.reduce(2))

    def _open_air(self, view: View) -> Any:
        """Draw the sky, darker above, and the ground, which fades into it."""
        from PIL import Image

        height = view.size[1]
        slope = math.tan(math.radians(view.camera.field_of_view) / 2)
        rows = (1 - 2 * (np.arange(height) + 0.5) / height) * slope
        above = np.degrees(np.arctan(rows)) + view.camera.pitch  # of the horizon [degrees]
        blue = np.clip(above / 45, 0, 1)[:, None]
        sky = self._sky * (1 - blue * _ZENITH)
        haze = 0.35 * np.exp(np.minimum(above, 0) / 4)[:, None]
        column = np.where(above[:, None] > 0, sky, self._ground * (1 - haze) + np.array(self._sky) * haze)
        return Image.fromarray(column.round().astype(np.uint8)[:, None]).resize(view.size, Image.Resampling.NEAREST)

    def _cast(self, shade: Any, view: View, silhouette: Silhouette) -> None:
        """Draw the shadow of a silhouette on the ground."""
        from PIL import Image, ImageFilter

        mask = Image.fromarray(np.where(silhouette.seen, _SHADE, 0).astype(np.uint8)).filter(ImageFilter.BoxBlur(1))
        seen = mask.getbbox()
        if seen is None:
            return
        to_ground = np.array([[1, 0, 0], [0, 1, 0], [0, 0, self._height], [0, 0, 1]])
        to_picture = view.to_pixels @ to_ground @ np.linalg.inv(silhouette.view.to_pixels @ to_ground)
        x0, y0, x1, y1 = seen
        x, y, w = to_picture @ [[x0, x1, x1, x0], [y0, y0, y1, y1], [1, 1, 1, 1]]
        if w.min() <= 0 <= w.max() or abs(np.linalg.det(to_picture)) < _FLAT:  # beside the camera, or edge-on
            return
        left, right = max(0, int(min(x / w))), min(view.size[0], int(max(x / w)) + 1)
        upper, lower = max(0, int(min(y / w))), min(view.size[1], int(max(y / w)) + 1)
        if left >= right or upper >= lower:
            return
        from_part = np.linalg.inv(to_picture) @ [[1, 0, left], [0, 1, upper], [0, 0, 1]]
        numbers = (from_part / from_part[2, 2]).reshape(-1)[:8].tolist()
        size, kind = (right - left, lower - upper), Image.Transform.PERSPECTIVE
        shade.paste(mask.transform(size, kind, numbers, Image.Resampling.BILINEAR), (left, upper))


def striped(box: NDArray[np.float64], stripes: Sequence[Colour]) -> list[tuple[NDArray[np.float64], Colour]]:
    """Cut a box ``(2, 3)`` along its longer side into parts with alternating colours; without colours into none."""
    low, high = box
    along = int(np.argmax((high - low)[:2]))
    number = max(1, round((high - low)[along] / _STRIPE)) if stripes else 0
    parts = []
    for k in range(number):
        part = box.copy()
        part[:, along] = low[along] + np.array([k, k + 1]) / number * (high - low)[along]
        parts.append((part, stripes[k % len(stripes)]))
    return parts


def laid_over(
    picture: NDArray[np.uint8],
    body: NDArray[np.uint8],
    seen: NDArray[np.bool_],
    *,
    ghost: tuple[int, int, int] | None = None,
) -> None:
    """Draw a body over a picture ``(height, width, 3)``, which is changed.

    Args:
        picture: the background.
        body: a picture of the body, ``(k height, k width, 4)``, for a smooth edge.
        seen: its pixels, at the same scale.
        ghost: colour of a translucent body, or None.
    """
    height, width = picture.shape[:2]
    finer = seen.shape[0] // height
    if finer == 1 and ghost is None:  # several times faster than the code below
        np.copyto(picture, body[..., :3], where=seen[..., None])
        return
    colours = body[..., :3].astype(np.float32)
    if ghost is not None:
        colours = (0.5 + 0.5 * colours.mean(axis=2, keepdims=True) / 255) * np.array(ghost, np.float32)
    covered = (seen * np.float32(1 if ghost is None else _OPACITY))[..., None]
    both = np.concatenate([colours * covered, covered], axis=2)
    both = both.reshape(height, finer, width, finer, 4).mean(axis=(1, 3))
    np.copyto(picture, (picture * (1 - both[..., 3:]) + both[..., :3]).astype(np.uint8))


def ghost_colours(number: int) -> list[tuple[int, int, int]]:
    """Distinct colours of ghosts, from blue for the first to yellow for the last."""
    share = np.linspace(0.0, 1.0, max(number, 1))[:number, None]
    colours = (1 - share) * _FIRST_GHOST + share * _LAST_GHOST
    return [tuple(colour) for colour in colours.round().astype(int).tolist()]


@dataclass(frozen=True, slots=True)
class _Face:
    """One face of a box, its corners ``(4, 4)`` in homogeneous coordinates."""

    axis: int
    side: int
    corners: NDArray[np.float64]
    colour: tuple[int, int, int]

    def faces(self, box: NDArray[np.float64], eye: NDArray[np.float64]) -> bool:
        return bool(eye[self.axis] > box[1, self.axis] if self.side > 0 else eye[self.axis] < box[0, self.axis])


def _face(low: Sequence[float], high: Sequence[float], axis: int, side: int) -> NDArray[np.float64]:
    """Corners of a box's face, in order."""
    ends = np.array([low, high])
    corners = np.ones((4, 4))
    first, second = (other for other in range(3) if other != axis)
    corners[:, axis] = ends[(side + 1) // 2, axis]
    corners[:, first], corners[:, second] = ends[[0, 1, 1, 0], first], ends[[0, 0, 1, 1], second]
    return corners


def _back_to_front(
    boxes: "list[tuple[NDArray[np.float64], list[_Face]]]", eye: NDArray[np.float64]
) -> "list[tuple[NDArray[np.float64], list[_Face]]]":
    """Sort boxes so that each is drawn before all that it does not hide.

    If a plane lies between two boxes, the one on its far side hides nothing of the other.
    """
    if not boxes:
        return []
    corners = np.array([box for box, _ in boxes])
    low, high = corners[:, None, 0] + 1e-6, corners[None, :, 1]
    over = np.greater_equal(low, high)  # (i, j, axis): a plane between them, i above it
    behind = np.any(over & (eye < low), axis=2) | np.any(over & (eye > high), axis=2).T
    before = behind & ~behind.T  # i, j: i must be drawn before j
    distance = np.linalg.norm(corners.mean(axis=1) - eye, axis=1)
    waits, order = before.sum(axis=0).astype(float), []
    for _ in boxes:
        number = int(np.lexsort((-distance, waits))[0])
        order.append(boxes[number])
        waits -= before[number]
        waits[number] = np.inf
    return order


def _rgb(colour: Colour, bright: float = 1.0) -> _Rgb:
    red, green, blue, _ = (round(255 * part * bright) for part in colour)
    return red, green, blue
