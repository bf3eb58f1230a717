"""Reads SDF, the format of Gazebo, and makes of it what Bullet can read."""

from es_envs.bullet.models.context import MOMENTS, Context, ball_inertia
from es_envs.bullet.models.markup import Node
from es_envs.bullet.models.robot import Joint, Link

_TYPES = {"revolute", "prismatic", "fixed", "continuous"}


def read_sdf(root: Node, context: Context) -> str:
    """Read the models of a document into ``context``; returns the name of the first."""
    worlds = root.all("world")
    models = [model for parent in (root, *worlds) for model in parent.all("model")]
    for parent in (root, *worlds, *models):
        for node in parent.all("include"):
            uri = _text(node, "uri")
            context.findings.add("sdf-unsupported", node, f"<include> of {uri!r} is left out")
    for model in models:
        for node in model.all("model"):
            context.findings.add("sdf-unsupported", node, f"the nested model {node.get('name')!r} is left out")
        _read_model(model, context)
    if not context.links:
        context.findings.add("no-links", root, "the document has no model with a <link>")
    return models[0].get("name") if models else ""


def _read_model(model: Node, context: Context) -> None:
    """Read one model, and check it by itself: names are its own."""
    own = Context(context.file, context.packages, context.look_into_meshes, findings=context.findings)
    for node in model.all("link"):
        _read_link(node, own)
    for node in model.all("joint"):
        _read_joint(node, own)
    own.check()
    context.links += own.links
    context.joints += own.joints
    context.meshes += own.meshes
    context.rewritten |= own.rewritten


def _text(node: Node, path: str) -> str:
    found = node.find(path)
    return found.text.strip() if found else ""


def _read_link(node: Node, context: Context) -> None:
    name, inertia = node.get("name"), None
    mass_node = node.find("inertial/mass")
    mass = context.number(mass_node.text, mass_node) if mass_node else None
    if tensor := node.find("inertial/inertia"):
        inertia = context.inertia((_text(tensor, moment) for moment in MOMENTS), tensor)
    elif (inertial := node.find("inertial")) and mass is not None:
        context.rewrite("no-inertia", inertial, f"<inertial> of link {name!r} has no <inertia>")
        tensor = inertial.add("inertia")
        for moment, text in ball_inertia(mass).items():
            tensor.add(moment, text=text)
    context.links.append(Link(name, mass, inertia, node.file, node.line))
    for shape in node.all("collision", "visual"):
        if (mesh := shape.find("geometry/mesh")) and (uri := mesh.find("uri")):
            scale_node = mesh.find("scale")
            scale = context.numbers(scale_node.text, scale_node, (1.0, 1.0, 1.0)) if scale_node else (1.0, 1.0, 1.0)
            use = "collision" if shape.tag == "collision" else "visual"
            found = context.mesh(uri.text.strip(), uri, name, use, scale)  # type: ignore[arg-type]
            if found.path is not None:
                uri.text = str(found.path)
            elif use == "visual":
                node.children.remove(shape)


def _read_joint(node: Node, context: Context) -> None:
    name, kind = node.get("name"), node.get("type")
    if kind not in _TYPES:
        context.findings.add("unknown-joint-type", node, f"joint {name!r} has the type {kind!r}")
    parent, child = _text(node, "parent"), _text(node, "child")
    axis = node.find("axis")
    limit = axis.find("limit") if axis else None
    if axis and limit is None and kind in {"revolute", "prismatic"}:
        context.rewrite("rewritten-sdf", node, f"joint {name!r} has no <limit>")
        added = axis.add("limit")
        added.add("lower", text="0")
        added.add("upper", text="-1")

    def bound(which: str) -> float | None:
        return context.number(_text(limit, which), limit) if limit else None

    xyz = axis.find("xyz") if axis else None
    context.joints.append(
        Joint(
            name=name,
            kind=kind,
            parent=parent,
            child=child,
            axis=context.numbers(xyz.text, xyz, (0.0, 0.0, 1.0)) if xyz else (0.0, 0.0, 1.0),
            lower=bound("lower"),
            upper=bound("upper"),
            effort=bound("effort"),
            velocity=bound("velocity"),
            mimic=None,
            file=node.file,
            line=node.line,
        )
    )
