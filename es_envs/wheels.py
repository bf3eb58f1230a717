"""Where a Python gets Bullet from. ``install.py`` asks before anything is installed, hence no import of a package."""

import platform
import sys

BULLET = ("pybullet", "pybullet-arm64")
"""Distributions that contain the module pybullet; two of them overwrite each other's files."""

_WHEELS = ((3, 11), (3, 13))  # the Pythons, from and to, for which PyPI has wheels of one of them
_SYSTEMS = {"linux": "x86_64", "win32": "AMD64", "darwin": ""}  # and the processors; empty: all


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
