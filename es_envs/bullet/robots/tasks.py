"""What a robot shall do: walk, stand, reach or track."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from es_envs.bullet.client import pybullet
from es_envs.bullet.robots.env import RobotEnv, Task

Point = tuple[float, float, float]

EFFORT_COST = 0.05  # of the mean of the squared actions
WAY_SCALE = 3.0  # of the way to a target, as a share of the robot's reach
TRIES = 100  # to draw a pose that touches nothing


class _OnItsFeet(Task):
    """A task of a robot with a free base that must not fall.

    Args:
        lowest: share of its first height that the base must keep.
        most_tilt: how far the base may tilt from its first direction [rad].
    """

    def __init__(self, *, lowest: float = 0.5, most_tilt: float = 1.0) -> None:
        self.lowest, self.most_tilt = lowest, most_tilt

    def place(self, robot: RobotEnv) -> None:
        """Remember the base's height and direction, from which a fall is told."""
        place, turn = pybullet.getBasePositionAndOrientation(robot.body, robot.client)
        self._start = place
        self._upright = pybullet.getMatrixFromQuaternion(turn)[6:9]
        self._least_cosine, self._least_height = math.cos(self.most_tilt), self.lowest * place[2]

    def has_fallen(self, robot: RobotEnv) -> bool:
        """Return True if the base has sunk below ``lowest`` or tilts by more than ``most_tilt``."""
        if robot.place_of_base[2] < self._least_height:
            return True
        cosine: float = sum(a * b for a, b in zip(robot.up, self._upright, strict=True))
        return cosine < self._least_cosine


class Walk(_OnItsFeet):
    """Get ahead along x without falling.

    It adds the sine and the cosine of the angle from straight ahead to the heading, and those of a clock that turns
    once a stride, so that a policy without memory can step in time. The reward is the speed along x [m/s], and 0.5 for
    each step without a fall, less 0.05 times the mean of the squared actions. It ends with a fall. ``info`` has
    ``walked``, the way along x since the start [m].

    Args:
        stride: period of the clock [s]; None: there is no clock.
        lowest: share of its first height that the base must keep.
        most_tilt: how far the base may tilt from its first direction [rad].
    """

    ALIVE = 0.5
    readout = "distance"

    def __init__(self, *, stride: float | None = 0.5, lowest: float = 0.5, most_tilt: float = 1.0) -> None:
        super().__init__(lowest=lowest, most_tilt=most_tilt)
        self.stride = stride

    def size(self, robot: RobotEnv) -> int:
        """Return 4: sine and cosine of the heading and of the clock; without a clock 2."""
        return 2 if self.stride is None else 4

    def place(self, robot: RobotEnv) -> None:
        """Remember where the robot starts, and start the clock."""
        super().place(robot)
        self.walked = self._gained = 0.0
        self._steps = -1

    def observe(self, robot: RobotEnv) -> list[float]:
        """Return sine and cosine of the heading, and of the clock if there is one."""
        walked = robot.place_of_base[0] - self._start[0]
        self._gained, self.walked = walked - self.walked, walked
        self._steps += 1
        angles = [robot.heading]
        if self.stride is not None:
            angles.append(2 * math.pi * self._steps * robot.time_step * robot.action_repeat / self.stride)
        return [turn(angle) for angle in angles for turn in (math.sin, math.cos)]

    def outcome(self, robot: RobotEnv) -> tuple[float, bool]:
        """Return the reward, which is mostly the speed along x, and True if the robot has fallen."""
        speed = self._gained / (robot.time_step * robot.action_repeat)
        fallen = self.has_fallen(robot)
        return speed + (0.0 if fallen else self.ALIVE) - EFFORT_COST * _mean_square(robot.last_action), fallen

    def info(self, robot: RobotEnv) -> dict[str, Any]:
        """Return ``walked``, the way along x since the start [m]."""
        return {"walked": self.walked}


class Stand(_OnItsFeet):
    """Hold the pose, while something pushes.

    The reward is 1 for each step without a fall, less the mean distance of the joints from their start [rad or m]. It
    ends with a fall. ``info`` has ``upright``, the seconds without a fall.

    Args:
        push: speed of a push in a random horizontal direction [m/s].
        every: seconds from one push to the next.
        lowest: share of its first height that the base must keep.
        most_tilt: how far the base may tilt from its first direction [rad].
    """

    def __init__(self, *, push: float = 0.5, every: float = 1.0, lowest: float = 0.5, most_tilt: float = 1.0) -> None:
        super().__init__(lowest=lowest, most_tilt=most_tilt)
        self.push, self.every = push, every

    def place(self, robot: RobotEnv) -> None:
        """Start to count the steps, from which pushes are timed."""
        super().place(robot)
        self._steps = 0
        self._period = max(1, round(self.every / (robot.time_step * robot.action_repeat)))

    def observe(self, robot: RobotEnv) -> list[float]:
        """Return no further observations: what the robot senses is enough."""
        return []

    def outcome(self, robot: RobotEnv) -> tuple[float, bool]:
        """Return the reward, and True if the robot has fallen; then push it, where a push is due."""
        fallen = self.has_fallen(robot)
        self._steps += not fallen
        if self._steps % self._period == 0:
            angle = robot.np_random.uniform(0.0, 2 * math.pi)
            robot.push((self.push * math.cos(angle), self.push * math.sin(angle)))
        away = np.abs(np.subtract(robot.joint_positions, robot.start_positions)).mean()
        return (0.0 if fallen else 1.0) - float(away), fallen

    def info(self, robot: RobotEnv) -> dict[str, Any]:
        """Return ``upright``, the time without a fall [s]."""
        return {"upright": self._steps * robot.time_step * robot.action_repeat}


class Reach(Task):
    """Bring a point of the robot, its tip, to a target.

    Targets are where the tip is in random positions of the motors' joints in which the robot touches neither itself nor
    the floor, at least ``nearest`` away from where it starts. It adds the way from the tip to the target (x, y, z),
    three times as shares of how far the robot reaches, so that it is about 1 at the start. With "velocity" control this
    is all that a policy needs, and it learns soonest if it sees nothing else (``observed = ()``): joints that turn in
    proportion to the way close the loop. The reward of a step is the share of the first distance that it gains, less
    0.01 times the share that is left, so that sooner is better. ``info`` has ``tip``, where the tip is (x, y, z) [m],
    ``distance``, from it to the target [m], ``closed``, the share of the first distance that is gained, and
    ``is_success``: whether the tip is now within ``close``.

    Args:
        tip: name of the link.
        offset: the point in the link's frame [m].
        nearest: how far targets are from the tip's start at least [m]; None: a quarter of the robot's reach.
        close: distance at which the target counts as reached [m].
        spread: how far each joint may be from its start in such a random position [rad or m].
    """

    LEFT_COST = 0.01

    def __init__(
        self,
        tip: str,
        *,
        offset: Point = (0.0, 0.0, 0.0),
        nearest: float | None = None,
        close: float = 0.03,
        spread: float = 1.0,
    ) -> None:
        self.tip, self.offset, self.nearest, self.close, self.spread = tip, offset, nearest, close, spread

    def size(self, robot: RobotEnv) -> int:
        """Return 3: the way to the target (x, y, z)."""
        return 3

    def build(self, robot: RobotEnv) -> None:
        """Find the tip's link, and how far the robot reaches: half the diagonal of where its tip can be."""
        self._link, base_offset = robot.find_link(self.tip)
        (x, y, z), (dx, dy, dz) = base_offset, self.offset
        self._point = x + dx, y + dy, z + dz
        self._ranges = robot.motor_ranges(self.spread)
        low, high = np.transpose(self._ranges)
        poses = np.random.default_rng(0).uniform(low, high, (200, len(low)))
        tips = np.array([self.tip_at(robot, pose) for pose in poses.tolist()])
        robot.put_joints(robot.start_positions)
        self.span = float(np.linalg.norm(tips.max(axis=0) - tips.min(axis=0))) / 2
        self._nearest = self.span / 4 if self.nearest is None else self.nearest

    def tip_at(self, robot: RobotEnv, pose: Sequence[float]) -> Point:
        """Put the motors' joints into a pose [rad or m], and return where the tip is then [m]."""
        robot.put_joints(pose)
        return robot.point(self._link, self._point)

    def decorate(self, robot: RobotEnv) -> None:
        """Add a ball that shows the target."""
        self._mark = robot.visual_ball(max(0.01, 0.04 * self.span), (0.9, 0.2, 0.15, 1.0))

    def place(self, robot: RobotEnv) -> None:
        """Draw a target for the tip, and return to the pose of the start."""
        start = robot.read_joints()
        first = robot.point(self._link, self._point)
        low, high = np.transpose(self._ranges)
        self.target = first
        for _ in range(TRIES):
            tip = self.tip_at(robot, robot.np_random.uniform(low, high).tolist())
            if math.dist(tip, first) > math.dist(self.target, first):
                self.target = tip  # the farthest, if there is none that is far enough and free
            if math.dist(tip, first) >= self._nearest and not robot.is_colliding():
                self.target = tip
                break
        robot.put_joints(start)
        self._distance = self._first_distance = max(math.dist(self.target, first), 1e-6)
        if robot.render_mode is not None:
            pybullet.resetBasePositionAndOrientation(
                self._mark, self.target, (0.0, 0.0, 0.0, 1.0), physicsClientId=robot.client
            )

    def observe(self, robot: RobotEnv) -> list[float]:
        """Return the way from the tip to the target, three times as shares of how far the robot reaches."""
        tip = robot.point(self._link, self._point)
        distance = math.dist(self.target, tip)
        self._gained, self._distance, self._tip = self._distance - distance, distance, tip
        return [WAY_SCALE * (a - b) / self.span for a, b in zip(self.target, tip, strict=True)]

    def outcome(self, robot: RobotEnv) -> tuple[float, bool]:
        """Return the reward: the share of the first distance gained in this step, less a cost of what is left."""
        return (self._gained - self.LEFT_COST * self._distance) / self._first_distance, False

    def info(self, robot: RobotEnv) -> dict[str, Any]:
        """Return ``tip`` [m], ``distance`` [m], ``closed`` and ``is_success``."""
        return {
            "tip": self._tip,
            "distance": self._distance,
            "closed": 1.0 - self._distance / self._first_distance,
            "is_success": self._distance <= self.close,
        }


class Track(Task):
    """Follow targets of the joints that move in time.

    Each motor's joint has a target that swings around its start, within its limits, with an amplitude, a period and a
    phase that each episode draws. It adds the targets, as shares of the amplitude that is possible. The reward of a
    step is minus the mean distance of the joints from their targets [rad or m]. ``info`` has ``error``, that mean over
    the steps so far, and ``tracked``, one less the error as a share of what it would be at rest.

    Args:
        amplitude: largest distance of a target from a joint's start [rad or m].
        periods: shortest and longest period [s].
    """

    def __init__(self, *, amplitude: float = 0.5, periods: tuple[float, float] = (1.0, 4.0)) -> None:
        self.amplitude, self.periods = amplitude, periods

    def size(self, robot: RobotEnv) -> int:
        """Return the number of motors: each has a target."""
        return len(robot.motors)

    def build(self, robot: RobotEnv) -> None:
        """Find how far each joint may swing within its limits."""
        self._most = [
            min(start - low, high - start)
            for (low, high), start in zip(robot.motor_ranges(self.amplitude), robot.start_positions, strict=True)
        ]

    def place(self, robot: RobotEnv) -> None:
        """Draw amplitude, period and phase of each target."""
        count = len(self._most)
        self._amplitudes = np.multiply(self._most, robot.np_random.uniform(0.3, 1.0, count))
        self._rates = 2 * math.pi / robot.np_random.uniform(*self.periods, count)
        self._phases = robot.np_random.uniform(0.0, 2 * math.pi, count)
        self._steps, self._errors, self._at_rest = 0, 0.0, 0.0

    def _swing(self, robot: RobotEnv) -> Any:
        seconds = self._steps * robot.time_step * robot.action_repeat
        return self._amplitudes * np.sin(self._rates * seconds + self._phases)

    def observe(self, robot: RobotEnv) -> list[float]:
        """Return the targets, as shares of the amplitude that is possible."""
        self._wanted = self._swing(robot)
        scale = self.amplitude or 1.0
        return (self._wanted / scale).tolist()  # type: ignore[no-any-return]

    def outcome(self, robot: RobotEnv) -> tuple[float, bool]:
        """Return minus the mean distance of the joints from their targets; the episode does not end."""
        moved = np.subtract(robot.joint_positions, robot.start_positions)
        error = float(np.abs(moved - self._wanted).mean())
        self._steps += 1
        self._errors += error
        self._at_rest += float(np.abs(self._wanted).mean())
        return -error, False

    def info(self, robot: RobotEnv) -> dict[str, Any]:
        """Return ``error``, the mean so far [rad or m], and ``tracked``."""
        return {
            "error": self._errors / max(1, self._steps),
            "tracked": 1.0 - self._errors / self._at_rest if self._at_rest else 0.0,
        }


def _mean_square(values: Sequence[float]) -> float:
    return sum(value * value for value in values) / len(values)
