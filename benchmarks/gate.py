"""Which tasks tell learning from luck: the table in docs/results/README.md.

A task is worth evolving for if random search solves, or gains, at most 30 % of what evolution does, and doing nothing
solves none of it. The other kind of policy, a network for a linear one or the reverse, shows what the task asks of a
policy.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from racetrack import share
from report import table

from es_core.formatting import figures, percent

PAGES = Path("docs/results")
_LUCK = 0.3  # of what evolution gains
Runs = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task, and the runs of its page that are compared.

    Attributes:
        name: of the task.
        page: its page, and the folder of its runs.
        measure: "solved", the share of seeds; "laps" or "hard laps", of laps on test or hard tracks; "score", the last
            centre's.
        evolved: name of the runs with the recommended settings.
        random_search: name of those by random search.
        other: name of those with the other kind of policy; "" if there are none.
        note: why the other kind is no worse, or what else is to be known.
    """

    name: str
    page: str
    measure: str = "solved"
    evolved: str
    random_search: str
    other: str = ""
    note: str = ""


TASKS = (
    Task(name="RaceTrack-v0, test tracks", page="racetrack", measure="laps", evolved="all tracks",
         random_search="random search", other="network of 16",
         note="linear in lidar and speed; random search finishes some laps, slowly"),
    Task(name="RaceTrack-v0, hard tracks", page="racetrack", measure="hard laps", evolved="all tracks",
         random_search="random search", other="network of 16"),
    Task(name="CartPoleSwingUp-v0", page="classics", evolved="CartPoleSwingUp-evolved",
         random_search="CartPoleSwingUp-random_search", other="CartPoleSwingUp-linear"),
    Task(name="DoublePole-v0", page="classics", evolved="DoublePole-evolved",
         random_search="DoublePole-random_search", other="DoublePole-network",
         note="nearly linear around balance: a network takes longer"),
    Task(name="PlateFigureEight-v0", page="classics", evolved="PlateFigureEight-evolved",
         random_search="PlateFigureEight-random_search", other="PlateFigureEight-network",
         note="nearly linear around balance"),
    Task(name="BallMaze-v0", page="classics", evolved="BallMaze-evolved", random_search="BallMaze-random_search",
         other="BallMaze-network", note="the ball's place tells how to tilt: a network gets stuck more often"),
    *(Task(name=f"{robot}Bullet-v0", page="locomotion", measure="score", evolved=robot,
           random_search=f"{robot}-random_search", other=f"{robot}-network")
      for robot in ("Hopper", "HalfCheetah", "Walker2D", "Ant", "Humanoid", "A1")),
    Task(name="RaceTrack-v0 from pixels", page="pixels", measure="score", evolved="racetrack",
         random_search="racetrack-random_search", note="linear, of 216 numbers"),
    Task(name="CartPoleBullet-v0 from pixels", page="pixels", measure="score", evolved="cartpole",
         random_search="cartpole-random_search", note="linear, of 256 numbers"),
    Task(name="Trap-v0", page="novelty", evolved="nsra_es", random_search="random_search",
         note="small enough for random search: it tells novelty from a gradient, not learning from luck"),
)  # fmt: skip


def gate() -> str:
    """The table, from the JSON files of the pages."""
    columns = ["task", "of", "evolved", "random search", "doing nothing", "other policy", "gate", "policy"]
    return table(columns, [_row(task) for task in TASKS])


def _row(task: Task) -> list[str]:
    files = sorted((PAGES / task.page).glob("*.json"))
    found = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    of = {name: [each for each in found if each["name"] == name] for name in (task.evolved, task.random_search)}
    evolved, luck = (_value(task, of[name]) for name in (task.evolved, task.random_search))
    idle = _idle(task, of[task.evolved], found)
    other = _value(task, [each for each in found if each["name"] == task.other])
    cells = [_shown(task, value) for value in (evolved, luck, idle, other)]
    return [f"[{task.name}]({task.page}.md)", task.measure, *cells, _verdict(task, evolved, luck, idle), task.note]


def _verdict(task: Task, evolved: float | None, luck: float | None, idle: float | None) -> str:
    if evolved is None or luck is None or (idle is None and task.measure != "solved"):
        return ""
    idle = idle or 0.0  # what nobody solves without learning is not always measured
    if evolved <= idle:
        return "nothing is learnt"
    if idle > 0 and task.measure != "score":
        return "doing nothing does"
    return "random search does" if luck - idle > _LUCK * (evolved - idle) else "passed"


def _value(task: Task, runs: Runs) -> float | None:
    """Share of runs that are solved, or of laps; or the mean score."""
    if not runs:
        return None
    values = {
        "solved": lambda run: float(run["solved"]),
        "laps": lambda run: share(run["test"]),
        "hard laps": lambda run: share(run["hard"]),
        "score": lambda run: run["last_score"]["mean"],
    }
    return float(np.mean([values[task.measure](run) for run in runs]))


def _idle(task: Task, evolved: Runs, found: Runs) -> float | None:
    if "laps" in task.measure:
        return _value(task, [each for each in found if each["name"] == "doing nothing"])
    scores = [run["baselines"]["doing nothing"] for run in evolved if "doing nothing" in run.get("baselines", {})]
    if task.measure == "solved":
        return float(any(score >= evolved[0]["config"]["solved_at"] for score in scores)) if scores else None
    return float(np.mean(scores)) if scores else None


def _shown(task: Task, value: float | None) -> str:
    if value is None:
        return ""
    return figures(value) if task.measure == "score" else percent(value)
