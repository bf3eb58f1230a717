"""Robots by name: those of the package robot_descriptions, which knows where their files are, and fetches them."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

_PACKAGE = "robot_descriptions"
_NAME = re.compile(r"[a-z0-9_]+_description")
_FILES = ("URDF_PATH", "XACRO_PATH", "MJCF_PATH")


@dataclass(frozen=True)
class Description:
    """Where a robot's files are.

    Attributes:
        file: its model.
        packages: folders of packages by name.
        arguments: those of a xacro file.
    """

    file: Path
    packages: Mapping[str, Path]
    arguments: Mapping[str, str]


def find_description(name: str) -> Description | None:
    """Find a robot such as ``panda_description``; None if this is no such name.

    The package clones the robot's repository with git, once: into ROBOT_DESCRIPTIONS_CACHE, or
    ~/.cache/robot_descriptions.

    Raises:
        FileNotFoundError: the package is not installed, does not know the robot, or cannot fetch it.
    """
    if not _NAME.fullmatch(name):
        return None
    if find_spec(_PACKAGE) is None:
        raise FileNotFoundError(
            f"there is no file {name!r}. If it is a robot of the package {_PACKAGE}: `pip install 'es-envs[robots]'`"
        )
    if find_spec(f"{_PACKAGE}.{name}") is None:
        folder = Path(find_spec(_PACKAGE).origin or "").parent  # type: ignore[union-attr]
        near = difflib.get_close_matches(name, [file.stem for file in folder.glob("[a-z]*_description.py")], n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise FileNotFoundError(f"there is no file {name!r}, and {_PACKAGE} has no such robot{hint}")
    try:
        module = import_module(f"{_PACKAGE}.{name}")
    except Exception as error:  # git is missing, there is no network, no room on the disk
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
        raise FileNotFoundError(f"{_PACKAGE} could not fetch {name!r}: {reason}") from error
    given = vars(module)
    file = next((given[key] for key in _FILES if key in given), None)
    if file is None:
        raise FileNotFoundError(f"{_PACKAGE} names no model of {name!r} that could be read")
    folders = {Path(given["PACKAGE_PATH"]).name: given["PACKAGE_PATH"], **given.get("XACRO_PACKAGE_PATHS", {})}
    return Description(
        Path(file), {package: Path(folder) for package, folder in folders.items()}, given.get("XACRO_ARGS", {})
    )
