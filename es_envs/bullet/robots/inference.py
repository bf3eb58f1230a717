"""What a robot's file leads one to expect: how it stands, which joints are driven and how, and a task for it."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from es_envs.arguments import ArgumentError
from es_envs.bullet.client import pybullet
from es_envs.bullet.models import Joint, Model
from es_envs.bullet.models.reading import read_model
from es_envs.bullet.robots.env import RobotEnv
from es_envs.bullet.robots.srdf import states_beside
from es_envs.bullet.robots.tasks import Reach, Stand, Task, Track, Walk

TaskName = Literal["walk", "stand", "reach", "track"]
TASKS: tuple[TaskName, ...] = ("walk", "stand", "reach", "track")
SECONDS = 5.0
"""How long a robot is left alone to see whether it stands [s]."""

_LEG = re.compile(r"hip|thigh|calf|knee|ankle|haa|hfe|kfe|foot|feet|\b(leg|upper|lower|toe|shin)\b")
_UPPER = re.compile(r"arm|elbow|wrist|shoulder|head|neck|finger|thumb|gripper|hand")
_WHEEL = re.compile(r"wheel")
_CASTER = re.compile(r"caster|castor|swivel")
_ROTOR = re.compile(r"propell?er|rotor|\bprop\b")
_FINGER = re.compile(r"finger|gripper|thumb|knuckle|\b(jaw|claw|pinch|index|pinky|ring|little)\b")
_HAND = re.compile(r"\bhand\b|finger|gripper")
_ARM = re.compile(r"shoulder|elbow|wrist|\barm\b|\bneck\b")
_NO_TIP = re.compile(
    r"propell?er|rotor|camera|optical|imu|inertia|lidar|laser|sensor|sonar|light|battery|screen|display"
)
_TIPS = ("tool", "tcp", "ee", "end effector", "eef", "gripper", "hand", "tip", "flange", "fingertip")
_STEPS_PER_SECOND = 30
_REACH, _SLIDE = 0.4, 0.05  # of a leg's joint, by position [rad, m]
_TURN_SPEED, _SLIDE_SPEED, _WHEEL_SPEED = 1.0, 0.1, 10.0  # [rad/s, m/s, rad/s]
_SENSIBLE = 1000.0  # efforts below it are believed [N m or N]
_NEAR_FLOOR = 0.02  # share of a robot's height within which a link touches the floor
_NAMES = 4  # that a reason shows


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
        contacts: links whose touch is observed.
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
    reach: float | Mapping[str, float] = _REACH
    speed: float | Mapping[str, float] = _TURN_SPEED
    passive: tuple[str, ...] = ()
    mimics: Mapping[str, tuple[str, float, float]] = field(default_factory=dict)
    contacts: tuple[str, ...] = ()
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
        return {"walk": Walk, "stand": Stand, "track": Track}[self.task]()

    def env_class(self, file: Path, **changes: Any) -> type[RobotEnv]:
        """Return a class of environments of this robot, whose model is ``file``; ``changes`` are other constants."""
        names = (
            "base", "start_height", "start_turn", "start_pose", "motors", "control", "reach", "speed", "passive",
            "mimics", "contacts", "self_collision", "inertia_from_file",
        )  # fmt: skip
        constants = {name: getattr(self, name) for name in names}
        return type("Robot", (RobotEnv,), {"model": file, "task": self.make_task(), **constants, **changes})


class Rest(Task):
    """Do nothing."""

    def outcome(self, robot: RobotEnv) -> tuple[float, bool]:  # noqa: ARG002  (it is asked so)
        """Nothing."""
        return 0.0, False


class Tree:
    """A model's links and joints as a tree, by names."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.joints = {joint.name: joint for joint in model.joints}
        self.above = {joint.child: joint for joint in model.joints}
        self.below: dict[str, list[Joint]] = {}
        for joint in model.joints:
            self.below.setdefault(joint.parent, []).append(joint)
        self.moving = [joint for joint in model.joints if joint.kind in {"revolute", "continuous", "prismatic"}]
        self.root = model.roots[0] if model.roots else model.links[0]

    def path(self, link: str) -> list[Joint]:
        """Joints that move, from the root to a link."""
        path: list[Joint] = []
        while joint := self.above.get(link):
            path.insert(0, joint)
            link = joint.parent
        return [joint for joint in path if joint in self.moving]

    def inside(self, link: str) -> list[Joint]:
        """All joints below a link."""
        found = list(self.below.get(link, ()))
        for joint in found:
            found += self.below.get(joint.child, ())
        return found

    def leaves(self) -> list[str]:
        """Links without children."""
        return [link.name for link in self.model.links if link.name not in self.below]

    def place(self, link: str) -> NDArray[np.float64]:
        """Where a link's frame is in the root's, where all joints are at 0, as far as the file says it [m]."""
        place: NDArray[np.float64] = np.zeros(3)
        while joint := self.above.get(link):
            place = _rotation(joint.origin[3:]) @ place + joint.origin[:3]
            link = joint.parent
        return place

    def height(self, link: str) -> float:
        """Height of a link's frame above the root's, likewise [m]."""
        return float(self.place(link)[2])


def _rotation(angles: Sequence[float]) -> NDArray[np.float64]:
    (a, b, c), (d, e, f) = np.cos(angles), np.sin(angles)
    roll = np.array([[1, 0, 0], [0, a, -d], [0, d, a]])
    pitch = np.array([[b, 0, e], [0, 1, 0], [-e, 0, b]])
    yaw = np.array([[c, -f, 0], [f, c, 0], [0, 0, 1]])
    turned: NDArray[np.float64] = yaw @ pitch @ roll
    return turned


def words(name: str) -> str:
    """Return a name in lower case, with a space between its words: "LHipPitch_1" is "l hip pitch 1"."""
    parts = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+", name)
    return " ".join(parts).lower()


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMES])
    return f"{shown}, ..." if len(names) > _NAMES else shown


def _named(joints: Sequence[Joint], pattern: "re.Pattern[str]") -> list[Joint]:
    return [joint for joint in joints if pattern.search(words(joint.name))]


def _is_leg(joint: Joint) -> bool:
    name = words(joint.name)
    return bool(_LEG.search(name)) and not _WHEEL.search(name) and not _UPPER.search(name)


def infer_base(
    model: Model, given: str | None = None
) -> tuple[Literal["free", "fixed"], Literal["legs", "wheels", "arm", "hand", "other"], str]:
    """Say whether a robot's base is free, what kind of a robot it is, and why.

    Args:
        model: the model.
        given: "free" or "fixed" if you know it.

    Raises:
        ArgumentError: it flies on propellers, which Bullet does not simulate, or no joint moves.
    """
    tree = Tree(model)
    root = tree.root
    driven = [joint for joint in tree.moving if not _ROTOR.search(words(joint.name))]
    rotors = [link.name for link in model.links if _ROTOR.search(words(link.name))]
    if not driven and (rotors or re.search(r"copter|drone|rotor|hector|iris", model.name.lower())):
        raise ArgumentError(
            f"{model.path}: {model.name!r} flies on propellers, and no other joint moves: Bullet does not simulate "
            "propellers, so there is nothing that a policy could drive; write its forces in an environment of your own"
        )
    if not tree.moving:
        raise ArgumentError(f"{model.path}: no joint of {model.name!r} moves, so that a policy has nothing to drive")
    legs, wheels = [joint for joint in tree.moving if _is_leg(joint)], _wheels(tree)
    fingers = _named(tree.moving, _FINGER)
    world = root.name.lower() in {"world", "ground", "map", "odom"}
    is_hand = not _named(tree.moving, _ARM) and (
        len(fingers) > len(tree.moving) / 2 or bool(_HAND.search(words(model.name)) and len(tree.moving) > 6)
    )
    twins = [] if is_hand or len(legs) >= 4 else _twin_branches(tree)
    kind: Literal["legs", "wheels", "arm", "hand", "other"]
    base: Literal["free", "fixed"]
    if len(legs) >= 4:
        kind, base, why = "legs", "free", f"{len(legs)} joints are named like a leg's ({_listed(_names(legs))})"
    elif len(wheels) >= 2:
        kind, base, why = "wheels", "free", f"it has {len(wheels)} wheels ({_listed(_names(wheels))})"
    elif twins and not world:
        kind, base, why = "legs", "free", f"its branches to {_listed(twins)} are alike and reach the ground"
    elif is_hand:
        kind, base, why = (
            "hand",
            "fixed",
            f"most of its joints are fingers' ({_listed(_names(fingers or tree.moving))})",
        )
    else:
        kind, base, why = "arm", "fixed", "its joints are named neither like legs nor like wheels"
        if rotors:
            why = f"{why}; Bullet does not simulate its propellers, so it is held"
    if world and base == "free":
        base, why = "fixed", f"its root is called {root.name!r}, though {why}"
    elif world:
        why = f"its root is called {root.name!r}"
    if given is not None and given != base:
        base, why = ("free" if given == "free" else "fixed"), "as you say"
    return base, kind, why


def _names(joints: Sequence[Joint]) -> list[str]:
    return [joint.name for joint in joints]


def _wheels(tree: Tree) -> list[Joint]:
    found = [joint for joint in _named(tree.moving, _WHEEL) if joint.kind == "continuous" or joint.lower is None]
    return [joint for joint in found if not _CASTER.search(words(joint.name))]


def _twin_branches(tree: Tree) -> list[str]:
    """Leaves of branches that are alike and reach lower than all else, where the root is above them."""
    leaves = {leaf: (len(tree.path(leaf)), tree.height(leaf)) for leaf in tree.leaves() if tree.path(leaf)}
    if not leaves:
        return []
    lowest, highest = min(height for _, height in leaves.values()), max(0.0, *(height for _, height in leaves.values()))
    near = [leaf for leaf, (_, height) in leaves.items() if height < lowest + 0.05 * (highest - lowest)]
    depths = {leaves[leaf][0] for leaf in near}
    is_below = lowest < -0.3 * (highest - lowest)
    is_apart = len({tree.path(leaf)[0].name for leaf in near}) == len(near)
    return near if len(near) >= 2 and len(depths) == 1 and depths.pop() >= 2 and is_below and is_apart else []


def infer(
    model: Model,
    file: Path,
    *,
    task: TaskName | None = None,
    base: Literal["free", "fixed"] | None = None,
    tip: str | None = None,
    joints: Sequence[str] | None = None,
) -> Proposal:
    """Propose an environment for a robot; Bullet looks at it for some seconds.

    Args:
        model: the robot, as ``read_model`` returns it.
        file: the file that Bullet loads: the model's own, or a copy with simpler shapes.
        task: "walk", "stand", "reach" or "track"; None for what suits the robot.
        base: "free" or "fixed"; None for what it looks like.
        tip: the link that shall reach; None to look for one.
        joints: names of the joints that are driven; None for those that the task needs.

    Raises:
        ArgumentError: there is no such link or joint, it does not move, or the task does not suit the base.
        RuntimeError: Bullet cannot load it.
    """
    if base is None and task in {"walk", "stand"}:
        base = "free"
    if base == "fixed" and task in {"walk", "stand"}:
        raise ArgumentError(f"a robot whose base is fixed cannot {task}: give --base free, or --task reach or track")
    try:
        return _Inference(model, file, task=task, base=base, tip=tip, joints=joints).propose()
    except _NoShapesError:
        other = None if task in {"walk", "stand"} else task
        found = _Inference(model, file, task=other, base="fixed", tip=tip, joints=joints).propose()
        return replace(
            found, reasons={**found.reasons, "base": "no link has a collision shape: it would fall for ever"}
        )


class _NoShapesError(Exception):
    """A robot that should be free has nothing to stand on."""


class _Inference:
    def __init__(
        self,
        model: Model,
        file: Path,
        *,
        task: TaskName | None,
        base: str | None,
        tip: str | None,
        joints: Sequence[str] | None,
    ) -> None:
        self.model, self.file, self.tree = model, file, Tree(model)
        self.given_task, self.given_tip, self.given_joints = task, tip, joints
        self.reasons: dict[str, str] = {}
        self.joint_reasons: dict[tuple[str, str], str] = {}
        self.base, self.kind, self.reasons["base"] = infer_base(model, base)
        self.mimics = self._mimics()
        self.state = states_beside(model)
        self.own = [joint for joint in self.tree.moving if joint.name not in self.mimics]
        self._require_known()

    def _require_known(self) -> None:
        links = [link.name for link in self.model.links]
        if self.given_tip is not None and self.given_tip not in links:
            raise ArgumentError(f"--tip {self.given_tip}: there is no such link: this robot has {', '.join(links)}")
        for name in self.given_joints or ():
            if name not in _names(self.own):
                raise ArgumentError(
                    f"--joints {name}: there is no such joint that can be driven: this robot has "
                    f"{', '.join(_names(self.own))}"
                )
        if self.given_tip is not None and not self.tree.path(self.given_tip):
            raise ArgumentError(
                f"--tip {self.given_tip}: no joint moves this link: choose one of {', '.join(self._tips())}"
            )

    def propose(self) -> Proposal:
        """Find everything."""
        task = self._task()
        tip = self._tip() if task == "reach" else ""
        motors = self._motors(task, tip)
        pose = self._pose()
        from_file = self._inertia_from_file()
        passive = tuple(_names(_named(self.own, _CASTER))) if self.kind == "wheels" else ()
        passive = tuple(name for name in passive if name not in motors)
        if passive:
            self.reasons["passive"] = "casters roll freely"
        if self.mimics:
            self.reasons["mimics"] = "the file's <mimic>"
        first = Proposal(
            name=self.model.name,
            kind=self.kind,
            base=self.base,
            start_turn=self._turn(),
            start_pose=pose,
            motors=dict.fromkeys(motors, 1.0),
            passive=passive,
            mimics=self.mimics,
            inertia_from_file=from_file,
            task=task,
            tip=tip,
        )
        draft = self._look(first)
        draft = replace(draft, **self._commands(draft, motors))
        draft = self._trial(draft)
        return replace(draft, reasons=dict(self.reasons), joint_reasons=dict(self.joint_reasons))

    def _mimics(self) -> dict[str, tuple[str, float, float]]:
        found = {}
        moving = set(_names(self.tree.moving))
        for joint in self.tree.moving:
            leader, factor, offset = joint.mimic, joint.multiplier, joint.offset
            seen = {joint.name}
            while leader in moving and leader not in seen and (next_leader := self.tree.joints[leader]).mimic:
                seen.add(leader)  # one that follows another itself
                factor, offset = factor * next_leader.multiplier, factor * next_leader.offset + offset
                leader = next_leader.mimic
            if leader in moving and leader not in seen:
                found[joint.name] = (leader, factor, offset)
        return found

    def _task(self) -> TaskName:
        if self.given_task is not None:
            self.reasons["task"] = "as you say"
            return self.given_task
        if self.base == "free":
            what = {"legs": "it has legs", "wheels": "it has wheels, on which it drives ahead"}
            self.reasons["task"] = what.get(self.kind, "its base is free")
            return "walk"
        branches = len({self.tree.path(leaf)[0].name for leaf in self.tree.leaves() if self.tree.path(leaf)})
        if self.kind == "hand" and self.given_tip is None and branches > 1:
            self.reasons["task"] = "it is a hand, whose fingers follow targets"
            return "track"
        if not self._tips():
            self.reasons["task"] = "it has no link that could reach for something"
            return "track"
        self.reasons["task"] = "it is fastened, and has a tip"
        return "reach"

    def _tips(self) -> list[str]:
        """Links at the ends of chains, fingers apart, that joints move."""
        found = []
        for link in self.model.links:
            path = [joint for joint in self.tree.path(link.name) if joint.name not in self.mimics]
            arm = [joint for joint in path if not _FINGER.search(words(joint.name))] if self.kind != "hand" else path
            beyond = [joint for joint in self.tree.inside(link.name) if joint in self.tree.moving]
            if self.kind != "hand":
                beyond = [joint for joint in beyond if not _FINGER.search(words(joint.name))]
                if len(path) > len(arm):
                    continue
            if arm and not beyond and not _NO_TIP.search(words(link.name)):
                found.append(link.name)
        return found

    def _tip(self) -> str:
        if self.given_tip is not None:
            self.reasons["tip"] = "as you say"
            return self.given_tip
        tips = self._tips()
        if not tips:
            raise ArgumentError(
                f"{self.model.path}: no link could reach for something: give --tip LINK, or --task track"
            )

        def is_called(link: str, word: str) -> bool:
            return bool(re.search(rf"\b{word}\b", words(link)))

        for word in _TIPS:
            called = [link for link in tips if is_called(link, word)]
            if called:
                self.reasons["tip"] = f"its name has the word {word!r}, and no joint of the arm is beyond it"
                return max(called, key=lambda link: (len(self.tree.path(link)), -len(words(link).split())))
        self.reasons["tip"] = "it is the farthest along the chain"
        return max(tips, key=lambda link: (len(self.tree.path(link)), self._length(link)))

    def _length(self, link: str) -> float:
        total = 0.0
        while joint := self.tree.above.get(link):
            total += math.hypot(*joint.origin[:3])
            link = joint.parent
        return total

    def _motors(self, task: TaskName, tip: str) -> list[str]:
        if self.given_joints is not None:
            self.reasons["motors"] = "as you say"
            return list(self.given_joints)
        own = self.own
        if task == "reach":
            path = [joint for joint in self.tree.path(tip) if joint in own]
            if path:
                self.reasons["motors"] = f"the joints from the root to {tip!r}; others hold their positions"
                return _names(path)
        if self.kind == "wheels" and task in {"walk", "stand"}:
            self.reasons["motors"] = "its wheels; other joints hold their positions"
            return _names([joint for joint in _wheels(self.tree) if joint in own])
        legs = [joint for joint in own if _is_leg(joint)]
        if self.kind == "legs" and legs and task in {"walk", "stand"}:
            on_paths = {joint.name for leg in legs for joint in self.tree.path(leg.child)}
            found = [joint for joint in own if joint.name in on_paths and not _WHEEL.search(words(joint.name))]
            self.reasons["motors"] = "the joints of its legs" + (
                "; others hold their positions" if len(found) < len(own) else ""
            )
            return _names(found)
        self.reasons["motors"] = "all joints that move"
        return _names(own)

    def _pose(self) -> dict[str, float]:
        """Return positions of joints that are not 0: an SRDF's, else the middle of limits that exclude 0."""
        state = self.state
        pose = {}
        for joint in self.own:
            low, high = (
                (-math.inf, math.inf) if joint.lower is None or joint.upper is None else (joint.lower, joint.upper)
            )
            if low >= high:
                low, high = -math.inf, math.inf
            value, why = 0.0, ""
            if state and joint.name in state.positions:
                value, why = state.positions[joint.name], f"{state.name} in {state.file.name}"
                if not low <= value <= high:
                    value, why = min(max(value, low), high), f"{why}, within the limits"
            elif not low <= 0.0 <= high:
                value, why = (low + high) / 2, "middle of its limits, which exclude 0"
            if value:
                pose[joint.name] = value = round(value, 4)
                self.joint_reasons["start_pose", joint.name] = why
        self._follow(pose)
        if state:
            self.reasons["start_pose"] = f"the state {state.name!r} in {state.file.name}"
        else:
            self.reasons["start_pose"] = (
                "0, or the middle of the limits where they exclude 0; there is no SRDF file beside it"
            )
        return pose

    def _turn(self) -> tuple[float, float, float]:
        """Turn a robot whose legs do not point downwards in its file."""
        legs = [joint for joint in self.tree.moving if _is_leg(joint)] if self.kind == "legs" else []
        if self.base == "fixed" or not legs:
            return (0.0, 0.0, 0.0)
        ends = np.array([self.tree.place(joint.child) for joint in legs])
        x, y, z = ends.mean(axis=0).tolist()
        most = max(abs(x), abs(y), 2 * abs(z))
        if most == 2 * abs(z) or most < 0.01:
            return (0.0, 0.0, 0.0)
        self.reasons["start_turn"] = "its legs do not point downwards in the file"
        right = round(math.pi / 2, 4)
        roll, pitch = (math.copysign(right, -y), 0.0) if abs(y) > abs(x) else (0.0, math.copysign(right, x))
        spread = np.ptp(ends @ _rotation((roll, pitch, 0.0)).T, axis=0)
        return roll, pitch, right if spread[1] > 1.2 * spread[0] else 0.0

    def _in_order(self, pose: Mapping[str, float]) -> dict[str, float]:
        return {name: pose[name] for name in _names(self.tree.moving) if name in pose}

    def _follow(self, pose: dict[str, float]) -> None:
        for name, (leader, factor, offset) in self.mimics.items():
            if value := round(factor * pose.get(leader, 0.0) + offset, 4):
                pose[name] = value
                self.joint_reasons["start_pose", name] = f"it follows {leader}"

    def _inertia_from_file(self) -> bool:
        kinds = {finding.kind for finding in self.model.findings}
        lacking = [link.name for link in self.model.links if link.mass and link.inertia is None]
        if "impossible-inertia" in kinds or "no-inertia" in kinds or lacking:
            self.reasons["inertia_from_file"] = (
                "no body can have some of the file's: Bullet computes them from the shapes"
            )
            return False
        self.reasons["inertia_from_file"] = "every link's is one that a body can have"
        return True

    def _look(self, draft: Proposal) -> Proposal:
        """Load the robot once, put it into its pose, and see where its floor, its feet and its tip are."""
        rest = {"task": Rest(), "contacts": (), "base": self.base}
        with _closing(draft.env_class(self.file, **rest)()) as env:
            missing = [name for name in draft.motors if name not in env.limits()]
            if missing:
                raise ArgumentError(f"{self.model.path}: Bullet does not move {_listed(missing)}")
            is_free = not _touches_itself(env)
            self.reasons["self_collision"] = (
                "no links touch each other in the pose" if is_free else "links touch each other in the pose"
            )
            self._weight = 9.81 * _mass(env)
            if self.base == "free" and not _links(env):
                raise _NoShapesError
            low, high = _box(env)
            self._size = float(np.linalg.norm(high - low))
            height, self.reasons["start_height"] = self._height(env, float(low[2]))
            draft = replace(draft, self_collision=is_free, start_height=height)
            if draft.task == "walk" and self.kind == "legs":
                feet = _feet(env, low, high)
                self.reasons["contacts"] = "links that touch the floor in the pose"
                draft = replace(draft, contacts=tuple(feet))
            if draft.task == "reach":
                draft = replace(draft, offset=self._offset(env, draft.tip))
        return draft

    def _height(self, env: RobotEnv, low: float) -> tuple[float, str]:
        is_urdf = self.model.format in {"urdf", "xacro"}
        z = 0.0 if is_urdf else pybullet.getBasePositionAndOrientation(env.body, env.client)[0][2]
        if self.base == "fixed":
            if low >= -0.01:
                return 0.0, "its lowest point is not below the floor"
            return round(z - low + 0.05, 3), "so high that its lowest point is 5 cm above the floor"
        if not is_urdf and abs(low) < 0.005:
            return 0.0, "the file's"
        return round(z - low + 0.001, 3), "so high that its lowest point touches the floor in the pose"

    def _offset(self, env: RobotEnv, tip: str) -> tuple[float, float, float]:
        """Find the far end of a tip whose frame is in its own joint."""
        above = self.tree.above[tip]
        link, base_offset = env.find_link(tip)
        if not above.moves or any(base_offset) or link < 0:
            self.reasons["offset"] = "the link's own frame"
            return (0.0, 0.0, 0.0)
        low, high = (np.array(bound) for bound in pybullet.getAABB(env.body, link, physicsClientId=env.client))
        place, turn = pybullet.getLinkState(env.body, link, physicsClientId=env.client)[4:6]
        way = (low + high) / 2 - place
        if not 0.001 < np.linalg.norm(way) < 2 or not pybullet.getCollisionShapeData(env.body, link, env.client):
            self.reasons["offset"] = "the link's own frame"
            return (0.0, 0.0, 0.0)
        matrix = np.reshape(pybullet.getMatrixFromQuaternion(turn), (3, 3))
        x, y, z = ((2 * matrix.T @ way).round(3) + 0.0).tolist()  # without -0.0
        self.reasons["offset"] = "the far end of the link, whose frame is in its joint"
        return x, y, z

    def _force(self, joint: Joint) -> tuple[float, str]:
        if joint.effort is not None and 0 < joint.effort < _SENSIBLE:
            return joint.effort, "the file's effort limit"
        weight, size = self._weight, self._size
        effort = "no effort limit" if joint.effort is None else f"the effort limit {joint.effort:g}"
        if joint.kind == "prismatic":
            return _rounded(weight), f"the robot's weight, since the file has {effort}"
        return _rounded(weight * size / 2), f"half the robot's weight times its size, since the file has {effort}"

    def _commands(self, draft: Proposal, motors: Sequence[str]) -> dict[str, Any]:
        forces = {}
        for name in motors:
            forces[name], self.joint_reasons["motors", name] = self._force(self.tree.joints[name])
        drives = self.kind == "wheels" and draft.task in {"walk", "stand"}
        kinds = {name: self.tree.joints[name] for name in motors}
        if not drives and draft.task != "reach":
            self.reasons["control"] = "targets around the pose, which also hold it"
            reach = {name: _SLIDE if joint.kind == "prismatic" else _REACH for name, joint in kinds.items()}
            self.reasons["reach"] = f"{_REACH} rad to either side" + (
                f", {_SLIDE} m where a joint slides" if _SLIDE in reach.values() else ""
            )
            return {"motors": forces, "control": "position", "reach": _alike(reach)}
        self.reasons["control"] = (
            "wheels turn without end" if drives else "a policy that sees the target closes the loop"
        )
        speeds = {}
        for name, joint in kinds.items():
            wanted = _WHEEL_SPEED if drives else _SLIDE_SPEED if joint.kind == "prismatic" else _TURN_SPEED
            limit = joint.velocity if joint.velocity is not None and joint.velocity > 0 else math.inf
            speeds[name] = round(min(wanted, limit), 4)
        self.reasons["speed"] = f"{_WHEEL_SPEED if drives else _TURN_SPEED:g} rad/s, or the file's velocity limit" + (
            f"; {_SLIDE_SPEED} m/s where a joint slides" if any(j.kind == "prismatic" for j in kinds.values()) else ""
        )
        return {"motors": forces, "control": "velocity", "speed": _alike(speeds)}

    def _trial(self, draft: Proposal) -> Proposal:
        """Leave the robot alone for some seconds; change what makes it fall."""
        if self.base == "fixed":
            drift = _hold(draft, self.file)
            if not drift < 1.0 and draft.inertia_from_file:
                other = replace(draft, inertia_from_file=False)
                if (other_drift := _hold(other, self.file)) < drift or math.isnan(drift):
                    draft, drift = other, other_drift
                    self.reasons["inertia_from_file"] = "with the file's the robot does not keep its pose: Bullet's"
            if math.isnan(drift):
                raise ArgumentError(
                    f"{self.model.path}: Bullet's simulation of {self.model.name!r} diverges: places are no numbers; "
                    "`es-envs robot FILE` names what is strange about the file"
                )
            self.reasons["drift"] = f"left alone, its joints move by {drift:.2g} at most"
            return replace(draft, drift=drift)
        draft = replace(draft, stands=stand(draft, self.file))
        # A knee that cannot be straight is at the middle of its limits so far, and the foot anywhere.
        is_odd = self.state is None and any(name in draft.motors for name in draft.start_pose)
        if self.kind == "legs" and is_odd:
            other = self._bent(draft, 0.8)
            other = replace(other, stands=stand(other, self.file))
            draft = other if other.stands >= draft.stands else draft  # type: ignore[operator]
            self._explain_bent(draft)
        if self.kind == "legs" and draft.stands < SECONDS:  # type: ignore[operator]
            for bend in (0.8, -0.8, 0.4, -0.4):
                other = self._bent(draft, bend)
                other = replace(other, stands=stand(other, self.file))
                if other.stands > draft.stands:  # type: ignore[operator]
                    draft = other
                if draft.stands == SECONDS:
                    break
            self._explain_bent(draft)
        if draft.stands < SECONDS and draft.inertia_from_file:  # type: ignore[operator]
            other = replace(draft, inertia_from_file=False)
            other = replace(other, stands=stand(other, self.file))
            if other.stands > draft.stands:  # type: ignore[operator]
                draft = other
                self.reasons["inertia_from_file"] = "with the file's the robot falls sooner: Bullet computes them"
        ends = "it stands" if draft.stands == SECONDS else f"it falls after {draft.stands:.1f} s"
        self.reasons["stands"] = f"left alone, {ends}"
        return draft

    def _bent(self, draft: Proposal, bend: float) -> Proposal:
        """Bend the knees, and swing the thighs so that the feet are below the hips."""
        rest = {"task": Rest(), "motors": dict.fromkeys(_names(self.own), 1.0), "contacts": ()}
        with _closing(draft.env_class(self.file, **rest)()) as env:
            pose = {**draft.start_pose}
            for chain in self._legs(env, draft):
                pose |= _bend(env, chain, pose, bend, self.tree)
            pose = {name: round(value, 4) for name, value in pose.items()}
            self._follow(pose)
            for name, value in pose.items():
                pybullet.resetJointState(env.body, env._joint(name)[0], value, physicsClientId=env.client)  # noqa: SLF001
            pybullet.performCollisionDetection(physicsClientId=env.client)
            low, _ = _box(env)
            return replace(
                draft, start_pose=pose, start_height=round(draft.start_height - float(low[2]) + 0.001, 3),
                self_collision=draft.self_collision and not _touches_itself(env),
            )  # fmt: skip

    def _explain_bent(self, draft: Proposal) -> None:
        for name in draft.start_pose:
            if ("start_pose", name) not in self.joint_reasons:
                self.joint_reasons["start_pose", name] = "bent, with the foot below the hip"
                self.reasons["start_pose"] = "bent legs with the feet below the hips; there is no SRDF file beside it"

    def _legs(self, env: RobotEnv, draft: Proposal) -> list[list[str]]:
        """Joints of each leg that swing it to and fro, from the hip on."""
        feet = draft.contacts or tuple(_feet(env, *_box(env)))
        chains = []
        for foot in feet:
            path = [joint.name for joint in self.tree.path(foot) if joint.name in draft.motors]
            across = [name for name in path if abs(_axis(env, name)[1]) > 0.7]
            if len(across) >= 2:
                chains.append(across[:3])
        return chains


def _bend(env: RobotEnv, chain: Sequence[str], pose: Mapping[str, float], bend: float, tree: Tree) -> dict[str, float]:
    """Find the angle of a thigh with which the foot is below the hip, if the knee is bent."""
    thigh, knee = chain[:2]
    limits = env.limits()

    def within(name: str, value: float) -> float:
        low, high = limits[name] or (-math.pi, math.pi)
        return min(max(value, low), high)

    sign = math.copysign(1.0, _axis(env, knee)[1])
    bent = within(knee, sign * bend)
    if limits[knee] and not limits[knee][0] <= 0 <= limits[knee][1]:  # type: ignore[index]
        bent = pose.get(knee, 0.0)
    ankle_or_foot = tree.joints[chain[2]].child if len(chain) > 2 else _end(tree, knee)
    low, high = limits[thigh] or (-1.5, 1.5)
    best, best_error = pose.get(thigh, 0.0), math.inf
    for angle in np.linspace(max(low, -1.5), min(high, 1.5), 121).tolist():
        for name, value in ((thigh, angle), (knee, bent)):
            pybullet.resetJointState(env.body, env._joint(name)[0], value, physicsClientId=env.client)  # noqa: SLF001
        foot, hip = _place(env, ankle_or_foot), _place(env, tree.joints[thigh].child)
        error = abs(foot[0] - hip[0]) + (10.0 if foot[2] > hip[2] else 0.0)
        if error < best_error:
            best, best_error = angle, error
    found = {thigh: best, knee: bent}
    if len(chain) > 2:
        turned = sum(found[name] * math.copysign(1.0, _axis(env, name)[1]) for name in (thigh, knee))
        found[chain[2]] = within(chain[2], -turned * math.copysign(1.0, _axis(env, chain[2])[1]))
    return found


def _end(tree: Tree, knee: str) -> str:
    """The farthest link below a knee."""
    child = tree.joints[knee].child
    below = [joint.child for joint in tree.inside(child)]
    return max([child, *below], key=lambda link: -tree.height(link))


def _place(env: RobotEnv, link: str) -> tuple[float, float, float]:
    return env.point(*env.find_link(link))


def _axis(env: RobotEnv, joint: str) -> NDArray[np.float64]:
    info = env._joint(joint)  # noqa: SLF001
    turn = pybullet.getLinkState(env.body, info[0], physicsClientId=env.client)[5]
    axis: NDArray[np.float64] = np.reshape(pybullet.getMatrixFromQuaternion(turn), (3, 3)) @ info[13]
    return axis


def stand(proposal: Proposal, file: Path) -> float:
    """Return how long a robot stands that is left alone [s], at most ``SECONDS``."""
    with _closing(proposal.env_class(file, task=Stand(push=0.0))()) as env:
        env.reset(seed=0)
        rest = np.zeros(env.action_space.shape, np.float32)  # type: ignore[arg-type]
        for step in range(round(SECONDS * _STEPS_PER_SECOND)):
            if env.step(rest)[2] or not np.isfinite(env.place_of_base).all() or abs(env.place_of_base[2]) > 1e3:
                return step / _STEPS_PER_SECOND
    return SECONDS


def _hold(proposal: Proposal, file: Path) -> float:
    """Return how far a joint of a fixed robot moves that is left alone [rad or m]."""
    with _closing(proposal.env_class(file, task=Rest())()) as env:
        env.reset(seed=0)
        start = env.read_joints()
        rest = np.zeros(env.action_space.shape, np.float32)  # type: ignore[arg-type]
        for _ in range(round(SECONDS * _STEPS_PER_SECOND)):
            env.step(rest)
        return float(np.abs(np.subtract(env.read_joints(), start)).max())


def _alike(values: Mapping[str, float]) -> float | Mapping[str, float]:
    """One value for all, if there is only one."""
    return next(iter(values.values())) if len(set(values.values())) == 1 else values


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def _links(env: RobotEnv) -> list[int]:
    """The base and the links that have a collision shape."""
    count = pybullet.getNumJoints(env.body, physicsClientId=env.client)
    return [k for k in range(-1, count) if pybullet.getCollisionShapeData(env.body, k, env.client)]


def _box(env: RobotEnv) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    boxes = np.array([pybullet.getAABB(env.body, link, env.client) for link in _links(env)])
    if not len(boxes):
        return np.zeros(3), np.full(3, 0.1)
    return boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)


def _mass(env: RobotEnv) -> float:
    count = pybullet.getNumJoints(env.body, physicsClientId=env.client)
    return math.fsum(pybullet.getDynamicsInfo(env.body, link, env.client)[0] for link in range(-1, count))


def _feet(env: RobotEnv, low: NDArray[np.float64], high: NDArray[np.float64]) -> list[str]:
    names = env.links()
    near = low[2] + _NEAR_FLOOR * (high[2] - low[2]) + 0.005
    return [names[k + 1] for k in _links(env) if k >= 0 and pybullet.getAABB(env.body, k, env.client)[0][2] < near]


def _touches_itself(env: RobotEnv) -> bool:
    points = pybullet.getContactPoints(env.body, env.body, physicsClientId=env.client)
    return any(point[8] < 0 for point in points)


class _closing:  # noqa: N801  (a context manager, like those of contextlib)
    def __init__(self, env: RobotEnv) -> None:
        self._env = env

    def __enter__(self) -> RobotEnv:
        return self._env

    def __exit__(self, *_: object) -> None:
        self._env.close()


def read_for_proposal(file: Path, packages: Mapping[str, str | Path]) -> Model:
    """Read a model without errors.

    Raises:
        ArgumentError: it has errors; the message names them.
    """
    model = read_model(file, packages=packages)
    if model.errors:
        raise ArgumentError("\n  ".join([f"{file} cannot be loaded:", *map(str, model.errors[:8])]))
    return model
