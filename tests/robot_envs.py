"""Robots with tasks: a small arm of our own, whose file is written next to this one's copies, and pybullet's A1."""

import tempfile
from pathlib import Path

from es_envs.bullet import Reach, RobotEnv, Stand, Task, Track, Walk

LINK = """<link name="{name}">
  <inertial><origin xyz="0 0 {middle}"/><mass value="1"/><inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial>
  <collision><origin xyz="0 0 {middle}"/><geometry><box size="0.04 0.04 {length}"/></geometry></collision>
  <visual><origin xyz="0 0 {middle}"/><geometry><box size="0.04 0.04 {length}"/></geometry></visual>
</link>
"""  # noqa: E501
JOINT = """<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>
  <origin xyz="{aside} 0 {height}"/><axis xyz="{axis}"/><limit lower="-1.5" upper="1.5" effort="40" velocity="4"/>
  {more}</joint>
"""


def _arm():
    """An arm of two driven joints, a fixed hand, and two fingers of which one mimics the other."""
    lengths = {"foot": 0.1, "upper": 0.3, "lower": 0.3, "hand": 0.1, "left": 0.05, "right": 0.05}
    links = "".join(LINK.format(name=name, length=length, middle=length / 2) for name, length in lengths.items())
    mimic = '<mimic joint="grip" multiplier="-1" offset="0.1"/>'
    joints = "".join(
        JOINT.format(name=name, kind=kind, parent=parent, child=child, height=height, axis=axis, more=more, aside=aside)
        for name, kind, parent, child, height, axis, more, aside in (
            ("turn", "revolute", "foot", "upper", 0.12, "0 1 0", "", 0),
            ("bend", "revolute", "upper", "lower", 0.32, "1 0 0", "", 0),
            ("wrist", "fixed", "lower", "hand", 0.32, "1 0 0", "", 0),
            ("grip", "revolute", "hand", "left", 0.12, "1 0 0", "", -0.03),
            ("grip too", "revolute", "hand", "right", 0.12, "1 0 0", mimic, 0.03),
        )
    )
    return f'<robot name="arm">{links}{joints}</robot>'


FOLDER = tempfile.TemporaryDirectory()
ARM = Path(FOLDER.name, "arm.urdf")
ARM.write_text(_arm(), encoding="utf-8")


class Arm(RobotEnv):
    """Reach with the hand."""

    model = ARM
    base = "fixed"
    motors = {"turn": 40.0, "bend": 40.0, "grip": 5.0}  # noqa: RUF012
    mimics = {"grip too": ("grip", -1.0, 0.1)}  # noqa: RUF012
    start_pose = {"bend": 0.5}  # noqa: RUF012
    reach = 1.2
    task = Reach("hand", offset=(0.0, 0.0, 0.1))


class FastArm(Arm):
    """Reach, by speeds."""

    control, speed = "velocity", 2.0


class TrackingArm(Arm):
    """Follow targets of the joints."""

    task = Track()


class PushingArm(Arm):
    """Follow targets of the joints, by torques."""

    control, task = "torque", Track()


class Dog(RobotEnv):
    """Walk with pybullet's A1."""

    model = "a1/a1.urdf"
    start_height = 0.3
    start_pose = {  # noqa: RUF012
        f"{leg}_{joint}_joint": angle
        for leg in ("FR", "FL", "RR", "RL")
        for joint, angle in (("hip", 0.0), ("upper", 0.9), ("lower", -1.8))
    }
    motors = dict.fromkeys(start_pose, 33.5)
    reach = 0.4
    contacts = ("FR_toe", "FL_toe", "RR_toe", "RL_toe")
    task = Walk()


class StandingDog(Dog):
    """Stand while something pushes."""

    task = Stand(push=0.3)


class Crouch(Task):
    """A task of a user: get down."""

    def observe(self, robot):
        self.height = robot.place_of_base[2]
        return []

    def outcome(self, robot):
        return -self.height, self.height < 0.15

    def info(self, robot):
        return {"height": self.height}


class CrouchingDog(Dog):
    """Get down."""

    task = Crouch()
