"""A new plugin for a robot from its file: what is inferred stands in it as constants, each with where it came from."""

import shutil
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from es_envs.arguments import require_one_of
from es_envs.bullet.models import Finding
from es_envs.bullet.robots.copying import copy_model
from es_envs.bullet.robots.env import RobotEnv
from es_envs.bullet.robots.inference import infer, read_for_proposal
from es_envs.bullet.robots.proposal import SECONDS, TASKS, Proposal, TaskName
from es_envs.bullet.robots.tree import infer_base
from es_envs.scaffold.plugin import Names, NewPlugin, filled, plugin_names, write_plugin
from es_envs.text import printable

_TEMPLATES = {
    "gitignore": ".gitignore",
    "workflow.yml": ".github/workflows/test.yml",
    "robot_README.md": "README.md",
    "robot_pyproject.toml": "pyproject.toml",
    "robot_init.py": "$package/__init__.py",
    "robot_env.py": "$package/env.py",
    "robot_fitness.py": "$package/fitness.py",
    "robot_test.py": "tests/test_$package.py",
}
_LICENCES = ("LICENSE", "LICENCE", "COPYING", "NOTICE")
_ABOVE = 4  # folders above a robot's file in which its licence is sought
_STEPS = {"walk": 150, "stand": 150, "reach": 60, "track": 150}
_SUMMARIES = {
    "walk": "Walk ahead without falling",
    "stand": "Stand, whatever pushes",
    "reach": "Bring the tip to a target",
    "track": "Follow targets of the joints",
}
_DRIVES = "Drive ahead"
_FITNESSES = {
    "walk": "far_without_a_fall",
    "stand": "seconds_upright",
    "reach": "near_and_soon",
    "track": "share_tracked",
}
_GOALS = {"stand": 4.9, "track": 0.9}
_UNITS = {"start_height": "m", "start_turn": "rad", "start_pose": "rad or m", "motors": "N m or N"}
_WIDTH = 88


@dataclass(frozen=True, kw_only=True)
class NewRobot(NewPlugin):
    """A robot's plugin that has just been written.

    Attributes:
        proposal: what was inferred.
        findings: what is to be known about the file.
        remarks: what was done to the copy.
    """

    proposal: Proposal
    findings: tuple[Finding, ...]
    remarks: tuple[str, ...]


def new_robot(
    name: str,
    file: Path,
    *,
    task: TaskName | None = None,
    base: Literal["free", "fixed"] | None = None,
    tip: str | None = None,
    joints: Sequence[str] | None = None,
    packages: Mapping[str, str | Path] | None = None,
    parent: Path | None = None,
) -> NewRobot:
    """Write a plugin for a robot into a new folder, completely or not at all.

    Args:
        name: the distribution's name, as for ``new_plugin``.
        file: the robot's URDF, xacro, MJCF or SDF file; of a xacro file, Python is executed.
        task: "walk", "stand", "reach" or "track"; None for what suits the robot, and so for the next ones.
        base: "free" or "fixed".
        tip: the link that shall reach.
        joints: names of the joints that are driven.
        packages: folders of packages by name, for ``package://`` in the file.
        parent: folder for the new folder (default: the current directory).

    Raises:
        ValueError: a name is not possible, the file is no robot that Bullet can load and drive, or a choice does not
            suit the robot.
        RuntimeError: Bullet cannot load or simulate it.
        FileNotFoundError: there is no such file.
        FileExistsError: ``parent`` contains something of this name.
    """
    if task is not None:
        require_one_of("task", task, TASKS)
    names = plugin_names(name, parent)
    model = read_for_proposal(file, packages or {})
    remarks: list[str] = []
    proposals: list[Proposal] = []

    def fill(whole: Path) -> dict[str, str]:
        folder = whole / names.package / "robot"
        is_free = base == "free" or (base is None and (task in {"walk", "stand"} or infer_base(model)[0] == "free"))
        copy, remark = copy_model(model, folder, base="free" if is_free else "fixed")
        licence = _copy_licence(model.path, folder)
        proposal = infer(model, copy, task=task, base=base, tip=tip, joints=joints)
        from es_envs.bullet.robots.pictures import draw_card

        draw_card(proposal, copy, folder / "card.png")
        proposals.append(proposal)
        remarks.extend(line for line in (remark, licence and f"{licence} is copied with it") if line)
        return _texts(names, proposal, copy.name, licence)

    write_plugin(names, _TEMPLATES, fill)
    return NewRobot(
        folder=names.folder,
        package=names.package,
        env_id=names.env_id,
        proposal=proposals[0],
        findings=model.findings,
        remarks=tuple(remarks),
    )


def _copy_licence(file: Path, folder: Path) -> str:
    """Copy the robot's licence, which lies beside its file or above it in its package; returns its name."""
    for place in [file.parent, *file.parent.parents][: _ABOVE + 1]:
        found = sorted(path for path in place.glob("*") if path.name.upper().startswith(_LICENCES) and path.is_file())
        for path in found:
            shutil.copyfile(path, folder / path.name)
        if found:
            return ", ".join(path.name for path in found)
        if (place / "package.xml").is_file() or (place / ".git").exists():
            break
    return ""


def _texts(names: Names, proposal: Proposal, model_file: str, licence: str) -> dict[str, str]:
    task, steps = proposal.task, _STEPS[proposal.task]
    summary = _DRIVES if task == "walk" and proposal.kind == "wheels" else _SUMMARIES[task]
    texts = {
        **names.texts,
        "model_file": model_file,
        "steps": str(steps),
        "summary": summary,
        "rate": str(round(1 / RobotEnv.time_step / proposal.action_repeat)),
        "summary_lower": summary[0].lower() + summary[1:],
        "task_class": (task_class := type(proposal.make_task()).__name__),
        "imports": ", ".join(sorted(["RobotEnv", task_class])),
        "fitness": _FITNESSES[task],
        "solved_at": f"            solved_at={_GOALS[task]},\n" if task in _GOALS else "",
        "recommended": _recommended(proposal),
        "constants": _constants(proposal),
        "drift": repr(max(0.05, round(2 * proposal.drift, 2))),
        "lasts": str(_lasts(proposal, steps)),
        "licence": (
            f"The robot's licence: see `{names.package}/robot/`. Your own code has none yet: choose one before you "
            "publish it."
            if licence
            else "It has no licence yet, and the robot's file came without one: see to both before you publish it."
        ),
    }
    more = ["free_test.py" if proposal.base == "free" else "fixed_test.py"] + ["reach_test.py"] * (task == "reach")
    texts["more_tests"] = "\n".join(filled(template, texts) for template in more).rstrip("\n")
    texts["fitness_code"] = filled(f"{task}_fitness.py", texts)
    return texts


def _lasts(proposal: Proposal, steps: int) -> int:
    """Steps that a free robot must last in its test: all, if it stands; else half of what it did, on any machine."""
    if proposal.stands is None or proposal.stands >= SECONDS:
        return steps
    return max(1, round(proposal.stands * 30 / 2))


def _recommended(proposal: Proposal) -> str:
    lines = [f'"max_steps": {1_000_000 if proposal.task == "walk" else 400_000:_},']
    if proposal.task == "reach":
        lines.append('"episodes_per_candidate": 6,  # of as many targets')
        # Else the nearer the tips of good policies are, the more the same way would seem, and the harder they turn.
        lines.append('"observation_normalization": False,  # the task scales what is seen')
        lines.append('"policy": "linear",  # joints that turn in proportion to the way')
        lines.append('"sigma": 0.1,')
    return "\n".join(f"                {line}" for line in lines)


def _constants(proposal: Proposal) -> str:
    """Write the constants of an environment's class, each below where it came from."""
    default = Proposal(name="", kind="other", base="free")
    blocks = [
        _block(proposal, "task", _task_code(proposal), "task"),
        _block(proposal, "base", literal(proposal.base)),
    ]
    for name in ("start_height", "start_turn", "start_pose", "motors", "control", "reach", "speed", "passive", "mimics",
                 "observed", "contacts", "action_repeat"):  # fmt: skip
        value = getattr(proposal, name)
        if name == {"position": "speed", "velocity": "reach"}.get(proposal.control):
            continue
        if value != getattr(default, name) or name in {"motors", "control", "reach", "speed"}:
            blocks.append(_block(proposal, name, _code(value, name, proposal)))
    blocks += [
        _block(proposal, name, repr(getattr(proposal, name))) for name in ("self_collision", "inertia_from_file")
    ]
    return "\n\n".join(blocks)


def _block(proposal: Proposal, name: str, code: str, reason: str = "") -> str:
    unit = f" [{_UNITS[name]}]" if name in _UNITS else ""
    why = f"{proposal.reasons.get(reason or name, '')}{unit}"
    if name == "start_height" and proposal.base == "free":
        why += f"; {proposal.reasons['stands']}"
    return "\n".join([*_comment(why, "    "), f"    {name} = {code}"])


def _task_code(proposal: Proposal) -> str:
    if proposal.task != "reach":
        return f"{type(proposal.make_task()).__name__}()"
    lines = ["Reach("]
    for name, code in (("tip", literal(proposal.tip)), ("offset", f"offset={proposal.offset!r}")):
        if name == "tip" or any(proposal.offset):
            unit = " [m]" if name == "offset" else ""
            lines += _comment(f"{proposal.reasons[name]}{unit}", "        ")
            lines.append(f"        {code},")
    return "\n".join([*lines, "    )"])


def _comment(text: str, indent: str) -> list[str]:
    text = one_line(text)
    lines = textwrap.wrap(
        f"{text[:1].upper()}{text[1:]}.", _WIDTH - len(indent) - 2, break_long_words=False, break_on_hyphens=False
    )
    return [f"{indent}# {line}" for line in lines]


def _code(value: Any, name: str, proposal: Proposal) -> str:
    if isinstance(value, Mapping):
        lines = []
        for key, each in value.items():
            why = proposal.joint_reasons.get((name, key), "")
            comment = f"  # {one_line(why)}" if why else ""
            parts = (literal(each[0]), repr(each[1]), repr(each[2])) if isinstance(each, tuple) else ()
            code = f"({', '.join(parts)})" if parts else repr(each)
            line = f"        {literal(key)}: {code},"
            if parts and len(line) > _WIDTH:
                lines += [f"        {literal(key)}: (", *(f"            {part}," for part in parts), "        ),"]
            else:
                lines.append(f"{line}{comment}")
        return "\n".join(["{", *lines, "    }"])
    if isinstance(value, tuple) and value and isinstance(value[0], str):
        return "\n".join(["(", *(f"        {literal(each)}," for each in value), "    )"])
    return literal(value) if isinstance(value, str) else repr(value)


def literal(text: str) -> str:
    """Return Python code for a string, in double quotes where it needs no escapes."""
    is_plain = text.isascii() and text.isprintable() and not set("\"'\\") & set(text)
    return f'"{text}"' if is_plain else ascii(text)


def one_line(text: str) -> str:
    """Return a text that is safe in a comment: one line, without control characters."""
    return printable(" ".join(text.split()))
