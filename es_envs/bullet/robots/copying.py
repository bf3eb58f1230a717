"""Copies of robots' models, which need nothing but their folder, and load fast: collision meshes become small hulls."""

import math
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from es_envs.bullet.client import captured_output, pybullet
from es_envs.bullet.models import Model
from es_envs.bullet.models.findings import Findings
from es_envs.bullet.models.markup import Node, parse, write
from es_envs.bullet.models.robot import Mesh
from es_envs.text import file_name

MOST_POINTS = 64  # of a hull
_LIGHT = {"mass": "0.000001", "moment": "0.000000001"}  # of a root that only carries others [kg, kg m²]
_PICTURES = {".png", ".jpg", ".jpeg", ".tga", ".bmp"}
_MOST_OBJ = 200_000_000  # bytes
_ENDINGS = {"mjcf": ".xml", "sdf": ".sdf"}
_Points = NDArray[np.float64]


def copy_model(
    model: Model, folder: Path, *, base: Literal["free", "fixed"] = "fixed", visuals: bool = True
) -> tuple[Path, str]:
    """Copy a model and its meshes into a folder.

    A URDF or xacro file becomes ``robot.urdf``, as Bullet needs it; its collision meshes become convex hulls of at most
    64 points, as Bullet itself makes hulls of them, of all points. MJCF and SDF files become ``robot.xml`` and
    ``robot.sdf``, and their meshes are copied as they are.

    Args:
        model: the model, without errors.
        folder: a new folder.
        base: of a "free" robot, a root without mass gets a tiny one if it is fastened to links that have one: Bullet
            would give it 1 kg, or hang it in the air.
        visuals: False to leave out what is only seen.

    Returns:
        The copy's path, and a sentence about the root if it has got a mass.
    """
    text = model.text if model.text is not None else model.path.read_bytes()
    root, _ = parse(text.encode() if isinstance(text, str) else text, model.path, Findings())
    (folder / "meshes").mkdir(parents=True)
    is_urdf = model.format in {"urdf", "xacro"}
    copies = _Copies(folder, with_hulls=is_urdf)
    by_name = {name: mesh for mesh in model.meshes for name in (mesh.uri, str(mesh.path))}
    remark = ""
    if is_urdf:
        _copy_urdf(root, by_name, copies, visuals=visuals)
        remark = _mass_of_root(root, model) if base == "free" else ""
    else:
        _copy_others(root, by_name, copies)
    file = folder / f"robot{_ENDINGS.get(model.format, '.urdf')}"
    file.write_text(write(root), encoding="utf-8")
    if not any((folder / "meshes").iterdir()):
        (folder / "meshes").rmdir()
    return file, remark


def _copy_urdf(root: Node, by_name: dict[str, Mesh], copies: "_Copies", *, visuals: bool) -> None:
    for link in root.all("link"):
        for shape in link.all("visual", "collision"):
            if shape.tag == "visual" and not visuals:
                link.children.remove(shape)
            elif (node := shape.find("geometry/mesh")) and (mesh := by_name.get(node.get("filename"))) and mesh.path:
                is_hull = shape.tag == "collision" and shape.get("concave") != "yes"
                node.attributes["filename"] = copies.add(mesh.path, "collision" if is_hull else "visual")
    for parent in root.walk():
        for node in parent.all("texture"):
            parent.children.remove(node)  # of which Bullet's reader of URDF takes no notice


def _copy_others(root: Node, by_name: dict[str, Mesh], copies: "_Copies") -> None:
    for node in root.walk():
        if node.tag == "mesh" and (mesh := by_name.get(node.get("file"))) and mesh.path:
            node.attributes["file"] = copies.add(mesh.path, "visual")
        elif node.tag == "uri" and (mesh := by_name.get(node.text.strip())) and mesh.path:
            node.text = copies.add(mesh.path, "visual")


def _mass_of_root(root: Node, model: Model) -> str:
    """Give a root without mass a tiny one, if links on fixed joints have one; Bullet merges them with it."""
    name = model.roots[0].name
    if model.roots[0].mass or not _carried_mass(name, model):
        return ""
    for link in root.all("link"):
        if link.get("name") == name:
            link.children = [child for child in link.children if child.tag != "inertial"]
            inertial = link.add("inertial", first=True)
            inertial.add("mass", value=_LIGHT["mass"])
            moment = _LIGHT["moment"]
            inertial.add("inertia", ixx=moment, iyy=moment, izz=moment, ixy="0", ixz="0", iyz="0")
    return (
        f"the root {name!r} has no mass in the file, for which Bullet takes 1 kg or hangs it up: in the copy it has a "
        "milligram, and the links that are fastened to it have theirs"
    )


def _carried_mass(name: str, model: Model) -> float:
    masses = {link.name: link.mass or 0.0 for link in model.links}
    fixed = [joint.child for joint in model.joints if joint.parent == name and not joint.moves]
    return math.fsum(masses.get(child, 0.0) + _carried_mass(child, model) for child in fixed)


class _Copies:
    """The meshes that have been copied, each once.

    Args:
        folder: the model's folder, which has a folder ``meshes``.
        with_hulls: True to make hulls of collision meshes.
    """

    def __init__(self, folder: Path, *, with_hulls: bool) -> None:
        self._folder, self._with_hulls = folder / "meshes", with_hulls
        self._names: dict[tuple[Path, str], str] = {}

    def add(self, path: Path, use: Literal["visual", "collision"]) -> str:
        """Copy a mesh, if it is not there; returns its path from the model's folder."""
        path = path.resolve()
        key = (path, use if self._with_hulls else "visual")
        if key not in self._names:
            hulls = hulls_of(path) if key[1] == "collision" else []
            if hulls:
                self._names[key] = name = self._free_name(f"{path.stem}-hull", ".obj")
                (self._folder / name).write_text(_obj(hulls), encoding="utf-8")
            else:
                self._names[key] = name = self._free_name(path.stem, path.suffix.lower())
                if path.suffix.lower() == ".obj":
                    self._copy_obj(path, self._folder / name)
                else:
                    shutil.copyfile(path, self._folder / name)
        return f"meshes/{self._names[key]}"

    def _free_name(self, stem: str, ending: str) -> str:
        stem = file_name(re.sub(r"[^A-Za-z0-9_]+", "-", stem)[:60].strip("-") or "mesh")
        taken = {entry.name.lower() for entry in self._folder.iterdir()}
        names = (f"{stem}{number or ''}{ending}" for number in [0, *range(2, 100_000)])
        return next(name for name in names if name.lower() not in taken)

    def _copy_obj(self, path: Path, target: Path) -> None:
        """Copy a mesh with its materials and their pictures, which lie beside it."""

        def materials(name: str) -> str | None:
            return self._copy_named(path.parent / name, {".mtl"}, self._copy_mtl)

        _copy_lines(path, target, re.compile(rb"\s*mtllib\s+(.+?)\s*$"), materials)

    def _copy_mtl(self, path: Path, target: Path) -> None:
        def picture(name: str) -> str | None:
            return self._copy_named(path.parent / name, _PICTURES, shutil.copyfile)

        _copy_lines(path, target, re.compile(rb"\s*map_\w+\s+(?:-\S+\s+\S+\s+)*(.+?)\s*$"), picture)

    def _copy_named(self, path: Path, endings: set[str], copy: Callable[[Path, Path], object]) -> str | None:
        ending = path.suffix.lower()
        if ending not in endings or not path.is_file():
            return None
        key = (path.resolve(), "beside")
        if key not in self._names:
            self._names[key] = self._free_name(path.stem, ending)
            copy(path, self._folder / self._names[key])
        return self._names[key]


def _copy_lines(path: Path, target: Path, pattern: "re.Pattern[bytes]", rename: Callable[[str], str | None]) -> None:
    """Copy a file, with other names in the lines that match, and without those for whose name there is none."""
    with path.open("rb") as source, target.open("wb") as copy:
        for line in source:
            if match := pattern.match(line):
                name = rename(match[1].decode(errors="replace").replace("\\", "/"))
                if name is None:
                    continue
                line = line[: match.start(1)] + name.encode() + b"\n"  # noqa: PLW2901
            copy.write(line)


def hulls_of(path: Path) -> list[tuple[_Points, NDArray[np.int32]]]:
    """Return convex hulls of a mesh's parts as corners ``(n, 3)`` and triangles ``(m, 3)``; empty if it has no volume.

    Parts are those of an OBJ file, of which Bullet makes a hull each; of other files, Bullet's reader gives the points.
    """
    parts = list(_obj_parts(path)) if path.suffix.lower() == ".obj" else [_points_by_bullet(path)]
    return [hull for part in parts if (hull := _hull(part)) is not None]


def _hull(points: _Points) -> tuple[_Points, NDArray[np.int32]] | None:
    from scipy.spatial import ConvexHull, QhullError

    if len(points) < 4 or not np.isfinite(points).all():
        return None
    try:
        corners = points[np.sort(ConvexHull(points).vertices)]
        if len(corners) > MOST_POINTS:
            corners = corners[_farthest(corners)]
        hull = ConvexHull(corners)
    except QhullError:
        return None
    return hull.points, _outward(hull)


def _farthest(corners: _Points) -> NDArray[np.int64]:
    """Choose the corners that are farthest in ``MOST_POINTS`` directions, evenly spread, along and across the mesh."""
    number = np.arange(MOST_POINTS)
    z, angle = 1 - (2 * number + 1) / MOST_POINTS, number * math.pi * (3 - math.sqrt(5))
    level = np.sqrt(1 - z * z)
    directions = np.column_stack([level * np.cos(angle), level * np.sin(angle), z])
    axes = np.vstack([np.eye(3), -np.eye(3)])
    directions = np.vstack([axes, directions])[:MOST_POINTS]
    scaled = (corners - corners.mean(axis=0)) / np.maximum(np.ptp(corners, axis=0), 1e-9)
    return np.unique(np.argmax(scaled @ directions.T, axis=0))


def _outward(hull: object) -> NDArray[np.int32]:
    """Triangles of a hull whose corners go round counterclockwise, seen from outside."""
    triangles, points = np.array(hull.simplices), hull.points  # type: ignore[attr-defined]
    a, b, c = (points[triangles[:, k]] for k in range(3))
    inward = np.einsum("ij,ij->i", np.cross(b - a, c - a), hull.equations[:, :3]) < 0  # type: ignore[attr-defined]
    triangles[inward] = triangles[inward][:, ::-1]
    return triangles


def _obj(hulls: Sequence[tuple[_Points, NDArray[np.int32]]]) -> str:
    lines, first = [], 1
    for number, (points, triangles) in enumerate(hulls):
        lines.append(f"o hull{number}")
        lines += [f"v {x:.6g} {y:.6g} {z:.6g}" for x, y, z in points.tolist()]
        lines += [f"f {a} {b} {c}" for a, b, c in (triangles + first).tolist()]
        first += len(points)
    return "\n".join(lines) + "\n"


def _obj_parts(path: Path) -> Iterator[_Points]:
    """Corners of each of an OBJ file's objects and groups."""
    if path.stat().st_size > _MOST_OBJ:
        return
    points: list[list[float]] = []
    used: set[int] = set()
    with path.open("rb") as file:
        for line in [*file, b"o end"]:
            word, *rest = line.split() or [b""]
            if word == b"v":
                points.append(_floats(rest[:3]))
            elif word == b"f":
                used |= {_index(corner, len(points)) for corner in rest}
            elif word in {b"o", b"g"} and used:
                yield np.array([points[index] for index in sorted(used) if 0 <= index < len(points)])
                used = set()


def _floats(words: Sequence[bytes]) -> list[float]:
    try:
        x, y, z = map(float, words)
    except ValueError:
        return [math.nan] * 3
    return [x, y, z]


def _index(corner: bytes, count: int) -> int:
    number = corner.split(b"/")[0]
    if not number.lstrip(b"-").isdigit():
        return -1
    return int(number) - 1 if int(number) > 0 else count + int(number)


def _points_by_bullet(path: Path) -> _Points:
    """Corners of the hull that Bullet makes of a mesh; none if it cannot read it."""
    client = pybullet.connect(pybullet.DIRECT)
    try:
        # Bullet remembers files by their names.
        pybullet.setPhysicsEngineParameter(enableFileCaching=0, physicsClientId=client)
        with tempfile.TemporaryDirectory(prefix="es-envs-mesh-") as folder:
            file, copy = Path(folder, "mesh.urdf"), Path(folder, f"mesh{path.suffix.lower()}")
            shutil.copyfile(path, copy)
            file.write_text(
                '<robot name="mesh"><link name="mesh"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" '
                f'ixy="0" ixz="0" iyz="0"/></inertial><collision><geometry><mesh filename="{copy.name}"/></geometry>'
                "</collision></link></robot>",
                encoding="utf-8",
            )
            try:
                with captured_output():
                    body = pybullet.loadURDF(
                        str(file), flags=pybullet.URDF_IGNORE_VISUAL_SHAPES, physicsClientId=client
                    )
                    count, points = pybullet.getMeshData(body, -1, physicsClientId=client)
            except pybullet.error:
                return np.zeros((0, 3))
        return np.array(points, np.float64).reshape(count, 3)
    finally:
        pybullet.disconnect(client)
