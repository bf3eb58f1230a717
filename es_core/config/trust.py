"""Trust in names: which names in files may be imported, and their objects called."""

import inspect
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import es_envs
from es_core.config.given import OBJECTS
from es_core.config.train_config import TrainConfig
from es_envs import EnvDefinition, import_path
from es_envs.distributions import distributions_of
from es_envs.fitness import FITNESSES

_ARGUMENTS = {"env_kwargs", "policy_options"}  # which a constructor may open
_IF_TRUSTED = "If you trust the file, pass trust=True (on the command line: --trust-names)"


def require_trusted(config: TrainConfig, *, trust: bool, where: object, vouched: Collection[str] = ()) -> EnvDefinition:
    """Refuse names from a file that would import a module that was not installed as a plugin, or that are files here.

    A file must not choose what code runs, or what is read: it may name registered environments, fitness functions of
    theirs or of ``es_envs.fitness``, and functions and classes defined by distributions that register a plugin. An
    object that was given to ``train`` is never imported: this process has it if the caller has given it again.

    Args:
        config: config as read from the file.
        trust: True if the caller vouches for the file.
        where: the file, for the message.
        vouched: fields whose values the caller has given.

    Returns:
        The definition of the config's environment.

    Raises:
        ValueError: a name is not trusted.
        UnknownEnvError: the environment is not installed.
    """
    if not trust and "env_id" not in vouched and ":" in config.env_id:  # before it is looked up, which imports it
        raise _untrusted("env_id", config.env_id, where)
    definition = es_envs.definition(config.env_id)
    fitness = config.fitness or ""
    names = definition.fitness_names()
    known = {*names, *names.values(), *FITNESSES}
    # All of them: an environment may import what an argument names, as Gymnasium's make does.
    accepted = {"env_id", "strategy", *vouched}  # a strategy is looked up among those of ours and of plugins
    if fitness in known or fitness.startswith("final_info:"):
        accepted.add("fitness")
    if not trust:
        _require_of_plugins(config, [field.name for field in fields(config) if field.name not in accepted], where)
    return definition


def require_trusted_policy(config: TrainConfig, *, where: object) -> None:
    """Refuse a policy from a file that is a module not installed as a plugin.

    Raises:
        ValueError: the policy is not trusted; the message names it.
    """
    _require_of_plugins(config, ["policy", "policy_options"], where)


def _require_of_plugins(config: TrainConfig, keys: Collection[str], where: object) -> None:
    for key in keys:
        for name in _texts(getattr(config, key)):
            if key in OBJECTS and import_path.is_local(name):
                continue
            try:
                refused = ":" in name and not _of_a_plugin(name)
            except (ValueError, ImportError) as error:
                raise ValueError(f"{where} names {key}={name!r}, which cannot be found: {error}") from error
            if refused:
                raise _untrusted(key, name, where)
            if key in _ARGUMENTS and os.path.lexists(name) and not Path(name).is_dir():
                raise ValueError(
                    f"{where} names {key}={name!r}, which is a file here: somebody else's settings must not choose "
                    f"what is read. {_IF_TRUSTED}"
                )


def _untrusted(key: str, name: str, where: object) -> ValueError:
    return ValueError(
        f"{where} names {key}={name!r}, which is not a function or class of an installed plugin; a file must not "
        f"choose what code runs. {_IF_TRUSTED}"
    )


def _texts(value: Any) -> Iterator[str]:
    """All strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in (*value, *value.values()) if isinstance(value, Mapping) else value:
            yield from _texts(item)


def _of_a_plugin(name: str) -> bool:
    """Return True if a plugin's distribution defines the named object; one that it only imports may do anything.

    Raises:
        ValueError: a plugin's module has nothing of that name.
        ImportError: a module of a plugin cannot be imported.
    """
    module, _, attribute = name.partition(":")
    if not _is_module_of_a_plugin(module):
        return False
    if not all(part.isidentifier() for part in attribute.split(".")):
        return True  # an environment's id: Gymnasium imports the module, but calls nothing in it
    target = import_path.load(name)
    defined = inspect.isfunction(target) or inspect.isclass(target)
    return defined and _is_module_of_a_plugin(target.__module__)


def _is_module_of_a_plugin(module: str) -> bool:
    plugins = {plugin.distribution for plugin in es_envs.plugins()}
    return bool(plugins & distributions_of(module.partition(".")[0]))
