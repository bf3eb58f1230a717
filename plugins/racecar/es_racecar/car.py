"""The racing car of pybullet_data, which all environments here drive."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from es_envs.bullet import BulletEnv, clipped, pybullet

STEERING_HINGES = ("left_steering_hinge_joint", "right_steering_hinge_joint")
WHEELS = ("left_rear_wheel_joint", "right_rear_wheel_joint", "left_front_wheel_joint", "right_front_wheel_joint")
WHEEL_FORCE = 100.0
WHEEL_RADIUS = 0.05  # [m]
MAX_SPEED = 4.0  # [m/s], on RaceTrack-v0
MAX_STEERING = 0.6  # [rad], on RaceTrack-v0
STATIC_BODIES = 2  # Bullet's collision group of fixed bodies
SEEN_BODIES = 4  # of other cars


class Motion(NamedTuple):
    """How a car stands and moves.

    Attributes:
        position: (x, y) [m].
        heading: counterclockwise from x [rad].
        speed: ahead [m/s].
        yaw_rate: counterclockwise [rad/s].
    """

    position: tuple[float, float]
    heading: float
    speed: float
    yaw_rate: float


class Car:
    """A racing car in a Bullet world, made in ``build``.

    Args:
        env: the environment.

    Attributes:
        body: its body id.
        chassis: its link that is painted.
    """

    def __init__(self, env: BulletEnv) -> None:
        self._client = env.client
        self.body = env.load_urdf("racecar/racecar.urdf")
        joints = env.joints(self.body)
        self.chassis = joints["base_link_joint"]  # Bullet numbers a link like the joint above it
        self._hinges = tuple(joints[name] for name in STEERING_HINGES)
        self._wheels = tuple(joints[name] for name in WHEELS)

    def let_rays_hit(self) -> None:
        """Put it into the group ``SEEN_BODIES``, beside its own."""
        for link in range(-1, pybullet.getNumJoints(self.body, physicsClientId=self._client)):
            pybullet.setCollisionFilterGroupMask(self.body, link, 1 | SEEN_BODIES, -1, physicsClientId=self._client)

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """Leave the car out of what is drawn meanwhile: its meshes take longer than all else."""
        shapes = pybullet.getVisualShapeData(self.body, physicsClientId=self._client)
        colours = {link: colour for _, link, _, _, _, _, _, colour in shapes}
        for link, (*colour, _) in colours.items():
            pybullet.changeVisualShape(self.body, link, rgbaColor=(*colour, 0), physicsClientId=self._client)
        try:
            yield
        finally:
            for link, colour in colours.items():
                pybullet.changeVisualShape(self.body, link, rgbaColor=colour, physicsClientId=self._client)

    def put(self, position: tuple[float, float], heading: float) -> None:
        """Put it onto the ground at a place [m], facing along a heading [rad]."""
        turned = (0.0, 0.0, math.sin(heading / 2), math.cos(heading / 2))
        pybullet.resetBasePositionAndOrientation(self.body, (*position, 0.0), turned, physicsClientId=self._client)

    def drive(self, action: Any, force: float, *, mirrored: bool = False) -> None:
        """Set the steering angle and the wheels' speed, each from -1 to 1, for a physics step."""
        steering = clipped(action[0]) * (-MAX_STEERING if mirrored else MAX_STEERING)
        speed = (clipped(action[1]) / 2 + 0.5) * MAX_SPEED / WHEEL_RADIUS
        pybullet.setJointMotorControlArray(
            self.body,
            self._hinges,
            pybullet.POSITION_CONTROL,
            targetPositions=(steering, steering),
            physicsClientId=self._client,
        )
        pybullet.setJointMotorControlArray(
            self.body,
            self._wheels,
            pybullet.VELOCITY_CONTROL,
            targetVelocities=(speed,) * 4,
            forces=(force,) * 4,
            physicsClientId=self._client,
        )

    def motion(self) -> Motion:
        """Read how it stands and moves."""
        (x, y, _), (qx, qy, qz, qw) = pybullet.getBasePositionAndOrientation(self.body, physicsClientId=self._client)
        (vx, vy, _), (_, _, yaw_rate) = pybullet.getBaseVelocity(self.body, physicsClientId=self._client)
        heading = math.atan2(2.0 * (qw * qz + qx * qy), 1.0 - 2.0 * (qy * qy + qz * qz))
        return Motion((x, y), heading, vx * math.cos(heading) + vy * math.sin(heading), yaw_rate)

    def steering(self) -> float:
        """Read the angle of the left steering hinge [rad]."""
        return float(pybullet.getJointState(self.body, self._hinges[0], physicsClientId=self._client)[0])
