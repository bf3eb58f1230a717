"""The base class of all robots here: a world with a floor, what they feel, and the classic reward."""

import inspect
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from es_envs.bullet import MOTOR_STRENGTH, BulletEnv, Camera, bounded, clipped, pybullet

SPEED_SCALE = 0.3  # of the torso [s/m]
JOINT_SPEED_SCALE = 0.1  # [s/rad]
BOUND = 5.0
START_NOISE = 0.1  # [rad], of each joint
ALIVE = 1.0
ELECTRICITY_COST = 2.0  # of torque times speed, both scaled, mean of the joints
STALL_COST = 0.1  # of the square of the torque, scaled, mean of the joints
LIMIT_COST = 0.1  # of each joint that is at a limit
AT_LIMIT = 0.99  # of a joint's scaled position


class RunnerEnv(BulletEnv):
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
    ``progress``, the way along x since the start [m].

    Args:
        **options: see ``BulletEnv``.

    Attributes:
        position: the torso's (x, y) [m].
        altitude: the torso's height [m]; ``height`` is a picture's.
        roll: the torso's roll [rad].
        pitch: the torso's pitch [rad].
        touching: for each of ``contacts`` 1.0 if it touches the floor, else 0.0.
    """

    time_step = 0.0165
    failure = "fell"
    gravity = -9.8
    sky = (0.84, 0.9, 0.95, 1.0)
    ground = (0.44, 0.56, 0.46, 1.0)
    variations = BulletEnv.variations | {"motor_strength": MOTOR_STRENGTH}
    torso: ClassVar[str] = ""
    """Link of the torso; "" for the base."""
    motors: ClassVar[Sequence[str]] = ()
    """Joints that are driven."""
    contacts: ClassVar[Sequence[str]] = ()
    """Links whose touch of the floor is observed."""
    other_side: ClassVar[tuple[str, ...]] = ()
    """Prefixes of the names of links that have another colour in pictures."""
    alive: ClassVar[float] = ALIVE
    start_height: ClassVar[float | None] = None
    """Height from which the observed one counts [m]; None: that at the start."""

    def __init_subclass__(cls) -> None:
        """Give each robot a whole data sheet: what its own docstring says, then the sections of this class's."""
        super().__init_subclass__()
        sections = inspect.cleandoc(RunnerEnv.__doc__ or "").partition("## Actions")
        sheet = "".join(sections[1:])
        height = "that of the start" if cls.start_height is None else f"{cls.start_height:g} m"
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

    def __init__(self, **options: Any) -> None:
        self.observation_space = spaces.Box(-BOUND, BOUND, (self.size(),), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (len(self.motors),), np.float32)
        super().__init__(**options)

    @abstractmethod
    def load(self) -> int:
        """Load the robot, and return its body id."""

    @abstractmethod
    def drive(self, action: list[float]) -> None:
        """Let the motors do what the action says, each from -1 to 1."""

    @abstractmethod
    def has_fallen(self) -> bool:
        """Return True if the robot lies, from its altitude, roll, pitch and contacts."""

    def build(self) -> None:
        """Load a floor that has no end, and the robot."""
        client = self.client
        pybullet.setDefaultContactERP(0.9, physicsClientId=client)
        pybullet.setPhysicsEngineParameter(numSolverIterations=5, numSubSteps=4, physicsClientId=client)
        plane = pybullet.createCollisionShape(pybullet.GEOM_PLANE, physicsClientId=client)
        self.floor = pybullet.createMultiBody(baseMass=0.0, baseCollisionShapeIndex=plane, physicsClientId=client)
        pybullet.changeDynamics(self.floor, -1, lateralFriction=0.8, restitution=0.5, physicsClientId=client)
        self.body = self.load()
        count = pybullet.getNumJoints(self.body, physicsClientId=client)
        infos = [pybullet.getJointInfo(self.body, joint, physicsClientId=client) for joint in range(count)]
        joints = {info[1].decode(): info[0] for info in infos}
        links = {info[12].decode(): info[0] for info in infos}
        for joint in range(count):
            pybullet.setJointMotorControl2(
                self.body, joint, pybullet.VELOCITY_CONTROL, force=0.0, physicsClientId=client
            )
        self._torso = links.get(self.torso, -1)
        self._motors = [joints[name] for name in self.motors]
        # A joint's position is observed as a multiple of half its range, from its middle.
        limits = [infos[motor][8:10] for motor in self._motors]
        self._joint_ranges = [((low + high) / 2, (high - low) / 2) for low, high in limits]
        self._contacts = [links[name] for name in self.contacts]
        self._starts = [state[0] for state in pybullet.getJointStates(self.body, self._motors, physicsClientId=client)]

    def decorate(self) -> None:
        """Draw a line on the ground every metre, and a darker one every ten, and colour the robot's two sides."""
        self.paint(self.floor, (1.0, 1.0, 1.0, 0.0))
        for link in range(-1, pybullet.getNumJoints(self.body, physicsClientId=self.client)):
            name = pybullet.getJointInfo(self.body, link, physicsClientId=self.client)[12].decode() if link >= 0 else ""
            is_other = bool(self.other_side) and name.startswith(self.other_side)
            self.paint(self.body, (0.2, 0.36, 0.6, 1.0) if is_other else (0.95, 0.55, 0.2, 1.0), link)
        for is_tenth, colour in ((False, (0.39, 0.51, 0.41, 1.0)), (True, (0.3, 0.42, 0.33, 1.0))):
            metres = [metre for metre in range(-5, 80) if (metre % 10 == 0) == is_tenth]
            self.mark_ground([(metre - 0.02, -6.0, metre + 0.02, 6.0) for metre in metres], colour)

    def place(self) -> None:
        """Bend the joints a little."""
        noise = self.np_random.uniform(-START_NOISE, START_NOISE, len(self._motors)).tolist()
        for motor, start, bent in zip(self._motors, self._starts, noise, strict=True):
            pybullet.resetJointState(self.body, motor, start + bent, 0.0, physicsClientId=self.client)
        self._start: tuple[float, float] | None = None
        self._before = 0.0
        self._terms: dict[str, float] = dict.fromkeys(
            ("reward_alive", "reward_progress", "reward_electricity", "reward_limits"), 0.0
        )
        self._action = [0.0] * len(self._motors)

    def act(self, action: Any) -> None:
        """Drive the motors."""
        values = np.asarray(action, np.float64).tolist()
        self._action = [value if -1.0 <= value <= 1.0 else clipped(value) for value in values]
        self.drive(self._action)

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
            self._start = x, z if self.start_height is None else self.start_height
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
        fallen, count = self.has_fallen(), len(self._action)
        torque_times_speed = sum([abs(a * v) for a, v in zip(self._action, self._speeds, strict=True)]) / count
        squares = sum([a * a for a in self._action]) / count
        self._terms = {
            "reward_alive": -1.0 if fallen else self.alive,
            "reward_progress": (self._progress - self._before) / (self.time_step * self.action_repeat),
            "reward_electricity": -ELECTRICITY_COST * torque_times_speed - STALL_COST * squares,
            "reward_limits": -LIMIT_COST * self._at_limit,
        }
        self._before = self._progress
        return sum(self._terms.values()), fallen

    def info(self) -> dict[str, Any]:
        """Return the reward's terms, and how far the robot has come."""
        return {"progress": self._progress, "position": self.position, **self._terms}

    def camera(self) -> Camera:
        """Return a camera that runs beside the robot."""
        x, y = self.position
        return Camera(target=(x, y, 0.6), distance=3.2, yaw=15.0, pitch=-14.0)


class MujocoRunnerEnv(RunnerEnv):
    """A robot from the MuJoCo models that come with pybullet, whose motors are torques."""

    model: ClassVar[str]
    power: ClassVar[float]
    strengths: ClassVar[Mapping[str, float]] = {}
    """Torque of a motor at full power [N·m], where it is not 100."""

    def load(self) -> int:
        """Load the model, whose links collide with each other, but for neighbours."""
        flags = pybullet.URDF_USE_SELF_COLLISION | pybullet.URDF_USE_SELF_COLLISION_EXCLUDE_ALL_PARENTS
        (body,) = self.load_mjcf(f"mjcf/{self.model}", flags=flags)
        self._torques = [self.power * self.strengths.get(name, 100.0) for name in self.motors]
        return body

    def drive(self, action: list[float]) -> None:
        """Apply torques."""
        strength = self.varied["motor_strength"]
        pybullet.setJointMotorControlArray(
            self.body,
            self._motors,
            pybullet.TORQUE_CONTROL,
            forces=[torque * strength * each for torque, each in zip(self._torques, action, strict=True)],
            physicsClientId=self.client,
        )
