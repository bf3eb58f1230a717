"""The robots: their models, motors and falls."""

from es_envs.bullet import Camera, pybullet
from es_locomotion.runner import RunnerEnv


class MujocoEnv(RunnerEnv):
    """A robot from the MuJoCo models that come with pybullet, whose motors are torques."""

    control = "torque"


class PlanarEnv(MujocoEnv):
    """A robot that is held in a plane: it slides along x and z, and pitches."""

    torso = "torso"
    passive = ("ignorex", "ignorez", "ignorey")

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

    model = "mjcf/hopper.xml"
    passive = ("ignore1", "ignore2", "ignore3")
    motors = dict.fromkeys(("thigh_joint", "leg_joint", "foot_joint"), 75.0)
    contacts = ("foot",)


class Walker2DEnv(UprightEnv):
    """Walk forward on two legs, in a plane: 6 motors, 22 observations.

    It falls when its torso is below 0.8 m, or pitched by more than 1 rad.
    """

    model = "mjcf/walker2d.xml"
    motors = {
        f"{part}{side}_joint": force
        for side in ("", "_left")
        for part, force in (("thigh", 40.0), ("leg", 40.0), ("foot", 12.0))
    }
    contacts = ("foot", "foot_left")
    other_side = ("thigh_left", "leg_left", "foot_left")


class HalfCheetahEnv(PlanarEnv):
    """Run forward with the front and the hind leg of a cheetah, in a plane: 6 motors, 26 observations.

    It falls when its torso is pitched by more than 1 rad, or a shin or a thigh touches the floor.
    """

    model = "mjcf/half_cheetah.xml"
    motors = {"bthigh": 108.0, "bshin": 81.0, "bfoot": 54.0, "fthigh": 126.0, "fshin": 54.0, "ffoot": 27.0}
    contacts = ("ffoot", "fshin", "fthigh", "bfoot", "bshin", "bthigh")
    other_side = ("bfoot", "bshin", "bthigh")

    def has_fallen(self) -> bool:
        """Return True if the torso is tilted, or anything but a foot touches the floor."""
        _, front_shin, front_thigh, _, back_shin, back_thigh = self.touching
        return abs(self.pitch) >= 1.0 or bool(front_shin or front_thigh or back_shin or back_thigh)


class AntEnv(MujocoEnv):
    """Run forward on four legs: 8 motors, 28 observations.

    It falls when its torso, a ball of 0.25 m, is below 0.26 m.
    """

    model = "mjcf/ant.xml"
    motors = {f"{joint}_{leg}": 250.0 for leg in range(1, 5) for joint in ("hip", "ankle")}
    contacts = ("front_left_foot", "front_right_foot", "left_back_foot", "right_back_foot")
    other_side = ("left_back", "right_back", "aux_3", "aux_4")

    def has_fallen(self) -> bool:
        """Return True if the torso nearly touches the floor."""
        return self.altitude <= 0.26


class HumanoidEnv(MujocoEnv):
    """Walk forward as a humanoid: 17 motors, 44 observations.

    It falls when its torso is below 0.78 m; a step on its feet earns 2.
    """

    model, alive, first_height = "mjcf/humanoid_symmetric.xml", 2.0, 0.8
    POWER = 0.41
    motors = {
        **dict.fromkeys(("abdomen_z", "abdomen_y", "abdomen_x"), POWER * 100.0),
        **{
            f"{side}_{joint}": power * strength
            for power in (POWER,)
            for side in ("right", "left")
            for joint, strength in (("hip_x", 100.0), ("hip_z", 100.0), ("hip_y", 300.0), ("knee", 200.0))
        },
        **dict.fromkeys(
            ("right_shoulder1", "right_shoulder2", "right_elbow", "left_shoulder1", "left_shoulder2", "left_elbow"),
            POWER * 75.0,
        ),
    }
    contacts = ("right_foot", "left_foot")
    other_side = ("left",)

    def has_fallen(self) -> bool:
        """Return True if the torso is low."""
        return self.altitude <= 0.78

    def camera(self) -> Camera:
        """Return a camera that runs beside it, further away."""
        x, y = self.position
        return Camera(target=(x, y, 0.75), distance=3.2, yaw=20.0, pitch=-12.0)


class A1Env(RunnerEnv):
    """Trot forward with the quadruped A1: 12 motors, 36 observations.

    Its motors turn the joints towards angles, within 0.4 rad of those in which it stands, with 33.5 N·m at most. It
    falls when its trunk is below 0.18 m, or rolled or pitched by more than 1 rad. Standing earns nothing.
    """

    model = "a1/a1.urdf"
    start_height = 0.29
    start_pose = {
        f"{leg}_{joint}_joint": angle
        for leg in ("FR", "FL", "RR", "RL")
        for joint, angle in (("hip", 0.0), ("upper", 0.9), ("lower", -1.8))
    }
    motors = dict.fromkeys(start_pose, 33.5)
    reach = 0.4
    contacts = ("FR_toe", "FL_toe", "RR_toe", "RL_toe")
    self_collision = False
    other_side = ("FL", "RL")
    alive = 0.0

    def has_fallen(self) -> bool:
        """Return True if the trunk is low or tilted."""
        return self.altitude <= 0.18 or abs(self.pitch) >= 1.0 or abs(self.roll) >= 1.0

    def camera(self) -> Camera:
        """Return a camera that runs beside it, nearer."""
        x, y = self.position
        return Camera(target=(x, y, 0.25), distance=1.5, yaw=25.0, pitch=-16.0)
