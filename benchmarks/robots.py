"""Robots' files: how many become environments that step, pass the checks, and stand; how fast they load and step.

    python benchmarks/robots.py FOLDER... --to robots.json   # and robots.md; FOLDER has models, at any depth

Each model has processes of its own, with a time limit: ``es-envs new --robot``, then its environment.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LIMIT = 400  # seconds of a process
STEPS = 60
ENDINGS = (".urdf", ".xacro", ".xml", ".sdf")
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
    env = es_envs.make("CollectedRobot-v0")
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
    report = examine("CollectedRobot-v0")
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


def in_process(stage: str, *arguments: str, path: str | None = None) -> dict[str, Any]:
    """Run a stage in a process of its own; returns its result, or the reason why there is none."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, __file__, "--stage", stage, *arguments]
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return {"fault": f"{stage} took more than {LIMIT} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return {"fault": reason if done.returncode > 0 else f"signal {-done.returncode}: {reason}"}
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def examine_model(file: Path, *, with_check: bool) -> dict[str, Any]:
    """Find out all about one model."""
    with tempfile.TemporaryDirectory() as folder:
        result = in_process("new", str(file), folder)
        if "fault" not in result:
            result |= in_process("try", str(with_check), path=str(Path(folder, "collected-robot")))
    return result


def models(folders: Iterable[Path], endings: Iterable[str]) -> list[tuple[str, Path]]:
    """Return the models in folders, by their names there."""

    def is_model(path: Path) -> bool:
        return path.suffix in endings and path.is_file() and any(root in path.read_bytes()[:100_000] for root in ROOTS)

    return [
        (str(path.relative_to(folder)), path)
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if is_model(path)
    ]


def table(results: dict[str, dict[str, Any]]) -> str:
    """Write the results as Markdown."""
    rows = [
        "| model | kind | task | stepping | check | stands [s] | load [s] | steps/s merged | unmerged | fault |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, result in results.items():
        steps = result.get("steps", 0) == STEPS
        check = {True: "passes", False: "fails"}.get(result.get("check"), "")  # type: ignore[arg-type]
        fault = result.get("fault") or result.get("check_fault") or ""
        cells = [
            name, result.get("kind"), result.get("task"), "yes" if steps else "no", check,
            result.get("stands") and round(result["stands"], 1), result.get("load_seconds"), result.get("merged"),
            result.get("unmerged"), " ".join(fault.split())[:200].replace("|", "/"),
        ]  # fmt: skip
        rows.append("| " + " | ".join("" if cell is None else str(cell) for cell in cells) + " |")
    stepping = [each for each in results.values() if each.get("steps") == STEPS]
    legs = [each for each in stepping if each.get("base") == "free" and each["kind"] == "legs"]
    checked = sum(each.get("check", False) for each in stepping)
    slow = max((each["load_seconds"] for each in stepping), default=0)
    summary = (
        f"{len(results)} models: {len(stepping)} step, {checked} of these pass the "
        f"check; {sum(each['stands'] == 5.0 for each in legs)} of {len(legs)} with legs stand 5 s; loading takes "
        f"{slow:.1f} s at most."
    )
    return "\n".join([summary, "", *rows, ""])


def main() -> None:
    """Examine the models, and write the table after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--to", type=Path, default=Path("robots.json"))
    parser.add_argument("--ending", action="append", choices=ENDINGS, help="only files with this ending")
    parser.add_argument("--only", default="", help="only models whose names contain this")
    parser.add_argument("--no-check", action="store_true", help="leave out the checks, which take most of the time")
    parser.add_argument("--stage", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        stage, *arguments = options.stage
        print(json.dumps(write_plugin(*arguments) if stage == "new" else try_plugin(*arguments)))
        return
    results: dict[str, dict[str, Any]] = {}
    for name, path in models(options.folders, options.ending or ENDINGS):
        if options.only not in name:
            continue
        results[name] = examine_model(path, with_check=not options.no_check)
        print(name, results[name].get("fault", "works"), flush=True)
        options.to.write_text(json.dumps(results, indent=1), encoding="utf-8")
        options.to.with_suffix(".md").write_text(table(results), encoding="utf-8")


if __name__ == "__main__":
    main()
