"""RaceCar-v0: a racing car between the walls of an S-shaped track."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from es_envs.bullet import (
    MOTOR_STRENGTH,
    BulletEnv,
    Camera,
    bounded,
    clipped,
    pybullet,
    require_number,
    require_one_of,
)
from es_racecar.car import MODEL, STEERING_HINGES, WHEEL_FORCE, WHEELS, Lidar
from es_racecar.fitness import FINISH_BONUS

START = (0.5, 0.5, 0.1)  # [m]
START_HEADING = math.pi / 2  # [rad]
FINISH_X = 13.5  # [m]; the line crosses the last corridor from wall to wall
# From (x0, y0) to (x1, y1) [m], along the middle of each wall.
WALLS = (
    (0, 0, 2, 0), (0, 0, 0, 4), (2, 0, 2, 2), (0, 4, 8, 4), (2, 2, 10, 2),
    (10, 2, 10, 6), (10, 6, 15, 6), (8, 4, 8, 8), (8, 8, 15, 8), (15, 6, 15, 8),
)  # fmt: skip
WALL_THICKNESS = 0.3  # [m]
WALL_HEIGHT = 0.5  # [m]
MAX_STEERING = 1.0  # [rad]
MAX_WHEEL_SPEED = 50.0  # [rad/s], 2.5 m/s

LIDAR_RANGE = 5.0  # [m]
LIDAR_HEIGHT = 0.3  # [m]; above the car, below the top of the walls
# Offsets and scales that bring each observation entry to about ±1: middle and half the size of the track, 2.5 m/s, ...
MIDDLE, HALF_SIZE = (7.5, 4.0), (7.5, 4.0)
SPEED_SCALE = 1 / 2.5
HEADING_SCALE = 1 / math.pi
STEERING_RATE_SCALE = 1 / 10
BOUND = 5.0

# Only for pictures: the road's four stretches as (x0, y0, x1, y1), the middle of the road.
ROAD = ((0, 0, 2, 4), (2, 2, 10, 4), (8, 4, 10, 8), (10, 6, 15, 8))
MIDDLE_OF_ROAD = ((1, 0.5), (1, 3), (9, 3), (9, 7), (14.5, 7))

KERB = ((0.82, 0.2, 0.17, 1.0), (0.96, 0.95, 0.93, 1.0))

CONTROLS = {"steering": 1, "steering_throttle": 2}


class RaceCarEnv(BulletEnv):
    """Drive a car with a lidar along a walled S-shaped track, without touching a wall, to the finish line.

    ## Actions
    ``Box(-1, 1, (1,), float32)``, or ``(2,)`` with ``control="steering_throttle"``

    | index | meaning | -1 | +1 |
    |---|---|---|---|
    | 0 | steering | 1 rad to the left | 1 rad to the right |
    | 1 | throttle | stand | full, 2.5 m/s |

    Values beyond the bounds are clipped. A step lasts 1/100 s.

    ## Observations
    ``Box(-5, 5, (9 + lidar_rays,), float32)``, scaled as below and clipped to the bounds

    | index | meaning | unit | scaled | values on the track, scaled |
    |---|---|---|---|---|
    | 0, 1 | position x, y | m | (x - 7.5) / 7.5, (y - 4) / 4 | -1 to 1 |
    | 2, 3 | velocity x, y | m/s | / 2.5 | -1 to 1 |
    | 4 | heading, 0 along x, counterclockwise | rad | / π | -1 to 1 |
    | 5, 6 | angle of the left and right steering hinge | rad | 1 | -1 to 1 |
    | 7, 8 | their angular velocity | rad/s | / 10 | -1 to 1 |
    | 9... | lidar: distance to the wall, from 90° right to 90° left | m | / 5 | 0 to 1 (nothing within 5 m) |

    ## Reward
    The step's gain in distance from the start [m] (``info["reward_progress"]``) plus 1 on crossing the finish line
    (``info["reward_finish"]``): the return is the fitness.

    ## Start
    At (0.5, 0.5) facing +y, at rest; position and heading uniform within ±``start_noise``.

    ## End
    Terminated on crossing the finish line x = 13.5 (``info["is_success"]``) or on touching a wall
    (``info["hit_wall"]``). The definition truncates after 2000 steps. ``info`` also holds ``position`` (x, y) and
    ``distance_from_start`` [m].

    Args:
        control: "steering" (at a constant throttle) or "steering_throttle".
        throttle: the constant throttle, 0 to 1, for ``control="steering"``.
        lidar_rays: number of rays.
        start_noise: bound of the start position [m] and heading [rad]; 0 for a fixed start, where all episodes are one.
        **options: see ``BulletEnv``.
    """

    time_step = 1 / 100
    readout = "time"
    failure = "hit the wall"
    gravity = -10.0
    sky = (0.86, 0.92, 0.96, 1.0)
    ground = (0.46, 0.6, 0.36, 1.0)
    light = (7.0, -3.0, 8.0)
    variations = BulletEnv.variations | {"motor_strength": MOTOR_STRENGTH}

    def __init__(
        self,
        *,
        control: str = "steering",
        throttle: float = 0.4,
        lidar_rays: int = 8,
        start_noise: float = 0.05,
        **options: Any,
    ) -> None:
        require_one_of("control", control, CONTROLS)
        self._lidar = Lidar(lidar_rays, LIDAR_RANGE, LIDAR_HEIGHT)
        self.control = control
        self.throttle = require_number("throttle", throttle, 0.0, 1.0)
        self._constant_throttle = control == "steering"
        self.start_noise = require_number("start_noise", start_noise, 0.0, 0.15)  # more would start inside a wall
        low = np.full(9 + lidar_rays, -BOUND, np.float32)
        high = np.full(9 + lidar_rays, BOUND, np.float32)
        low[9:], high[9:] = 0.0, 1.0
        self.observation_space = spaces.Box(low, high, dtype=np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (CONTROLS[control],), np.float32)
        super().__init__(**options)

    def build(self) -> None:
        """Load a floor, ten walls and the car."""
        self.floor = self.load_urdf("plane.urdf")
        self.walls = [self._wall(*ends) for ends in WALLS]
        self._is_wall = frozenset(self.walls)
        self.car = self.load_urdf(MODEL, START, pybullet.getQuaternionFromEuler((0.0, 0.0, START_HEADING)))
        joints = self.joints(self.car)
        self._chassis = joints["base_link_joint"]  # Bullet numbers a link like the joint above it
        self._hinges = tuple(joints[name] for name in STEERING_HINGES)
        self._wheels = tuple(joints[name] for name in WHEELS)

    def _wall(self, x0: float, y0: float, x1: float, y1: float) -> int:
        left, lower, right, upper = _outline(x0, y0, x1, y1)
        half_extents = ((right - left) / 2, (upper - lower) / 2, WALL_HEIGHT / 2)
        shape = pybullet.createCollisionShape(pybullet.GEOM_BOX, halfExtents=half_extents, physicsClientId=self.client)
        middle = ((left + right) / 2, (lower + upper) / 2, WALL_HEIGHT / 2)
        return int(
            pybullet.createMultiBody(
                baseMass=0.0, baseCollisionShapeIndex=shape, basePosition=middle, physicsClientId=self.client
            )
        )

    def decorate(self) -> None:
        """Add a road with a dashed line through mown grass, kerbs on the walls and a chequered finish."""
        self.paint(self.floor, (1.0, 1.0, 1.0, 0.0))
        self.paint(self.car, (1.0, 0.75, 0.1, 1.0), self._chassis)
        for wall, (x0, y0, x1, y1) in zip(self.walls, WALLS, strict=True):
            self.paint(wall, (1.0, 1.0, 1.0, 0.0))
            left, lower, right, upper = _outline(x0, y0, x1, y1)
            if x0 == x1:  # up to the walls that it meets, which are drawn completely
                lower, upper = lower + WALL_THICKNESS, upper - WALL_THICKNESS
            size = (right - left, upper - lower, WALL_HEIGHT)
            middle = ((left + right) / 2, (lower + upper) / 2, WALL_HEIGHT / 2)
            self.visual_box(size, middle, (0.86, 0.86, 0.84, 1.0), stripes=KERB)
        self.mark_ground([(x, -80.0, x + 1.0, 80.0) for x in range(-60, 80, 2)], (0.5, 0.64, 0.39, 1.0))
        self.mark_ground(ROAD, (0.3, 0.32, 0.36, 1.0))
        self.mark_ground(_dashes(), (0.9, 0.88, 0.8, 1.0))
        for parity, shade in enumerate((0.95, 0.05)):
            squares = [
                (FINISH_X + 0.2 * i, 6.2 + 0.2 * j, FINISH_X + 0.2 * (i + 1), 6.2 + 0.2 * (j + 1))
                for i in range(2)
                for j in range(8)
                if (i + j) % 2 == parity
            ]
            self.mark_ground(squares, (shade, shade, shade, 1.0))

    def place(self) -> None:
        """Put the car at the track's beginning."""
        noise = self.start_noise
        dx, dy, turn = self.np_random.uniform(-noise, noise, 3).tolist()
        half_heading = (START_HEADING + turn) / 2
        self._start = (START[0] + dx, START[1] + dy)
        pybullet.resetBasePositionAndOrientation(
            self.car,
            (*self._start, START[2]),
            (0.0, 0.0, math.sin(half_heading), math.cos(half_heading)),
            physicsClientId=self.client,
        )
        self._wheel_forces = (WHEEL_FORCE * self.varied["motor_strength"],) * len(WHEELS)
        self._distance = self._progress = 0.0
        self._hit_wall = self._finished = False

    def act(self, action: Any) -> None:
        """Set the steering angle and the wheels' speed."""
        client = self.client
        steering = clipped(action[0]) * MAX_STEERING
        throttle = self.throttle if self._constant_throttle else clipped(action[1]) / 2 + 0.5
        speed = throttle * MAX_WHEEL_SPEED
        pybullet.setJointMotorControlArray(
            self.car,
            self._hinges,
            pybullet.POSITION_CONTROL,
            targetPositions=(-steering, -steering),
            physicsClientId=client,
        )
        pybullet.setJointMotorControlArray(
            self.car,
            self._wheels,
            pybullet.VELOCITY_CONTROL,
            targetVelocities=(speed, speed, speed, speed),
            forces=self._wheel_forces,
            physicsClientId=client,
        )

    def observe(self) -> NDArray[np.float32]:
        """Read pose, velocity, steering and lidar."""
        client, car = self.client, self.car
        (x, y, _), (qx, qy, qz, qw) = pybullet.getBasePositionAndOrientation(car, client)
        (vx, vy, _), _ = pybullet.getBaseVelocity(car, client)
        left, right = pybullet.getJointStates(car, self._hinges, client)
        heading = math.atan2(2.0 * (qw * qz + qx * qy), 1.0 - 2.0 * (qy * qy + qz * qz))
        self._x, self._y, self._heading = x, y, heading
        return bounded(
            [
                (x - MIDDLE[0]) / HALF_SIZE[0],
                (y - MIDDLE[1]) / HALF_SIZE[1],
                vx * SPEED_SCALE,
                vy * SPEED_SCALE,
                heading * HEADING_SCALE,
                left[0],
                right[0],
                left[1] * STEERING_RATE_SCALE,
                right[1] * STEERING_RATE_SCALE,
                *self._lidar.read(client, (x, y), heading),
            ],
            BOUND,
        )

    def outcome(self) -> tuple[float, bool]:
        """Return the progress, and True at a wall or the finish line."""
        distance = math.hypot(self._x - self._start[0], self._y - self._start[1])
        self._progress = distance - self._distance
        self._distance = distance
        contacts = pybullet.getContactPoints(self.car, physicsClientId=self.client)
        self._hit_wall = not self._is_wall.isdisjoint([contact[2] for contact in contacts])
        self._finished = self._x > FINISH_X and not self._hit_wall
        return self._progress + FINISH_BONUS * self._finished, self._finished or self._hit_wall

    def info(self) -> dict[str, Any]:
        """Return the car's position, the way in which the episode ended, and the reward's terms."""
        return {
            "position": (self._x, self._y),
            "distance_from_start": self._distance,
            "is_success": self._finished,
            "hit_wall": self._hit_wall,
            "reward_progress": self._progress,
            "reward_finish": FINISH_BONUS * self._finished,
        }

    def camera(self) -> Camera:
        """Return a camera along the track's diagonal, looking over the walls; turning with the car it would sway."""
        return Camera(target=(self._x + 0.5, self._y + 0.5, 0.0), distance=4.4, yaw=-45.0, pitch=-55.0)


def _outline(x0: float, y0: float, x1: float, y1: float) -> tuple[float, float, float, float]:
    """A wall from above, with half its thickness on all sides, so that no corner is open."""
    half = WALL_THICKNESS / 2
    return x0 - half, y0 - half, x1 + half, y1 + half


def _dashes() -> list[tuple[float, float, float, float]]:
    """The dashed line, as rectangles."""
    dashes = []
    for (x0, y0), (x1, y1) in pairwise(MIDDLE_OF_ROAD):
        length = math.hypot(x1 - x0, y1 - y0)
        along_x, along_y = (x1 - x0) / length, (y1 - y0) / length
        half_x, half_y = 0.03 + 0.17 * along_x, 0.03 + 0.17 * along_y
        for metres in np.arange(0.4, length, 0.8).tolist():
            x, y = x0 + along_x * metres, y0 + along_y * metres
            dashes.append((x - half_x, y - half_y, x + half_x, y + half_y))
    return dashes
