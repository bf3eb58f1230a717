"""The ground in films of a track: mown grass, the road through it, its dashed middle and chequered lines."""

from collections.abc import Sequence

import numpy as np

from es_envs.bullet.scenery import Colour
from es_racecar.tracks import Points, Track

_GRASS, _MOWN = (0.46, 0.6, 0.36, 1.0), (0.5, 0.64, 0.39, 1.0)
_ROAD, _DASH = (0.3, 0.32, 0.36, 1.0), (0.9, 0.88, 0.8, 1.0)
_BLACK, _WHITE = (0.05, 0.05, 0.05, 1.0), (0.95, 0.95, 0.95, 1.0)
_EDGE, _HORIZON = 100.0, 2000.0  # [m], of the mown grass and of the grass, from the middle of the floor
_BAND = 1.0  # [m]
_DASH_HALF_WIDTH = 0.025  # [m]
_DASH_EVERY = 4  # points of the centre line
_LINE = 0.3  # [m], length of a chequered line along the track, which is two squares


def paving(track: Track, lines: Sequence[int]) -> list[tuple[Points, Colour]]:
    """Quadrilaterals of each colour ``(n, 4, 2)``, in the order of painting.

    Args:
        track: the track.
        lines: points of its centre line at which a chequered line begins.
    """
    bands = [_rectangle(x, -_EDGE, x + _BAND, _EDGE) for x in np.arange(-_EDGE, _EDGE, 2 * _BAND).tolist()]
    squares = np.concatenate([_chequers(track, point) for point in lines])
    return [
        (np.array([_rectangle(-_HORIZON, -_HORIZON, _HORIZON, _HORIZON)]), _GRASS),
        (np.array(bands), _MOWN),
        (_strip(track, track.width / 2), _ROAD),
        (_strip(track, np.full(len(track.centre), _DASH_HALF_WIDTH))[_DASH_EVERY // 2 :: _DASH_EVERY], _DASH),
        (squares[::2], _BLACK),
        (squares[1::2], _WHITE),
    ]


def _rectangle(x0: float, y0: float, x1: float, y1: float) -> list[tuple[float, float]]:
    return [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]


def _strip(track: Track, half_width: Points) -> Points:
    """A strip along the centre line, a piece from each point to the next one."""
    aside = np.stack([-track.tangent[:, 1], track.tangent[:, 0]], axis=1) * half_width[:, np.newaxis]
    ends = np.stack([track.centre + aside, track.centre - aside], axis=1)
    pieces = np.concatenate([ends, np.roll(ends, -1, axis=0)[:, ::-1]], axis=1)
    return pieces if track.is_closed else pieces[:-1]


def _chequers(track: Track, point: int) -> Points:
    """The squares of a chequered line across the track, black and white in turn."""
    ahead = track.tangent[point]
    left = np.array([-ahead[1], ahead[0]])
    columns = 2 * round(track.width[point] / _LINE)
    across = (np.arange(columns + 1) / columns - 0.5) * track.width[point]
    corners = track.centre[point] + np.arange(3)[:, None, None] * _LINE / 2 * ahead + across[:, None] * left
    squares = np.stack([corners[:-1, :-1], corners[1:, :-1], corners[1:, 1:], corners[:-1, 1:]], axis=2)
    return np.concatenate([squares[0], squares[1, ::-1]])  # back again: neighbours differ
