"""A scripted driver for RaceTrack-v0, which evolved ones are measured against. It sees the map, which they do not."""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from es_racecar.car import MAX_SPEED, MAX_STEERING
from es_racecar.tracks import SPACING, Track

WHEELBASE = 0.325  # [m]


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Numbers of the driver, from ``benchmarks/pure_pursuit.py``, which tries them on training tracks.

    Attributes:
        look_ahead: distance along the track at which it aims [m], at rest.
        look_ahead_time: further distance for each m/s [s].
        sideways: acceleration in curves that it dares [m/s²].
        braking: deceleration before curves that it expects [m/s²].
        fastest: speed on straights [m/s].
    """

    look_ahead: float = 0.782
    look_ahead_time: float = 0.156
    sideways: float = 1.108
    braking: float = 3.025
    fastest: float = 2.813


class Driven(Protocol):
    """A car on a track: what the driver reads of it, described at ``RaceTrackEnv``."""

    track: Track
    position: tuple[float, float]
    heading: float
    speed: float
    mirrored: bool

    @property
    def nearest(self) -> int:
        """See ``RaceTrackEnv``."""
        ...


class PurePursuit:
    """Steers along a circle to a point ahead on the centre line, as fast as curves and brakes allow.

    Coulter 1992, "Implementation of the Pure Pursuit Path Tracking Algorithm", CMU-RI-TR-92-01; speeds by a profile
    that is as fast as the sideways acceleration allows at each point, and slows down early enough.

    Args:
        env: the car that it drives, whose map and pose it reads; a ``RaceTrackEnv`` is one.
        tuning: its numbers.
        pace: share of its speeds at which it drives.
    """

    def __init__(self, env: Driven, _: int = 0, *, tuning: Tuning | None = None, pace: float = 1.0) -> None:
        self._env, self._tuning, self._pace = env, tuning or Tuning(), pace
        self._track: Track | None = None

    def __call__(self, _: Any) -> NDArray[np.float32]:
        """The action ``(2,)`` in the environment's state, whatever the observation."""
        env, tuning = self._env, self._tuning
        if env.track is not self._track:
            self._track, self._speeds = env.track, speeds(env.track, tuning).tolist()
            self._points = env.track.centre.tolist()
        ahead = env.nearest + round((tuning.look_ahead + tuning.look_ahead_time * env.speed) / SPACING)
        to_x, to_y = self._points[self._place(max(ahead, env.nearest + 1))]
        to_x, to_y = to_x - env.position[0], to_y - env.position[1]
        cos, sin = math.cos(env.heading), math.sin(env.heading)
        aside, square = cos * to_y - sin * to_x, to_x * to_x + to_y * to_y
        steering = math.atan(2 * WHEELBASE * aside / max(square, 1e-6)) / MAX_STEERING
        steering = -steering if env.mirrored else steering
        speed = self._speeds[self._place(env.nearest + 1)] * self._pace
        return np.array([max(-1.0, min(1.0, steering)), 2 * speed / MAX_SPEED - 1], np.float32)

    def _place(self, index: int) -> int:
        count = len(self._points)
        return index % count if self._env.track.is_closed else min(max(index, 0), count - 1)


def speeds(track: Track, tuning: Tuning) -> NDArray[np.float64]:
    """Speed at each point of a track ``(n,)`` [m/s]."""
    curvature = np.maximum(np.abs(track.curvature), 1e-6)
    allowed = np.minimum(tuning.fastest, np.sqrt(tuning.sideways / curvature))
    # Backwards, twice around a circuit: slow enough for what comes next.
    for place in [*range(len(allowed) - 1, -1, -1)] * (2 if track.is_closed else 1):
        following = place + 1
        if following == len(allowed):
            if not track.is_closed:
                continue
            following = 0
        allowed[place] = min(allowed[place], math.sqrt(allowed[following] ** 2 + 2 * tuning.braking * SPACING))
    return np.asarray(allowed)
