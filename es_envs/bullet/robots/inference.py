"""What a robot's file leads one to expect: how it stands, which joints are driven and how, and a task for it."""

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from es_envs.arguments import ArgumentError
from es_envs.bullet.client import pybullet
from es_envs.bullet.models import Joint, Model
from es_envs.bullet.models.reading import read_model
from es_envs.bullet.robots.env import OBSERVED, RobotEnv
from es_envs.bullet.robots.proposal import REACH, SECONDS, TURN_SPEED, Proposal, TaskName
from es_envs.bullet.robots.srdf import states_beside
from es_envs.bullet.robots.tree import (
    CASTER,
    FINGER,
    WHEEL,
    Tree,
    infer_base,
    is_leg,
    listed,
    named,
    names_of,
    rotation,
    wheels_of,
    words,
)
from es_envs.bullet.robots.trials import (
    axis_of,
    bend_leg,
    box_of,
    feet_of,
    hold,
    links_with_shapes,
    mass_of,
    stand,
    touches_itself,
)

_NO_TIP = re.compile(
    r"propell?er|rotor|camera|optical|imu|inertia|lidar|laser|sensor|sonar|light|battery|screen|display"
)
_TIPS = ("tool", "tcp", "ee", "end effector", "eef", "gripper", "hand", "tip", "flange", "fingertip")
_SLIDE = 0.05  # of a leg's joint, by position, where REACH is that of one that turns [m]
_SLIDE_SPEED, _WHEEL_SPEED = 0.3, 10.0  # [m/s, rad/s]
_ARM_REPEAT = 12
_SENSIBLE = 1000.0  # efforts below it are believed [N m or N]


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
        RuntimeError: Bullet cannot load or simulate it.
    """
    if base is None and task in {"walk", "stand"}:
        base = "free"
    if base == "fixed" and task in {"walk", "stand"}:
        raise ArgumentError(f"a robot whose base is fixed cannot {task}: give --base free, or --task reach or track")
    found = _Inference(model, file, task=task, base=base, tip=tip, joints=joints).propose()
    if found is None:
        other = None if task in {"walk", "stand"} else task
        held = _Inference(model, file, task=other, base="fixed", tip=tip, joints=joints)
        held.reasons["base"] = "no link has a collision shape: it would fall for ever"
        found = held.propose()
    if found is None:  # which a fixed base is never
        raise RuntimeError(f"{model.path}: nothing of {model.name!r} can be touched")
    return found


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
            if name not in names_of(self.own):
                raise ArgumentError(
                    f"--joints {name}: there is no such joint that can be driven: this robot has "
                    f"{', '.join(names_of(self.own))}"
                )
        if self.given_tip is not None and not self.tree.path(self.given_tip):
            raise ArgumentError(
                f"--tip {self.given_tip}: no joint moves this link: choose one of {', '.join(self._tips())}"
            )

    def propose(self) -> Proposal | None:
        """Find everything; None if the base should be free, and no link has a shape to stand on."""
        task = self._task()
        tip = self._tip() if task == "reach" else ""
        motors = self._motors(task, tip)
        pose = self._pose()
        from_file = self._inertia_from_file()
        passive = tuple(names_of(named(self.own, CASTER))) if self.kind == "wheels" else ()
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
        if draft is None:
            return None
        draft = replace(draft, **self._commands(draft, motors))
        draft = self._trial(draft)
        return replace(draft, reasons=dict(self.reasons), joint_reasons=dict(self.joint_reasons))

    def _mimics(self) -> dict[str, tuple[str, float, float]]:
        found = {}
        moving = set(names_of(self.tree.moving))
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
            arm = [joint for joint in path if not FINGER.search(words(joint.name))] if self.kind != "hand" else path
            beyond = [joint for joint in self.tree.inside(link.name) if joint in self.tree.moving]
            if self.kind != "hand":
                beyond = [joint for joint in beyond if not FINGER.search(words(joint.name))]
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
                return names_of(path)
        if self.kind == "wheels" and task in {"walk", "stand"}:
            self.reasons["motors"] = "its wheels; other joints hold their positions"
            return names_of([joint for joint in wheels_of(self.tree) if joint in own])
        legs = [joint for joint in own if is_leg(joint)]
        if self.kind == "legs" and legs and task in {"walk", "stand"}:
            on_paths = {joint.name for leg in legs for joint in self.tree.path(leg.child)}
            found = [joint for joint in own if joint.name in on_paths and not WHEEL.search(words(joint.name))]
            self.reasons["motors"] = "the joints of its legs" + (
                "; others hold their positions" if len(found) < len(own) else ""
            )
            return names_of(found)
        self.reasons["motors"] = "all joints that move"
        return names_of(own)

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
        legs = [joint for joint in self.tree.moving if is_leg(joint)] if self.kind == "legs" else []
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
        spread = np.ptp(ends @ rotation((roll, pitch, 0.0)).T, axis=0)
        return roll, pitch, right if spread[1] > 1.2 * spread[0] else 0.0

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

    def _look(self, draft: Proposal) -> Proposal | None:
        """Load the robot once, in its pose: where are its floor, its feet and its tip? None: it could not stand."""
        rest = {"contacts": (), "base": self.base}
        with closing(draft.at_rest(self.file, **rest)()) as env:
            missing = [name for name in draft.motors if name not in env.limits()]
            if missing:
                raise ArgumentError(f"{self.model.path}: Bullet does not move {listed(missing)}")
            is_free = not touches_itself(env)
            self.reasons["self_collision"] = (
                "no links touch each other in the pose" if is_free else "links touch each other in the pose"
            )
            self._weight = 9.81 * mass_of(env)
            if self.base == "free" and not links_with_shapes(env):
                return None
            low, high = box_of(env)
            self._size = float(np.linalg.norm(high - low))
            height, self.reasons["start_height"] = self._height(env, float(low[2]))
            draft = replace(draft, self_collision=is_free, start_height=height)
            if draft.task == "walk" and self.kind == "legs":
                feet = feet_of(env)
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
        if not 0.001 < np.linalg.norm(way) < 2 or link not in links_with_shapes(env):
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
            reach = {name: _SLIDE if joint.kind == "prismatic" else REACH for name, joint in kinds.items()}
            self.reasons["reach"] = f"{REACH} rad to either side" + (
                f", {_SLIDE} m where a joint slides" if _SLIDE in reach.values() else ""
            )
            return {"motors": forces, "control": "position", "reach": _alike(reach), "observed": self._observed(draft)}
        self.reasons["control"] = (
            "wheels turn without end" if drives else "a policy that sees the target closes the loop"
        )
        speeds = {}
        for name, joint in kinds.items():
            wanted = _WHEEL_SPEED if drives else _SLIDE_SPEED if joint.kind == "prismatic" else TURN_SPEED
            limit = joint.velocity if joint.velocity is not None and joint.velocity > 0 else math.inf
            speeds[name] = round(min(wanted, limit), 4)
        self.reasons["speed"] = f"{_WHEEL_SPEED if drives else TURN_SPEED:g} rad/s, or the file's velocity limit" + (
            f"; {_SLIDE_SPEED} m/s where a joint slides" if any(j.kind == "prismatic" for j in kinds.values()) else ""
        )
        commands = {"motors": forces, "control": "velocity", "speed": _alike(speeds), "observed": self._observed(draft)}
        if draft.task == "reach":
            self.reasons["action_repeat"] = "20 steps a second, which are enough for a target that stands still"
            commands["action_repeat"] = _ARM_REPEAT
        return commands

    def _observed(self, draft: Proposal) -> tuple[str, ...]:
        """Choose what is seen: a policy that sees less learns sooner."""
        if draft.task == "reach":
            self.reasons["observed"] = "nothing but the task's way to the target, which is all that it takes"
            return ()
        if draft.task == "walk":
            self.reasons["observed"] = "without the joints' speeds and the last action, it learns sooner"
            return tuple(name for name in OBSERVED if name not in {"speeds", "action"})
        return OBSERVED

    def _trial(self, draft: Proposal) -> Proposal:
        """Leave the robot alone for some seconds; change what makes it fall."""
        if self.base == "fixed":
            drift = hold(draft, self.file)
            if not drift < 1.0 and draft.inertia_from_file:
                other = replace(draft, inertia_from_file=False)
                if (other_drift := hold(other, self.file)) < drift or math.isnan(drift):
                    draft, drift = other, other_drift
                    self.reasons["inertia_from_file"] = "with the file's the robot does not keep its pose: Bullet's"
            if math.isnan(drift):
                raise RuntimeError(
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
        rest = {"motors": dict.fromkeys(names_of(self.own), 1.0), "contacts": ()}
        with closing(draft.at_rest(self.file, **rest)()) as env:
            pose, indices = {**draft.start_pose}, env.joints(env.body)
            for chain in self._legs(env, draft):
                pose |= bend_leg(env, chain, pose, bend, self.tree)
            pose = {name: round(value, 4) for name, value in pose.items()}
            self._follow(pose)
            for name, value in pose.items():
                pybullet.resetJointState(env.body, indices[name], value, physicsClientId=env.client)
            pybullet.performCollisionDetection(physicsClientId=env.client)
            low, _ = box_of(env)
            return replace(
                draft, start_pose=pose, start_height=round(draft.start_height - float(low[2]) + 0.001, 3),
                self_collision=draft.self_collision and not touches_itself(env),
            )  # fmt: skip

    def _explain_bent(self, draft: Proposal) -> None:
        for name in draft.start_pose:
            if ("start_pose", name) not in self.joint_reasons:
                self.joint_reasons["start_pose", name] = "bent, with the foot below the hip"
                self.reasons["start_pose"] = "bent legs with the feet below the hips; there is no SRDF file beside it"

    def _legs(self, env: RobotEnv, draft: Proposal) -> list[list[str]]:
        """Joints of each leg that swing it to and fro, from the hip on."""
        feet = draft.contacts or tuple(feet_of(env))
        chains = []
        for foot in feet:
            path = [joint for joint in self.tree.path(foot) if joint.name in draft.motors]
            leg = [joint for joint in path if is_leg(joint)] or path
            across = [joint.name for joint in leg if abs(axis_of(env, joint.name)[1]) > 0.7]
            if len(across) >= 2:
                chains.append(across[:3])
        return chains


def _alike(values: Mapping[str, float]) -> float | Mapping[str, float]:
    """One value for all, if there is only one."""
    return next(iter(values.values())) if len(set(values.values())) == 1 else values


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def read_for_proposal(file: Path, packages: Mapping[str, str | Path]) -> Model:
    """Read a model without errors.

    Raises:
        ArgumentError: it has errors; the message names them.
    """
    model = read_model(file, packages=packages)
    if model.errors:
        raise ArgumentError("\n  ".join([f"{file} cannot be loaded:", *map(str, model.errors[:8])]))
    return model
