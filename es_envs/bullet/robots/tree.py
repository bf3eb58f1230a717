"""A robot's links and joints as a tree; what it is, by the names of its joints and by its shape."""

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from es_envs.arguments import ArgumentError
from es_envs.bullet.models import Joint, Model

Kind = Literal["legs", "wheels", "arm", "hand", "other"]

LEG = re.compile(r"hip|thigh|calf|knee|ankle|haa|hfe|kfe|foot|feet|\b(leg|upper|lower|toe|shin)\b")
_UPPER = re.compile(r"arm|elbow|wrist|shoulder|head|neck|finger|thumb|gripper|hand")
WHEEL = re.compile(r"wheel")
CASTER = re.compile(r"caster|castor|swivel")
ROTOR = re.compile(r"propell?er|rotor|\bprop\b")
FINGER = re.compile(r"finger|gripper|thumb|knuckle|\b(jaw|claw|pinch|index|pinky|ring|little)\b")
_HAND = re.compile(r"\bhand\b|finger|gripper")
_ARM = re.compile(r"shoulder|elbow|wrist|\barm\b|\bneck\b")
_NAMES = 4  # that a reason shows


class Tree:
    """A model's links and joints as a tree, by names."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.joints = {joint.name: joint for joint in model.joints}
        self.above = {joint.child: joint for joint in model.joints}
        self._all_above: dict[str, list[Joint]] = {}  # of MJCF: a body may have several
        self.below: dict[str, list[Joint]] = {}
        for joint in model.joints:
            self.below.setdefault(joint.parent, []).append(joint)
            self._all_above.setdefault(joint.child, []).append(joint)
        self.moving = [joint for joint in model.joints if joint.kind in {"revolute", "continuous", "prismatic"}]
        self.root = model.roots[0] if model.roots else model.links[0]

    def path(self, link: str) -> list[Joint]:
        """Joints that move, from the root to a link."""
        path: list[Joint] = []
        while joint := self.above.get(link):
            path = [*self._all_above[link], *path]
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
            place = rotation(joint.origin[3:]) @ place + joint.origin[:3]
            link = joint.parent
        return place

    def height(self, link: str) -> float:
        """Height of a link's frame above the root's, likewise [m]."""
        return float(self.place(link)[2])


def rotation(angles: Sequence[float]) -> NDArray[np.float64]:
    """Matrix ``(3, 3)`` of roll, pitch and yaw [rad]."""
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


def listed(names: Sequence[str]) -> str:
    """The first names as a text."""
    shown = ", ".join(names[:_NAMES])
    return f"{shown}, ..." if len(names) > _NAMES else shown


def named(joints: Sequence[Joint], pattern: "re.Pattern[str]") -> list[Joint]:
    """The joints in the words of whose names a pattern is found."""
    return [joint for joint in joints if pattern.search(words(joint.name))]


def is_leg(joint: Joint) -> bool:
    """Whether a joint is named like one of a leg."""
    name = words(joint.name)
    return bool(LEG.search(name)) and not WHEEL.search(name) and not _UPPER.search(name)


def infer_base(model: Model, given: str | None = None) -> tuple[Literal["free", "fixed"], Kind, str]:
    """Say whether a robot's base is free, what kind of a robot it is, and why.

    Args:
        model: the model.
        given: "free" or "fixed" if you know it.

    Raises:
        RuntimeError: it flies on propellers, which Bullet does not simulate.
        ArgumentError: no joint moves.
    """
    tree = Tree(model)
    root = tree.root
    driven = [joint for joint in tree.moving if not ROTOR.search(words(joint.name))]
    rotors = [link.name for link in model.links if ROTOR.search(words(link.name))]
    if not driven and (rotors or re.search(r"copter|drone|rotor|hector|iris", model.name.lower())):
        raise RuntimeError(
            f"{model.path}: {model.name!r} flies on propellers, and no other joint moves: Bullet does not simulate "
            "propellers, so there is nothing that a policy could drive; write its forces in an environment of your own"
        )
    if not tree.moving:
        raise ArgumentError(f"{model.path}: no joint of {model.name!r} moves, so that a policy has nothing to drive")
    legs, wheels = [joint for joint in tree.moving if is_leg(joint)], wheels_of(tree)
    fingers = named(tree.moving, FINGER)
    world = root.name.lower() in {"world", "ground", "map", "odom"}
    is_hand = not named(tree.moving, _ARM) and (
        len(fingers) > len(tree.moving) / 2 or bool(_HAND.search(words(model.name)) and len(tree.moving) > 6)
    )
    twins = [] if is_hand or len(legs) >= 4 else _twin_branches(tree)
    kind: Kind
    base: Literal["free", "fixed"]
    if len(legs) >= 4:
        kind, base, why = "legs", "free", f"{len(legs)} joints are named like a leg's ({listed(names_of(legs))})"
    elif len(wheels) >= 2:
        kind, base, why = "wheels", "free", f"it has {len(wheels)} wheels ({listed(names_of(wheels))})"
    elif twins and not world:
        kind, base, why = "legs", "free", f"its branches to {listed(twins)} are alike and reach the ground"
    elif is_hand:
        kind, base, why = (
            "hand",
            "fixed",
            f"most of its joints are fingers' ({listed(names_of(fingers or tree.moving))})",
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


def names_of(joints: Sequence[Joint]) -> list[str]:
    """Names of joints."""
    return [joint.name for joint in joints]


def wheels_of(tree: Tree) -> list[Joint]:
    """Joints of wheels, without casters."""
    found = [joint for joint in named(tree.moving, WHEEL) if joint.kind == "continuous" or joint.lower is None]
    return [joint for joint in found if not CASTER.search(words(joint.name))]


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
