"""Which tasks tell learning from luck: the table in docs/results/README.md.

A task is worth evolving for if random search solves, or gains, at most 30 % of what evolution does, and doing nothing
solves none of it. The other kind of policy, a network for a linear one or the reverse, shows what the task asks of a
policy.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

from racetrack import fast_share, share
from report import PAGES, table

from es_core.formatting import figures, percent

_LUCK = 0.3  # of what evolution gains
Run = Mapping[str, Any]
ROBOTS = ("Hopper", "HalfCheetah", "Walker2D", "Ant", "Humanoid", "A1")
_VALUES: Mapping[str, Callable[[Run], float]] = {
    "solved": lambda run: run["solved"],
    "laps": lambda run: share(run["test"]),
    "fast laps": lambda run: fast_share(run["test"], _pure_pursuit()["test"]),
    "hard laps": lambda run: share(run["hard"]),
    "in time": lambda run: run["score"]["success_rate"],
    "whole episodes": lambda run: run["score"]["truncated"],
    "score": lambda run: run["score"]["mean"],
}
"""By measure, what a run has reached."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task, and the runs of its page that are compared.

    Attributes:
        name: of the task.
        page: its page, and the folder of its runs.
        measure: "solved", the share of seeds; "laps" or "hard laps", of laps finished on test or hard tracks; "fast
            laps", of those on test tracks that take no longer than the scripted driver's; "in time", of those on a
            circuit within its time; "whole episodes", of those that last until their time is up; "score", the best
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


_LINEAR = "a linear policy runs; a network of 16 has 2 to 6 times as many parameters to find in the same steps"
_GAITS = {
    **dict.fromkeys(("Hopper", "HalfCheetah", "Ant", "Humanoid"), _LINEAR),
    "Walker2D": "a linear policy walks; a network does with two seeds of three",
}
TASKS = (
    Task(name="RaceTrack-v0, test tracks", page="racetrack", measure="laps", evolved="all tracks",
         random_search="random search", other="network of 16",
         note="by random search one seed of five finishes 57 %; a network is faster"),
    Task(name="RaceTrack-v0, as fast as pure pursuit", page="racetrack", measure="fast laps", evolved="all tracks",
         random_search="random search", other="network of 16"),
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
         other="BallMaze-network", note="the ball's place determines how to tilt: a network gets stuck more often"),
    *(Task(name=f"{robot}Bullet-v0", page="locomotion", measure="score", evolved=robot,
           random_search=f"{robot}-random_search", other=f"{robot}-network", note=_GAITS.get(robot, ""))
      for robot in ROBOTS),
    Task(name="RaceTrack-v0 on its horseshoe, by progress", page="fitness", measure="in time", evolved="progress",
         random_search="progress-random_search", note="by distance or time no policy finishes"),
    Task(name="RaceTrack-v0 from pixels", page="pixels", measure="in time", evolved="racetrack",
         random_search="racetrack-random_search", note="linear, of 216 numbers"),
    Task(name="CartPoleBullet-v0 from pixels", page="pixels", measure="whole episodes", evolved="cartpole",
         random_search="cartpole-random_search", note="linear, of 256 numbers"),
    Task(name="Trap-v0", page="novelty", evolved="nsra_es", random_search="random_search",
         note="small enough for random search: it distinguishes novelty from a gradient, not learning from luck"),
)  # fmt: skip


def gate() -> str:
    """The table, from the JSON files of the pages."""
    columns = ["task", "of", "evolved", "random search", "doing nothing", "other policy", "gate", "remark"]
    return table(columns, [_row(task) for task in TASKS])


def _row(task: Task) -> list[str]:
    evolved, luck, other = (_value(task, name) for name in (task.evolved, task.random_search, task.other))
    idle = _idle(task)
    cells = [_shown(task, value) for value in (evolved, luck, idle, other)]
    scores = [_VALUES[task.measure](run) for run in _named(task, task.evolved)]
    if task.measure == "score" and len(scores) > 1:
        cells[0] += f" ({figures(min(scores))} to {figures(max(scores))})"
    return [f"[{task.name}]({task.page}.md)", task.measure, *cells, _verdict(task, evolved, luck, idle), task.note]


@cache
def _measured(page: str) -> list[Run]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted((PAGES / page).glob("*.json"))]


def _named(task: Task, name: str) -> list[Run]:
    return [run for run in _measured(task.page) if run["name"] == name]


def _pure_pursuit() -> Run:
    return next(run for run in _measured("racetrack") if run["name"] == "pure pursuit")


def _verdict(task: Task, evolved: float | None, luck: float | None, idle: float | None) -> str:
    if evolved is None or luck is None or (idle is None and task.measure not in {"solved", "in time"}):
        return ""
    idle = idle or 0.0  # what nobody solves without learning is not always measured
    if evolved <= idle:
        return "nothing is learnt"
    if idle > 0 and task.measure != "score":
        return "doing nothing does"
    return "random search does" if luck - idle > _LUCK * (evolved - idle) else "passed"


def _value(task: Task, name: str) -> float | None:
    """Share of the runs of that name that are solved, or of their laps; or the mean score; None if there are none."""
    runs = _named(task, name)
    return fmean(map(_VALUES[task.measure], runs)) if runs else None


def _idle(task: Task) -> float | None:
    if "laps" in task.measure:
        return _value(task, "doing nothing")
    runs = [run for run in _named(task, task.evolved) if "doing nothing" in run.get("baselines", {})]
    scores = [run["baselines"]["doing nothing"] for run in runs]
    if task.measure in {"solved", "in time", "whole episodes"} and runs:
        goal = 1.0 if task.measure == "in time" else runs[0]["config"]["solved_at"]  # 1 of progress: a whole lap
        return float(any(score >= goal for score in scores))
    return fmean(scores) if scores else None


def _shown(task: Task, value: float | None) -> str:
    if value is None:
        return ""
    return figures(value) if task.measure == "score" else percent(value)
