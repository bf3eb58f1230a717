"""Where a run was computed: system, processor, versions."""

import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import es_envs
from es_core.machine import usable_cores
from es_envs import EnvDefinition


def description() -> dict[str, str | int]:
    """The system, processor, usable cores and Python, for people."""
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": usable_cores(),
        "python": platform.python_version(),
    }


def versions(*distributions: str) -> dict[str, str]:
    """Which of the distributions are installed here."""
    found = {}
    for name in distributions:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def requirements(definition: EnvDefinition) -> tuple[list[str], list[str]]:
    """The distributions on which the numbers of a run depend, and those of them that are this project's and a plugin's.

    Args:
        definition: of its environment.
    """
    own = ["es-envs", *(each.distribution for each in es_envs.plugins() if each.name == definition.plugin)]
    return [*own, "gymnasium", "numpy", "pybullet", "torch"], own


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
