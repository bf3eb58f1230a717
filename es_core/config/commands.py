"""Commands to be copied into a shell: those that would make or continue a run."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import es_envs
from es_core.config.given import is_left_open
from es_core.config.keywords import to_keywords
from es_core.config.objects import given_objects
from es_core.config.strategy_defaults import keeps_repertoire
from es_core.config.train_config import TrainConfig, option_fields
from es_core.config.trust import require_trusted
from es_core.formatting import shell_line


def default_settings(config: TrainConfig) -> TrainConfig:
    """Return what ``train`` would take for the same environment, strategy and fitness.

    Raises:
        UnknownEnvError: the environment is not installed.
        ValueError, PluginError: it cannot be used as it is.
    """
    return TrainConfig.for_env(config.env_id, **_decisive_settings(config))


def changed_settings(config: TrainConfig) -> dict[str, Any]:
    """The fields of a config, as JSON holds them, that differ from the defaults.

    Raises:
        UnknownEnvError, ValueError, PluginError: as for ``default_settings``.
    """
    here, default = config.to_json(), default_settings(config).to_json()
    if any(here[name] not in {None, default[name]} for name in ("max_steps", "max_episodes")):
        default["generations"] = None  # unless they are given, too
    chosen = {*config.decided, "engine", "device"}  # by the run, as one with default settings would, too
    changed = {
        field.name: here[field.name]
        for field in option_fields()
        if here[field.name] != default[field.name]
        and not (field.name in chosen and is_left_open(field.name, default[field.name]))
    }
    if config.schedule_generations == config.generations:
        changed.pop("schedule_generations", None)
    return changed


def chosen_settings(config: TrainConfig) -> dict[str, Any]:
    """Arguments of ``train`` that make this config; values as JSON holds them.

    Raises:
        UnknownEnvError, ValueError, PluginError: as for ``default_settings``.
    """
    return to_keywords({**_decisive_settings(config), **changed_settings(config)})


def train_command(config: TrainConfig, directory: str | os.PathLike[str], *, trusted: bool, **changed: Any) -> str:
    """The command that begins a run with the settings of another one.

    Args:
        config: the other run's.
        directory: the other run's.
        trusted: see ``run_command``.
        **changed: settings in the place of the other one's: numbers, and True for a flag.

    Raises:
        UnknownEnvError, ValueError, PluginError: as for ``default_settings``.
    """
    initial = Path(directory) / "initial.safetensors"
    if only_in_script(config):
        given = given_objects(config)
        arguments = {**chosen_settings(config), **changed}
        if initial.exists():
            arguments["initial"] = str(initial)
        if config.vector_envs is not None:
            arguments["pool"] = "vector"
        written = {name: repr(value) for name, value in arguments.items()} | given
        env = written.pop("env", repr(config.env_id))
        return f"train({', '.join([env, *(f'{name}={value}' for name, value in written.items())])})"
    trust = _trust(config, trusted=trusted)
    words = [*_program(trust), "train", "--config", str(Path(directory) / "config.json")]
    if initial.exists():
        words += ["--initial", str(initial)]
    if config.vector_envs is not None:
        words += ["--pool", "vector"]
    words += _option_words(changed)
    return shell_line([*words, *trust])


def _option_words(options: Mapping[str, int | float | str | Sequence[int]]) -> list[str]:
    """Options as words of a command; True is that of a flag."""
    values = {
        name: ",".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
        for name, value in options.items()
    }
    return [word for name, value in values.items() for word in (f"--{name.replace('_', '-')}", value) if word != "True"]


def run_command(
    verb: str,
    config: TrainConfig,
    directory: str | os.PathLike[str],
    *,
    trusted: bool,
    **options: int | str | Sequence[int],
) -> str:
    """Return the command that does something with a run: "resume", "evaluate", "record", "report", "replay", "watch".

    Args:
        verb: what.
        config: of the run.
        directory: of the run.
        trusted: the reader of the command has made the run, or vouches for it: where its files name a module outside
            the installed plugins, the command says so. Of anybody else's run it must not.
        **options: further ones; True for one without a value, several numbers for a list.
    """
    trust = _trust(config, trusted=trusted)
    if verb == "resume" and config.vector_envs is not None:
        options["pool"] = "vector"
    if only_in_script(config):
        given = [f"{name}={value!r}" for name, value in options.items()]
        objects = [] if verb == "report" else [f"{name}={value}" for name, value in given_objects(config).items()]
        opening = ", ".join([repr(str(directory)), *(["trust=True"] if trust else []), *objects])
        if verb in {"replay", "watch"}:
            run = f"Run.open({opening})" if objects else opening
            return f"es_core.{verb}({', '.join([run, *given])})"
        film = ["'film.mp4'"] if verb == "record" else []
        return f"Run.open({opening}).{verb}({', '.join([*film, *given])})"
    return shell_line([*_program(trust), verb, str(directory), *_option_words(options), *trust])


def _program(trust: Sequence[str]) -> list[str]:
    """The program's name; a module outside the installed plugins may be in the current folder, where Python looks."""
    return ["python", "-m", "es_core"] if trust else ["es-envs"]


def _trust(config: TrainConfig, *, trusted: bool) -> list[str]:
    """The option without which a command refuses the names of a config that the reader trusts."""
    try:
        require_trusted(config, trust=False, where="")
    except (es_envs.UnknownEnvError, es_envs.PluginError):
        return []  # as far as can be seen here
    except ValueError:
        return ["--trust-names"] if trusted else []
    return []


def only_in_script(config: TrainConfig) -> bool:
    """Return True if no command can make the run: a script has registered its environment, or given it an object."""
    env_id = config.env_id
    registered = env_id in es_envs.env_ids() and es_envs.definition(env_id).plugin is None
    return registered or bool(given_objects(config))


def _decisive_settings(config: TrainConfig) -> dict[str, Any]:
    """The settings on which the defaults of others depend."""
    default = TrainConfig.for_env(config.env_id)
    names = {"strategy", "fitness"} - {*config.decided}
    settings = {
        name: getattr(config, name) for name in sorted(names) if getattr(config, name) != getattr(default, name)
    }
    if keeps_repertoire(config.strategy) and "ranges" in config.strategy_options:  # the environment may name none
        settings["strategy_options"] = {"ranges": config.strategy_options["ranges"]}
    return settings
