"""Environments: plugins, their definitions, and fitness."""

from importlib.resources import files
from pathlib import Path

from es_envs.arguments import ArgumentError
from es_envs.definition import EnvDefinition, PluginError
from es_envs.episode import Episode
from es_envs.hookspecs import hookimpl
from es_envs.registry import (
    PluginInfo,
    UnknownEnvError,
    definition,
    env_ids,
    make,
    plugins,
    register,
    register_with_gymnasium,
)

__all__ = [
    "ArgumentError",
    "EnvDefinition",
    "Episode",
    "PluginError",
    "PluginInfo",
    "UnknownEnvError",
    "definition",
    "env_ids",
    "hookimpl",
    "make",
    "plugins",
    "register",
    "register_with_gymnasium",
    "urdf_path",
]


def urdf_path(name: str) -> Path:
    """Path of one of the packaged models, for example ``balancing_plate.urdf``.

    Raises:
        FileNotFoundError: there is no such model.
    """
    path = Path(str(files("es_envs.urdf"))) / name
    if not path.is_file():
        present = sorted(file.name for file in path.parent.glob("*.urdf"))
        raise FileNotFoundError(f"no model {name!r} in {path.parent}: there are {', '.join(present)}")
    return path
