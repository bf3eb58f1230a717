"""Constants of a robot's environment, as they are proposed, each with a reason."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from es_envs.bullet.robots.env import OBSERVED, RobotEnv, Task
from es_envs.bullet.robots.tasks import Reach, Stand, Track, Walk

TaskName = Literal["walk", "stand", "reach", "track"]
TASKS: tuple[TaskName, ...] = ("walk", "stand", "reach", "track")
SECONDS = 5.0
"""How long a robot is left alone to see whether it stands [s]."""

REACH, TURN_SPEED = 0.4, 3.0  # of a joint that turns [rad, rad/s]


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """Constants of a ``RobotEnv`` for a robot, each with a reason.

    Attributes:
        name: the robot's name.
        kind: what it looks like: "legs", "wheels", "arm", "hand" or "other".
        base: as ``RobotEnv.base``, and so are the next ones.
        start_height: [m].
        start_turn: [rad].
        start_pose: [rad or m].
        motors: [N m or N].
        control: what an action commands.
        reach: [rad or m].
        speed: [rad/s or m/s].
        passive: joints that move freely.
        mimics: joints that follow others.
        observed: what the policy sees of the robot.
        contacts: links whose touch is observed.
        action_repeat: steps of physics for each of the environment's.
        self_collision: whether links collide.
        inertia_from_file: whether inertias are the file's.
        task: what it shall do.
        tip: the link that shall reach; empty for other tasks.
        offset: the point in the tip's frame [m].
        stands: seconds that a free robot stands if it is left alone, at most ``SECONDS``; None for a fixed one.
        drift: how far a joint of a fixed one moves meanwhile [rad or m].
        reasons: a sentence for each of these by name.
        joint_reasons: where the force of each motor and each entry of ``start_pose`` comes from, by "motors" or
            "start_pose" and the joint's name.
    """

    name: str
    kind: Literal["legs", "wheels", "arm", "hand", "other"]
    base: Literal["free", "fixed"]
    start_height: float = 0.0
    start_turn: tuple[float, float, float] = (0.0, 0.0, 0.0)
    start_pose: Mapping[str, float] = field(default_factory=dict)
    motors: Mapping[str, float] = field(default_factory=dict)
    control: Literal["position", "velocity", "torque"] = "position"
    reach: float | Mapping[str, float] = REACH
    speed: float | Mapping[str, float] = TURN_SPEED
    passive: tuple[str, ...] = ()
    mimics: Mapping[str, tuple[str, float, float]] = field(default_factory=dict)
    observed: tuple[str, ...] = OBSERVED
    contacts: tuple[str, ...] = ()
    action_repeat: int = RobotEnv.action_repeat
    self_collision: bool = True
    inertia_from_file: bool = True
    task: TaskName = "reach"
    tip: str = ""
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    stands: float | None = None
    drift: float = 0.0
    reasons: Mapping[str, str] = field(default_factory=dict)
    joint_reasons: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def make_task(self) -> Task:
        """Return the task."""
        if self.task == "reach":
            return Reach(self.tip, offset=self.offset)
        kinds: dict[str, type[Task]] = {"walk": Walk, "stand": Stand, "track": Track}
        return kinds[self.task]()

    def env_class(self, file: Path, **changes: Any) -> type[RobotEnv]:
        """Return a class of environments of this robot, whose model is ``file``; ``changes`` are other constants."""
        names = (
            "base", "start_height", "start_turn", "start_pose", "motors", "control", "reach", "speed", "passive",
            "mimics", "observed", "contacts", "action_repeat", "self_collision", "inertia_from_file",
        )  # fmt: skip
        constants = {name: getattr(self, name) for name in names}
        return type("Robot", (RobotEnv,), {"model": file, "task": self.make_task(), **constants, **changes})

    def at_rest(self, file: Path, **changes: Any) -> type[RobotEnv]:
        """Return a class of environments in which the robot has nothing to do, to look at it."""
        usual = {"task": Rest(), "observed": OBSERVED, "action_repeat": RobotEnv.action_repeat}
        return self.env_class(file, **{**usual, **changes})


class Rest(Task):
    """Do nothing."""

    def outcome(self, robot: RobotEnv) -> tuple[float, bool]:
        """Nothing."""
        return 0.0, False
