"""The command about your own plugins: new."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from es_core.cli.arguments import add_command
from es_core.cli.output import command_line, log, print_json, print_result
from es_core.cli.robots import add_packages, packages_of, proposal_as_json, show_proposal

if TYPE_CHECKING:
    from es_envs.scaffold.plugin import NewPlugin

_WARNINGS = 5  # that are printed


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
    kind.add_argument(
        "--robot",
        metavar="FILE",
        help="simulated by PyBullet, with a robot from a URDF, xacro, MJCF or SDF file; of xacro, Python is executed",
    )
    robot = sub.add_argument_group("with --robot", "default: what suits the robot; `es-envs robot FILE` shows it")
    robot.add_argument("--task", choices=("walk", "stand", "reach", "track"), help="what it shall do")
    robot.add_argument("--base", choices=("free", "fixed"), help="whether its base is fastened to the world")
    robot.add_argument("--tip", metavar="LINK", help="link that shall reach")
    robot.add_argument(
        "--joints", nargs="+", action="extend", metavar="JOINT", help="joints that are driven, with spaces or commas"
    )
    add_packages(robot)


def _new(options: argparse.Namespace) -> None:
    from es_core.files import naming_errors
    from es_envs.scaffold.plugin import new_plugin

    if options.robot is not None:
        _new_robot(options)
        return
    for name in ("task", "base", "tip", "joints", "package"):
        if getattr(options, name):
            raise ValueError(f"--{name} says something about a robot: give its file, too, with --robot FILE")
    with naming_errors(Path(options.name)):
        plugin = new_plugin(options.name, kind=options.kind)
    if options.json:
        print_json(asdict(plugin))
        return
    print_result(plugin.folder)
    if not options.quiet:
        _show_next(plugin)


def _new_robot(options: argparse.Namespace) -> None:
    from es_core.files import naming_errors
    from es_envs.scaffold.robot_plugin import new_robot

    joints = [name for word in options.joints or () for name in word.split(",") if name] or None
    with naming_errors(Path(options.name)):
        plugin = new_robot(
            options.name,
            Path(options.robot),
            task=options.task,
            base=options.base,
            tip=options.tip,
            joints=joints,
            packages=packages_of(options),
        )
    if options.json:
        names = {"folder": plugin.folder, "package": plugin.package, "env_id": plugin.env_id}
        print_json({**names, "proposal": proposal_as_json(plugin.proposal), "remarks": plugin.remarks})
        return
    print_result(plugin.folder)
    if options.quiet:
        return
    show_proposal(plugin.proposal, log)
    for remark in plugin.remarks:
        log(f"note: {remark}")
    warnings = [f"{found.message} [{found.kind}]" for found in plugin.findings if found.severity == "warning"]
    for warning in warnings[:_WARNINGS]:
        log(f"warning: {warning}")
    if len(warnings) > _WARNINGS:
        log(f"({len(warnings) - _WARNINGS} more warnings: `{command_line('robot', options.robot)}`)")
    _show_next(plugin)


def _show_next(plugin: "NewPlugin") -> None:
    log("it is ready to use; next:")
    log(f"  cd {plugin.folder}")
    log('  pip install -e ".[test]"')
    log("  pytest")
    for command in (("check", plugin.env_id), ("train", plugin.env_id)):
        log(f"  {command_line(*command)}")
    log("  es-envs record RUN        # the folder that train prints")
