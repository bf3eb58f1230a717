"""Robots' files: how many become environments that step, pass the checks, stand, and what they learn by default.

Usage: python benchmarks/robots.py FOLDER... [--ending .urdf] [--only WORDS] [--no-check] [--learn SECONDS]
       python benchmarks/robots.py --page    only write docs/results/robots.md, from what is there

FOLDER has models, at any depth. Each model has processes of its own, with a time limit: ``es-envs new --robot``, then
its environment; with ``--learn`` a training with its recommended settings on all cores, which take so many seconds of
processor time together, whose best policy is scored on 100 unseen starts, beside doing nothing and random actions, and
filmed. Results are kept as they are found, in docs/results/robots/; those that are there are left out.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from itertools import compress
from pathlib import Path
from typing import Any

from contenders import EPISODES, Budget, score
from report import (
    PAGES,
    QUICK,
    Report,
    Target,
    arguments,
    commit,
    idle,
    in_words,
    page_options,
    table,
    with_interval,
    write_page,
)

LIMIT = 400  # seconds of a process, besides those of learning
FOLDER = PAGES / "robots"
ID = "CollectedRobot-v0"
STEPS = 60
ENDINGS = (".urdf", ".xacro", ".xml", ".sdf")
SECONDS = 5.0  # that a robot stands
TRAINED = 20  # robots from which the target is judged
ROOTS = (b"<robot", b"<mujoco", b"<sdf")


def write_plugin(file: str, folder: str) -> dict[str, Any]:
    """Write a plugin; it counts as installed for those who have its folder on Python's path."""
    from es_envs.scaffold.robot_plugin import new_robot

    start = time.perf_counter()
    plugin = new_robot("collected-robot", Path(file), parent=Path(folder))
    seconds = time.perf_counter() - start
    info = plugin.folder / f"{plugin.package}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: collected-robot\nVersion: 0.1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[es_envs]\n{plugin.package} = {plugin.package}\n", encoding="utf-8")
    found = plugin.proposal
    return {
        "kind": found.kind,
        "base": found.base,
        "task": found.task,
        "tip": found.tip,
        "motors": len(found.motors),
        "stands": found.stands,
        "new_seconds": round(seconds, 1),
    }


def try_plugin(with_check: str) -> dict[str, Any]:
    """Load and step the environment of the plugin on Python's path, and check it if ``with_check`` is "True"."""
    import importlib

    import numpy as np

    import es_envs
    from es_envs.testing import examine

    start = time.perf_counter()
    env = es_envs.make(ID)
    env.reset(seed=0)
    result: dict[str, Any] = {"load_seconds": round(time.perf_counter() - start, 2), "steps": 0}
    env.action_space.seed(0)
    for _ in range(STEPS):
        observation, *_, info = env.step(env.action_space.sample())
        if not np.isfinite(observation).all():
            return {**result, "fault": "an observation is not finite"}
        result["steps"] += 1
        result["info"] = sorted(info)
    env.close()
    robot = importlib.import_module("collected_robot.env").CollectedRobotEnv
    result["merged"] = steps_per_second(robot)
    try:
        result["unmerged"] = steps_per_second(type("Unmerged", (robot,), {"merge_fixed": False}))
    except RuntimeError as error:
        result["unmerged"], result["unmerged_fault"] = None, str(error).splitlines()[0]
    if with_check != "True":
        return result
    report = examine(ID)
    result["check"] = not report.faults
    if report.faults:
        result["check_fault"] = next(check.message for check in report.results if check.status == "failed")
    return result


def steps_per_second(robot: Any) -> int:
    """Steps of an environment for each second of the processor."""
    import numpy as np

    env = robot()
    env.reset(seed=0)
    rest = np.zeros(env.action_space.shape, np.float32)
    start = time.process_time()
    for _ in range(STEPS):
        env.step(rest)
    seconds = time.process_time() - start
    env.close()
    return round(STEPS / seconds)


def learn(seconds: str, film: str) -> dict[str, Any]:
    """Train the plugin on Python's path with its settings, and score it beside doing nothing and random actions."""
    import es_envs
    from es_core import evaluate, train

    fields = {"eval_episodes": 2, "confirm_episodes": 2, "max_episode_steps": 5} if QUICK else {}
    space = es_envs.make(ID).action_space
    space.seed(0)
    with tempfile.TemporaryDirectory() as folder:
        budget = Budget(float(seconds))
        budget.begin()
        run = train(
            ID,
            run_dir=Path(folder, "run"),
            seed=0,
            progress=False,
            on_generation=lambda _: not budget.is_spent(),
            **fields,
        )
        trained = budget.spent
        found = {
            "best": evaluate(run, episodes=EPISODES),
            "doing nothing": evaluate(idle(run.best), episodes=EPISODES),
            "random actions": score(ID, 0, lambda: lambda _: space.sample()),
        }
        if film:
            Path(film).parent.mkdir(parents=True, exist_ok=True)
            run.record(film)
        return {
            "seconds": round(trained),
            "steps": run.history[-1].total_steps,
            "scores": {name: each if isinstance(each, dict) else each.to_json() for name, each in found.items()},
        }


def in_process(stage: str, *arguments: str, path: str | None = None, seconds: float = 0.0) -> dict[str, Any]:
    """Run a stage in a process of its own; returns its result, or the reason why there is none."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, __file__, *(["--quick"] if QUICK else []), "--stage", stage, *arguments]
    limit = LIMIT + 3 * seconds  # of the wall clock: the machine may be busy
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"fault": f"{stage} took more than {limit:.0f} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return {"fault": reason if done.returncode > 0 else f"signal {-done.returncode}: {reason}"}
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def examine_model(file: Path, *, with_check: bool, seconds: float | None, film: Path) -> dict[str, Any]:
    """Find out all about one model."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "collected-robot"))
        result = in_process("new", str(file), folder)
        if "fault" not in result:
            result |= in_process("try", str(with_check), path=path)
        if seconds and "fault" not in result:
            learnt = in_process("learn", str(seconds), str(film.absolute()), path=path, seconds=seconds)
            result |= {"learnt_fault": learnt["fault"]} if "fault" in learnt else {"learnt": learnt}
    return result


def models(folders: Iterable[Path], ending: str) -> dict[str, Path]:
    """Return the models in folders, by their names there."""

    def is_model(path: Path) -> bool:
        return (
            path.suffix in ([ending] if ending else ENDINGS)
            and path.is_file()
            and any(root in path.read_bytes()[:100_000] for root in ROOTS)
        )

    return {
        str(path.relative_to(folder)): path
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if is_model(path)
    }


def is_clear(learnt: dict[str, Any]) -> bool:
    """Whether the best policy's interval lies above those of doing nothing and of random actions."""
    best, *others = (each["interval"] or [each["mean"]] * 2 for each in learnt["scores"].values())
    return all(best[0] > other[1] for other in others)


_STEPS_TEXT = """\
Steps are the environment's, by one core: 8 steps of physics, of arms 12. *Not merged*: with links on fixed joints kept
apart."""


def write(results: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the page."""
    found = {name: each["result"] for name, each in sorted(results.items())}
    first = next(iter(results.values()))
    stepping = [each for each in found.values() if each.get("steps") == STEPS]
    legs = [each for each in stepping if each["base"] == "free" and each["kind"] == "legs"]
    checked = [each["check"] for each in stepping if "check" in each]
    learnt = {name: each["learnt"] for name, each in found.items() if "learnt" in each}
    check = f"Of {len(checked)} that were checked, {sum(checked)} pass `es-envs check`. " if checked else ""
    standing = [each for each in legs if each["stands"] == SECONDS]
    clear = [each for each in learnt.values() if is_clear(each)]
    line = (
        f"95 % of the models step; of those with legs, 90 % stand for {SECONDS:.0f} s; of {TRAINED} that are trained, "
        "90 % become clearly better than doing nothing and than random actions"
    )
    good = len(stepping) >= 0.95 * len(found) and len(standing) >= 0.9 * len(legs) and len(clear) >= 0.9 * len(learnt)
    target = Target(line, good) if len(learnt) >= TRAINED else Target(f"{len(found)} models so far ({line})")
    summary = (
        f"`es-envs new --robot` made a plugin of each of {len(found)} models, without options: {len(stepping)} step. "
        f"{check}Of {len(legs)} with legs, {len(standing)} stand for {SECONDS:.0f} s "
        "if they are left alone. "
        f"Loading takes {max((each['load_seconds'] for each in stepping), default=0.0):.1f} s at most."
    )
    written = f"Written by `python benchmarks/robots.py FOLDER --ending .urdf`, commit {first['commit']};"
    text = "\n\n".join(
        [
            str(target), summary, f"{written} {in_words(first['machine'])}.",
            *(_what_they_learn(learnt, found) if learnt else ()),
            "## All of them", _STEPS_TEXT, f"{_table_of_all(found)}\n",
        ]
    )  # fmt: skip
    write_page(FOLDER.name, "Robots from their files, with default settings", target, text)


def _what_they_learn(learnt: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[str, ...]:
    text = (
        "`--learn 360`: `es-envs train` with the settings of the plugin, seed 0, for so many seconds of processor "
        "time, all cores together. Rows with less than 200 seconds are older: theirs are of wall time on two cores. "
        f"Scores are mean fitness on {EPISODES} unseen starts, with its 95 % interval. "
        f"{sum(map(is_clear, learnt.values()))} of {len(learnt)} are clearly better than doing nothing and than random "
        "actions: their intervals do not touch."
    )
    rows = [
        (
            f"`{name}`", found[name]["task"], f"{each['steps']:,}".replace(",", " "), str(each["seconds"]),
            *(with_interval(one["mean"], one["interval"]) for one in each["scores"].values()),
            _percent(each["scores"]["best"]), "yes" if is_clear(each) else "no",
        )
        for name, each in learnt.items()
    ]  # fmt: skip
    columns = (
        "model",
        "task",
        "steps",
        "seconds",
        *("best policy", "doing nothing", "random actions"),
        "success",
        "clearly better",
    )
    films = [(name, file_of(name).with_suffix(".png")) for name in learnt]
    gallery = [
        f"[![{name}, trained]({FOLDER.name}/{still.name})]({FOLDER.name}/{still.with_suffix('.mp4').name})"
        for name, still in films
        if still.exists()
    ]
    return "## What they learn with default settings", text, table(columns, rows), "\n".join(gallery)


def file_of(name: str) -> Path:
    """Return the file that keeps a model's result."""
    return FOLDER / f"{re.sub(r'[^A-Za-z0-9]+', '-', Path(name).with_suffix('').as_posix())}.json"


def _percent(score: Mapping[str, Any]) -> str:
    share = score.get("success_rate")
    return "" if share is None else f"{100 * share:.0f} %"


def _table_of_all(found: Mapping[str, Any]) -> str:
    rows = [
        (
            f"`{name}`", each.get("kind", ""), each.get("task", ""), _verdict(each), _number(each.get("stands")),
            _number(each.get("load_seconds")), _number(each.get("merged")), _number(each.get("unmerged")),
            " ".join(_fault(each).split())[:300].replace("|", "/"),
        )
        for name, each in found.items()
    ]  # fmt: skip
    columns = ("model", "kind", "task", "check", "stands [s]", "load [s]", "steps/s", "not merged", "fault")
    filled = [any(cells) for cells in zip(*rows, strict=True)]
    return table(list(compress(columns, filled)), [compress(row, filled) for row in rows])


def _verdict(result: Mapping[str, Any]) -> str:
    if result.get("steps") != STEPS:
        return "does not step"
    return {True: "passes", False: "fails", None: ""}[result.get("check")]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _fault(result: Mapping[str, Any]) -> str:
    return str(next((result[key] for key in ("fault", "check_fault", "learnt_fault") if result.get(key)), ""))


def main() -> None:
    """Examine the models, and write the page."""
    parser = arguments(__doc__)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--ending", default="", choices=ENDINGS, help="only files with this ending")
    parser.add_argument("--only", nargs="+", default=[""], help="only models whose names contain one of these")
    parser.add_argument("--no-check", action="store_true", help="leave out the checks, which take most of the time")
    parser.add_argument("--learn", type=float, metavar="SECONDS", help="train each, too")
    parser.add_argument("--page", action="store_true", help="only write the page, from what is there")
    parser.add_argument("--stage", nargs="+", help="of a process of this command's own")
    if "--stage" in sys.argv:
        stage, *words = parser.parse_args().stage
        print(json.dumps({"new": write_plugin, "try": try_plugin, "learn": learn}[stage](*words)))
        return
    given = page_options(parser)
    report = Report("robots")
    if QUICK:
        import pybullet_data

        given.folders, given.only, given.learn = [Path(pybullet_data.getDataPath(), "kuka_iiwa")], ["model.urdf"], 1.0
    report.head("model", "result")
    for name, path in models([] if given.page else given.folders, given.ending).items():
        file = file_of(name)
        if file.exists() or not any(word in name for word in given.only):
            continue
        film = file.with_suffix(".mp4")
        result = examine_model(path, with_check=not given.no_check, seconds=given.learn, film=film)
        report.row(name, _fault(result) or "works")
        FOLDER.mkdir(parents=True, exist_ok=True)
        content = {"model": name, "commit": commit(), "machine": report.machine, "result": result}
        file.write_text(f"{json.dumps(content, indent=1)}\n", encoding="utf-8")
    kept = [json.loads(file.read_text(encoding="utf-8")) for file in FOLDER.glob("*.json")]
    write({each["model"]: each for each in kept})


if __name__ == "__main__":
    main()
