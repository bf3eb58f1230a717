"""RaceTrack-v0: a racing car with a lidar on tracks that it has never seen."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from es_envs import ArgumentError
from es_envs.bullet import (
    MOTOR_STRENGTH,
    BulletEnv,
    Camera,
    Variation,
    bounded,
    pybullet,
    require_number,
    require_one_of,
    require_whole,
)
from es_racecar import tracks
from es_racecar.car import HULLS, SEEN_HULLS, WHEEL_FORCE, Car, Lidar
from es_racecar.fitness import TIME_LIMIT
from es_racecar.paving import paving
from es_racecar.pursuit import PurePursuit
from es_racecar.tracks import Kind, Track

LIDAR_HEIGHT = 0.2  # [m]
EYE_AHEAD, EYE_HEIGHT, EYE_DOWN = 0.15, 0.3, 0.26  # of a camera on the car: from its middle, from the ground [m]; [rad]
SPEED_SCALE, TURN_SCALE = 1 / 3, 1 / 3
BOUND = 5.0

OVERLAP = 0.05  # [m], by which a wall is too long at each end, so that no corner is open
WALL_HALF_SIZE = (tracks.WALL_LENGTH / 2 + OVERLAP, 0.05, 0.15)  # [m]
LOWER = 0.002  # [m], by which every second wall is, so that one colour is seen where two overlap
MOST_WALLS = 164  # of a drawn track
CELLAR = -10.0  # [m]; walls that a track does not need wait here
FROM_THE_END = 4  # points between an open track's ends and its start and finish
_ROOM = 0.6  # [m], of width that a car needs that starts askew
HEAD_START = 8  # points from the car to the one that drives against it
_SEARCHED = range(-4, 5)  # points beside the last one among which the nearest is looked for

DIFFICULTY = Variation("how tight the curves of drawn tracks are", most=1.0)

CIRCUITS = {file.stem: file for file in sorted((Path(__file__).parent / "circuits").glob("*.csv"))}

# The number seeds the split's tracks, of which there are so many; no two splits share one.
SPLITS: dict[str, tuple[int, int, Kind]] = {
    "train": (1, 2**31, Kind()),
    "test": (2, 1000, Kind()),
    "hard": (3, 1000, Kind(difficulty=1.0, width=1.3, tightest=0.8, clockwise=True)),
}


class Place:
    """The place of a car along a track, followed from step to step.

    Args:
        track: the track.
        start: index of the point from which it counts.

    Attributes:
        first: that index; at an open track's ends are walls.
        nearest: index of the centre line's nearest point, which grows beyond the number of points.
        lap: length of the way from the first point to the last [m].
    """

    def __init__(self, track: Track, start: int = 0) -> None:
        self.first = 0 if track.is_closed else FROM_THE_END
        self.nearest = self.first + start
        self._points, self._tangents, self._is_closed = track.centre.tolist(), track.tangent.tolist(), track.is_closed
        self._spacing = track.length / (len(self._points) - (not track.is_closed))
        self.lap = track.length - 2 * self.first * self._spacing

    @property
    def point(self) -> tuple[float, float]:
        """The nearest point (x, y) [m]."""
        x, y = self._points[self.nearest % len(self._points)]
        return x, y

    @property
    def tangent(self) -> tuple[float, float]:
        """Unit vector along the track there."""
        x, y = self._tangents[self.nearest % len(self._points)]
        return x, y

    def moved_to(self, position: tuple[float, float]) -> float:
        """Distance along the centre line from the first point [m], below 0 behind it."""
        (x, y), points, count = position, self._points, len(self._points)
        for _ in range(count):  # again where a step was so long that it leads to the edge of what was searched
            moved, least = 0, math.inf
            for step in _SEARCHED:
                place = self.nearest + step
                if self._is_closed or 0 <= place < count:
                    at_x, at_y = points[place % count]
                    square = (at_x - x) ** 2 + (at_y - y) ** 2
                    if square < least:
                        moved, least = step, square
            self.nearest += moved
            if moved != _SEARCHED[0] and moved != _SEARCHED[-1]:
                break
        (at_x, at_y), (ahead_x, ahead_y) = self.point, self.tangent
        from_start = (self.nearest - self.first) * self._spacing
        return float(from_start + (x - at_x) * ahead_x + (y - at_y) * ahead_y)


class Opponent:
    """Another car, with the scripted driver, that starts 2 m ahead.

    Args:
        env: the environment, in ``build``.
        pace: share of the driver's speeds.

    Attributes:
        along: how far it is along the track, counted from the environment's car's start [m].
    """

    mirrored = False

    def __init__(self, env: "RaceTrackEnv", pace: float) -> None:
        self.car = Car(env, HULLS | SEEN_HULLS)
        self._driver = PurePursuit(self, pace=pace)

    def place(self, track: Track) -> None:
        """Put it onto the track."""
        self.track, self._place = track, Place(track, HEAD_START)
        ahead_x, ahead_y = self._place.tangent
        self.car.put(self._place.point, math.atan2(ahead_y, ahead_x))

    def observe(self) -> None:
        """Read where it is, and choose its next action."""
        self.position, self.heading, self.speed, _ = self.car.motion()
        self.along = self._place.moved_to(self.position)
        self.nearest = self._place.nearest
        self._action = self._driver(None)

    def act(self, force: float) -> None:
        """Drive for a physics step."""
        self.car.drive(self._action, force)


class RaceTrackEnv(BulletEnv):
    """Drive one lap, as fast as you can, on a track that is drawn for each episode, without touching a wall.

    ## Actions
    ``Box(-1, 1, (2,), float32)``; values beyond the bounds are clipped. A step lasts 1/25 s.

    | index | meaning | -1 | +1 |
    |---|---|---|---|
    | 0 | steering | 0.6 rad to the right | 0.6 rad to the left |
    | 1 | speed of the wheels | stand | 4 m/s |

    ## Observations
    ``Box(-5, 5, (3 + lidar_rays,), float32)``, clipped to the bounds. There is no position: nobody can learn a track by
    heart without looking.

    | index | meaning | unit | scaled | usual values, scaled |
    |---|---|---|---|---|
    | 0 | speed ahead | m/s | / 3 | 0 to 1.3 |
    | 1 | yaw rate, positive to the left | rad/s | / 3 | -1 to 1 |
    | 2 | angle of the left steering hinge, positive to the left | rad | 1 | -0.6 to 0.6 |
    | 3... | lidar: distance to the wall, from 90° right to 90° left | m | / lidar_range | 0 to 1 (nothing in range) |

    ## Reward
    The gain in progress [laps], and on finishing the share of the time limit of 20 s that is left: the return is
    ``progress_and_time``.

    ## Start
    At rest at the track's first point (of an open one, a metre from its end), facing along it; aside, and in heading,
    uniform within ±``start_noise``. The track is drawn among those of the split; ``reset(options={"track": 7})``
    chooses the one of that number.

    ## End
    Terminated on finishing the lap (``info["is_success"]``) or on touching a wall at the end of a step
    (``info["hit_wall"]``). The definition truncates after 500 steps, which are 20 s: with another ``action_repeat``
    give a ``max_episode_steps`` to match. ``info`` also holds ``position`` (x, y) and ``distance_from_start`` [m],
    ``progress`` [laps], ``time`` [s], interpolated where the lap ends, ``speed`` [m/s] and ``wrong_way``; and of the
    track its number (``track``, -1 for a file), ``track_hash``, ``track_length`` [m] and ``redraws``, the number of
    lines before it that nobody could have driven.

    ## Two cars
    ``opponent=0.8`` puts another car onto the track, 2 m ahead, driven by the scripted driver at 0.8 times its speed.
    The lidar sees it. Touching it is allowed: the cars push each other. ``info["lead"]`` is how far you are ahead of it
    [m]. The fitness ``es_racecar.fitness:race`` adds 1 for who leads at the end of the lap.

    Args:
        split: "train", "test" (1000 tracks of the same distribution, none of which is in "train") or "hard" (1000
            tracks of another one: narrower, with tighter curves, driven clockwise).
        tracks: number of tracks in the split, counted from 0; None: all that there are, in "train" two billion.
        track: CSV file of a centre line to drive instead, with columns x, y and width [m], or a circuit that comes
            with this plugin: "horseshoe", "kidney" or "stadium".
        lidar_rays: number of rays.
        lidar_range: their range [m].
        lidar_noise: standard deviation of a measured distance, as a share of the range.
        start_noise: bound of the start's offset [m] and heading [rad].
        mirror: half of the episodes are seen in a mirror, where left is right: who drives circuits counterclockwise
            learns to drive them clockwise, too.
        opponent: speed of the car to race against, as a share of the scripted driver's; None: no such car.
        **options: see ``BulletEnv``.

    Attributes:
        track: the episode's track.
        position: the car's position (x, y) [m].
        heading: its heading, counterclockwise from x [rad].
        speed: its speed ahead [m/s].
        mirrored: whether this episode is seen in a mirror.
    """

    time_step = 1 / 50
    readout = "time"
    failure = "hit the wall"
    action_repeat = 2
    gravity = -10.0
    sky = (0.86, 0.92, 0.96, 1.0)
    ground = (0.42, 0.44, 0.47, 1.0)
    light = (7.0, -3.0, 8.0)
    variations = BulletEnv.variations | {"motor_strength": MOTOR_STRENGTH}
    reset_options = (*BulletEnv.reset_options, "track")

    def __init__(
        self,
        *,
        split: str = "train",
        tracks: int | None = None,
        track: str | None = None,
        lidar_rays: int = 11,
        lidar_range: float = 6.0,
        lidar_noise: float = 0.005,
        start_noise: float = 0.1,
        mirror: bool = False,
        opponent: float | None = None,
        **options: Any,
    ) -> None:
        require_one_of("split", split, SPLITS)
        self._stream, most, self._kind = SPLITS[split]
        require_number("lidar_range", lidar_range, 0.0, 100.0, above=True)
        self._lidar = Lidar(lidar_rays, lidar_range, LIDAR_HEIGHT)
        self.lidar_noise = require_number("lidar_noise", lidar_noise, 0.0, 1.0)
        self.start_noise = require_number("start_noise", start_noise, 0.0, 0.3)
        if not isinstance(mirror, bool):
            raise ArgumentError(f"mirror must be True or False, got {mirror!r}")
        self.mirror = mirror
        self.tracks = most if tracks is None else require_whole(f"tracks of split {split!r}", tracks, 1, most)
        self._pace = None if opponent is None else require_number("opponent", opponent, 0.0, 2.0, above=True)
        self._opponent: Opponent | None = None
        self._given = None if track is None else _read(track)
        if self._given is not None:
            self._require_fitting(self._given, split, tracks)
        low = np.full(3 + lidar_rays, -BOUND, np.float32)
        low[3:] = 0.0
        high = np.where(low < 0, BOUND, 1.0).astype(np.float32)
        self.observation_space = spaces.Box(low, high, dtype=np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._chosen: int | None = None
        if self._given is None:
            self.variations = {**self.variations, "difficulty": replace(DIFFICULTY, nominal=self._kind.difficulty)}
        super().__init__(**options)

    def _require_fitting(self, track: Track, split: str, tracks: int | None) -> None:
        """Refuse arguments that a track from a file has no use or no room for."""
        if split != "train" or tracks is not None:
            name, value = ("tracks", tracks) if split == "train" else ("split", split)
            raise ArgumentError(f"{name}={value!r} is for drawn tracks, and track names a file: leave one out")
        width = float(track.width[Place(track).first])
        if width < _ROOM + 2 * self.start_noise:
            raise ArgumentError(
                f"start_noise={self.start_noise:g} needs a track that is at least {_ROOM + 2 * self.start_noise:g} m "
                f"wide where it starts, and this one is {width:.2f} m wide: lower start_noise or widen the track"
            )

    def build(self) -> None:
        """Load a floor, a pool of walls and the car."""
        self.floor = self.load_urdf("plane.urdf")
        client, count = self.client, MOST_WALLS if self._given is None else len(self._given.walls)
        shape = pybullet.createCollisionShape(pybullet.GEOM_BOX, halfExtents=WALL_HALF_SIZE, physicsClientId=client)
        length, thickness, height = WALL_HALF_SIZE
        # Where two overlap, every second one is drawn inside its neighbours: else their sides show as stripes.
        looks = [
            pybullet.createVisualShape(
                pybullet.GEOM_BOX,
                halfExtents=(length - OVERLAP + 0.015 * inside, thickness - 0.004 * inside, height - LOWER * inside),
                physicsClientId=client,
            )
            for inside in (0, 1)
        ]
        self.walls = [
            pybullet.createMultiBody(
                baseMass=0.0,
                baseCollisionShapeIndex=shape,
                # the lower ones, see _place_walls
                baseVisualShapeIndex=looks[(self.floor + 1 + wall) % 2],
                basePosition=(wall, 0.0, CELLAR),
                useMaximalCoordinates=1,  # not a robot with a fixed base, of which each step goes through all
                physicsClientId=client,
            )
            for wall in range(count)
        ]
        self._is_wall = frozenset(self.walls)
        self.car = Car(self, HULLS if self._pace else 0)
        if self._pace is not None:
            self._opponent = Opponent(self, self._pace)

    def decorate(self) -> None:
        """Paint the walls red and white in turn, and the car yellow."""
        self.paint(self.floor, (1.0, 1.0, 1.0, 0.0))
        self.paint(self.car.body, (1.0, 0.75, 0.1, 1.0), self.car.chassis)
        if self._opponent:
            self.paint(self._opponent.car.body, (0.15, 0.4, 0.85, 1.0), self._opponent.car.chassis)
        for wall in self.walls:
            self.paint(wall, ((0.82, 0.2, 0.17, 1.0), (0.96, 0.95, 0.93, 1.0))[wall % 2])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; ``options={"track": 7}`` chooses the track.

        Raises:
            ValueError: there is no such track, or another option.
        """
        chosen = (options or {}).get("track")
        if chosen is not None and self._given is not None:
            raise ArgumentError(f"there is no track {chosen!r}: this environment has a track from a file")
        if chosen is not None:
            require_whole("the option track", chosen, 0, self.tracks - 1)
        self._chosen = chosen
        return super().reset(seed=seed, options=options)

    def place(self) -> None:
        """Put the walls along the track, and the car at its first point."""
        drawn = int(self.np_random.integers(self.tracks))  # even if it is chosen, so that all else stays the same
        aside, turn = self.np_random.uniform(-self.start_noise, self.start_noise, 2).tolist()
        self.mirrored = self.mirror and bool(self.np_random.integers(2))
        self._number = -1 if self._given is not None else drawn if self._chosen is None else self._chosen
        self.track = self._given or tracks.draw(
            (self._stream, self._number), replace(self._kind, difficulty=self.varied["difficulty"])
        )
        self._about_track = {
            "track": self._number,
            "track_hash": self.track.hash,
            "track_length": self.track.length,
            "redraws": self.track.redraws,
        }
        self._place = Place(self.track)
        (x, y), (ahead_x, ahead_y) = self._place.point, self._place.tangent
        self._start = x - aside * ahead_y, y + aside * ahead_x
        self.car.put(self._start, math.atan2(ahead_y, ahead_x) + turn)
        if self._opponent:
            self._opponent.place(self.track)
        self._place_walls(self.track)
        if self.render_mode is not None:
            last = len(self.track.centre) - 1 - FROM_THE_END
            self.pave(paving(self.track, [0] if self.track.is_closed else [FROM_THE_END, last]))
        self._wheel_force = WHEEL_FORCE * self.varied["motor_strength"]
        self._steps = 0
        self._along = self._place.moved_to(self._start)
        self._progress = self._gain = self._bonus = self._time = 0.0
        self._hit_wall = self._finished = False

    def _place_walls(self, track: Track) -> None:
        client, spare = self.client, iter(self.walls)
        for (x, y, angle), wall in zip(track.walls.tolist(), spare, strict=False):
            height = WALL_HALF_SIZE[2] - LOWER * (wall % 2)
            turned = (0.0, 0.0, math.sin(angle / 2), math.cos(angle / 2))
            pybullet.resetBasePositionAndOrientation(wall, (x, y, height), turned, physicsClientId=client)
        for wall in spare:
            pybullet.resetBasePositionAndOrientation(
                wall, (wall, 0.0, CELLAR), (0.0, 0.0, 0.0, 1.0), physicsClientId=client
            )
        pybullet.performCollisionDetection(physicsClientId=client)  # else rays hit the walls of the last track

    def act(self, action: Any) -> None:
        """Set the steering angle and the wheels' speed; the other car does so, too."""
        self.car.drive(action, self._wheel_force, mirrored=self.mirrored)
        if self._opponent:
            self._opponent.act(self._wheel_force)

    def observe(self) -> NDArray[np.float32]:
        """Read speed, yaw rate, steering and lidar."""
        self.position, self.heading, self.speed, yaw_rate = self.car.motion()
        steering = self.car.steering()
        if self._opponent:
            self._opponent.observe()
        lidar = self._lidar.read(self.client, self.position, self.heading)
        if self.lidar_noise:
            noise = self.np_random.normal(0.0, self.lidar_noise, len(lidar)).tolist()
            noisy = [share + error for share, error in zip(lidar, noise, strict=True)]
            lidar = [share if 0.0 < share < 1.0 else 1.0 if share >= 1.0 else 0.0 for share in noisy]
        if self.mirrored:
            yaw_rate, steering, lidar = -yaw_rate, -steering, lidar[::-1]
        return bounded([self.speed * SPEED_SCALE, yaw_rate * TURN_SCALE, steering, *lidar], BOUND)

    def outcome(self) -> tuple[float, bool]:
        """Return the progress, and True at a wall or at the end of the lap."""
        before, self._along = self._along, self._place.moved_to(self.position)
        goal, step = self._place.lap, self.action_repeat * self.time_step
        contacts = pybullet.getContactPoints(self.car.body, physicsClientId=self.client)
        self._hit_wall = not self._is_wall.isdisjoint([contact[2] for contact in contacts])
        self._finished = self._along >= goal and not self._hit_wall
        part = (goal - before) / (self._along - before) if self._finished else 1.0
        self._time = (self._steps + part) * step
        self._steps += 1
        self._gain = (min(self._along, goal) - before) / goal
        self._progress = min(self._along, goal) / goal
        self._bonus = max(0.0, 1 - self._time / TIME_LIMIT) if self._finished else 0.0
        return self._gain + self._bonus, self._finished or self._hit_wall

    @property
    def nearest(self) -> int:
        """Index of the centre line's nearest point, which grows beyond the number of points."""
        return self._place.nearest

    def info(self) -> dict[str, Any]:
        """Return where the car is, how far and how fast it has come, and the track."""
        x, y = self.position
        ahead_x, ahead_y = self._place.tangent
        return {
            "position": self.position,
            "distance_from_start": math.hypot(x - self._start[0], y - self._start[1]),
            "progress": self._progress,
            "time": self._time,
            "speed": self.speed,
            "wrong_way": math.cos(self.heading) * ahead_x + math.sin(self.heading) * ahead_y < 0,
            "is_success": self._finished,
            "hit_wall": self._hit_wall,
            **self._about_track,
            "reward_progress": self._gain,
            "reward_time": self._bonus,
            **({"lead": self._along - self._opponent.along} if self._opponent else {}),
        }

    def camera(self) -> Camera:
        """Return a camera above the car, looking north; turning with the car it would sway."""
        x, y = self.position
        return Camera(target=(x, y, 0.0), distance=6.0, yaw=0.0, pitch=-55.0)

    def eyes(self) -> Camera:
        """Return a camera above the bonnet, which looks ahead and a little down. ``seen`` leaves the bonnet out."""
        (x, y), ahead, aside = self.position, math.cos(self.heading), math.sin(self.heading)
        reach = EYE_AHEAD + math.cos(EYE_DOWN)  # the camera's target lies a metre before it
        return Camera(
            target=(x + reach * ahead, y + reach * aside, EYE_HEIGHT - math.sin(EYE_DOWN)),
            distance=1.0,
            yaw=math.degrees(self.heading) - 90.0,
            pitch=-math.degrees(EYE_DOWN),
            field_of_view=90.0,
        )

    def seen(self, size: int) -> NDArray[np.uint8]:
        """Draw what the driver sees, without their own car, and in a mirrored episode in a mirror."""
        with self.car.left_out():
            picture = super().seen(size)
        return picture[:, ::-1] if self.mirrored else picture


def _read(path: str) -> Track:
    if not isinstance(path, str) or "\0" in path:
        raise ArgumentError(f"track must be the name of a CSV file or a circuit, got {path!r}")
    try:
        return tracks.read(CIRCUITS.get(path, path))
    except OSError as error:
        raise ArgumentError(
            f"the track file {Path(path).absolute()} cannot be read: {error.strerror}; circuits that come with the "
            f"plugin: {', '.join(CIRCUITS)}"
        ) from error
