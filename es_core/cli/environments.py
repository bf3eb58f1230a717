"""The commands about environments: list, show, plugins, check; and the one about robots' files."""

import argparse
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import es_envs
from es_core.cli import robots
from es_core.cli.arguments import add_command, add_env_id
from es_core.cli.output import command_line, log, print_json, print_result, print_sheet, print_table
from es_core.reports.data_sheet import data_sheet, space_text
from es_envs import registry
from es_envs.closing import closing_env


def add(commands: Any) -> None:
    """Add these commands."""
    add_command(commands, "list", _list, "list the environments that plugins register")
    sub = add_command(commands, "show", _show, "show an environment: settings, spaces, reward")
    add_env_id(sub)
    sub = add_command(commands, "plugins", _plugins, "list the plugins, and the errors of those that do not work")
    sub.add_argument(
        "--strict", action="store_true", help="exit with 1 if a plugin is neither active nor disabled (for CI)"
    )
    robots.add(commands)
    sub = add_command(commands, "check", _check, "test that an environment meets training's requirements")
    add_env_id(sub)


def _list(options: argparse.Namespace) -> None:
    definitions = [es_envs.definition(env_id) for env_id in es_envs.env_ids()]
    rows = [(d.id, d.plugin, d.summary) for d in definitions]
    rows += [(env_id, None, f"CLASH: {clash}") for env_id, clash in registry.clashes().items()]
    if options.json:
        print_json([dict(zip(("id", "plugin", "summary"), row, strict=True)) for row in rows])
        return
    print_table([(env_id, plugin or "", summary) for env_id, plugin, summary in rows], names=0)
    if not rows:
        log("no plugin registers an environment; Gymnasium's ids work, too, such as CartPole-v1")


def _show(options: argparse.Namespace) -> None:
    from es_core.config.train_config import TrainConfig
    from es_core.policies.by_name import make_policy
    from es_core.strategies.defaults import make_plan

    definition = es_envs.definition(options.env_id)
    if options.json:
        print_json(asdict(definition))
        return
    try:
        built = definition.build()
        built.observation_space, built.action_space  # noqa: B018  (it may have none)
    except (AssertionError, AttributeError, LookupError) as error:
        raise es_envs.PluginError(
            f"{definition.label} cannot be made: {type(error).__name__}: {error}; `es-envs check {definition.id}` says "
            "where"
        ) from error
    with closing_env(built, definition.label) as env:
        spaces, sheet = (env.observation_space, env.action_space), data_sheet(env)
        variations = getattr(env.unwrapped, "variations", {})
    policy = make_policy(TrainConfig.for_env(definition.id), *spaces)
    rows = [
        ("id", definition.id),
        ("plugin", definition.plugin or "(none)"),
        ("summary", definition.summary),
        ("entry point", str(definition.entry_point)),
        ("observations", space_text(spaces[0])),
        ("actions", space_text(spaces[1])),
        ("fitness", ", ".join(definition.fitness_names())),
        ("behaviour", str(definition.behaviour)),
        ("its ranges", ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in definition.behaviours.items())),
        ("step limit", str(definition.max_episode_steps or "none")),
        ("solved at", _goal(definition)),
        ("randomize", _settings_text(definition.randomize)),
        ("can vary", ", ".join(variations)),
        ("recommended", _settings_text(definition.recommended)),
        ("chosen", make_plan(policy).why),
        *((f"for {strategy}", _settings_text(settings)) for strategy, settings in definition.recommended_for.items()),
        ("scripts", ", ".join(definition.scripts)),
        ("pretrained", command_line("watch", definition.id, "--pretrained") if definition.pretrained else ""),
    ]
    print_sheet([(name, value) for name, value in rows if value], sheet)


def _goal(definition: es_envs.EnvDefinition) -> str:
    if definition.solved_at is None:
        return "unknown: give --max-steps or --max-episodes"
    return f"{definition.solved_at:g}"


def _settings_text(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _plugins(options: argparse.Namespace) -> int:
    from es_core.cli.examination import plugins

    found = plugins()
    if options.json:
        print_json([asdict(plugin) for plugin in found])
    else:
        print_table([(p.name, p.version, p.distribution, p.status, p.error or _ids(p)) for p in found], names=0)
    return 1 if options.strict and any(plugin.status not in {"active", "disabled"} for plugin in found) else 0


def _ids(plugin: es_envs.PluginInfo) -> str:
    return ", ".join(f"{env_id} (overrides)" if env_id in plugin.overrides else env_id for env_id in plugin.ids)


def _check(options: argparse.Namespace) -> int:
    from es_envs.testing import examine_stepwise

    checks, seen = examine_stepwise(options.env_id), set[str]()
    while True:
        try:
            result = next(checks)
        except StopIteration as end:
            report = end.value
            break
        # What several checks say is printed once.
        text = " ".join((result.message or result.question).split())
        if not options.json and text not in seen:
            print_table([(result.status.ljust(len("skipped")), text)])
        seen.add(text)
    if options.json:
        costs = {name: value for name, value in asdict(report).items() if name.endswith("_microseconds")}
        print_json(
            {**asdict(report), **{name: value if math.isfinite(value) else None for name, value in costs.items()}}
        )
    elif math.isfinite(report.step_microseconds):
        print_result(
            f"a reset takes {report.reset_microseconds:.1f} µs, a step {report.step_microseconds:.1f} µs; "
            f"{_starts(report.distinct_starts)}"
        )
    return 1 if report.faults else 0


def _starts(distinct: int) -> str:
    return "all 8 seeds give the same start" if distinct == 1 else f"8 seeds give {distinct} different starts"
