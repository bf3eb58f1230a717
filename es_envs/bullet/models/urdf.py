"""Reads URDF, the format of ROS, and makes of it what Bullet can read."""

from es_envs.bullet.models.context import MOMENTS, Context, ball_inertia
from es_envs.bullet.models.markup import Node
from es_envs.bullet.models.robot import Joint, Link, find_roots

_TYPES = {"revolute", "continuous", "prismatic", "fixed", "floating", "planar", "spherical"}
_SHAPES = {"box", "sphere", "cylinder", "capsule", "mesh", "plane", "cdf"}


def read_urdf(root: Node, context: Context) -> str:
    """Read a robot into ``context``, changing the document where Bullet cannot read it; returns its name."""
    name = root.get("name")
    if not name:
        name = context.file.stem
        root.attributes["name"] = name
        context.rewrite("nameless-robot", root, "<robot> has no name")
    for node in root.all("link"):
        _read_link(node, context)
    for node in root.all("joint"):
        _read_joint(node, context)
    if not context.links:
        context.findings.add("no-links", root, "<robot> has no <link>")
    context.check()
    if len(roots := find_roots(context.links, context.joints)) == 1:
        _check_root(roots[0], context)
    return name


def _check_root(root: Link, context: Context) -> None:
    if root.mass is None:
        if root.name != "world":
            context.findings.add("root-without-inertia", root, f"link {root.name!r}, the root, has no <inertial>")
    elif root.mass == 0:
        context.findings.add("massless-root", root, f"link {root.name!r}, the root, has no mass")


def _read_link(node: Node, context: Context) -> None:
    name, mass, inertia = node.get("name"), None, None
    if inertial := node.find("inertial"):
        if masses := inertial.find("mass"):
            mass = context.number(masses.get("value") or masses.text, masses)
        if mass is None:
            context.findings.add("no-mass", inertial, f"<inertial> of link {name!r} has no mass")
        if tensor := inertial.find("inertia"):
            inertia = context.inertia(map(tensor.get, MOMENTS), tensor)
        else:
            context.rewrite("no-inertia", inertial, f"<inertial> of link {name!r} has no <inertia>")
            inertial.add("inertia").attributes |= ball_inertia(mass or 0.0)
    context.links.append(Link(name, mass, inertia, node.file, node.line))
    for shape in node.all("collision", "visual"):
        if not _read_shape(shape, name, context):
            node.children.remove(shape)


def _read_shape(node: Node, link: str, context: Context) -> bool:
    """Read a shape; returns False if Bullet cannot have it."""
    geometry = node.find("geometry")
    shape = geometry.children[0] if geometry and geometry.children else None
    if shape is None or shape.tag not in _SHAPES:
        what = f"<{shape.tag}>, which Bullet does not know" if shape else "no <geometry>"
        if node.tag == "collision":
            context.findings.add("bad-geometry", node, f"a <collision> of link {link!r} has {what}")
            return True
        context.rewrite("left-out-visual", node, f"a <visual> of link {link!r} has {what}")
        return False
    if shape.tag != "mesh":
        return True
    uri = shape.get("filename")
    scale = context.numbers(shape.get("scale"), shape, (1.0,))
    mesh = context.mesh(uri, shape, link, "collision" if node.tag == "collision" else "visual", scale)
    if mesh.path is not None:
        shape.attributes["filename"] = str(mesh.path)
    return mesh.path is not None or node.tag == "collision"


def _read_joint(node: Node, context: Context) -> None:
    name, kind = node.get("name"), node.get("type")
    parent, child, axis, mimic = node.find("parent"), node.find("child"), node.find("axis"), node.find("mimic")
    if kind not in _TYPES:
        what = f"the type {kind!r}" if kind else "no type"
        context.findings.add("unknown-joint-type", node, f"joint {name!r} has {what}")
    limit, origin = node.find("limit"), node.find("origin")
    if limit is None and kind in {"revolute", "prismatic"}:
        context.findings.add("no-limits", node, f"joint {name!r} is {kind} and has no <limit>")

    def bound(which: str) -> float | None:
        return context.number(limit.get(which), limit) if limit else None

    def numbers_of(found: Node | None, key: str, default: tuple[float, ...]) -> tuple[float, ...]:
        return context.numbers(found.get(key), found, default) if found else default

    is_limited = limit is not None and kind in {"revolute", "prismatic"}
    context.joints.append(
        Joint(
            name=name,
            kind=kind,
            parent=parent.get("link") if parent else "",
            child=child.get("link") if child else "",
            axis=numbers_of(axis, "xyz", (1.0, 0.0, 0.0)),
            lower=(bound("lower") or 0.0) if is_limited else None,
            upper=(bound("upper") or 0.0) if is_limited else None,
            effort=bound("effort"),
            velocity=bound("velocity"),
            mimic=mimic.get("joint") if mimic else None,
            file=node.file,
            line=node.line,
            multiplier=numbers_of(mimic, "multiplier", (1.0,))[0],
            offset=numbers_of(mimic, "offset", (0.0,))[0],
            origin=(
                *numbers_of(origin, "xyz", (0.0, 0.0, 0.0))[:3],
                *numbers_of(origin, "rpy", (0.0, 0.0, 0.0))[:3],
            ),
        )
    )
