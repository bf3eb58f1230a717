"""Installed distributions, read one by one, so that one whose files are broken hides no other."""

import importlib.metadata
import inspect
import re
from contextlib import suppress
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path


def entry_points(group: str) -> tuple[list[EntryPoint], dict[str, str]]:
    """Entry points of a group, and by name of their distribution the errors of those that cannot be read.

    A distribution is left out if its file of entry points cannot be read, and does not name the group.
    """
    found: list[EntryPoint] = []
    errors: dict[str, str] = {}
    seen = set[str]()
    for each in importlib.metadata.distributions():
        folder = _folder(each)
        if (name := normalized(_name_in(folder))) in seen:  # of two, Python imports the first
            continue
        seen.add(name)
        try:
            found += each.entry_points.select(group=group)
        except Exception as error:  # noqa: BLE001  (whatever parsing it raises)
            file = Path(str(each.locate_file("")), folder, "entry_points.txt")
            with suppress(OSError):
                if group.encode() in file.read_bytes():
                    errors[name_of(each)] = f"{file} cannot be read: {type(error).__name__}: {error}"
    return found, errors


def name_of(found: Distribution) -> str:
    """Name of a distribution; that of its folder if its metadata cannot be read, or has none."""
    with suppress(Exception):
        if name := found.metadata["Name"]:
            return name
    return _name_in(_folder(found))


def normalized(name: str) -> str:
    """A distribution's name as PyPI compares it, whatever its case and separators."""
    return re.sub(r"[-_.]+", "-", name).lower()


def version_of(found: Distribution) -> str:
    """Version of a distribution; empty if its metadata cannot be read, or has none."""
    with suppress(Exception):
        return found.metadata["Version"] or ""
    return ""


def distributions_of(package: str) -> set[str]:
    """Names of the distributions that install a top-level package or module, as far as they can be read."""
    names = set()
    for each in importlib.metadata.distributions():
        with suppress(Exception):
            declared = (each.read_text("top_level.txt") or "").split()
            if package in (declared or _top_level(each, package)):
                names.add(each.metadata["Name"])
    return names


def _top_level(found: Distribution, package: str) -> set[str | None]:
    """Top-level packages and modules of a distribution, or none if its list of files has nothing like ``package``."""
    record = found.read_text("RECORD")
    if record is not None and package not in record:  # to parse every list would take longer than a small run
        return set()
    files = found.files or ()
    return {file.parts[0] if len(file.parts) > 1 else inspect.getmodulename(file) for file in files}


def _name_in(folder: str) -> str:
    return re.sub(r"(-.*)?(\.(dist|egg)-info)?$", "", folder)


def _folder(found: Distribution) -> str:
    return str(getattr(getattr(found, "_path", None), "name", "a distribution"))
