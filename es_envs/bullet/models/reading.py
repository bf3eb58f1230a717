"""Reads a robot's model: what is in it, and what Bullet would do with it."""

import os
from collections.abc import Mapping
from pathlib import Path

from es_envs.bullet.models.context import Context
from es_envs.bullet.models.descriptions import find_description
from es_envs.bullet.models.findings import UnreadableError
from es_envs.bullet.models.markup import Node, parse, read_bytes, write
from es_envs.bullet.models.mjcf import read_mjcf
from es_envs.bullet.models.robot import Model
from es_envs.bullet.models.scaling import scale_links
from es_envs.bullet.models.sdf import read_sdf
from es_envs.bullet.models.urdf import read_urdf
from es_envs.bullet.models.xacro_files import expand

_READERS = {"robot": ("urdf", read_urdf), "mujoco": ("mjcf", read_mjcf), "sdf": ("sdf", read_sdf)}
_ORDER = {"error": 0, "warning": 1, "note": 2}


def read_model(
    path: str | os.PathLike[str],
    *,
    packages: Mapping[str, str | os.PathLike[str]] | None = None,
    look_into_meshes: bool = True,
    link_sizes: Mapping[str, float] | None = None,
) -> Model:
    """Read a robot's model (URDF, xacro, MJCF or SDF), without Bullet.

    A file whose name ends with ``.xacro`` is expanded by the package xacro, which evaluates Python expressions of the
    file: name only such files that you trust. Nothing that other files contain is executed.

    Args:
        path: the file; or a robot of the package robot_descriptions, such as ``panda_description``, which fetches it.
        packages: folders of packages, for ``package://`` and ``model://``. Others are looked up above the file
            (``package.xml``), and where AMENT_PREFIX_PATH, ROS_PACKAGE_PATH, GZ_SIM_RESOURCE_PATH and
            GAZEBO_MODEL_PATH say.
        look_into_meshes: False to leave out the findings about what is in meshes, which are read for them.
        link_sizes: size of links of a URDF or xacro file as a share of that in the file, by the link's name; Bullet
            gets a copy of the file with them.

    Returns:
        The model with its findings. One that cannot be read has no links, and an error among its findings.

    Raises:
        FileNotFoundError: there is no such file, or a folder of ``packages`` is none.
        ArgumentError: a link of ``link_sizes`` is none, or the file has another format.
    """
    file = Path(path).absolute()
    arguments: Mapping[str, str] = {}
    if not file.exists() and (described := find_description(str(path))):
        file, arguments = described.file, described.arguments
        packages = {**described.packages, **(packages or {})}
    folders = {name: Path(folder).absolute() for name, folder in (packages or {}).items()}
    for name, folder in folders.items():
        if not folder.is_dir():
            raise FileNotFoundError(f"package {name!r}: there is no folder {folder}")
    context = Context(file, folders, look_into_meshes, arguments)
    try:
        kind, root = _document(context)
        if link_sizes:
            scale_links(root, kind, link_sizes)
            context.rewritten = True
        name = _READERS[root.tag][1](root, context)
    except UnreadableError as error:
        context.findings.found.append(error.finding)
        return Model(file, "", file.stem, findings=tuple(context.findings.found))
    return Model(
        path=file,
        format=kind,
        name=name,
        links=tuple(context.links),
        joints=tuple(context.joints),
        meshes=tuple(context.meshes),
        findings=tuple(sorted(context.findings.found, key=lambda finding: _ORDER[finding.severity])),
        text=write(root) if context.rewritten else None,
    )


def _document(context: Context) -> tuple[str, Node]:
    """Return format and document of the model, and say in ``context`` if Bullet needs another text."""
    file, is_xacro = context.file, context.file.suffix == ".xacro"
    data = read_bytes(file)
    shown = file
    if is_xacro:
        data, shown = expand(file, context.packages, context.arguments), file.with_name(f"{file.name} (expanded)")
    root, context.rewritten = parse(data, shown, context.findings)
    context.rewritten |= is_xacro
    if root.tag not in _READERS:
        what = "a part of a MuJoCo model, which another file includes" if root.tag == "mujocoinclude" else "no robot"
        message = f"it is {what}: its first element is <{root.tag}>, not <robot>, <mujoco> or <sdf>"
        raise UnreadableError("unreadable", file, root.line, message)
    if not is_xacro and (used := next((node for node in root.walk() if node.tag.startswith("xacro:")), None)):
        message = f"it is a xacro file (<{used.tag}>), and its name does not end with .xacro: rename it"
        raise UnreadableError("xacro", file, used.line, message)
    kind = "xacro" if is_xacro else _READERS[root.tag][0]
    return kind, root
