"""The command about your own plugins: new."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from es_core.cli.arguments import add_command
from es_core.cli.output import command_line, log, print_json, print_result


def add(commands: Any) -> None:
    """Add this command."""
    sub = add_command(
        commands,
        "new",
        _new,
        "write a plugin to start from: an environment, its fitness and its tests, in a new folder",
    )
    sub.add_argument("name", metavar="NAME", help="name of the distribution and its folder, such as my-rover")
    kind = sub.add_mutually_exclusive_group()
    kind.add_argument(
        "--bullet",
        dest="kind",
        action="store_const",
        const="bullet",
        help="simulated by PyBullet, with its own model (default if pybullet is installed)",
    )
    kind.add_argument(
        "--gymnasium", dest="kind", action="store_const", const="gymnasium", help="plain Python (default if it is not)"
    )


def _new(options: argparse.Namespace) -> None:
    from es_core.files import naming_errors
    from es_envs.scaffold.plugin import new_plugin

    with naming_errors(Path(options.name)):
        plugin = new_plugin(options.name, kind=options.kind)
    if options.json:
        print_json(asdict(plugin))
        return
    print_result(plugin.folder)
    if options.quiet:
        return
    log("it is ready to use; next:")
    log(f"  cd {plugin.folder}")
    log('  pip install -e ".[test]"')
    log("  pytest")
    for command in (("check", plugin.env_id), ("train", plugin.env_id)):
        log(f"  {command_line(*command)}")
    log("  es-envs record RUN        # the folder that train prints")
