"""Poses from SRDF files, in which MoveIt and others keep what a URDF file does not say of a robot."""

from dataclasses import dataclass
from pathlib import Path

from es_envs.bullet.models import Model
from es_envs.bullet.models.findings import Findings, UnreadableError
from es_envs.bullet.models.markup import Node, parse, read_bytes

_NAMES = ("half_sitting", "standing", "home", "default", "reference")
_MOST_FILES = 50


@dataclass(frozen=True)
class State:
    """A state of a robot's joints.

    Args:
        name: its name.
        file: the SRDF file.
        positions: of joints by name [rad or m].
    """

    name: str
    file: Path
    positions: dict[str, float]


def states_beside(model: Model) -> State | None:
    """Return the pose in which a robot stands, if an SRDF file beside the model's or in ``srdf`` has one.

    The first of half_sitting, standing, home, default and reference counts.
    """
    folder = model.path.parent
    files = [
        file for place in (folder, folder / "srdf", folder.parent / "srdf") for file in sorted(place.glob("*.srdf"))
    ]
    rated = [
        (rating, root, file)
        for file in files[:_MOST_FILES]
        if (root := _read(file)) and (rating := _rate(root, file, model))
    ]
    for _, root, file in sorted(rated, key=lambda each: -each[0]):
        for name in _NAMES:
            positions = _positions(root, name, model)
            if positions:
                return State(name, file, positions)
    return None


def _read(file: Path) -> Node | None:
    try:
        return parse(read_bytes(file), file, Findings())[0]
    except (UnreadableError, OSError):
        return None


def _rate(root: Node, file: Path, model: Model) -> int:
    """How well a file suits the model: by the robot's name, by its own, or by its joints; 0 if it does not."""
    moving = {joint.name for joint in model.moving}
    named = {joint.get("name") for state in root.all("group_state") for joint in state.all("joint")}
    if not named & moving:
        return 0
    if root.get("name").lower() == model.name.lower() or file.stem.lower() == model.path.stem.lower():
        return 3
    if model.path.stem.lower().startswith(file.stem.lower()) or file.stem.lower() in model.path.stem.lower():
        return 2
    return int(len(named & moving) >= 0.8 * len(moving))


def _positions(root: Node, name: str, model: Model) -> dict[str, float]:
    moving = {joint.name for joint in model.moving}
    found: dict[str, float] = {}
    for state in root.all("group_state"):
        if state.get("name").lower() != name:
            continue
        for joint in state.all("joint"):
            try:
                value = float(joint.get("value"))
            except ValueError:  # several numbers: of the base, say
                continue
            if joint.get("name") in moving and abs(value) < 100:  # NaN is not
                found[joint.get("name")] = value
    return found
