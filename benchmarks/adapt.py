"""Robots that adapt: what a repertoire of gaits is worth to a robot that is damaged. The page docs/results/adapt.md.

Usage: python benchmarks/adapt.py [--only NAME ...] [--workers N]
       python benchmarks/adapt.py --page       only write the page, from what is there
       python benchmarks/adapt.py --quick      only try it out

Fills two repertoires of A1's gaits, one over its four feet and one over its front and its back feet, and evolves one
policy with as many steps and default settings. Then each of six damages is done to the robot: the one policy plays on
as it is, and the repertoires adapt, with five seeds of trials. Each training, intact and with each damage, writes
docs/results/adapt/NAME-DAMAGE.json; those that are there are left out. The runs themselves are in runs/adapt/.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from report import PAGES, QUICK, RUNS, Report, Target, arguments, commit, in_words, page_options, table, write_page

from es_core import Evaluation, Run, adapt, evaluate, train
from es_core.formatting import figures, percent

STEPS = 2_000_000
EPISODES = 2 if QUICK else 50  # unseen starts of a score
SEEDS = [0] if QUICK else [0, 1, 2, 3, 4]  # of trials
TRIALS = 2 if QUICK else 20
SECONDS = 300 * 0.0165  # of an episode
TASK: Mapping[str, Any] = {"policy": "linear", "max_episode_steps": 300, "solved_at": None, "confirm_episodes": 100}
FILLING: Mapping[str, Any] = {"strategy": "map_elites", "population_size": 128, "eval_every": 0, "checkpoint_every": 25}
TRAININGS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "four feet": ("A1Bullet-v0", {**FILLING, "strategy_options": {"grid": [5, 5, 5, 5]}}),
    "plain": ("A1Bullet-v0", {}),
    "two pairs": ("gaits:A1Pairs-v0", {**FILLING, "strategy_options": {"grid": [15, 15]}}),
}
SMALL: Mapping[str, Any] = {}
if QUICK:
    STEPS = 4_800
    SMALL = {"population_size": 16, "generations": 1, "eval_episodes": 2, "confirm_episodes": 2}
INTACT = "intact"
_ENOUGH = 0.7  # of the intact distance
DAMAGES: Mapping[str, Mapping[str, Any]] = {
    "front right knee locked": {"locked": ["FR_lower_joint"]},
    "back left thigh locked": {"locked": ["RL_upper_joint"]},
    "back right knee with a tenth of its force": {"weak": {"RR_lower_joint": 0.1}},
    "front left leg without force": {"weak": {f"FL_{joint}_joint": 0.0 for joint in ("hip", "upper", "lower")}},
    "front left shin at 60 %": {"short": {"FL_lower": 0.6}},
    "back right shin at 60 %": {"short": {"RR_lower": 0.6}},
}
if QUICK:
    DAMAGES = dict(list(DAMAGES.items())[-2:])


_WEAKER = """## What is weaker than it looks

- **The repertoires walk slowly.** Intact, plain evolution walks two to three and a half times as far. Of that
  distance, no repertoire keeps 70 % after any damage. Without the force of a front leg, nothing walks: there, to be
  further than the plain policy means centimetres.
- **Shares are of a lucky elite.** The best fitness of a map is that of one episode: on other starts a sixth of it is
  gone with four feet, half of it with two pairs. So a share above 100 % says that trials found a policy that is
  better intact, too, and not that a damage helps.
- **Trying the best cells is as good, or better**, in ten of twelve rows. It takes twenty trials each time, where the
  model's end after two to six, mostly: the first failures lower what is expected of all others, and what is left is
  soon within 10 % of it. Two reasons are likely, and neither is tested: a map's fitness is too high by chance, and
  gaits with the same time down may fail differently, since these policies act on what they observe. The paper's
  gaits do not.
- **A trial is five episodes**, each with a start of its own, so that twenty trials are a hundred. A real robot makes
  one.
- **One run of each training.** The five seeds are of the trials alone, which mostly find the same cell.
- **Numbers of the method.** The kernel's length for behaviours of fewer than six numbers and the noise of a trial
  were settled after three looks at trials on a half-filled map over four feet. That the end is within 10 % of the
  prediction itself, not counted from the map's lowest fitness, was settled after the rows of four feet; it changed
  none of their medians in metres.
- **The machine was shared** with other programs: the seconds are no measure of speed.
"""


def main() -> None:
    """Run what is missing, then write the page."""
    parser = arguments(__doc__)
    parser.add_argument("--only", nargs="+", choices=[*TRAININGS], metavar="NAME", default=[*TRAININGS])
    parser.add_argument("--workers", type=int, default=1 if QUICK else None, metavar="N")
    parser.add_argument("--page", action="store_true", help="run nothing")
    options = page_options(parser)
    if not options.page:
        report = Report("adapt", packages=("ribs", "scikit-learn"))
        for name in options.only:
            _measure(name, options.workers, report)
    _write_page()


def training(name: str, workers: int | None) -> Run:
    """The run of a repertoire, or of plain evolution; it is continued, or read where it has ended."""
    env_id, settings = TRAININGS[name]
    return train(
        env_id,
        run_dir=RUNS / "adapt" / f"{name.replace(' ', '-')}-s0",
        resume="if begun",
        seed=0,
        max_steps=STEPS,
        workers=workers,
        progress=False,
        **{**TASK, **settings, **SMALL},
    )


def _file(name: str, world: str) -> Path:
    return PAGES / "adapt" / f"{name}-{world}.json".replace(" %", "").replace(" ", "-")


def _measure(name: str, workers: int | None, report: Report) -> None:
    """Score a training's policies in each world where that is missing."""
    for world, faults in ((INTACT, {}), *DAMAGES.items()):
        if (file := _file(name, world)).exists():
            continue
        run = training(name, workers)
        how: dict[str, Any] = {"env_kwargs": {"faults": faults}, "workers": workers}
        found: dict[str, Any] = {"name": name, "world": world, "machine": report.machine, "commit": commit()}
        if name == "plain":
            found["score"] = _score(evaluate(run, episodes=EPISODES, **how))
        else:
            scored: dict[tuple[int, ...], Any] = {}

            def score(cell: tuple[int, ...], run: Run = run, how: Any = how, scored: Any = scored) -> Any:
                if cell not in scored:
                    scored[cell] = _score(evaluate(run, cell=cell, episodes=EPISODES, **how))
                return scored[cell]

            repertoire = run.repertoire
            best = tuple(repertoire.cells[int(np.argmax(repertoire.fitness))].tolist())
            found |= {"score": score(best), "cell": best, "found": float(repertoire.fitness.max())}
            if world != INTACT:
                trials = [adapt(run, trials=TRIALS, seed=seed, **how) for seed in SEEDS]
                found["adapted"] = [{**each.to_json(), "score": score(each.cell)} for each in trials]
                ranked = repertoire.cells[np.argsort(-repertoire.fitness, kind="stable")[:TRIALS]].tolist()
                tried = [evaluate(run, cell=cell, episodes=5, seed=1, **how).mean for cell in ranked]
                found["ranked"] = score(tuple(ranked[int(np.argmax(tried))]))
        if world == INTACT:
            last = run.history[-1]
            found |= {"steps": last.total_steps, "seconds": sum(stats.seconds for stats in run.history)}
            found["config"] = run.config.to_json()
            if name != "plain":
                found |= {"coverage": run.repertoire.coverage, "cells": len(run.repertoire)}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{json.dumps(found)}\n", encoding="utf-8")
        report.say(f"{name}, {world}: {found['score']}")


def _score(score: Evaluation) -> dict[str, float | None]:
    """Mean fitness, distance [m] and length [steps] over the starts."""
    return {"fitness": score.mean, "distance": score.fitnesses["progress"], "length": score.length}


def _write_page() -> None:
    found = {
        (name, world): json.loads(path.read_text(encoding="utf-8"))
        for name in TRAININGS
        for world in (INTACT, *DAMAGES)
        if (path := _file(name, world)).exists()
    }
    trained = [name for name in TRAININGS if (name, INTACT) in found]
    if not trained:
        return
    rows = [
        [
            name,
            f"{each['cells']}, {percent(each['coverage'])}" if "cells" in each else "",
            figures(each.get("found")),
            figures(each["score"]["fitness"]),
            figures(each["score"]["distance"]),
            f"{each['score']['distance'] / SECONDS:.2f}",
            f"{each['steps']:,}",
            f"{each['seconds']:.0f}",
        ]
        for name in trained
        if (each := found[name, INTACT])
    ]
    heads = ["", "cells filled", "found with", "fitness", "distance [m]", "speed [m/s]", "steps", "seconds"]
    parts = [_damages(name, found) for name in trained if name != "plain"]
    machines = sorted({in_words(each["machine"]) for each in found.values()})
    commits = ", ".join(sorted({each["commit"] for each in found.values()}))
    target = _target(found)
    text = f"""\
A robot is damaged, and its best gait no longer works. Is there another in its repertoire, and do a few trials find it
([Cully et al. 2015](https://arxiv.org/abs/1407.3501), [the tutorial](../repertoires.md#6-adapt))? A1 trots for 300
steps ({SECONDS:.2f} s), with a linear policy. `map_elites` fills two repertoires: one by how long each of its four feet
is down (5 cells for each), one by how long its front and its back feet are (15 by 15). *Plain* is evolution of one
policy with default settings and as many steps, those that choose its best centre included. Each is one run, of seed 0.

{target}

## Intact

*Found with* is the fitness that the best elite has in the map; the rest is that policy's score on {EPISODES} unseen
starts. Fitness is the distance, and 0.3 for an episode without a fall.

{table(heads, rows)}

{_verdict(found)}
## Damaged

*As it is*: the policy that is best intact plays on. *Adapted*: the cell that `adapt` finds, with at most {TRIALS}
trials of 5 episodes each, for {len(SEEDS)} seeds of the trials' starts: their median, and the worst and the best. *Of
the best 20*: without any model, the map's {TRIALS} best cells are all tried, five episodes each, and the best of them
is taken. All are distances [m] on {EPISODES} unseen starts, and shares of what the same training's best policy walks
intact. The damages were chosen before the repertoires were full.

{chr(10).join(parts)}
{_WEAKER}
Command: `python benchmarks/adapt.py`; machine: {"; ".join(machines)}; commits {commits}.
"""
    write_page("adapt", "Robots that adapt: a damaged quadruped, with one gait and with repertoires", target, text)
    print(PAGES / "adapt.md")


def _target(found: Mapping[tuple[str, str], Any]) -> Target:
    """What was to be reached, and whether it is; not judged while a measurement is missing."""
    line = (
        "60 % of the 15 by 15 cells filled, the best policy of a repertoire within 10 % of plain's fitness, and 70 % "
        "of the intact distance after five of six damages"
    )
    if len(found) < len(TRAININGS) * (1 + len(DAMAGES)):
        return Target(f"how far a damaged robot walks ({line})")
    names = [name for name in TRAININGS if name != "plain"]
    best = max(found[name, INTACT]["score"]["fitness"] for name in names)
    is_full = found["two pairs", INTACT]["coverage"] >= 0.6
    is_good = best >= 0.9 * found["plain", INTACT]["score"]["fitness"]
    adapts = max(sum(share >= _ENOUGH for share in _shares(name, found)) for name in names) >= 5
    return Target(line, is_full and is_good and adapts)


def _verdict(found: Mapping[tuple[str, str], Any]) -> str:
    """How good the repertoires' best policies are beside plain evolution's; empty where a training is missing."""
    if any((name, INTACT) not in found for name in TRAININGS):
        return ""
    plain = found["plain", INTACT]["score"]["fitness"]
    shares = {name: found[name, INTACT]["score"]["fitness"] / plain for name in TRAININGS if name != "plain"}
    best = ", ".join(f"{percent(share)} with {name}" for name, share in shares.items())
    return f"The best policy of a repertoire has this share of plain's fitness: {best}.\n"


def _shares(name: str, found: Mapping[tuple[str, str], Any]) -> list[float]:
    """What a repertoire keeps of its intact distance after each damage, the median of the seeds."""
    whole = found[name, INTACT]["score"]["distance"] or 1.0
    return [
        median(seed["score"]["distance"] for seed in found[name, world]["adapted"]) / whole
        for world in DAMAGES
        if (name, world) in found
    ]


def _damages(name: str, found: Mapping[tuple[str, str], Any]) -> str:
    """A repertoire's table of damages, and how many of them it gets over."""

    def walked(of: str, world: str) -> float | None:
        return found[of, world]["score"]["distance"] if (of, world) in found else None

    def cell(value: float | None, of: str) -> str:
        whole = walked(of, INTACT)
        return "" if value is None or not whole else f"{value:.2f} ({percent(value / whole)})"

    rows, further = [], 0
    for world in DAMAGES:
        each = found.get((name, world))
        if each is None:
            continue
        distances = sorted(seed["score"]["distance"] for seed in each["adapted"])
        counts = [len(seed["trials"]) for seed in each["adapted"]]
        further += median(distances) > (walked("plain", world) or 0.0)
        rows.append(
            [
                world,
                cell(walked("plain", world), "plain"),
                cell(each["score"]["distance"], name),
                cell(median(distances), name),
                f"{distances[0]:.2f} to {distances[-1]:.2f}",
                f"{median(counts):.0f} ({min(counts)} to {max(counts)})",
                cell(each["ranked"]["distance"], name),
            ]
        )
    if not rows:
        return ""
    heads = ["damage", "plain, as it is", "repertoire, as it is", "adapted", "of the seeds", "trials", "of the best 20"]
    enough = sum(share >= _ENOUGH for share in _shares(name, found))
    return f"""### Repertoire of {name}

{table(heads, rows)}

After {enough} of {len(rows)} damages it walks at least 70 % of its intact distance, and after {further} further than
the plain policy.
"""


if __name__ == "__main__":
    main()
