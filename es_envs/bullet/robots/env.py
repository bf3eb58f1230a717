"""An environment of one robot and one task, described by constants."""

import copy
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from es_envs.arguments import ArgumentError, require_one_of
from es_envs.bullet.camera import Camera
from es_envs.bullet.env import BulletEnv, bounded, clipped, pybullet
from es_envs.bullet.randomization import MOTOR_STRENGTH
from es_envs.bullet.robots.faults import Faults
from es_envs.bullet.scenery import Colour

BOUND = 5.0  # of an observation
SPEED_SCALE = 0.5  # of the base [s/m]
TURN_SCALE = 0.25  # of the base [s/rad]
JOINT_SPEED = 10.0  # that is observed as 1 where the model does not say a sensible limit [rad/s or m/s]
SENSIBLE = 100.0  # limits above it limit nothing [rad/s or m/s]
OBSERVED = ("up", "velocity", "turning", "positions", "speeds", "contacts", "action")
OF_A_FREE_BASE = ("up", "velocity", "turning")
HOLDING = 1000.0  # force with which joints that are not driven hold their positions [N m or N]


class Task:
    """A robot's task: it is asked what an environment is asked, and gets the robot's environment each time.

    Each environment has a copy of its own, so that a task can keep in attributes what belongs to an episode; it sets
    them in ``place``. All random numbers come from ``robot.np_random``.
    """

    readout: ClassVar[Literal["distance", "time"] | None] = None
    """What films show of it, as ``BulletEnv.readout``."""

    def size(self, robot: "RobotEnv") -> int:
        """Number of observations that it adds; the robot is not loaded yet."""
        return 0

    def build(self, robot: "RobotEnv") -> None:
        """Load what it needs, and look at the robot in its pose. Called once, after the robot is loaded."""

    def decorate(self, robot: "RobotEnv") -> None:
        """Add what is only seen. Called once, and only if the environment can render."""

    def place(self, robot: "RobotEnv") -> None:
        """Start an episode; the robot is in its pose."""

    def observe(self, robot: "RobotEnv") -> list[float]:
        """Return its observations, as many as ``size`` says; what ``sense`` reads has been read."""
        return []

    def outcome(self, robot: "RobotEnv") -> tuple[float, bool]:
        """Return the step's reward, and True if the episode has terminated."""
        raise NotImplementedError

    def info(self, robot: "RobotEnv") -> dict[str, Any]:
        """Return what belongs into the info, for fitness functions and films."""
        return {}


class RobotEnv(BulletEnv):
    """A robot from a file, which stands on a floor and has a task.

    A subclass writes down what its robot is, as the constants below; ``es-envs new NAME --robot FILE`` writes one that
    works. The model's fixed links are merged into those that they are fastened to, which makes a step several times as
    fast, and joints that mimic others follow them.

    * **Actions**: ``Box(-1, 1, (motors,), float32)``, one for each motor: with "position" control a target around the
      joint's start, ``reach`` away at 1 and -1, within the joint's limits; with "velocity" a speed, ``speed`` at 1;
      with "torque" a force, that of ``motors`` at 1. Values beyond the bounds are clipped.
    * **Observations**: ``Box(-5, 5, (n,), float32)``, clipped to the bounds: those of ``observed``, in its order, then
      the task's. There are ``up``, which way is up; ``velocity`` [2 m/s]; ``turning``, the angular velocity [4 rad/s]
      (these three are of a free base, in its own frame, three numbers each); ``positions`` of the motors' joints, from
      -1 to 1 between their limits, without limits the angle / π; their ``speeds``, as shares of the joint's limit, or
      [10 rad/s or m/s]; ``contacts``, for each of the attribute of this name 1 if it touches the floor, else 0; and
      ``action``, the last one.
    * **Reward and end**: the task's.
    * **Start**: ``start_pose``, with each motor's joint moved by up to ``start_noise``.
    * **Info**: the task's, and the base's ``position`` (x, y) [m].

    Args:
        faults: what is broken, by kind: ``{"locked": ["knee"], "weak": {"hip": 0.3}, "short": {"shin": 0.6}}``. A
            locked joint of a motor is held where it is at the start, whatever the action is; of a weak motor's force
            this share is left; a link (of a URDF or xacro file) has this share of its size, and with it of what hangs
            on it the distance. Spaces, start and task stay: what an unbroken robot has learnt can be tried.
        **options: see ``BulletEnv``.

    Attributes:
        faults: what is broken.
        floor: body id of the floor.
        body: body id of the robot.
        place_of_base: the base's (x, y, z) [m].
        up: the world's upward direction in the base's frame.
        heading: the base's rotation about the vertical [rad].
        base_velocity: the base's velocity in the world (x, y, z) [m/s].
        start_positions: of the motors' joints in the pose [rad or m].
        joint_positions: of the motors' joints [rad or m].
        joint_speeds: of the motors' joints [rad/s or m/s].
        touching: for each of ``contacts`` 1.0 if it touches the floor, else 0.0.
        last_action: the action that was taken last, within its bounds.
    """

    failure = "fell"
    sky = (0.84, 0.9, 0.95, 1.0)
    ground = (0.44, 0.56, 0.46, 1.0)
    variations = BulletEnv.variations | {"motor_strength": MOTOR_STRENGTH}
    action_repeat = 8

    model: ClassVar[str | Path]
    """The robot's file: URDF, xacro, MJCF or SDF."""
    packages: ClassVar[Mapping[str, str | Path]] = {}
    """Folders of packages by name, for ``package://`` in the file."""
    task: Task = Task()
    """What the robot shall do; each environment has a copy of its own."""
    base: ClassVar[Literal["free", "fixed"]] = "free"
    """Whether the base is fastened to the world."""
    start_height: ClassVar[float] = 0.0
    """Height of the base's frame at the start [m]."""
    start_turn: ClassVar[tuple[float, float, float]] = (0.0, 0.0, 0.0)
    """Roll, pitch and yaw of the base's frame at the start [rad]."""
    start_pose: ClassVar[Mapping[str, float]] = {}
    """Positions of joints at the start [rad or m], where they are not as the model has them."""
    start_noise: ClassVar[float] = 0.05
    """How far each motor's joint may be from its ``start_pose`` at the start [rad or m]."""
    motors: ClassVar[Mapping[str, float]] = {}
    """Joints that are driven, and the largest force of each [N m or N]."""
    control: ClassVar[Literal["position", "velocity", "torque"]] = "position"
    """What an action commands."""
    reach: ClassVar[float | Mapping[str, float]] = 0.5
    """With "position" control: how far from the start an action of 1 commands [rad or m]; one for all, or by joint."""
    speed: ClassVar[float | Mapping[str, float]] = 10.0
    """With "velocity" control: the speed that an action of 1 commands [rad/s or m/s]; one for all, or by joint."""
    passive: ClassVar[Sequence[str]] = ()
    """Joints that move freely. All others that are not driven hold their positions."""
    mimics: ClassVar[Mapping[str, tuple[str, float, float]]] = {}
    """Joints that follow others: by name, the joint that is followed, a factor and an offset [rad or m]."""
    observed: ClassVar[Sequence[str]] = OBSERVED
    """What the policy sees of the robot, by the names above."""
    contacts: ClassVar[Sequence[str]] = ()
    """Links whose touch of the floor is observed."""
    self_collision: ClassVar[bool] = True
    """Whether links collide with each other, but for neighbours."""
    merge_fixed: ClassVar[bool] = True
    """Whether links on fixed joints become parts of the links that they are fastened to (URDF and xacro)."""
    inertia_from_file: ClassVar[bool] = True
    """Whether inertias are the file's; else Bullet computes them from the collision shapes."""
    friction: ClassVar[float] = 1.0
    """The floor's friction, by which Bullet multiplies that of a link, 0.5 unless the model says otherwise."""
    restitution: ClassVar[float] = 0.0
    """How much of its speed what falls onto the floor keeps."""
    engine: ClassVar[Mapping[str, Any]] = {"numSolverIterations": 20}
    """Parameters of Bullet's engine, as ``pybullet.setPhysicsEngineParameter`` takes them."""

    def __init__(self, *, faults: Mapping[str, Any] | None = None, **options: Any) -> None:
        require_one_of("control", self.control, ("position", "velocity", "torque"))
        require_one_of("base", self.base, ("free", "fixed"))
        for name in self.observed:
            require_one_of("observed", name, OBSERVED)
        if not self.motors:
            raise ArgumentError(f"{type(self).__name__}.motors: a robot needs a joint that is driven")
        self.faults = Faults.read(faults, self.motors)
        self.task = copy.copy(self.task)
        self.readout = self.task.readout or self.readout
        self._seen = [name for name in self.observed if self.base == "free" or name not in OF_A_FREE_BASE]
        size = self.size() + self.task.size(self)
        if not size:
            raise ArgumentError(f"{type(self).__name__}.observed: the policy would see nothing; the task adds nothing")
        self.observation_space = spaces.Box(-BOUND, BOUND, (size,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (len(self.motors),), np.float32)
        super().__init__(**options)

    @classmethod
    def size(cls) -> int:
        """Number of observations of the robot itself, without the task's."""
        sizes = dict.fromkeys(OF_A_FREE_BASE, 3 if cls.base == "free" else 0)
        sizes |= dict.fromkeys(("positions", "speeds", "action"), len(cls.motors)) | {"contacts": len(cls.contacts)}
        return sum(sizes[name] for name in cls.observed)

    def build(self) -> None:
        """Load a floor without end and the robot, put it into its pose, and let the task add what it needs."""
        client = self.client
        if self.engine:
            pybullet.setPhysicsEngineParameter(**self.engine, physicsClientId=client)
        plane = pybullet.createCollisionShape(pybullet.GEOM_PLANE, physicsClientId=client)
        self.floor = pybullet.createMultiBody(baseMass=0.0, baseCollisionShapeIndex=plane, physicsClientId=client)
        pybullet.changeDynamics(
            self.floor, -1, lateralFriction=self.friction, restitution=self.restitution, physicsClientId=client
        )
        self.body = self._load()
        self._find_parts()
        self._find_motors()
        pybullet.performCollisionDetection(physicsClientId=client)
        self._box = self._bounding_box()
        self.task.build(self)

    def _load(self) -> int:
        flags = 0
        if self.self_collision:
            flags |= pybullet.URDF_USE_SELF_COLLISION | pybullet.URDF_USE_SELF_COLLISION_EXCLUDE_ALL_PARENTS
        if self.merge_fixed:
            flags |= pybullet.URDF_MERGE_FIXED_LINKS
        if self.inertia_from_file:
            flags |= pybullet.URDF_USE_INERTIA_FROM_FILE
        if self.render_mode is None:
            flags |= pybullet.URDF_IGNORE_VISUAL_SHAPES
        place, turn = (0.0, 0.0, self.start_height), pybullet.getQuaternionFromEuler(self.start_turn)
        with self._reading(self.model, self.packages, flags, self.faults.short) as (self._read, file):
            if self._read.format in {"urdf", "xacro"}:
                fixed = self.base == "fixed"
                return int(
                    pybullet.loadURDF(file, place, turn, useFixedBase=fixed, flags=flags, physicsClientId=self.client)
                )
            is_mjcf = self._read.format == "mjcf"
            bodies = (
                pybullet.loadMJCF(file, flags=flags, physicsClientId=self.client)
                if is_mjcf
                else pybullet.loadSDF(file, physicsClientId=self.client)
            )
        # Such a file may bring a floor or a table of its own.
        body = int(max(bodies, key=lambda body: pybullet.getNumJoints(body, physicsClientId=self.client)))
        if self.start_height or any(self.start_turn):
            pybullet.resetBasePositionAndOrientation(body, place, turn, physicsClientId=self.client)
        if self.base == "fixed" and pybullet.getDynamicsInfo(body, -1, physicsClientId=self.client)[0] > 0:
            place, turn = pybullet.getBasePositionAndOrientation(body, physicsClientId=self.client)
            pybullet.createConstraint(
                body, -1, -1, -1, pybullet.JOINT_FIXED, (0, 0, 0), (0, 0, 0), place, (0, 0, 0, 1), turn,
                physicsClientId=self.client,
            )  # fmt: skip
        return body

    def _find_parts(self) -> None:
        count = pybullet.getNumJoints(self.body, physicsClientId=self.client)
        infos = [pybullet.getJointInfo(self.body, joint, physicsClientId=self.client) for joint in range(count)]
        self._infos = {info[1].decode(): info for info in infos}
        self._links = {info[12].decode(): info[0] for info in infos}
        self._limits = {
            name: (info[8], info[9]) if info[8] < info[9] else None
            for name, info in self._infos.items()
            if info[2] != pybullet.JOINT_FIXED
        }
        for joint in range(count):
            pybullet.setJointMotorControl2(
                self.body, joint, pybullet.VELOCITY_CONTROL, force=0.0, physicsClientId=self.client
            )
        for name, position in self.start_pose.items():
            pybullet.resetJointState(self.body, self._joint(name)[0], position, 0.0, physicsClientId=self.client)
        self._contacts = [self.find_link(name)[0] for name in self.contacts]

    def _find_motors(self) -> None:
        infos = {name: self._joint(name) for name in self.motors}
        self._motors = [info[0] for info in infos.values()]
        self._forces = [float(force) * self.faults.weak.get(name, 1.0) for name, force in self.motors.items()]
        if self.control == "velocity":
            self._full_speeds = [self.speed[name] if isinstance(self.speed, Mapping) else self.speed for name in infos]
        self.start_positions = self.read_joints()
        limits = self._limits
        # A joint's position is observed as a multiple of half its range, from its middle.
        self._joint_ranges = [_middle_and_half(limits[name]) for name in infos]
        self._has_limits = [limits[name] is not None for name in infos]
        self._joint_speeds = [1 / (info[11] if 0 < info[11] < SENSIBLE else JOINT_SPEED) for info in infos.values()]
        self._spans = [self._span(name, start) for name, start in zip(infos, self.start_positions, strict=True)]
        self._commanded = list(self._spans)
        self._locked = [number for number, name in enumerate(infos) if name in self.faults.locked]
        commanded = {joint: number for number, joint in enumerate(infos)}
        following = {name: led for name, led in self.mimics.items() if led[0] in commanded}
        self._followers = [
            (self._joint(name)[0], commanded[leader], self._joint(leader)[0], factor, offset)
            for name, (leader, factor, offset) in following.items()
        ]
        free = {*self.motors, *self.passive, *following}
        self._held = [
            info[0] for name, info in self._infos.items() if info[2] != pybullet.JOINT_FIXED and name not in free
        ]
        self._held_at = [pybullet.getJointState(self.body, joint, self.client)[0] for joint in self._held]
        for number in self._locked:
            self._lock(number)

    def _lock(self, number: int) -> None:
        """Make all commands of a motor hold its joint, so that no step has to ask which motors are locked."""
        self._commanded[number] = (0.0, 0.0)
        if self.control == "torque":
            self._forces[number] = 0.0
            low, high = self._limits[list(self.motors)[number]] or (-math.inf, math.inf)
            self._held.append(self._motors[number])
            self._held_at.append(min(max(self.start_positions[number], low), high))  # Bullet would fight its own limits
        else:
            self._forces[number] = HOLDING
        if self.control == "velocity":
            self._full_speeds[number] = 0.0

    def _span(self, name: str, start: float) -> tuple[float, float]:
        """How far down and up from its start a joint is commanded, so that it stays within its limits."""
        reach = self.reach[name] if isinstance(self.reach, Mapping) else self.reach
        limits = self._limits[name]
        if limits is None:
            return reach, reach
        low, high = limits
        down = reach if start - reach >= low else max(0.0, start - low)
        up = reach if start + reach <= high else max(0.0, high - start)
        return down, up

    def _joint(self, name: str) -> Any:
        if name not in self._infos:
            raise ArgumentError(
                f"{type(self).__name__}: there is no joint {name!r}: this robot has {', '.join(self._infos) or 'none'}"
            )
        return self._infos[name]

    def limits(self) -> dict[str, tuple[float, float] | None]:
        """Lower and upper limit of each joint that moves [rad or m], by name; None: it has none."""
        return dict(self._limits)

    def links(self) -> list[str]:
        """Names of the links, the base's first; without those that are merged into others."""
        base = pybullet.getBodyInfo(self.body, physicsClientId=self.client)[0].decode()
        return [base, *self._links]

    def find_link(self, name: str) -> tuple[int, tuple[float, float, float]]:
        """Index of a link, -1 for the base, and where the link's frame lies in that of this index [m].

        The second is 0 but for a link that is merged into another.

        Raises:
            ArgumentError: the robot has no such link.
        """
        offset, turn = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)
        parents = {joint.child: joint for joint in self._read.joints}
        while name not in self._links and name in parents:
            joint = parents[name]
            place, rotation = joint.origin[:3], pybullet.getQuaternionFromEuler(joint.origin[3:])
            offset, turn = pybullet.multiplyTransforms(place, rotation, offset, turn)
            name = joint.parent
        if name in self._links:
            return self._links[name], offset
        if name not in self.links()[:1] and all(link.name != name for link in self._read.roots):
            raise ArgumentError(
                f"{type(self).__name__}: there is no link {name!r}: this robot has {', '.join(self.links())}"
            )
        # Bullet's base is its centre of mass.
        mass_offset, mass_turn = pybullet.getDynamicsInfo(self.body, -1, physicsClientId=self.client)[3:5]
        inverse = pybullet.invertTransform(mass_offset, mass_turn)
        return -1, pybullet.multiplyTransforms(*inverse, offset, turn)[0]

    def point(self, link: int, offset: tuple[float, float, float]) -> tuple[float, float, float]:
        """Where a point of a link is, both as ``find_link`` returns them [m]."""
        if link < 0:
            place, turn = pybullet.getBasePositionAndOrientation(self.body, self.client)
        else:
            place, turn = pybullet.getLinkState(
                self.body, link, computeForwardKinematics=1, physicsClientId=self.client
            )[4:6]
        if not any(offset):
            return place  # type: ignore[no-any-return]
        return pybullet.multiplyTransforms(place, turn, offset, (0.0, 0.0, 0.0, 1.0))[0]  # type: ignore[no-any-return]

    def is_colliding(self) -> bool:
        """Whether the robot, as it is now, touches itself or the floor; for poses without a physics step."""
        pybullet.performCollisionDetection(physicsClientId=self.client)
        points = pybullet.getContactPoints(self.body, physicsClientId=self.client)
        return any(point[8] < 0 and not (point[2] == self.floor and point[3] < 0) for point in points)

    def motor_ranges(self, most: float) -> list[tuple[float, float]]:
        """Positions of each motor's joint that are within its limits and at most this far from its start [rad or m].

        With "position" control also within what an action can command.
        """
        ranges = []
        for name, start, (down, up) in zip(self.motors, self.start_positions, self._spans, strict=True):
            low, high = self._limits[name] or (-math.inf, math.inf)
            if self.control == "position":
                low, high = start - down, start + up
            ranges.append((min(start, max(low, start - most)), max(start, min(high, start + most))))
        return ranges

    def read_joints(self) -> list[float]:
        """Positions of the motors' joints now [rad or m]."""
        return [state[0] for state in pybullet.getJointStates(self.body, self._motors, self.client)]

    def put_joints(self, positions: Sequence[float]) -> None:
        """Put the motors' joints at positions [rad or m], at rest, and their followers with them."""
        for motor, position in zip(self._motors, positions, strict=True):
            pybullet.resetJointState(self.body, motor, position, 0.0, physicsClientId=self.client)
        for follower, number, _, factor, offset in self._followers:
            pybullet.resetJointState(
                self.body, follower, factor * positions[number] + offset, 0.0, physicsClientId=self.client
            )

    def decorate(self) -> None:
        """Draw a line on the ground every metre, and a darker one every ten; the task adds its own."""
        self.paint(self.floor, (1.0, 1.0, 1.0, 0.0))
        self.draw_metres()
        self.task.decorate(self)

    def visual_ball(self, radius: float, colour: Colour) -> int:
        """Add a ball that is only seen, and that the task moves; returns its body id. For use in ``decorate``."""
        shape = pybullet.createVisualShape(
            pybullet.GEOM_SPHERE, radius=radius, rgbaColor=colour, physicsClientId=self.client
        )
        ball = int(pybullet.createMultiBody(0.0, baseVisualShapeIndex=shape, physicsClientId=self.client))
        self.animated = [*self.animated, ball]
        return ball

    def draw_metres(self) -> None:
        """Draw lines across the ground."""
        for is_tenth, colour in ((False, (0.39, 0.51, 0.41, 1.0)), (True, (0.3, 0.42, 0.33, 1.0))):
            metres = [metre for metre in range(-5, 80) if (metre % 10 == 0) == is_tenth]
            self.mark_ground([(metre - 0.02, -6.0, metre + 0.02, 6.0) for metre in metres], colour)

    def place(self) -> None:
        """Put the robot into its pose, a little changed, and start the task."""
        noise = self.np_random.uniform(-self.start_noise, self.start_noise, len(self._motors)).tolist()
        for number in self._locked:
            noise[number] = 0.0
        self.put_joints([start + moved for start, moved in zip(self.start_positions, noise, strict=True)])
        if self._held:
            pybullet.setJointMotorControlArray(
                self.body,
                self._held,
                pybullet.POSITION_CONTROL,
                targetPositions=self._held_at,
                forces=[HOLDING] * len(self._held),
                physicsClientId=self.client,
            )
        self.last_action = [0.0] * len(self._motors)
        self.task.place(self)

    def act(self, action: Any) -> None:
        """Drive the motors."""
        values = np.asarray(action, np.float64).tolist()
        self.last_action = [value if -1.0 <= value <= 1.0 else clipped(value) for value in values]
        self.drive(self.last_action)

    def drive(self, action: list[float]) -> None:
        """Let the motors do what the action says, each from -1 to 1."""
        strength, body, client = self.varied["motor_strength"], self.body, self.client
        if self.control == "torque":
            forces = [force * strength * each for force, each in zip(self._forces, action, strict=True)]
            pybullet.setJointMotorControlArray(
                body, self._motors, pybullet.TORQUE_CONTROL, forces=forces, physicsClientId=client
            )
            return
        forces = [force * strength for force in self._forces]
        if self.control == "velocity":
            pybullet.setJointMotorControlArray(
                body,
                self._motors,
                pybullet.VELOCITY_CONTROL,
                targetVelocities=[speed * each for speed, each in zip(self._full_speeds, action, strict=True)],
                forces=forces,
                physicsClientId=client,
            )
            self._lead_followers(None)
            return
        targets = self.targets(action)
        pybullet.setJointMotorControlArray(
            body,
            self._motors,
            pybullet.POSITION_CONTROL,
            targetPositions=targets,
            forces=forces,
            physicsClientId=client,
        )
        self._lead_followers(targets)

    def targets(self, action: Sequence[float]) -> list[float]:
        """Positions [rad or m] that an action commands with "position" control."""
        return [
            start + (up if each > 0 else down) * each
            for start, (down, up), each in zip(self.start_positions, self._commanded, action, strict=True)
        ]

    def _lead_followers(self, targets: Sequence[float] | None) -> None:
        for follower, number, leader, factor, offset in self._followers:
            led_by = targets[number] if targets else pybullet.getJointState(self.body, leader, self.client)[0]
            pybullet.setJointMotorControl2(
                self.body,
                follower,
                pybullet.POSITION_CONTROL,
                targetPosition=factor * led_by + offset,
                force=HOLDING,
                physicsClientId=self.client,
            )

    def observe(self) -> NDArray[np.float32]:
        """Read the robot, then ask the task."""
        values = self.sense()
        return bounded(values + self.task.observe(self), BOUND)

    def sense(self) -> list[float]:
        """Read base, joints and contacts into attributes, and return what is observed of them."""
        client, body = self.client, self.body
        self.place_of_base, turn = pybullet.getBasePositionAndOrientation(body, client)
        self.base_velocity, turning = pybullet.getBaseVelocity(body, client)
        matrix = pybullet.getMatrixFromQuaternion(turn)
        self.up = matrix[6:9]
        self.heading = math.atan2(matrix[3], matrix[0])
        states = pybullet.getJointStates(body, self._motors, client)
        self.joint_positions = [state[0] for state in states]
        self.joint_speeds = [state[1] for state in states]
        touched = {point[3] for point in pybullet.getContactPoints(body, self.floor, physicsClientId=client)}
        self.touching = [float(link in touched) for link in self._contacts]
        values: list[float] = []
        for name in self._seen:
            if name == "up":
                values += self.up
            elif name == "velocity":
                values += (SPEED_SCALE * each for each in _turned(matrix, self.base_velocity))
            elif name == "turning":
                values += (TURN_SCALE * each for each in _turned(matrix, turning))
            elif name == "positions":
                values += self._relative_positions()
            elif name == "speeds":
                values += (rate * scale for rate, scale in zip(self.joint_speeds, self._joint_speeds, strict=True))
            elif name == "contacts":
                values += self.touching
            else:
                values += self.last_action
        return values

    def _relative_positions(self) -> list[float]:
        turn = 2 * math.pi
        return [
            ((position if limited else math.remainder(position, turn)) - middle) / half
            for position, limited, (middle, half) in zip(
                self.joint_positions, self._has_limits, self._joint_ranges, strict=True
            )
        ]

    def outcome(self) -> tuple[float, bool]:
        """Ask the task."""
        return self.task.outcome(self)

    def info(self) -> dict[str, Any]:
        """Return the task's info, and where the base is."""
        return {"position": self.place_of_base[:2], **self.task.info(self)}

    def push(self, velocity: tuple[float, float]) -> None:
        """Push the robot: a free base gets a velocity, of a fixed one the last driven link, as far as its mass goes."""
        if self.base == "free":
            super().push(velocity)
            return
        link = max(self._motors)
        mass = pybullet.getDynamicsInfo(self.body, link, physicsClientId=self.client)[0]
        middle = pybullet.getLinkState(self.body, link, physicsClientId=self.client)[0]
        force = [mass * each / self.time_step for each in velocity]
        pybullet.applyExternalForce(
            self.body, link, [*force, 0.0], middle, pybullet.WORLD_FRAME, physicsClientId=self.client
        )

    def _bounding_box(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        boxes = np.array(
            [
                pybullet.getAABB(self.body, link, physicsClientId=self.client)
                for link in range(-1, pybullet.getNumJoints(self.body, physicsClientId=self.client))
            ]
        )
        return boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)

    def camera(self) -> Camera:
        """Return a camera that shows the whole robot, and goes with a free base."""
        low, high = self._box
        x, y, z = ((low + high) / 2).tolist()
        if self.base == "free":
            x, y = self.place_of_base[:2]
        return Camera(
            target=(x, y, z), distance=max(0.3, 2.0 * float(np.linalg.norm(high - low))), yaw=25.0, pitch=-16.0
        )


def _middle_and_half(limits: tuple[float, float] | None) -> tuple[float, float]:
    """Around what a joint's position is observed, and the unit."""
    if limits is None:
        return 0.0, math.pi
    low, high = limits
    return (low + high) / 2, (high - low) / 2


def _turned(matrix: Sequence[float], vector: Sequence[float]) -> list[float]:
    """A vector of the world in the frame of this rotation matrix."""
    x, y, z = vector
    return [matrix[column] * x + matrix[3 + column] * y + matrix[6 + column] * z for column in range(3)]
