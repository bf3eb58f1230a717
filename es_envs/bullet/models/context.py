"""What the readers of all formats share while they read one model: numbers, meshes, and the checks of the result."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from es_envs.bullet.models import meshes
from es_envs.bullet.models.findings import Findings
from es_envs.bullet.models.markup import Node
from es_envs.bullet.models.paths import find
from es_envs.bullet.models.robot import MOST_JOINTS, Joint, Link, Mesh

_SMALLEST_INERTIA = 1e-8  # kg m²
_ABSURD_EFFORT, _ABSURD_VELOCITY = 1000.0, 1000.0
_LARGEST_MESH = 10.0  # m
_SLACK = 1e-6  # of the triangle inequality, relative: files are rounded


MOMENTS = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
"""Entries of an inertia, as URDF and SDF name them."""
_BALL = 0.4 * 0.1**2  # inertia of a ball of radius 0.1 m and 1 kg [kg m²]


def ball_inertia(mass: float) -> dict[str, str]:
    """Return the inertia of a ball of this mass [kg], which stands in for one that a file lacks."""
    moment = repr(_BALL * mass)
    return dict(zip(MOMENTS, (moment, moment, moment, "0", "0", "0"), strict=True))


@dataclass
class Context:
    """The reading of one model.

    Args:
        file: its file.
        packages: folders of packages by name.
        look_into_meshes: True to look at the sizes of meshes.
        arguments: those of a xacro file.
        findings: what has been found so far.
        links: links so far.
        joints: joints so far.
        meshes: meshes so far.
        rewritten: True if Bullet needs another text than the file's.
    """

    file: Path
    packages: Mapping[str, Path]
    look_into_meshes: bool
    arguments: Mapping[str, str] = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)
    links: list[Link] = field(default_factory=list)
    joints: list[Joint] = field(default_factory=list)
    meshes: list[Mesh] = field(default_factory=list)
    rewritten: bool = False

    def numbers(self, text: str, node: Node, default: tuple[float, ...]) -> tuple[float, ...]:
        """Read numbers, as many as there are of ``default`` at least; a finding where they are none."""
        if not text.strip():
            return default
        try:
            values = tuple(map(float, text.split()))
        except ValueError:
            values = (math.nan,)
        if len(values) < len(default) or not all(map(math.isfinite, values)):
            wanted = "a finite number" if len(default) == 1 else f"{len(default)} finite numbers"
            self.findings.add("bad-number", node, f"<{node.tag}> has {text[:40]!r} where {wanted} should be")
            return default
        return values

    def number(self, text: str, node: Node) -> float | None:
        """Read one number; None where there is none."""
        return self.numbers(text, node, (0.0,))[0] if text.strip() else None

    def inertia(self, texts: Iterable[str], node: Node) -> tuple[float, float, float, float, float, float]:
        """Read the ``MOMENTS``; one that is missing is 0."""
        xx, yy, zz, xy, xz, yz = (self.number(text, node) or 0.0 for text in texts)
        return xx, yy, zz, xy, xz, yz

    def rewrite(self, kind: str, node: Node, message: str) -> None:
        """Note that the document for Bullet differs from the file."""
        self.findings.add(kind, node, message)
        self.rewritten = True

    def mesh(
        self, uri: str, node: Node, link: str, use: Literal["visual", "collision"], scale: tuple[float, ...]
    ) -> Mesh:
        """Find a mesh, and note what is wrong with it; its path is None if Bullet cannot use it."""
        found = find(uri, node.file, self.packages)
        fault = meshes.why_unreadable(found.path) if found.path else "is not there"
        path = None if fault else found.path
        if fault and found.path and use == "visual":
            path = meshes.converted(found.path)
        mesh = Mesh(link, use, uri, path, scale, node.file, node.line)
        self.meshes.append(mesh)
        if path is None:
            looked = f"; looked in {', '.join(map(str, found.looked))}" if found.looked else ""
            if use == "collision":
                self.findings.add("collision-mesh", node, f"mesh {uri!r} of link {link!r} {fault}{looked}")
            else:
                self.rewrite("left-out-visual", node, f"visual mesh {uri!r} of link {link!r} {fault}{looked}")
            return mesh
        if fault:
            self.rewrite("converted-visual", node, f"visual mesh {uri!r} of link {link!r} {fault}")
            return mesh
        if not found.as_bullet:
            self.rewrite("mesh-elsewhere", node, f"mesh {uri!r} {found.how or f'is {path}'}")
        elif Path(uri.removeprefix("file://")).is_absolute():
            self.findings.add("absolute-mesh", node, f"mesh {uri!r} has an absolute path")
        if self.look_into_meshes:
            self._look_into(mesh, path, node)
        return mesh

    def _look_into(self, mesh: Mesh, path: Path, node: Node) -> None:
        size = meshes.extent(path)
        largest = max(map(abs, mesh.scale), default=1.0)
        if size is not None and size * largest > _LARGEST_MESH:
            self.findings.add(
                "mesh-size", node, f"mesh {mesh.uri!r} of link {mesh.link!r} is {size * largest:.3g} m long"
            )
        if meshes.is_y_up(path):
            self.findings.add("mesh-y-up", node, f"mesh {mesh.uri!r} of link {mesh.link!r} says that y points up")

    def check(self) -> None:
        """Look for traps in the links and joints of one robot."""
        self._check_names()
        self._check_tree()
        for link in self.links:
            self._check_inertia(link)
        for joint in self.joints:
            self._check_joint(joint)
        if self.links and not any(joint.moves for joint in self.joints):
            self.findings.add("no-joints", self.links[0], "no joint moves")
        if len(self.joints) > MOST_JOINTS:
            fixed = sum(not joint.moves for joint in self.joints)
            self.findings.add("many-joints", self.joints[0], f"{len(self.joints)} joints, {fixed} of them fixed")

    def _check_names(self) -> None:
        for what, things in (("link", self.links), ("joint", self.joints)):
            seen: dict[str, Link | Joint] = {}
            for thing in things:
                if not thing.name:
                    self.findings.add("no-name", thing, f"a {what} has no name")
                elif thing.name in seen:
                    first = seen[thing.name].line
                    self.findings.add("same-name", thing, f"{what} {thing.name!r} is defined in line {first}, too")
                else:
                    seen[thing.name] = thing

    def _check_tree(self) -> None:
        names, parents = {link.name for link in self.links}, dict[str, Joint]()
        for joint in self.joints:
            for role, name in (("parent", joint.parent), ("child", joint.child)):
                if name not in names:
                    self.findings.add("unknown-link", joint, f"joint {joint.name!r}: its {role} {name!r} is no link")
            if joint.child in parents:
                first = parents[joint.child].name
                message = (
                    f"joint {joint.name!r} gives link {joint.child!r} a second parent; joint {first!r} moves it, too"
                )
                self.findings.add("closed-loop", joint, message)
            elif joint.child:
                parents[joint.child] = joint
        roots = [link for link in self.links if link.name not in parents]
        if self.links and not roots:
            self.findings.add("no-root", self.links[0], "every link is a joint's child")
        children: dict[str, list[str]] = {}
        for name, joint in parents.items():
            children.setdefault(joint.parent, []).append(name)
        reached, left = set(), [link.name for link in roots]
        while left:
            reached.add(name := left.pop())
            left += [child for child in children.get(name, ()) if child not in reached]
        for link in self.links:
            if roots and link.name not in reached:
                self.findings.add("closed-loop", link, f"link {link.name!r} hangs on itself")
        for link in roots[1:]:
            message = f"link {link.name!r} has no parent, and neither has {roots[0].name!r}"
            self.findings.add("several-roots", link, message)

    def _check_inertia(self, link: Link) -> None:
        if link.inertia is None or not link.mass:
            return
        xx, yy, zz, xy, xz, yz = link.inertia
        moments = np.linalg.eigvalsh(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
        text = ", ".join(f"{moment:.3g}" for moment in moments)
        if moments[0] <= 0 or moments[2] > (moments[0] + moments[1]) * (1 + _SLACK):
            self.findings.add("impossible-inertia", link, f"link {link.name!r} has the principal moments {text}")
        elif moments[0] < _SMALLEST_INERTIA:
            self.findings.add("tiny-inertia", link, f"link {link.name!r} has the principal moments {text} kg m²")

    def _check_joint(self, joint: Joint) -> None:
        name = f"joint {joint.name!r}"
        if joint.mimic is not None:
            self.findings.add("mimic", joint, f"{name} mimics {joint.mimic!r}")
        if joint.kind == "continuous":
            self.findings.add("continuous", joint, f"{name} is continuous")
        if joint.kind in {"planar", "floating"}:
            self.findings.add("unsupported-joint", joint, f"{name} is {joint.kind}")
        if not joint.moves:
            return
        if joint.lower is not None and joint.upper is not None and joint.lower >= joint.upper:
            self.findings.add("reversed-limits", joint, f"{name} has the limits {joint.lower:g} and {joint.upper:g}")
        for what, value, absurd in (
            ("effort", joint.effort, _ABSURD_EFFORT),
            ("velocity", joint.velocity, _ABSURD_VELOCITY),
        ):
            if value is not None and value <= 0:
                self.findings.add(f"no-{what}", joint, f"{name} has the {what} limit {value:g}")
            elif value is not None and value >= absurd:
                self.findings.add(f"absurd-{what}", joint, f"{name} has the {what} limit {value:g}")
