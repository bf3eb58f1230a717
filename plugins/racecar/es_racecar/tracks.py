"""Tracks: a smooth centre line, drawn from a seed or read from a file, and a wall on either side of it.

Lines are drawn with sums, products, quotients and square roots alone, which every processor rounds alike: a seed means
the same track everywhere.
"""

import csv
import hashlib
import math
import stat
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from es_envs import ArgumentError

Points = NDArray[np.float64]

SPACING = 0.25  # [m], between points of the centre line
WALL_LENGTH = 0.5  # [m]
LONGEST = 40.0  # [m], of a drawn track
_GAP = 0.4  # [m], at least, between the walls of two stretches
_CORNERS = 12
_PIECES = 48  # of the spline between two corners, from which evenly spaced points are taken
_MOST_DRAWS = 1000
_LARGEST_FILE = 1_000_000  # bytes
_LENGTHS = 6.0, 400.0  # [m], of a track from a file
_WIDTHS = 0.6, 20.0  # [m], of a track from a file: from two cars' width
_FARTHEST = 95.0  # [m], of a track's points from the middle of the floor, in x and y
# cos and sin of 2 pi k / 12: literals, since mathematics libraries differ in last bits.
_H, _R = 0.5, 0.8660254037844386
_CIRCLE = np.array(
    [(1, 0), (_R, _H), (_H, _R), (0, 1), (-_H, _R), (-_R, _H), (-1, 0), (-_R, -_H), (-_H, -_R), (0, -1), (_H, -_R),
     (_R, -_H)]
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A distribution of tracks: what they have in common.

    Attributes:
        difficulty: 0: nearly a circle; 1: the most winding lines.
        size: mean distance of a circuit's corners from its middle [m].
        width: distance between the middles of the walls, which are 0.1 m thick [m].
        tightest: least radius of curvature of the centre line [m].
        clockwise: driven clockwise; else counterclockwise.
    """

    difficulty: float = 0.6
    size: float = 4.5
    width: float = 1.5
    tightest: float = 1.0
    clockwise: bool = False


@dataclass(frozen=True, eq=False)
class Track:
    """A centre line and the walls beside it.

    Attributes:
        centre: ``(n, 2)``, points about ``SPACING`` apart, in driving order [m].
        width: ``(n,)``, distance between the middles of the walls, which are 0.1 m thick [m].
        is_closed: a circuit: the first point follows the last one.
        redraws: lines that were drawn, and could not be driven, before this one.
    """

    centre: Points
    width: NDArray[np.float64]
    is_closed: bool = True
    redraws: int = 0

    @cached_property
    def tangent(self) -> Points:
        """Unit vectors along the line ``(n, 2)``."""
        vectors = _moved(self.centre, 1, self.is_closed) - _moved(self.centre, -1, self.is_closed)
        return vectors / _lengths(vectors)[:, np.newaxis]

    @cached_property
    def curvature(self) -> NDArray[np.float64]:
        """Curvature at each point ``(n,)`` [1/m], positive to the left: that of the circle through its neighbours."""
        before = self.centre - _moved(self.centre, -1, self.is_closed)
        after = _moved(self.centre, 1, self.is_closed) - self.centre
        sides = _lengths(before) * _lengths(after) * _lengths(before + after)
        return 2 * _cross(before, after) / np.where(sides > 0, sides, np.inf)

    @cached_property
    def length(self) -> float:
        """Length of the centre line [m]."""
        return float(_gaps(self.centre, self.is_closed).sum())

    @cached_property
    def hash(self) -> str:
        """The first 12 hexadecimal digits of the SHA-256 of its points and widths in micrometres."""
        numbers = np.rint(np.append(self.centre.ravel(), self.width) * 1e6).astype("<i8")
        return hashlib.sha256(numbers.tobytes()).hexdigest()[:12]

    @cached_property
    def walls(self) -> Points:
        """Middles and headings (x, y, angle) of walls, each ``WALL_LENGTH`` long or less ``(m, 3)`` [m, rad]."""
        aside = np.stack([-self.tangent[:, 1], self.tangent[:, 0]], axis=1) * self.width[:, np.newaxis] / 2
        left, right = self.centre + aside, self.centre - aside
        lines = [(left, self.is_closed), (right, self.is_closed)]
        if not self.is_closed:  # nobody leaves it at its ends
            lines += [(np.stack([left[end], right[end]]), False) for end in (0, -1)]
        return np.concatenate([_segments(_evenly(line, WALL_LENGTH, closed), closed) for line, closed in lines])

    def fault(self, tightest: float = 0.0) -> str:
        """Say why a car cannot drive here; empty if it can.

        Args:
            tightest: least radius of curvature that is allowed [m].
        """
        radius = 1 / np.maximum(np.abs(self.curvature), 1e-9)
        least = np.maximum(self.width / 2, tightest)
        worst = int(np.argmin(radius - least))
        x, y = self.centre[worst].tolist()
        if radius[worst] <= least[worst]:
            return (
                f"at ({x:.2f}, {y:.2f}) its curve has a radius of {radius[worst]:.2f} m: with a width of "
                f"{self.width[worst]:.2f} m it must be above {least[worst]:.2f} m"
            )
        count, half = len(self.centre), np.maximum(self.width[:, np.newaxis], self.width) / 2
        steps = np.abs(np.arange(count)[:, np.newaxis] - np.arange(count))
        apart = (np.minimum(steps, count - steps) if self.is_closed else steps) * SPACING
        # Stretches are neighbours as long as a half circle may lie between them.
        others = apart > math.pi * (np.maximum(tightest, half) + half)
        if not others.any():
            return ""
        dx, dy = (self.centre[:, np.newaxis] - self.centre).transpose(2, 0, 1)
        room = np.where(others, np.sqrt(dx * dx + dy * dy) - (self.width[:, np.newaxis] + self.width) / 2, np.inf)
        one, other = np.unravel_index(np.argmin(room), room.shape)
        if room[one, other] < _GAP:
            places = " and ".join("({:.2f}, {:.2f})".format(*self.centre[place]) for place in (one, other))
            return f"it crosses or touches itself: between {places} less than {_GAP:g} m are left for the walls"
        return ""


@lru_cache(1024)
def draw(stream: tuple[int, ...], kind: Kind) -> Track:
    """Draw a circuit; one that nobody can drive is drawn again from the same stream, and never made easier.

    Args:
        stream: numbers that seed the stream.
        kind: the distribution.

    Raises:
        ValueError: no track among a thousand can be driven.
    """
    random = np.random.default_rng(stream)
    for redraws in range(_MOST_DRAWS):
        distance = kind.size * (1 + kind.difficulty * random.uniform(-0.6, 0.6, (_CORNERS, 1)))
        aside = kind.difficulty * kind.size * random.uniform(-0.15, 0.15, (_CORNERS, 2))
        centre = _evenly(_spline(_CIRCLE * distance + aside), SPACING, is_closed=True)
        track = Track(
            centre[::-1].copy() if kind.clockwise else centre, np.full(len(centre), kind.width), redraws=redraws
        )
        if track.length <= LONGEST and not track.fault(kind.tightest):
            return track
    raise ValueError(f"none of {_MOST_DRAWS} tracks can be driven, with {kind}: choose an easier kind")


def read(path: str | Path) -> Track:
    """Read a centre line from a CSV file with a point in each row: x, y and width [m], with commas between them.

    A heading is skipped, and so are lines that begin with ``#``. The track is closed if its ends are no further apart
    than twice its longest gap. One that reaches over the floor's edge is moved to the floor's middle.

    Raises:
        ValueError: the file is not such a table, or nobody can drive its track; the message names the row or place.
        OSError: the file cannot be read.
    """
    path = Path(path)
    text = _content(path)
    rows: list[list[float]] = []
    is_first = True
    for number, row in enumerate(_table(path, text), 1):
        if not row:
            continue
        values = [_number(entry) for entry in row]
        is_heading = is_first and len(values) == 3 and all(map(math.isnan, values))
        is_first = False
        if is_heading:
            continue
        if len(values) != 3 or not all(map(math.isfinite, values)) or not _WIDTHS[0] <= values[2] <= _WIDTHS[1]:
            raise ArgumentError(
                f"{path}, line {number}: expected x, y and a width from {_WIDTHS[0]:g} to {_WIDTHS[1]:g} [m], with "
                f"commas between them, got {','.join(row)}"
            )
        rows.append(values)
    if len(rows) < 8:
        raise ArgumentError(f"{path} has {len(rows)} points: a track needs at least 8")
    given = np.array(rows)
    with np.errstate(over="ignore"):  # an infinite length is too long, too
        line, gaps = given[:, :2], _gaps(given[:, :2], is_closed=False)
    _require_length(path, gaps.sum(), least=0.0)  # before there is a point every few centimetres
    if not gaps.all():
        raise ArgumentError(f"{path}: point {int(np.argmin(gaps)) + 2} is where the one before it is: leave one out")
    is_closed = bool(_lengths(line[:1] - line[-1:])[0] <= 2 * gaps.max())
    if is_closed and not _lengths(line[:1] - line[-1:])[0]:  # the first point is there twice
        given, line = given[:-1], line[:-1]
    if np.abs(line).max() > _FARTHEST:
        line -= (line.min(axis=0) + line.max(axis=0)) / 2
    table = _evenly(_through(given, is_closed), SPACING, is_closed)
    # The curve through the widths swings below the narrowest where they change suddenly.
    least = given[:, 2].min()
    track = Track(table[:, :2], np.where(table[:, 2] < least - 1e-6, least, table[:, 2]), is_closed)
    if np.abs(track.centre).max() > _FARTHEST:
        size = " by ".join(f"{side:.0f}" for side in np.ptp(track.centre, axis=0))
        raise ArgumentError(f"{path}: its track takes up {size} m, and the floor has {2 * _FARTHEST:g} m each way")
    _require_length(path, track.length)
    if fault := track.fault():
        raise ArgumentError(f"{path}: {fault}")
    return track


def _content(path: Path) -> str:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):  # a pipe would have us wait, and a device has no end
        raise ArgumentError(f"{path} is not a regular file, which a track's CSV file is")
    if status.st_size > _LARGEST_FILE:
        raise ArgumentError(
            f"{path} is larger than {_LARGEST_FILE:,} bytes: a track needs a point every few decimetres"
        )
    try:
        return path.read_text(encoding="utf-8-sig")  # a spreadsheet may have written a byte order mark
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{path} is no text in UTF-8: {error.reason} at byte {error.start}") from error


def _table(path: Path, text: str) -> list[list[str]]:
    lines = ["" if line.lstrip().startswith("#") else line for line in text.splitlines()]
    try:
        return list(csv.reader(lines))
    except csv.Error as error:
        raise ArgumentError(f"{path} is no table: {error}") from error


def _require_length(path: Path, length: float, least: float = _LENGTHS[0]) -> None:
    if not least <= length <= _LENGTHS[1]:
        expected = f"expected {_LENGTHS[0]:g} to {_LENGTHS[1]:g} m"
        raise ArgumentError(f"{path}: its track is {length:.4g} m long, {expected}")


def _number(text: str) -> float:
    """The number that a text is, or NaN."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _spline(corners: Points) -> Points:
    """A closed uniform cubic B-spline ``(m, 2)``: its curvature has no jumps."""
    t = np.arange(_PIECES)[:, np.newaxis] / _PIECES
    rest = 1 - t
    weights = (rest * rest * rest, 3 * t * t * t - 6 * t * t + 4, 3 * (t + t * t - t * t * t) + 1, t * t * t)
    around = [np.roll(corners, -step, axis=0)[:, np.newaxis] for step in range(4)]
    pieces = sum(weight / 6 * corner for weight, corner in zip(weights, around, strict=True))
    return np.asarray(pieces).reshape(-1, 2)


def _through(table: Points, is_closed: bool) -> Points:
    """A smooth line through points ``(m, k)``: the Catmull-Rom spline."""
    count = len(table) if is_closed else len(table) - 1
    t = np.arange(_PIECES)[:, np.newaxis] / _PIECES
    weights = (
        (-t + 2 * t * t - t * t * t) / 2,
        (2 - 5 * t * t + 3 * t * t * t) / 2,
        (t + 4 * t * t - 3 * t * t * t) / 2,
        (t * t * t - t * t) / 2,
    )
    around = [_moved(table, step, is_closed)[:count, np.newaxis] for step in (-1, 0, 1, 2)]
    pieces = np.asarray(sum(weight * point for weight, point in zip(weights, around, strict=True)))
    line = pieces.reshape(-1, table.shape[1])
    return line if is_closed else np.concatenate([line, table[-1:]])


def _evenly(table: Points, spacing: float, is_closed: bool) -> Points:
    """Points about ``spacing`` apart along a line, with their further columns ``(m, 2 or more)``."""
    if is_closed:
        table = np.concatenate([table, table[:1]])
    along = np.concatenate([[0.0], np.cumsum(_gaps(table[:, :2], is_closed=False))])
    pieces = max(1, math.ceil(along[-1] / spacing - 1e-9))
    wanted = along[-1] * np.arange(pieces if is_closed else pieces + 1) / pieces
    return np.stack([np.interp(wanted, along, column) for column in table.T], axis=1)


def _segments(line: Points, is_closed: bool) -> Points:
    ends = _moved(line, 1, is_closed)
    x, y = ((line + ends) / 2).T
    dx, dy = (ends - line).T
    segments = np.stack([x, y, np.arctan2(dy, dx)], axis=1)
    return segments if is_closed else segments[:-1]


def _moved(line: Points, steps: int, is_closed: bool) -> Points:
    """Points that many steps further along the line; beyond its end, the last one."""
    if is_closed:
        return np.roll(line, -steps, axis=0)
    return line[np.clip(np.arange(len(line)) + steps, 0, len(line) - 1)]


def _gaps(line: Points, is_closed: bool) -> NDArray[np.float64]:
    gaps = _lengths(_moved(line, 1, is_closed) - line)
    return gaps if is_closed else gaps[:-1]


def _lengths(vectors: Points) -> NDArray[np.float64]:
    return np.sqrt(vectors[:, 0] * vectors[:, 0] + vectors[:, 1] * vectors[:, 1])


def _cross(one: Points, other: Points) -> NDArray[np.float64]:
    return one[:, 0] * other[:, 1] - one[:, 1] * other[:, 0]
