"""The robots: their models, motors and falls."""

from es_envs.bullet import Camera, pybullet
from es_locomotion.runner import MujocoRunnerEnv, RunnerEnv


class PlanarEnv(MujocoRunnerEnv):
    """A robot that is held in a plane: it slides along x and z, and pitches."""

    torso = "torso"

    def push(self, velocity: tuple[float, float]) -> None:
        """Push the robot along x: its base is fastened to the world, and its first joint slides along x."""
        position, before, *_ = pybullet.getJointState(self.body, 0, physicsClientId=self.client)
        pybullet.resetJointState(self.body, 0, position, before + velocity[0], physicsClientId=self.client)


class UprightEnv(PlanarEnv):
    """A robot in a plane that must not bend down."""

    def has_fallen(self) -> bool:
        """Return True if the torso is low or tilted."""
        return self.altitude <= 0.8 or abs(self.pitch) >= 1.0


class HopperEnv(UprightEnv):
    """Hop forward on one leg, in a plane: 3 motors, 15 observations.

    It falls when its torso is below 0.8 m, or pitched by more than 1 rad.
    """

    model, power = "hopper.xml", 0.75
    motors = ("thigh_joint", "leg_joint", "foot_joint")
    contacts = ("foot",)


class Walker2DEnv(UprightEnv):
    """Walk forward on two legs, in a plane: 6 motors, 22 observations.

    It falls when its torso is below 0.8 m, or pitched by more than 1 rad.
    """

    model, power = "walker2d.xml", 0.4
    motors = ("thigh_joint", "leg_joint", "foot_joint", "thigh_left_joint", "leg_left_joint", "foot_left_joint")
    contacts = ("foot", "foot_left")
    other_side = ("thigh_left", "leg_left", "foot_left")
    strengths = {"foot_joint": 30.0, "foot_left_joint": 30.0}  # noqa: RUF012


class HalfCheetahEnv(PlanarEnv):
    """Run forward with the front and the hind leg of a cheetah, in a plane: 6 motors, 26 observations.

    It falls when its torso is pitched by more than 1 rad, or a shin or a thigh touches the floor.
    """

    model, power = "half_cheetah.xml", 0.9
    motors = ("bthigh", "bshin", "bfoot", "fthigh", "fshin", "ffoot")
    contacts = ("ffoot", "fshin", "fthigh", "bfoot", "bshin", "bthigh")
    other_side = ("bfoot", "bshin", "bthigh")
    strengths = {"bthigh": 120.0, "bshin": 90.0, "bfoot": 60.0, "fthigh": 140.0, "fshin": 60.0, "ffoot": 30.0}  # noqa: RUF012

    def has_fallen(self) -> bool:
        """Return True if the torso is tilted, or anything but a foot touches the floor."""
        _, front_shin, front_thigh, _, back_shin, back_thigh = self.touching
        return abs(self.pitch) >= 1.0 or bool(front_shin or front_thigh or back_shin or back_thigh)


class AntEnv(MujocoRunnerEnv):
    """Run forward on four legs: 8 motors, 28 observations.

    It falls when its torso, a ball of 0.25 m, is below 0.26 m.
    """

    model, power = "ant.xml", 2.5
    motors = tuple(f"{joint}_{leg}" for leg in range(1, 5) for joint in ("hip", "ankle"))
    contacts = ("front_left_foot", "front_right_foot", "left_back_foot", "right_back_foot")
    other_side = ("left_back", "right_back", "aux_3", "aux_4")

    def has_fallen(self) -> bool:
        """Return True if the torso nearly touches the floor."""
        return self.altitude <= 0.26


class HumanoidEnv(MujocoRunnerEnv):
    """Walk forward as a humanoid: 17 motors, 44 observations.

    It falls when its torso is below 0.78 m; a step on its feet earns 2.
    """

    model, power, alive, start_height = "humanoid_symmetric.xml", 0.41, 2.0, 0.8
    strengths = {  # noqa: RUF012
        **dict.fromkeys(("abdomen_z", "abdomen_y", "abdomen_x"), 100.0),
        **{
            f"{side}_{joint}": strength
            for side in ("right", "left")
            for joint, strength in (("hip_x", 100.0), ("hip_z", 100.0), ("hip_y", 300.0), ("knee", 200.0))
        },
        **{f"{side}_{joint}": 75.0 for side in ("right", "left") for joint in ("shoulder1", "shoulder2", "elbow")},
    }
    motors = tuple(strengths)
    contacts = ("right_foot", "left_foot")
    other_side = ("left",)

    def has_fallen(self) -> bool:
        """Return True if the torso is low."""
        return self.altitude <= 0.78

    def camera(self) -> Camera:
        """Return a camera that runs beside it, further away."""
        x, y = self.position
        return Camera(target=(x, y, 0.9), distance=4.2, yaw=20.0, pitch=-12.0)


class A1Env(RunnerEnv):
    """Trot forward with the quadruped A1: 12 motors, 36 observations.

    Its motors turn the joints towards angles, within 0.4 rad of those in which it stands, with 33.5 N·m at most. It
    falls when its trunk is below 0.18 m, or rolled or pitched by more than 1 rad. Standing earns nothing.
    """

    torso = ""
    motors = tuple(f"{leg}_{joint}_joint" for leg in ("FR", "FL", "RR", "RL") for joint in ("hip", "upper", "lower"))
    contacts = ("FR_toe", "FL_toe", "RR_toe", "RL_toe")
    other_side = ("FL", "RL")
    alive = 0.0
    STANCE = (0.0, 0.9, -1.8)
    REACH = 0.4  # [rad]
    TORQUE = 33.5  # [N·m]

    def load(self) -> int:
        """Load the model, and let it stand."""
        body = self.load_urdf("a1/a1.urdf", (0.0, 0.0, 0.29))
        joints = self.joints(body)
        self._stance = self.STANCE * 4
        for name, angle in zip(self.motors, self._stance, strict=True):
            pybullet.resetJointState(body, joints[name], angle, 0.0, physicsClientId=self.client)
        return body

    def drive(self, action: list[float]) -> None:
        """Turn the joints towards their angles."""
        pybullet.setJointMotorControlArray(
            self.body,
            self._motors,
            pybullet.POSITION_CONTROL,
            targetPositions=[middle + self.REACH * each for middle, each in zip(self._stance, action, strict=True)],
            forces=[self.TORQUE * self.varied["motor_strength"]] * len(action),
            physicsClientId=self.client,
        )

    def has_fallen(self) -> bool:
        """Return True if the trunk is low or tilted."""
        return self.altitude <= 0.18 or abs(self.pitch) >= 1.0 or abs(self.roll) >= 1.0

    def camera(self) -> Camera:
        """Return a camera that runs beside it, nearer."""
        x, y = self.position
        return Camera(target=(x, y, 0.25), distance=1.5, yaw=25.0, pitch=-16.0)
