"""Environments, fitness functions and policies that the caller gives as objects: their names in a config."""

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import es_envs
from es_core.config.train_config import BITS, TrainConfig
from es_envs import EnvDefinition, import_path
from es_envs.code_hash import code_hash, is_comparable, register_object

_FIELDS = {"env_id": "env", "fitness": "fitness", "policy": "policy"}
"""The fields of a config that may name an object, and the arguments that take it."""


def resolved(env: str | TrainConfig | Callable[..., Any], config_fields: Mapping[str, Any]) -> TrainConfig:
    """Return the config of a new run.

    Args:
        env: an id, a complete config, or the class or factory of an environment, which this process then registers.
            If no step limit is given, one environment is made to get it from its spec.
        config_fields: settings besides an id, class or factory.

    Raises:
        UnknownEnvError, PluginError: see ``TrainConfig.for_env``.
        TypeError: there is no such field, or env is something else.
        ValueError: a setting is invalid, or an object cannot be copied to another process.
    """
    if isinstance(env, TrainConfig):
        if config_fields:
            raise TypeError(f"a TrainConfig is complete: use dataclasses.replace to set {', '.join(config_fields)}")
        return replace(env.resolved(), bits=BITS, repeatable=None)  # an older run's config is a new run's, too
    if not (isinstance(env, str) or callable(env)):
        raise TypeError(
            f"env must be an id, a TrainConfig, or a class or function that makes an environment; got {env!r}. "
            "Each worker makes its own environment"
        )
    env_id = env if isinstance(env, str) else _define(env, config_fields, _env_id(env))
    return TrainConfig.for_env(env_id, **config_fields)


def provide(
    config: TrainConfig,
    *,
    env: Callable[..., Any] | None = None,
    fitness: Callable[..., Any] | None = None,
    policy: Callable[..., Any] | None = None,
    allow_changed_code: bool = False,
) -> None:
    """Register the objects that a config names, which the caller gives again.

    Args:
        config: the run's config.
        env: the environment's class or factory, if the config names one.
        fitness: the fitness function, if the config names one.
        policy: the class of the policy, if the config names one.
        allow_changed_code: allow objects with other code than the config's, with a warning. Names that older versions
            of es-envs gave do not show whether the code is another: such objects are allowed with a warning, too.

    Raises:
        ValueError: the config names no such object, or one with other code, or it cannot be copied.
    """
    for field, given in zip(_FIELDS, (env, fitness, policy), strict=True):
        if given is None:
            continue
        stored = str(getattr(config, field))
        name = _env_id(given) if field == "env_id" else register_object(given)
        if name != stored:
            if not is_object(stored):
                raise ValueError(f"{_FIELDS[field]}: the run has {field}={stored!r}, got {name!r}; leave it out")
            message = f"{_FIELDS[field]}: the run began with the code of {stored!r}, but {name!r} has other code"
            if not is_comparable(stored) and _name_in_script(name) == _name_in_script(stored):
                message = (
                    f"{_FIELDS[field]}: an older version of es-envs named {stored!r}, in a way that does not show "
                    f"whether {name!r} has other code"
                )
            elif not allow_changed_code:
                raise ValueError(f"{message}; to use it nevertheless, pass allow_changed_code=True")
            warnings.warn(f"{message}; it is used nevertheless", RuntimeWarning, stacklevel=4)
        if field == "env_id":
            _define(given, config.to_json(), stored)
        elif name != stored:
            register_object(given, stored)


def given_objects(config: TrainConfig) -> dict[str, str]:
    """Names in the script of the objects that a config names, by the arguments that take them.

    An object without a name has that of its argument, so that what is printed is Python.
    """
    found = {argument: str(getattr(config, field)) for field, argument in _FIELDS.items()}
    return {argument: _name_in_script(name) or argument for argument, name in found.items() if is_object(name)}


def is_object(name: str) -> bool:
    """Return True if a field of a config names an object that was given to ``train``."""
    return import_path.is_local(name) or es_envs.registry.is_local(name)


def pack_objects(definition: EnvDefinition, *configs: TrainConfig) -> bytes:
    """Pack the objects that these name for a child of this process, which must ``import_path.receive`` them first.

    Raises:
        ValueError: this process was not given one of them.
    """
    return import_path.pack(_names(definition, *configs))


def require_importable(definition: EnvDefinition, config: TrainConfig) -> None:
    """Refuse objects that only children of this process can get.

    Raises:
        ValueError: there is such an object; the message names the first.
    """
    for name in filter(import_path.is_local, _names(definition, config)):
        raise ValueError(
            f"pool='ray': {name!r} is defined in the running script or notebook, but other machines import "
            "environments, fitness functions and policies by name: put it into its own module (a .py file that all "
            "nodes have) and import it from there, or use pool='local'"
        )


def _names(definition: EnvDefinition, *configs: TrainConfig) -> list[str]:
    return [str(definition.entry_point), *(name for config in configs for name in (str(config.fitness), config.policy))]


def _env_id(env: Callable[..., Any]) -> str:
    name = re.sub(r"[^A-Za-z0-9_.]+", "_", getattr(env, "__qualname__", type(env).__qualname__)).strip("_.")
    return f"local/{name or 'env'}-{code_hash(env)}-v0"


def _define(env: Callable[..., Any], config_fields: Mapping[str, Any], env_id: str) -> str:
    limit = None
    if config_fields.get("max_episode_steps") is None:
        made = env(**(config_fields.get("env_kwargs") or {}))
        limit = getattr(getattr(made, "spec", None), "max_episode_steps", None)
        getattr(made, "close", lambda: None)()
    definition = EnvDefinition(
        id=env_id,
        entry_point=register_object(env),
        max_episode_steps=limit,
        summary="given to train() as an object",
        override=True,  # the same one again, or one with other code
    )
    es_envs.register(definition)
    return env_id


def _name_in_script(name: str) -> str:
    """The name of an object where a script defines it, such as "make" within "main.<locals>.make"; "" of a lambda."""
    bare = es_envs.registry.plain_id(name).rpartition(":")[2].partition("#")[0]
    parts = re.split(r"\.(?:<locals>|_locals_)\.", bare)[-1].split(".")
    return ".".join(parts) if all(part.isidentifier() and "lambda" not in part for part in parts) else ""
