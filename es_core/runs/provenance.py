"""Provenance of a run: system, processor, versions."""

import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from es_core.machine import usable_cores
from es_envs import EnvDefinition
from es_envs.distributions import version_of
from es_envs.registry import distribution_of
from es_envs.requirements import BULLET, bullet_distributions


def description() -> dict[str, str | int]:
    """System, processor, usable cores and Python of this machine, for people."""
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": usable_cores(),
        "python": platform.python_version(),
    }


def versions(*distributions: str) -> dict[str, str]:
    """Versions of those distributions that are installed; "pybullet" is whichever contains that module."""
    found = {}
    for name in distributions:
        for each in bullet_distributions() if name == BULLET[0] else [name]:
            with suppress(PackageNotFoundError):
                found[each] = version_of(distribution(each))
    return found


def requirements(definition: EnvDefinition) -> tuple[list[str], list[str]]:
    """Distributions that a run's numbers depend on, and those of them that are this project's and a plugin's.

    Args:
        definition: definition of the run's environment.
    """
    own = ["es-envs", *filter(None, [distribution_of(definition.plugin)])]
    return [*own, "gymnasium", "numpy", BULLET[0], "torch"], own


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
