"""MAP-Elites of es-envs next to ribs' own scheduler with a pool of processes: the same work, QD score and seconds.

Usage: python benchmarks/repertoires.py [--rounds N] [--quick]

Both fill a grid of a walker's gaits, with the same archive, emitter, settings and number of evaluations, in two
processes. A round is a seed. ribs_script.py says how the rival is set up.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from report import QUICK, Report, Spread, estimated, options

from es_core import train
from es_core.statistics import compare_unpaired

ENVIRONMENT = "Walker2DBullet-v0"
WORKERS = 2
GENERATIONS = 2 if QUICK else 60
TARGET = 2.0  # times as fast
SETTINGS: dict[str, Any] = {
    "population_size": 4 if QUICK else 64,
    "max_episode_steps": 20 if QUICK else 300,
    "sigma": 0.05,
    "grid": [20, 20],
    "floor": -1.0,
    "line_sigma": 0.2,
    "first_sigma": 0.5,
}
MEASURES = ("QD score", "coverage", "best", "steps", "seconds")


def ours(seed: int) -> list[float]:
    """Train, and return the ``MEASURES``."""
    options = {name: SETTINGS[name] for name in ("grid", "floor", "line_sigma", "first_sigma")}
    with tempfile.TemporaryDirectory() as folder:
        run = train(
            ENVIRONMENT,
            run_dir=Path(folder, "run"),
            strategy="map_elites",
            strategy_options=options,
            policy="linear",
            population_size=SETTINGS["population_size"],
            max_episode_steps=SETTINGS["max_episode_steps"],
            sigma=SETTINGS["sigma"],
            generations=GENERATIONS,
            episode_seeds="independent",
            eval_every=0,
            workers=WORKERS,
            seed=seed,
            progress=False,
        )
        played = [stats for stats in run.history if stats.qd_score is not None]
        last = played[-1]
        assert last.qd_score is not None
        assert last.coverage is not None
        assert last.best_elite is not None
        steps = sum(stats.steps for stats in played)
        return [last.qd_score, last.coverage, last.best_elite, steps, sum(stats.seconds for stats in played)]


def theirs(seed: int) -> list[float]:
    """Run the rival in a process of its own, and return the ``MEASURES``."""
    script = str(Path(__file__).with_name("ribs_script.py"))
    words = [ENVIRONMENT, str(WORKERS), str(GENERATIONS), str(seed), json.dumps(SETTINGS)]
    done = subprocess.run([sys.executable, script, *words], stdout=subprocess.PIPE, text=True, check=True)
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure both in turn, seed after seed."""
    given = options(__doc__)
    report = Report("repertoires", given.out, ("ribs",))
    measured: dict[str, list[list[float]]] = {"es-envs": [], "ribs' scheduler and a pool": []}
    for seed in range(given.rounds):
        for contender, measure in zip(measured.values(), (ours, theirs), strict=True):
            contender.append(measure(seed))
    columns = {name: [Spread(values) for values in zip(*found, strict=True)] for name, found in measured.items()}
    report.head(f"{ENVIRONMENT}, {GENERATIONS} generations", *MEASURES, "steps/s")
    for name, spreads in columns.items():
        steps, seconds = spreads[-2:]
        cells = [estimated(spread.values) for spread in spreads[:3]]
        report.row(name, *cells, f"{steps:,.0f}", f"{seconds:.1f}", f"{steps / seconds:,.0f}")
    own, other = columns.values()
    scores = compare_unpaired(own[0].values, other[0].values)
    faster = (own[-2] / own[-1]) / (other[-2] / other[-1])
    if scores.p is not None:
        report.say(f"QD score of ribs' scheduler: {scores.value:+.1f} (Welch's t: p = {scores.p:.2g}).")
    report.say(f"Steps per second: es-envs makes {faster:.2f} times as many (asked for: {TARGET:g}).")
    report.save(
        {
            name: {
                measure: spread if measure in {"steps", "seconds"} else spread.values
                for measure, spread in zip(MEASURES, spreads, strict=True)
            }
            for name, spreads in columns.items()
        }
        | {"faster": faster}
    )


if __name__ == "__main__":
    main()
