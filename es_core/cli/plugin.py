"""The command about your own plugins: new."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from es_core.cli.arguments import add_command
from es_core.cli.output import command_line, log, log_next, print_json, print_result
from es_core.formatting import shell_line


def add(commands: Any) -> None:
    """Add this command."""
    sub = add_command(
        commands,
        "new",
        _new,
        "write a plugin to start from: an environment, its fitness and its tests, in a new folder",
        examples=("my-rover", "my-maze --gymnasium  # without Bullet"),
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
    log("It is ready to use.")
    log_next(
        shell_line(["cd", str(plugin.folder)]),
        'pip install -e ".[test]"',
        "pytest",
        command_line("check", plugin.env_id),
        command_line("train", plugin.env_id),
        "es-envs record RUN  # the folder that train prints",
    )
