"""Paths of meshes: what ``package://``, ``model://`` and relative paths lead to."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_ABOVE = 6  # folders above the robot's file in which meshes are sought


@dataclass(frozen=True)
class Found:
    """What became of a path.

    Args:
        path: the file; None if there is none.
        how: how it was found, where that is worth a word.
        as_bullet: True if Bullet would find this file, too.
        looked: the folders in which it was sought.
    """

    path: Path | None
    how: str = ""
    as_bullet: bool = False
    looked: tuple[Path, ...] = ()


def find_package(name: str, file: Path, packages: Mapping[str, Path]) -> Path | None:
    """Find a package: among ``packages``, above ``file``, or where ROS and Gazebo are told to look."""
    return next((folder for folder in _package_folders(name, file, packages) if is_folder(folder)), None)


def _package_folders(name: str, file: Path, packages: Mapping[str, Path]) -> Iterator[Path]:
    if name in packages:
        yield packages[name]
    for folder in file.parents:
        if _declared_name(folder / "package.xml") == name:
            yield folder
    for folder in _listed("AMENT_PREFIX_PATH"):
        yield folder / "share" / name
    for folder in (*_listed("ROS_PACKAGE_PATH"), *_listed("GZ_SIM_RESOURCE_PATH"), *_listed("GAZEBO_MODEL_PATH")):
        yield from (folder / name, folder) if folder.name == name else (folder / name,)


def _listed(variable: str) -> list[Path]:
    return [Path(part) for part in os.environ.get(variable, "").split(os.pathsep) if part]


def _declared_name(manifest: Path) -> str | None:
    if not is_file(manifest):
        return None
    try:
        with manifest.open(encoding="utf-8", errors="replace") as file:
            found = re.search(r"<name>\s*([^<]*?)\s*</name>", file.read(100_000))
    except OSError:
        return None
    return found[1] if found else None


def find(uri: str, file: Path, packages: Mapping[str, Path]) -> Found:  # noqa: PLR0912  (one way after the other)
    """Find the file that a robot's ``file`` names."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        scheme, rest = "", uri
    if scheme not in {"", "file", "package", "model"}:
        return Found(None, looked=())
    rest = rest.replace("\\", "/")
    parts = [part for part in PurePosixPath(rest).parts if part != "/"]
    if not parts:
        return Found(None)
    looked = []
    if scheme in {"package", "model"}:
        for folder in _package_folders(parts[0], file, packages):
            path = folder.joinpath(*parts[1:])
            looked.append(path.parent)
            if is_file(path):
                return Found(path, "", as_bullet=path == _as_bullet(rest, file))
    if below := _as_bullet(rest, file):
        return Found(below, "", as_bullet=True)
    above = list(file.parents)[:_ABOVE]
    if PurePosixPath(rest).is_absolute():
        looked.append(Path(rest).parent)
    looked += [folder.joinpath(*parts[:-1]) for folder in above[:3]]
    for lookup in (_exactly, _in_any_case):
        for dropped in range(len(parts)):
            if dropped == len(parts) - 1:  # a bare name is sought beside the robot only
                above = above[:1]
            for folder in above:
                if other := lookup(folder, parts[dropped:]):
                    return Found(other, f"found at {other}")
        above = list(file.parents)[:_ABOVE]
    return Found(None, looked=tuple(dict.fromkeys(looked)))


def _as_bullet(rest: str, file: Path) -> Path | None:
    """Return what Bullet finds: the path below the robot's folder or one above it."""
    return next((folder / rest for folder in file.parents if is_file(folder / rest)), None)


def _exactly(folder: Path, parts: list[str]) -> Path | None:
    path = folder.joinpath(*parts)
    return path if is_file(path) else None


def _in_any_case(folder: Path, parts: list[str]) -> Path | None:
    for part in parts:
        if part in {".", ".."}:
            folder /= part
            continue
        try:
            names = {entry.lower(): entry for entry in os.listdir(folder)}  # noqa: PTH208  (ends with the folder's name)
        except (OSError, ValueError):
            return None
        if part.lower() not in names:
            return None
        folder /= names[part.lower()]
    return folder if is_file(folder) else None


def is_file(path: Path) -> bool:
    """Return True for a regular file; False, too, for a name that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Return True for a folder; False, too, for a name that no folder can have."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
