"""The racing car of pybullet_data, which all environments here drive."""

import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pybullet_data

from es_envs.bullet import BulletEnv, clipped, pybullet, require_whole

MODEL = "racecar/racecar.urdf"
STEERING_HINGES = ("left_steering_hinge_joint", "right_steering_hinge_joint")
WHEELS = ("left_rear_wheel_joint", "right_rear_wheel_joint", "left_front_wheel_joint", "right_front_wheel_joint")
WHEEL_FORCE = 100.0
WHEEL_RADIUS = 0.05  # [m]
MAX_SPEED = 4.0  # [m/s], on RaceTrack-v0
MAX_STEERING = 0.6  # [rad], on RaceTrack-v0
STATIC_BODIES = 2  # Bullet's collision group of fixed bodies
HULLS, SEEN_HULLS = 4, 8  # of cars' hulls, and of those that lidars see
HULL = """
    <collision>
      <origin xyz="0.178 0 0.07"/>
      <geometry><box size="0.46 0.3 0.2"/></geometry>
    </collision>"""  # [m], around the wheels, and higher than the lidar


class Lidar:
    """Rays from 90° right of straight ahead to 90° left, in a Bullet world.

    Args:
        rays: how many.
        reach: their range [m].
        height: their height [m].

    Raises:
        ArgumentError: it cannot have so many rays.
    """

    def __init__(self, rays: int, reach: float, height: float) -> None:
        require_whole("lidar_rays", rays, 1, 8192)  # for about twice as many Bullet silently returns nothing
        angles = np.linspace(-math.pi / 2, math.pi / 2, rays).tolist() if rays > 1 else [0.0]
        # Their ends as the car sees them: metres ahead and to the left.
        self._fan = [(reach * math.cos(angle), reach * math.sin(angle)) for angle in angles]
        self._height = height

    def read(self, client: int, position: tuple[float, float], heading: float) -> list[float]:
        """Distance to the nearest wall, or other car's hull, along each ray, as a share of the range."""
        (x, y), cos, sin, height = position, math.cos(heading), math.sin(heading), self._height
        # For a handful of rays, plain Python is four times faster than numpy.
        ends = [(x + cos * ahead - sin * aside, y + sin * ahead + cos * aside, height) for ahead, aside in self._fan]
        hits = pybullet.rayTestBatch(
            [(x, y, height)] * len(ends),
            ends,
            numThreads=1,
            collisionFilterMask=STATIC_BODIES | SEEN_HULLS,
            physicsClientId=client,
        )
        return [hit[2] for hit in hits]


class Motion(NamedTuple):
    """The pose and the speeds of a car.

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
        hull: groups of a hull, which collides with other cars' hulls; 0: none, where there are no others.

    Attributes:
        body: its body id.
        chassis: its link that is painted, and has the hull.
    """

    def __init__(self, env: BulletEnv, hull: int = 0) -> None:
        self._client = env.client
        self.body = _load_with_hull(env) if hull else env.load_urdf(MODEL)
        joints = env.joints(self.body)
        self.chassis = joints["base_link_joint"]  # Bullet numbers a link like the joint above it
        if hull:
            meets = HULLS | 1  # rays are of group 1, as are other cars' wheels; the floor and walls are not
            pybullet.setCollisionFilterGroupMask(self.body, self.chassis, hull, meets, physicsClientId=self._client)
            # Bullet would take the hull's inertia, and the car would drive otherwise than alone.
            _, _, inertia, *_ = pybullet.getDynamicsInfo(self.body, -1, physicsClientId=self._client)
            pybullet.changeDynamics(self.body, self.chassis, localInertiaDiagonal=inertia, physicsClientId=self._client)
        self._hinges = tuple(joints[name] for name in STEERING_HINGES)
        self._wheels = tuple(joints[name] for name in WHEELS)

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
        """Read its pose and motion."""
        (x, y, _), (qx, qy, qz, qw) = pybullet.getBasePositionAndOrientation(self.body, self._client)
        (vx, vy, _), (_, _, yaw_rate) = pybullet.getBaseVelocity(self.body, self._client)
        heading = math.atan2(2.0 * (qw * qz + qx * qy), 1.0 - 2.0 * (qy * qy + qz * qz))
        return Motion((x, y), heading, vx * math.cos(heading) + vy * math.sin(heading), yaw_rate)

    def steering(self) -> float:
        """Read the angle of the left steering hinge [rad]."""
        return float(pybullet.getJointState(self.body, self._hinges[0], self._client)[0])


def _load_with_hull(env: BulletEnv) -> int:
    """Load the model with a hull: its own shapes are wheels, lidar and camera, and cars would drive into each other."""
    original = Path(pybullet_data.getDataPath(), MODEL)
    text = original.read_text(encoding="utf-8")
    text = text.replace('filename="meshes/', f'filename="{original.parent.as_posix()}/meshes/')
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, original.name)
        model.write_text(text.replace('<link name="chassis">', f'<link name="chassis">{HULL}'), encoding="utf-8")
        return env.load_urdf(model)
