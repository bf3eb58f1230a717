"""A robot's model as a value: its links, joints and meshes, and the findings about it."""

import math
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from es_envs.bullet.models.findings import Finding

MOST_JOINTS = 127  # whose states Bullet can read


@dataclass(frozen=True)
class Link:
    """A link: a rigid body.

    Args:
        name: its name.
        mass: its mass [kg]; None if the file does not say it.
        inertia: ixx, iyy, izz, ixy, ixz, iyz [kg m²]; None if the file does not say it.
        file: the file in which it stands.
        line: its line there.
    """

    name: str
    mass: float | None
    inertia: tuple[float, float, float, float, float, float] | None
    file: Path
    line: int


@dataclass(frozen=True)
class Joint:
    """A joint between two links.

    Args:
        name: its name.
        kind: revolute, continuous, prismatic, fixed, planar, floating or ball.
        parent: name of the link that it hangs on.
        child: name of the link that it moves.
        axis: its axis in the joint's frame.
        lower: lower limit [rad or m]; None if it has no limits.
        upper: upper limit [rad or m]; None if it has no limits.
        effort: largest effort [N m or N]; None if the file does not say it.
        velocity: largest velocity [rad/s or m/s]; None if the file does not say it.
        mimic: name of the joint that it mimics, or None.
        file: the file in which it stands.
        line: its line there.
        multiplier: of the position of the joint that it mimics.
        offset: that is added to it [rad or m].
        origin: the child's frame in the parent's, x, y, z [m] and roll, pitch, yaw [rad]; zeros but for URDF.
    """

    name: str
    kind: str
    parent: str
    child: str
    axis: tuple[float, ...]
    lower: float | None
    upper: float | None
    effort: float | None
    velocity: float | None
    mimic: str | None
    file: Path
    line: int
    multiplier: float = 1.0
    offset: float = 0.0
    origin: tuple[float, ...] = (0.0,) * 6

    @property
    def moves(self) -> bool:
        """True unless it is fixed."""
        return self.kind != "fixed"


@dataclass(frozen=True)
class Mesh:
    """A mesh of a link.

    Args:
        link: the link's name.
        use: "visual" or "collision".
        uri: its path as the file has it.
        path: the file that was found; None if there is none.
        scale: factors along x, y, z.
        file: the file that names it.
        line: its line there.
    """

    link: str
    use: Literal["visual", "collision"]
    uri: str
    path: Path | None
    scale: tuple[float, ...]
    file: Path
    line: int


def find_roots(links: Iterable[Link], joints: Iterable[Joint]) -> tuple[Link, ...]:
    """Return the links that are no joint's child."""
    children = {joint.child for joint in joints}
    return tuple(link for link in links if link.name not in children)


@dataclass(frozen=True)
class Model:
    """A robot's model, as ``read_model`` returns it.

    Args:
        path: the file.
        format: "urdf", "xacro", "mjcf", "sdf", or "" if it is none of these.
        name: the robot's name.
        links: its links, in the order of the file.
        joints: its joints, in the order of the file.
        meshes: its meshes.
        findings: what is to be known about it, errors first.
        text: the document for Bullet where the file itself will not do; else None.
    """

    path: Path
    format: str
    name: str
    links: tuple[Link, ...] = ()
    joints: tuple[Joint, ...] = ()
    meshes: tuple[Mesh, ...] = ()
    findings: tuple[Finding, ...] = ()
    text: str | None = None

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings for which the model cannot be loaded."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def roots(self) -> tuple[Link, ...]:
        """The links that are no joint's child."""
        return find_roots(self.links, self.joints)

    @property
    def moving(self) -> tuple[Joint, ...]:
        """The joints that are not fixed."""
        return tuple(joint for joint in self.joints if joint.moves)

    @property
    def mass(self) -> float:
        """Sum of the masses that the file says [kg]."""
        return math.fsum(link.mass or 0.0 for link in self.links)

    @contextmanager
    def file_for_bullet(self) -> Iterator[Path]:
        """Give the file that Bullet can load: the model's own, or a rewritten copy that is removed afterwards."""
        if self.text is None:
            yield self.path
            return
        with tempfile.TemporaryDirectory(prefix="es-envs-model-") as folder:
            copy = Path(folder, self.path.name).with_suffix({"mjcf": ".xml"}.get(self.format, f".{self.format}"))
            copy = copy.with_suffix(".urdf") if self.format == "xacro" else copy
            copy.write_text(self.text, encoding="utf-8")
            yield copy
