"""Requirements of distributions that are not installed, and where this Python gets Bullet from."""

import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec

from es_envs.distributions import distributions_of, version_of

BULLET = ("pybullet", "pybullet-arm64")
"""Distributions that contain the module pybullet; two of them overwrite each other's files."""

_WHEELS = ((3, 11), (3, 13))  # the Pythons, from and to, for which PyPI has wheels of one of them
_SYSTEMS = {"linux": "x86_64", "win32": "AMD64", "darwin": ""}  # and the processors; empty: all


def missing(name: str, extra: str = "", seen: frozenset[tuple[str, str]] = frozenset()) -> Iterator[str]:
    """Requirements of a distribution that are missing, or installed in another version, including those of extras.

    Bullet is not missing where the module pybullet can be found, whichever distribution contains it.

    Args:
        name: the distribution's name.
        extra: an extra whose requirements are added; empty: none.
        seen: pairs of name and extra to leave out, since they are being checked already.

    Raises:
        PackageNotFoundError: the distribution itself is not installed.
        InvalidRequirement: a requirement cannot be parsed.
        Exception: the distribution's metadata cannot be read.
    """
    from packaging.requirements import Requirement

    seen |= {(name, extra)}
    if (name, extra) == ("es-envs", "bullet") and find_spec("pybullet") is None:
        yield BULLET[0]  # whatever the markers say: there may be no wheel
    for requirement in map(Requirement, distribution(name).requires or ()):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        if requirement.name in BULLET:
            if find_spec("pybullet") is None and name != "es-envs":
                yield BULLET[0]
            continue
        try:
            version = version_of(distribution(requirement.name))
        except PackageNotFoundError:
            version = ""
        if not (version and requirement.specifier.contains(version, prereleases=True)):
            yield f"{requirement.name}{requirement.specifier}"
        for each in sorted(requirement.extras) if version else ():
            if (requirement.name, each) not in seen:
                yield from missing(requirement.name, each, seen)


def bullet_distributions() -> list[str]:
    """Names of the installed distributions that contain the module pybullet: one, or else something is wrong."""
    return sorted(distributions_of("pybullet"))


def has_wheels() -> bool:
    """Return True if PyPI has wheels of Bullet for this Python on this machine, as the extra ``bullet`` knows."""
    machine = platform.machine()
    return sys.version_info[:2] <= _WHEELS[1] and _SYSTEMS.get(sys.platform, f"not {machine}") in {"", machine}


def how_to_get_bullet() -> str:
    """Say how this Python gets Bullet, for messages about a missing one: a command, or a Python that has wheels."""
    (oldest, newest), here, machine = _WHEELS, sys.version_info[:2], platform.machine()
    if has_wheels():
        return "`pip install 'es-envs[bullet]'` installs it"
    first, last = (".".join(map(str, version)) for version in (oldest, newest))
    conda = "`conda install -c conda-forge pybullet` installs it in a conda environment"
    if here <= newest:
        return f"PyPI has no wheels of it for {sys.platform} on {machine}; {conda}"
    return (
        f"PyPI has wheels of it for Python {first} to {last}, and this is {'.'.join(map(str, here))}: use Python "
        f"{last} (`uv venv --python {last}` makes an environment with it); or {conda}"
    )
