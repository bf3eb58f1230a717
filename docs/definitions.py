"""The pages that definitions tell: environments, settings (``TrainConfig``) and commands (the parser of arguments).

Called by conf.py whenever the site is built.
"""

import argparse
import contextlib
import re
from dataclasses import MISSING
from pathlib import Path

from PIL import Image

import es_envs
from es_core.cli import make_parser
from es_core.config.keywords import to_keywords
from es_core.config.strategy_defaults import STRATEGY_DEFAULTS, defaults_of
from es_core.config.train_config import option_fields
from es_core.reports.data_sheet import data_sheet, space_text
from es_envs import EnvDefinition, registry

ENVIRONMENTS = """# Environments

What `es-envs list` shows with the plugins of this repository. In addition to these every id that Gymnasium knows works,
and those of any plugin that is installed. `es-envs show ID` prints what stands here.

What evolution reaches on them: [a table](../results/strategies.md).
"""
SETTINGS = """# Settings

These settings change the numbers of a run. They are keywords of `train` and options of `es-envs train`
(`learning_rate` is `--learning-rate`; `es-envs train --help-all` lists them). The defaults below are overridden by the
strategy's, then by the environment's recommendations, then by yours.
"""
COMMANDS = """# Command line

`es-envs --help` and `es-envs COMMAND --help` print the same information. `python -m es_core` runs the same program.
Results go to stdout, everything else to stderr. The exit code is 0, 1 if the command failed, 2 for wrong usage, 130
after Ctrl-C and 143 after SIGTERM.

Every command takes `--quiet`, and most take `--json`, for programs that read the result. `train`, `tune` and `bench`
take all of the [settings](settings.md) as options, too.
"""
SEED = 1


def write(folder: Path) -> None:
    """Write environments.md with its pictures, of our own plugins, settings.md and commands.md."""
    folder.mkdir(exist_ok=True)
    environments = [ENVIRONMENTS, *(section(definition, folder) for definition in ours())]
    (folder / "environments.md").write_text("\n".join(environments), encoding="utf-8")
    (folder / "settings.md").write_text(settings(), encoding="utf-8")
    (folder / "commands.md").write_text(commands(), encoding="utf-8")


def ours() -> list[EnvDefinition]:
    """The definitions of this repository's plugins."""
    definitions = map(es_envs.definition, es_envs.env_ids())
    return [definition for definition in definitions if str(definition.entry_point).startswith("es_")]


def section(definition: EnvDefinition, folder: Path) -> str:
    """An environment's part of the page; without picture, spaces and data sheet where its simulator is missing."""
    rows = {
        "fitness": ", ".join(f"`{name}`" for name in definition.fitness_names()),
        "behaviour": f"`{definition.behaviour}`",
        "its ranges": ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in definition.behaviours.items()),
        "step limit": definition.max_episode_steps,
        "solved at": definition.solved_at,
        "recommended": ", ".join(f"`{name}={value}`" for name, value in definition.recommended.items()),
        "evolved policy": f"`es-envs watch {definition.id} --pretrained`" if definition.pretrained else None,
        "scripted policies": ", ".join(f"`{name}`" for name in definition.scripts) or None,
        "plugin": f"`{definition.plugin}`",
    }
    picture, sheet = "", ""
    with contextlib.suppress(es_envs.PluginError), contextlib.closing(definition.build("rgb_array")) as env:
        env.reset(seed=SEED)
        Image.fromarray(env.render()).quantize(64).save(folder / f"{definition.id}.png")
        spaces = {"observations": env.observation_space, "actions": env.action_space}
        rows = {name: f"`{space_text(space)}`" for name, space in spaces.items()} | rows
        rows["can vary (`--randomize`)"] = ", ".join(f"`{name}`" for name in getattr(env.unwrapped, "variations", ()))
        picture = f"![{definition.id} at the start of an episode]({definition.id}.png)\n"
        sheet = data_sheet(env).partition("\n")[2].replace("\n## ", "\n### ").strip()
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items() if value is not None)
    head = [f"## {definition.id}\n", f"{definition.summary}.\n", picture, f"| | |\n|---|---|\n{table}\n", sheet, ""]
    return "\n".join(head)


def settings() -> str:
    """The page about settings, group by group, and what strategies have in place of the defaults."""
    lines = [SETTINGS, "## Task\n"]
    for field in option_fields():
        if field.metadata["group"]:
            lines.append(f"## {field.metadata['group'].capitalize()}\n")
        default = {} if field.default is MISSING else field.default
        for name, value in to_keywords({field.name: default}).items():
            lines.append(f"`{name}` = `{value!r}`\n: {field.metadata['help']}\n")
    lines.append("## Strategies' own defaults\n")
    for strategy in (*STRATEGY_DEFAULTS, *registry.strategies(), *registry.trainers()):
        if not (values := defaults_of(strategy)):
            continue
        lines.append(f"`{strategy}`\n: {', '.join(f'`{name}` = `{value!r}`' for name, value in values.items())}\n")
    return "\n".join(lines)


def commands() -> str:
    """The page about the command line: what each command does, and its arguments."""
    (choices,) = (action.choices for action in make_parser()._actions if isinstance(action.choices, dict))  # noqa: SLF001
    lines = [COMMANDS]
    for name, command in choices.items():
        command.show_settings()
        arguments = [
            action
            for group in command._action_groups  # noqa: SLF001
            if not (group.title or "").startswith("settings")
            for action in group._group_actions  # noqa: SLF001
            if action.help not in {None, argparse.SUPPRESS} and action.dest not in {"help", "quiet", "json"}
        ]
        positional = [action.metavar for action in command._actions if not action.option_strings]  # noqa: SLF001
        lines += [f"## {name}\n", f"{command.description}\n"]
        lines += [f"```sh\n{' '.join(['es-envs', name, *map(str, positional)])}\n```\n", *map(described, arguments)]
    return "\n".join(lines)


def described(argument: argparse.Action) -> str:
    """An argument, and what its help says."""
    value = "" if argument.nargs == 0 else f" {argument.metavar or argument.dest.upper()}"
    names = [f"{flag}{value}" for flag in argument.option_strings] or [str(argument.metavar)]
    # An option that the text mentions: two dashes would become one.
    text = re.sub(r"(?<!\S)(--[\w-]+)", r"`\1`", str(argument.help) % vars(argument))
    return f"{', '.join(f'`{name}`' for name in names)}\n: {text}\n"
