"""The command about robots' files: robot; and what it shares with new."""

import argparse
import importlib.util
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from es_core.cli.arguments import add_command
from es_core.cli.output import log, print_json, print_result, print_sheet, print_table
from es_core.formatting import figures

if TYPE_CHECKING:
    from es_envs.bullet.models import Model
    from es_envs.bullet.robots.proposal import Proposal


def add(commands: Any) -> None:
    """Add this command."""
    sub = add_command(
        commands, "robot", _robot, "show what is in a robot's file, what is wrong with it, and what new makes of it"
    )
    sub.add_argument(
        "file", metavar="FILE", help="a URDF, xacro, MJCF or SDF file; of a xacro file, Python is executed"
    )
    add_packages(sub)
    sub.add_argument(
        "--picture", metavar="PNG", help="write the robot from the front and from the side, joints numbered"
    )
    sub.add_argument("--film", metavar="MP4", help="film the robot, left alone for five seconds")


def add_packages(parser: Any) -> None:
    """Add the option ``--package``."""
    parser.add_argument(
        "--package",
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="folder of a package that the file names in package:// or model:// (may be repeated)",
    )


def packages_of(options: argparse.Namespace) -> dict[str, str]:
    """Return the folders of packages by name.

    Raises:
        ValueError: one is not ``NAME=DIR``.
    """
    return dict(_name_and_folder(word) for word in options.package)


def _name_and_folder(word: str) -> tuple[str, str]:
    name, equals, folder = word.partition("=")
    if not (name and equals and folder):
        raise ValueError(f"--package {word}: expected NAME=DIR, such as --package my_robot=../my_robot")
    return name, folder


def _robot(options: argparse.Namespace) -> int:
    from es_envs.bullet.models import read_model

    for option, endings in (("picture", (".png",)), ("film", (".mp4", ".gif"))):
        path = getattr(options, option)
        if path is not None and Path(path).suffix.lower() not in endings:
            raise ValueError(f"--{option} {path}: expected a name that ends with {' or '.join(endings)}")
    model = read_model(options.file, packages=packages_of(options))
    proposal, why_not = (None, "") if model.errors else _proposal(model, options)
    if options.json:
        print_json(
            {
                "path": model.path,
                **{name: getattr(model, name) for name in ("format", "name", "mass")},
                **{name: [asdict(each) for each in getattr(model, name)] for name in ("links", "joints", "meshes")},
                "findings": [
                    {**asdict(found), **{name: getattr(found, name) for name in ("severity", "consequence", "remedy")}}
                    for found in model.findings
                ],
                "proposal": proposal and proposal_as_json(proposal),
                "why_no_proposal": why_not or None,
            }
        )
        return bool(model.errors)
    _show_card(model)
    if proposal:
        print_result("\n`es-envs new NAME --robot FILE` takes from it:")
        show_proposal(proposal, print_result)
    elif why_not:
        print_result(f"\nno environment from it: {why_not}")
    return bool(model.errors)


def _show_card(model: "Model") -> None:
    rows = [
        ("robot", model.name),
        ("file", f"{model.path} ({model.format})"),
        ("links", f"{len(model.links)}, with a mass of {figures(model.mass)} kg"),
        ("joints", f"{len(model.joints)}, of which {len(model.moving)} move"),
        ("meshes", ", ".join(f"{mesh.uri} ({mesh.use}, {mesh.link})" for mesh in model.meshes)),
    ]
    if model.links:
        print_sheet([(name, value) for name, value in rows if value], "")
    joints = [
        (joint.name, joint.kind, _limits(joint), figures(joint.effort), figures(joint.velocity), joint.mimic or "")
        for joint in model.moving
    ]
    if joints:
        print_result("")
        print_table([("joint", "kind", "limits [rad or m]", "effort", "velocity", "mimics"), *joints], names=0)
    for finding in model.findings:
        print_result("")
        print_result(finding)


def _limits(joint: Any) -> str:
    return "none" if joint.lower is None else f"{figures(joint.lower)} to {figures(joint.upper)}"


def _proposal(model: "Model", options: argparse.Namespace) -> "tuple[Proposal | None, str]":
    """Infer an environment, and draw the robot; where there is none, say why."""
    if importlib.util.find_spec("pybullet") is None:
        if options.picture or options.film:
            raise ValueError("--picture and --film need PyBullet: `pip install 'es-envs[bullet]'`")
        return None, "PyBullet is not installed, which would look at it: `pip install 'es-envs[bullet]'`"
    from es_envs.bullet.robots.copying import copy_model
    from es_envs.bullet.robots.inference import infer
    from es_envs.bullet.robots.tree import infer_base

    with tempfile.TemporaryDirectory(prefix="es-envs-robot-") as folder:
        visuals = bool(options.picture or options.film)
        try:
            base = infer_base(model)[0]
            copy, _ = copy_model(model, Path(folder) / "robot", base=base, visuals=visuals)
            proposal = infer(model, copy)
        except (ValueError, RuntimeError) as error:
            return None, str(error)
        if options.picture:
            _draw(proposal, copy, Path(options.picture))
        if options.film:
            _film(proposal, copy, Path(options.film))
    return proposal, ""


def _draw(proposal: "Proposal", file: Path, picture: Path) -> None:
    from es_core.files import naming_errors
    from es_envs.bullet.robots.pictures import draw_card

    with naming_errors(picture):
        draw_card(proposal, file, picture)
    log(f"picture: {picture}")


def _film(proposal: "Proposal", file: Path, path: Path) -> None:
    from es_core.runs.unfinished import working_folder
    from es_core.video.encoder import film
    from es_envs.bullet.robots.pictures import FRAMES_PER_SECOND, idle_frames

    with working_folder(path) as folder, film(path, folder, FRAMES_PER_SECOND) as add_frame:
        for frame in idle_frames(proposal, file):
            add_frame(frame)
    log(f"film: {path}")


def show_proposal(proposal: "Proposal", say: Callable[[str], None]) -> None:
    """Say each thing that was inferred, with its reason, in a line."""
    width = max(map(len, proposal.reasons))
    for name, why in proposal.reasons.items():
        say(f"  {name.replace('_', ' ').ljust(width)}  {_short(getattr(proposal, name))}: {why}")


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{len(value)} joints" if value else "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def proposal_as_json(proposal: "Proposal") -> dict[str, Any]:
    """Return a proposal as a value of JSON."""
    value = asdict(proposal)
    value["joint_reasons"] = [[*key, why] for key, why in proposal.joint_reasons.items()]
    return value
