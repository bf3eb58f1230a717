"""Files of meshes, read just far enough to say what is wrong with them."""

import re
import struct
import tempfile
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from es_envs.cache import user_cache

READABLE = {".obj", ".stl", ".dae", ".cdf", ".vtk"}
"""Endings of the meshes that Bullet reads."""
_HEAD = 2_000_000  # bytes of a mesh of text that are looked at
_MOST_TRIANGLES = 400_000
_MOST_CONVERTED = 100_000_000  # bytes of a mesh


def why_unreadable(path: Path) -> str:
    """Say why Bullet cannot read a mesh; empty if it can, as far as one sees from its first bytes."""
    if path.suffix.lower() not in READABLE:
        return f"is of a format that Bullet does not read ({path.suffix or 'no ending'}; it reads .obj, .stl and .dae)"
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except OSError as error:
        return f"cannot be opened ({error.strerror})"
    if not head:
        return "is empty"
    if head.startswith(b"version https://git-lfs"):
        return "is a pointer of Git LFS, not the mesh itself (`git lfs pull` fetches it)"
    return ""


def converted(path: Path) -> Path | None:
    """Convert a mesh to an OBJ file in the user's cache; None if trimesh is not installed or cannot read it."""
    cache = user_cache()
    if path.suffix.lower() in READABLE or find_spec("trimesh") is None or cache is None:
        return None
    with suppress(OSError):
        if path.stat().st_size > _MOST_CONVERTED:
            return None
        copy = cache / "meshes" / f"{sha256(path.read_bytes()).hexdigest()[:32]}.obj"
        if not copy.exists():
            text = _as_obj(path)
            if text is None:
                return None
            copy.parent.mkdir(parents=True, exist_ok=True)
            # Complete or not there at all, whatever happens meanwhile; what is left of it goes, too.
            with tempfile.TemporaryDirectory(dir=copy.parent) as folder:
                (Path(folder) / copy.name).write_text(text, encoding="utf-8")
                (Path(folder) / copy.name).replace(copy)
        return copy
    return None


def _as_obj(path: Path) -> str | None:
    import trimesh

    try:
        mesh = trimesh.load(path, force="mesh")
        text: str = mesh.export(file_type="obj", include_texture=False)
    except Exception:  # noqa: BLE001  (whatever its many readers raise for a strange file)
        return None
    return text if "\nf " in text else None


def extent(path: Path) -> float | None:
    """Return the largest side of a mesh's bounding box, in the file's unit [m, unless it says another]."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
            if path.suffix.lower() == ".stl" and not _is_text(head):
                count = min(struct.unpack("<I", head[80:84])[0], _MOST_TRIANGLES) if len(head) >= 84 else 0
                file.seek(84)
                data = file.read(50 * count)
                rows = np.frombuffer(data[: len(data) // 50 * 50], np.uint8).reshape(-1, 50)
                points = np.ascontiguousarray(rows[:, 12:48]).view("<f4").reshape(-1, 3).astype(float)
                return _largest(points)
    except OSError:
        return None
    pattern = {".stl": rb"^\s*vertex\s+(.*)$", ".obj": rb"^v\s+(.*)$"}.get(path.suffix.lower())
    if pattern is None:
        return None
    rows_of_text = [match.split()[:3] for match in re.findall(pattern, head, re.MULTILINE)[:-1]]
    try:
        return _largest(np.array([[float(number) for number in row] for row in rows_of_text if len(row) == 3]))
    except ValueError:
        return None


def is_y_up(path: Path) -> bool:
    """Return True for a Collada file which says that y points up."""
    if path.suffix.lower() != ".dae":
        return False
    try:
        with path.open("rb") as file:
            return b"<up_axis>Y_UP" in file.read(20_000)
    except OSError:
        return False


def _is_text(head: bytes) -> bool:
    return head.startswith(b"solid") and b"facet" in head[:2000]


def _largest(points: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]") -> float | None:
    if not points.size or not np.isfinite(points).all():
        return None
    return float(np.ptp(points, axis=0).max())
