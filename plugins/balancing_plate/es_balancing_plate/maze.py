"""BallMaze-v0: roll a ball through a maze, past its holes, by tilting it."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from es_balancing_plate.env import BALL_COLOURS, BALL_MASS, BALL_RADIUS, BASE_HEIGHT, FALLEN_HEIGHT
from es_envs import urdf_path
from es_envs.bullet import MOTOR_STRENGTH, BulletEnv, Camera, bounded, clipped, pybullet, require_number

MAX_TILT = 0.12  # [rad]
TILT_RATE = 1.0  # [rad/s]
MOTOR_TORQUE = 1.0  # [N·m]
REST_HEIGHT = BASE_HEIGHT + 0.05 + 0.01 + BALL_RADIUS  # [m], of the ball's centre on the level plate
WAY = ((-0.14, 0.12), (0.14, 0.12), (0.14, 0.0), (-0.14, 0.0), (-0.14, -0.12), (0.14, -0.12))
"""Corners of the way from the start to the goal [m]: along three lanes, round the ends of two walls."""
HOLES = ((0.0, 0.155), (0.07, 0.085))
"""Centres of the holes [m]: at the two walls of the first lane, one after the other."""
HOLE_RADIUS = 0.022  # [m]
GOAL_RADIUS = 0.04  # [m]
STEP_LIMIT = 1000
BOUND = 10.0


class BallMazeEnv(BulletEnv):
    """Roll a ball through three lanes of a maze, as fast as you can, by tilting the plate on which they are.

    ## Actions
    ``Box(-1, 1, (2,), float32)``: the angles, ±0.12 rad, to which motors turn the pitch (x) and the roll (y) joint, at
    1 rad/s at most; values beyond the bounds are clipped. A step lasts 1/50 s.

    ## Observations
    ``Box(-10, 10, (6,), float32)``, clipped to the bounds

    | index | meaning | unit | scaled by | usual values, scaled |
    |---|---|---|---|---|
    | 0, 1 | position of the ball, x and y | m | 1 / 0.18 | -1 to 1 |
    | 2, 3 | velocity of the ball, x and y | m/s | 2 | -1.5 to 1.5 |
    | 4, 5 | angle of pitch and roll joint | rad | 1 / 0.12 | -1 to 1 |

    ## Reward
    The gain in progress along the way (1 is the whole way), and at the goal the share of the time limit that is left:
    the return is the fitness.

    ## Start
    The ball at rest at the beginning of the first lane, aside by up to ±``start_noise`` along each axis.

    ## End
    Terminated at the goal (``info["is_success"]``), within 0.04 m of the end of the last lane; if the ball's centre is
    within 0.022 m of that of a hole, of which the first lane has one at each wall; or if the ball has jumped off. The
    definition truncates after 1000 steps. ``info`` also holds ``progress`` and ``time`` [s].

    Args:
        start_noise: bound of the start's offset [m].
        **options: see ``BulletEnv``.
    """

    time_step = 1 / 100
    failure = "the ball fell"
    action_repeat = 2
    ground = (0.3, 0.4, 0.47, 1.0)
    variations = BulletEnv.variations | {"motor_strength": MOTOR_STRENGTH}

    def __init__(self, *, start_noise: float = 0.015, **options: Any) -> None:
        self.start_noise = require_number("start_noise", start_noise, 0.0, 0.02)
        self.observation_space = spaces.Box(-BOUND, BOUND, (6,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        super().__init__(**options)

    def build(self) -> None:
        """Load a floor, the maze on its two hinges, and the ball in it."""
        client = self.client
        self.floor = self.load_urdf("plane.urdf")
        self.maze = self.load_urdf(urdf_path("ball_maze.urdf"), (0.0, 0.0, BASE_HEIGHT), fixed=True)
        joints = self.joints(self.maze)
        self._hinges = (joints["pitch_joint"], joints["roll_joint"])
        sphere = pybullet.createCollisionShape(pybullet.GEOM_SPHERE, radius=BALL_RADIUS, physicsClientId=client)
        self.ball = pybullet.createMultiBody(
            baseMass=BALL_MASS,
            baseCollisionShapeIndex=sphere,
            basePosition=(*WAY[0], REST_HEIGHT),
            physicsClientId=client,
        )

    def decorate(self) -> None:
        """Add a stand on tiles, and colour the ball."""
        self.paint(self.floor, (1.0, 1.0, 1.0, 0.0))
        tiles = [(x / 5, y / 5, (x + 1) / 5, (y + 1) / 5) for x in range(-8, 8) for y in range(-8, 8) if (x + y) % 2]
        self.mark_ground(tiles, (0.33, 0.43, 0.5, 1.0))
        self.visual_box((0.14, 0.14, 0.02), (0.0, 0.0, 0.01), (0.2, 0.22, 0.25, 1.0))
        self.visual_box((0.025, 0.025, 0.12), (0.0, 0.0, 0.08), (0.3, 0.32, 0.36, 1.0))
        self.paint_sectors(self.ball, BALL_COLOURS)

    def place(self) -> None:
        """Put the ball at the beginning of the way."""
        x, y = (np.array(WAY[0]) + self.np_random.uniform(-self.start_noise, self.start_noise, 2)).tolist()
        pybullet.resetBasePositionAndOrientation(
            self.ball, (x, y, REST_HEIGHT), (0.0, 0.0, 0.0, 1.0), physicsClientId=self.client
        )
        self._torque = MOTOR_TORQUE * self.varied["motor_strength"]
        self._along = _along((x, y))
        self._steps, self._gain, self._bonus, self._is_at_goal = 0, 0.0, 0.0, False

    def act(self, action: Any) -> None:
        """Turn both hinges towards their angles."""
        for hinge, value in zip(self._hinges, action, strict=True):
            pybullet.setJointMotorControl2(
                self.maze,
                hinge,
                pybullet.POSITION_CONTROL,
                targetPosition=clipped(value) * MAX_TILT,
                force=self._torque,
                maxVelocity=TILT_RATE,
                physicsClientId=self.client,
            )

    def observe(self) -> NDArray[np.float32]:
        """Read the ball and the hinges."""
        client = self.client
        self.position, _ = pybullet.getBasePositionAndOrientation(self.ball, client)
        (vx, vy, _), _ = pybullet.getBaseVelocity(self.ball, client)
        pitch, roll = pybullet.getJointStates(self.maze, self._hinges, client)
        x, y, _ = self.position
        return bounded([x / 0.18, y / 0.18, vx * 2, vy * 2, pitch[0] / MAX_TILT, roll[0] / MAX_TILT], BOUND)

    def outcome(self) -> tuple[float, bool]:
        """Return the gain in progress, and True at the goal, in a hole or beside the plate."""
        x, y, height = self.position
        self._steps += 1
        self._is_at_goal = math.dist((x, y), WAY[-1]) < GOAL_RADIUS
        before, self._along = self._along, 1.0 if self._is_at_goal else _along((x, y))
        self._gain = self._along - before
        self._bonus = max(0.0, 1 - self._steps / STEP_LIMIT) if self._is_at_goal else 0.0
        has_fallen = height < FALLEN_HEIGHT or any(math.dist((x, y), hole) < HOLE_RADIUS for hole in HOLES)
        return self._gain + self._bonus, self._is_at_goal or has_fallen

    def info(self) -> dict[str, Any]:
        """Return how far and how fast the ball has come."""
        return {
            "progress": self._along,
            "time": self._steps * self.time_step * self.action_repeat,
            "is_success": self._is_at_goal,
            "reward_progress": self._gain,
            "reward_time": self._bonus,
        }

    def camera(self) -> Camera:
        """Return a camera above and beside the maze."""
        return Camera(target=(0.0, -0.01, 0.13), distance=0.6, yaw=0.0, pitch=-58.0)


def _along(position: tuple[float, float]) -> float:
    """Share of the way at its point nearest to ``position``; walls keep a ball on the lane where it is."""
    best, found, passed = math.inf, 0.0, 0.0
    x, y = position
    for (ax, ay), (bx, by) in pairwise(WAY):
        length = abs(bx - ax) + abs(by - ay)  # each piece is parallel to an axis
        part = max(0.0, min(length, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length))
        distance = math.hypot(x - ax - (bx - ax) * part / length, y - ay - (by - ay) * part / length)
        if distance < best:
            best, found = distance, passed + part
        passed += length
    return found / passed
