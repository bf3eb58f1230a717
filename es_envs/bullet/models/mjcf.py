"""Reads MJCF, the format of MuJoCo, as MuJoCo does, and writes out the defaults that Bullet does not know."""

from collections.abc import Mapping
from pathlib import Path

from es_envs.bullet.models.context import Context
from es_envs.bullet.models.findings import UnreadableError
from es_envs.bullet.models.markup import Node, parse, read_bytes
from es_envs.bullet.models.paths import find
from es_envs.bullet.models.robot import Joint, Link

_KINDS = {"hinge": "revolute", "slide": "prismatic", "ball": "ball", "free": "floating"}
_IGNORED = {"tendon", "equality", "keyframe", "sensor", "deformable", "extension", "contact"}
_STRANGE = {"composite", "flexcomp", "attach", "frame", "replicate", "plugin"}
_FLATTENED = ("joint", "geom")
_MOST_INCLUDES = 100

_Defaults = Mapping[str, Mapping[str, Mapping[str, str]]]  # by class, tag and attribute


def read_mjcf(root: Node, context: Context) -> str:
    """Read a model into ``context``, changing the document where Bullet reads it differently; returns its name."""
    _include(root, context)
    compiler = {name: value for node in root.all("compiler") for name, value in node.attributes.items()}
    autolimits = compiler.get("autolimits", "true") != "false"
    defaults, is_nested = _defaults(root)
    if is_nested:
        context.rewrite("rewritten-mjcf", root, "nested <default> classes are written out")
    if "angle" not in compiler and any(node.tag == "joint" and "range" in node.attributes for node in root.walk()):
        context.rewrite("rewritten-mjcf", root, "<compiler> has no angle: angles are in degrees")
        root.add("compiler", first=True, angle="degree")
    in_degrees = compiler.get("angle", "degree") == "degree"
    meshes = _assets(root, compiler, context)
    for world in root.all("worldbody"):
        for body in world.all("body"):
            _read_body(body, "", "main", _Reader(context, defaults, meshes, autolimits, in_degrees))
        for geom in world.all("geom"):
            geom.attributes |= _effective(geom, "main", defaults, only_class=True)
    _warn_of_ignored(root, context)
    if is_nested:
        root.children = [child for child in root.children if child.tag != "default"]
        for node in root.walk():
            node.attributes.pop("class", None)
            node.attributes.pop("childclass", None)
    if not context.links and not any(world.children for world in root.all("worldbody")):
        context.findings.add("no-links", root, "<worldbody> has no <body>")
    return root.get("model") or "MuJoCo model"


class _Reader:
    """What the bodies of a model are read with."""

    def __init__(
        self, context: Context, defaults: _Defaults, meshes: dict[str, Node], autolimits: bool, in_degrees: bool
    ) -> None:
        self.context, self.defaults, self.meshes = context, defaults, meshes
        self.autolimits, self.in_degrees = autolimits, in_degrees


def _include(root: Node, context: Context) -> None:
    """Put what the document includes in the places of its <include>."""
    count, left = 0, [root]
    while left:
        node = left.pop()
        children: list[Node] = []
        for child in node.children:
            if child.tag != "include":
                children.append(child)
                continue
            count += 1
            path = find(child.get("file"), child.file, context.packages).path
            if path is None or count > _MOST_INCLUDES:
                fault = "is not there" if path is None else "is one too many: do files include each other in a circle?"
                context.findings.add("include", child, f"<include> of {child.get('file')!r} {fault}")
                continue
            try:
                included, _ = parse(read_bytes(path), path, context.findings)
            except UnreadableError as error:
                context.findings.found.append(error.finding)
                continue
            context.rewrite("rewritten-mjcf", child, f"<include> of {child.get('file')!r} is written out")
            children += included.children
        has_more = any(child.tag == "include" for child in children)
        node.children = children
        left += [node] if has_more else [child for child in children if child.children]


def _defaults(root: Node) -> tuple[_Defaults, bool]:
    """Return the attributes of each class, with those that it inherits, and True if there are classes but the main."""
    found: dict[str, dict[str, dict[str, str]]] = {"main": {}}
    left = [(node, node.get("class", "main") or "main", "main") for node in root.all("default")]
    while left:
        node, name, parent = left.pop(0)
        tags = found[name] = {tag: dict(values) for tag, values in found[parent].items()}
        for child in node.children:
            if child.tag == "default":
                left.append((child, child.get("class"), name))
            else:
                tags[child.tag] = tags.get(child.tag, {}) | child.attributes
    return found, len(found) > 1


def _effective(node: Node, around: str, defaults: _Defaults, *, only_class: bool = False) -> dict[str, str]:
    name = node.get("class") or around
    if only_class and len(defaults) == 1:
        return node.attributes
    tags = defaults.get(name, defaults["main"])
    return {**tags.get(node.tag, {}), **node.attributes}


def _assets(root: Node, compiler: Mapping[str, str], context: Context) -> dict[str, Node]:
    """Return the meshes by name, with the paths that Bullet needs."""
    meshes = {}
    folder = compiler.get("meshdir", compiler.get("assetdir", ""))
    for asset in root.all("asset"):
        for node in asset.all("mesh"):
            if not (file := node.get("file")):
                continue
            name = node.get("name") or Path(file).stem
            if "name" not in node.attributes:
                context.rewrite("rewritten-mjcf", node, f"the mesh gets the name {name!r}")
                node.attributes["name"] = name
            node.text = str(Path(folder, file)) if folder else file
            meshes[name] = node
    if folder:
        context.rewrite("rewritten-mjcf", root, "meshdir is written into the paths of meshes")
        for node in root.all("compiler"):
            node.attributes.pop("meshdir", None)
            node.attributes.pop("assetdir", None)
    return meshes


def _read_body(body: Node, parent: str, around: str, reader: _Reader) -> None:
    context = reader.context
    around = body.get("childclass") or around
    name = body.get("name") or f"body{len(context.links)}"
    masses: list[float | None] = []
    for geom in body.all("geom"):
        _read_geom(geom, name, around, reader, masses)
    inertial = body.find("inertial")
    if inertial:
        masses = [context.number(inertial.get("mass"), inertial)]
    mass = None if not masses or None in masses else sum(value or 0.0 for value in masses)
    inertia = None
    if inertial and inertial.get("diaginertia"):
        x, y, z = context.numbers(inertial.get("diaginertia"), inertial, (0.0, 0.0, 0.0))[:3]
        inertia = (x, y, z, 0.0, 0.0, 0.0)
    context.links.append(Link(name, mass, inertia, body.file, body.line))
    joints = body.all("joint")
    for joint in joints:
        _read_joint(joint, parent, name, around, reader)
    if not parent and not joints and not body.find("freejoint"):
        context.findings.add("mjcf-fixed-base", body, f"body {name!r} has no joint")
    for child in body.children:
        if child.tag == "body":
            _read_body(child, name, around, reader)
        elif child.tag in _STRANGE:
            context.findings.add("mjcf-unsupported", child, f"<{child.tag}> in body {name!r}")


def _read_geom(geom: Node, body: str, around: str, reader: _Reader, masses: list[float | None]) -> None:
    context = reader.context
    effective = _effective(geom, around, reader.defaults)
    if len(reader.defaults) > 1:
        geom.attributes = effective
    kind = effective.get("type", "sphere")
    is_visual = effective.get("contype") == "0" and effective.get("conaffinity") == "0"
    masses.append(context.number(effective.get("mass", ""), geom) if "mass" in effective else None)
    if kind == "mesh":
        asset = reader.meshes.get(effective.get("mesh", ""))
        if asset is None:
            context.findings.add("mjcf-unsupported", geom, f"a geom of body {body!r} has a mesh without a file")
            return
        scale = context.numbers(asset.get("scale"), asset, (1.0, 1.0, 1.0))
        mesh = context.mesh(asset.text, asset, body, "visual" if is_visual else "collision", scale)
        if mesh.path is not None:
            asset.attributes["file"] = str(mesh.path)
    elif kind in {"ellipsoid", "hfield", "sdf"}:
        context.findings.add("mjcf-unsupported", geom, f"a geom of body {body!r} is of type {kind}")


def _read_joint(joint: Node, parent: str, body: str, around: str, reader: _Reader) -> None:
    context = reader.context
    own = dict(joint.attributes)
    effective = _effective(joint, around, reader.defaults)
    name = effective.get("name", f"joint of {body}")
    kind = effective.get("type", "hinge")
    if "type" not in own:
        context.rewrite("rewritten-mjcf", joint, f"joint {name!r} has no type of its own: it is a {kind}")
    if kind in {"hinge", "slide"} and "axis" not in own:
        context.rewrite("rewritten-mjcf", joint, f"joint {name!r} has no axis of its own")
    added = {"type": kind} | ({"axis": effective.get("axis", "0 0 1")} if kind in {"hinge", "slide"} else {})
    limited = effective.get("limited", "auto")
    if limited == "auto":
        limited = str("range" in effective and reader.autolimits).lower()
        if limited == "true":
            context.rewrite("rewritten-mjcf", joint, f"joint {name!r} has a range: it is limited")
            added["limited"] = "true"
    joint.attributes = {**(effective if len(reader.defaults) > 1 else own), **added}
    bounds: tuple[float | None, float | None] = (None, None)
    if limited == "true" and (text := effective.get("range")):
        low, high = context.numbers(text, joint, (0.0, 0.0))[:2]
        factor = 0.017453292519943295 if reader.in_degrees and kind == "hinge" else 1.0
        bounds = (low * factor, high * factor)
    if kind == "ball":
        context.findings.add("mjcf-unsupported", joint, f"joint {name!r} is a ball joint")
    context.joints.append(
        Joint(
            name=name,
            kind="continuous" if kind == "hinge" and bounds[0] is None else _KINDS.get(kind, kind),
            parent=parent,
            child=body,
            axis=context.numbers(added.get("axis", ""), joint, (0.0, 0.0, 1.0)),
            lower=bounds[0],
            upper=bounds[1],
            effort=None,
            velocity=None,
            mimic=None,
            file=joint.file,
            line=joint.line,
        )
    )


def _warn_of_ignored(root: Node, context: Context) -> None:
    for node in root.children:
        if node.tag in _IGNORED and node.children:
            what = ", ".join(sorted({f"<{child.tag}>" for child in node.children}))
            context.findings.add("mjcf-unsupported", node, f"<{node.tag}> with {what}")
    for actuators in root.all("actuator"):
        for node in actuators.children:
            if node.tag == "muscle" or "joint" not in node.attributes:
                what = "is a muscle" if node.tag == "muscle" else "does not act on a joint"
                context.findings.add("mjcf-unsupported", node, f"the actuator {node.get('name')!r} {what}")
