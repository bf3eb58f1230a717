"""The base class of all robots here: what they feel, and the classic reward."""

import inspect
import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from es_envs.bullet import Camera, RobotEnv, bounded, pybullet

SPEED_SCALE = 0.3  # of the torso [s/m]
JOINT_SPEED_SCALE = 0.1  # [s/rad]
BOUND = 5.0
ALIVE = 1.0
ELECTRICITY_COST = 2.0  # of torque times speed, both scaled, mean of the joints
STALL_COST = 0.1  # of the square of the torque, scaled, mean of the joints
LIMIT_COST = 0.1  # of each joint that is at a limit
AT_LIMIT = 0.99  # of a joint's scaled position


class RunnerEnv(RobotEnv):
    """Run along x, as far as you can in 1000 steps, without falling.

    ## Actions
    ``Box(-1, 1, (n,), float32)``: what each motor does; values beyond the bounds are clipped. A step lasts 16.5 ms,
    four steps of physics.

    ## Observations
    ``Box(-5, 5, (8 + 2 n + contacts,), float32)``, clipped to the bounds

    | index | meaning | unit | scaled by |
    |---|---|---|---|
    | 0 | height of the torso, less that of the start | m | 1 |
    | 1, 2 | sine and cosine of the angle from the torso's heading to straight ahead | | 1 |
    | 3, 4, 5 | velocity of the torso: ahead, to the left, up | m/s | 0.3 |
    | 6, 7 | roll and pitch of the torso | rad | 1 |
    | 8, 10, ... | position of each joint between its limits | | -1 to 1 |
    | 9, 11, ... | angular velocity of each joint | rad/s | 0.1 |
    | the last | 1 for a link that touches the floor, else 0: ``contacts`` | | 1 |

    ## Reward
    The sum of ``info``'s terms: ``reward_alive``, 1 for each step (2 for the humanoid, 0 for A1, which stands by
    itself), -1 for the last one of a fall; ``reward_progress``, the speed along x [m/s]; ``reward_electricity``, -2
    times the mean of action times joint speed (as observed) and -0.1 times that of the squared action;
    ``reward_limits``, -0.1 for each joint at a limit. These are the terms of the environments that came with pybullet,
    but for the progress, which there is that of the mean of all links, among them the floor, and for the humanoid's
    electricity, which there is 4.25 times as much.

    ## Start
    Every joint uniform within ±0.1 rad of its first position, at rest.

    ## End
    Terminated by a fall, which each robot defines. The definition truncates after 1000 steps. ``info`` also holds
    ``progress``, the way along x since the start [m], and ``down``, the share of the steps so far after which each link
    of ``contacts`` touched the floor.

    Args:
        **options: see ``RobotEnv``, among them ``faults``, and ``BulletEnv``.

    Attributes:
        position: the torso's (x, y) [m].
        altitude: the torso's height [m].
        roll: the torso's roll [rad].
        pitch: the torso's pitch [rad].
    """

    time_step = 0.0165
    action_repeat = 1
    readout = "distance"
    gravity = -9.8
    engine = {"contactERP": 0.9, "numSolverIterations": 5, "numSubSteps": 4}
    friction, restitution = 0.8, 0.5
    start_noise = 0.1
    merge_fixed = inertia_from_file = False
    torso: ClassVar[str] = ""
    """Link of the torso; "" for the base."""
    other_side: ClassVar[tuple[str, ...]] = ()
    """Prefixes of the names of links that have another colour in pictures."""
    alive: ClassVar[float] = ALIVE
    first_height: ClassVar[float | None] = None
    """Height from which the observed one counts [m]; None: that at the start."""

    def __init_subclass__(cls) -> None:
        """Give each robot a whole data sheet: what its own docstring says, then the sections of this class's."""
        super().__init_subclass__()
        sections = inspect.cleandoc(RunnerEnv.__doc__ or "").partition("## Actions")
        sheet = "".join(sections[1:])
        height = "that of the start" if cls.first_height is None else f"{cls.first_height:g} m"
        for general, own in (
            ("less that of the start", f"less {height}"),
            ("(n,)", f"({len(cls.motors)},)"),
            ("(8 + 2 n + contacts,)", f"({cls.size()},)"),
            ("else 0: ``contacts``", f"else 0: {', '.join(cls.contacts)}"),
        ):
            sheet = sheet.replace(general, own)
        cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\n{sheet}"

    @classmethod
    def size(cls) -> int:
        """Number of observations."""
        return 8 + 2 * len(cls.motors) + len(cls.contacts)

    def has_fallen(self) -> bool:
        """Return True if the robot lies, from its altitude, roll, pitch and contacts."""
        raise NotImplementedError

    def build(self) -> None:
        """Load the world, and find the torso."""
        super().build()
        self._torso = self.find_link(self.torso)[0] if self.torso else -1

    def decorate(self) -> None:
        """Colour the robot's two sides."""
        super().decorate()
        for link in range(-1, pybullet.getNumJoints(self.body, physicsClientId=self.client)):
            name = pybullet.getJointInfo(self.body, link, physicsClientId=self.client)[12].decode() if link >= 0 else ""
            is_other = bool(self.other_side) and name.startswith(self.other_side)
            self.paint(self.body, (0.2, 0.36, 0.6, 1.0) if is_other else (0.95, 0.55, 0.2, 1.0), link)

    def place(self) -> None:
        """Bend the joints a little."""
        super().place()
        self._start: tuple[float, float] | None = None
        self._before = 0.0
        self._terms = dict.fromkeys(("reward_alive", "reward_progress", "reward_electricity", "reward_limits"), 0.0)

    def observe(self) -> NDArray[np.float32]:
        """Read torso, joints and contacts."""
        client, body = self.client, self.body
        if self._torso < 0:
            (x, y, z), turned = pybullet.getBasePositionAndOrientation(body, client)
            (vx, vy, vz), _ = pybullet.getBaseVelocity(body, client)
        else:
            (x, y, z), turned, _, _, _, _, (vx, vy, vz), _ = pybullet.getLinkState(
                body, self._torso, computeLinkVelocity=1, physicsClientId=client
            )
        roll, pitch, yaw = pybullet.getEulerFromQuaternion(turned)
        states = pybullet.getJointStates(body, self._motors, client)
        touching = [point[3] for point in pybullet.getContactPoints(body, self.floor, physicsClientId=client)]
        self.position, self.altitude, self.roll, self.pitch = (x, y), float(z), float(roll), float(pitch)
        self.touching = [float(link in touching) for link in self._contacts]
        if self._start is None:
            self._start = x, z if self.first_height is None else self.first_height
            self._steps, self._down = 0, [0.0] * len(self.touching)
        else:
            self._steps += 1
            self._down = [steps + touches for steps, touches in zip(self._down, self.touching, strict=True)]
        start_x, start_z = self._start
        self._progress = x - start_x
        cos, sin = math.cos(yaw), math.sin(yaw)
        values = [
            z - start_z, -sin, cos,
            SPEED_SCALE * (cos * vx + sin * vy), SPEED_SCALE * (cos * vy - sin * vx), SPEED_SCALE * vz,
            roll, pitch,
        ]  # fmt: skip
        self._speeds, self._at_limit = [], 0
        for (angle, rate, _, _), (middle, half) in zip(states, self._joint_ranges, strict=True):
            relative, speed = (angle - middle) / half, JOINT_SPEED_SCALE * rate
            if not -AT_LIMIT <= relative <= AT_LIMIT:
                self._at_limit += 1
            self._speeds.append(speed)
            values += (relative, speed)
        return bounded(values + self.touching, BOUND)

    def outcome(self) -> tuple[float, bool]:
        """Return the reward's sum, and True after a fall."""
        fallen, action = self.has_fallen(), self.last_action
        torque_times_speed = sum([abs(a * v) for a, v in zip(action, self._speeds, strict=True)]) / len(action)
        squares = sum([a * a for a in action]) / len(action)
        self._terms = {
            "reward_alive": -1.0 if fallen else self.alive,
            "reward_progress": (self._progress - self._before) / (self.time_step * self.action_repeat),
            "reward_electricity": -ELECTRICITY_COST * torque_times_speed - STALL_COST * squares,
            "reward_limits": -LIMIT_COST * self._at_limit,
        }
        self._before = self._progress
        return sum(self._terms.values()), fallen

    def info(self) -> dict[str, Any]:
        """Return the reward's terms, how far the robot has come, and the share of steps at which each link touched."""
        down = [steps / max(1, self._steps) for steps in self._down]
        return {"progress": self._progress, "position": self.position, "down": down, **self._terms}

    def camera(self) -> Camera:
        """Return a camera that runs beside the robot."""
        x, y = self.position
        return Camera(target=(x, y, 0.6), distance=3.2, yaw=15.0, pitch=-14.0)
