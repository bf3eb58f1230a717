"""RaceTrack-v0: does evolution learn to drive, or does it learn tracks by heart? The page docs/results/racetrack.md.

Usage: python benchmarks/racetrack.py [--only NAME ...] [--seeds N ...] [--workers N]
       python benchmarks/racetrack.py --page       only write the page, from what is there

The protocol is that of Procgen (Cobbe et al. 2020): train on N tracks, then drive tracks that training never drew. Each
run has 1.2 million steps, in one row 3 million, and its last centre is scored: on its own training tracks, on 1000 test
tracks of the same distribution, on 1000 hard ones of another, and on test tracks in a world whose physics it never met.
The scripted driver, whose numbers pure_pursuit.py found on training tracks, drives the same tracks from the same
starts. Each run writes docs/results/racetrack/NAME-sSEED.json; those that are there are left out.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from report import Report, commit, estimated, in_words, table

from es_core import Checkpoint, Run, train
from es_core.evaluation.scoring import find_policy
from es_core.formatting import percent
from es_core.pools.local import LocalPool
from es_core.seeding import Purpose, episode_seeds
from es_core.statistics import interquartile_mean, mean, share_interval

PAGES, RUNS = Path("docs/results"), Path("runs/racetrack")
STEPS, LONGER = 1_200_000, 3_000_000
TRACKS = 1000  # of the test and of the hard split
OTHER = 100  # of the training tracks, and of the test tracks with other physics
TWICE_THE_LIMIT = 40.0  # [s], for a lap that is not finished

NAMES: Mapping[str, Mapping[str, Any]] = {
    "all tracks": {},
    "64 tracks": {"env_kwargs": {"tracks": 64}},
    "8 tracks": {"env_kwargs": {"tracks": 8}},
    "1 track": {"env_kwargs": {"tracks": 1}},
    "all tracks for longer": {"max_steps": LONGER},
    "random physics": {"randomize": {"friction": [0.6, 1.4], "latency": [0, 2]}},
    "no mirror": {"env_kwargs": {"mirror": False}},
    "network of 16": {"policy": "mlp", "hidden_sizes": (16,)},
    "random search": {"strategy": "random_search"},
    "for distance": {"fitness": "distance"},
    "for progress and time": {"fitness": "progress_and_time"},
    "for time": {"fitness": "time"},
}
SCRIPTS = {"pure pursuit": "pure_pursuit", "random actions": "random"}
"""Policies that are not evolved, and their names in the definition; the first is what the others are compared with."""
PHYSICS: Mapping[str, Mapping[str, float]] = {
    "as in training": {},
    "friction 0.6": {"friction": 0.6},
    "friction 1.4": {"friction": 1.4},
    "latency 1": {"latency": 1},
    "latency 2": {"latency": 2},
    "latency 3": {"latency": 3},
    "sensor noise 0.02": {"sensor_noise": 0.02},
    "sensor noise 0.05": {"sensor_noise": 0.05},
}


def main() -> None:
    """Run what is missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*SCRIPTS, *NAMES]
    parser.add_argument(
        "--only", nargs="+", choices=names, metavar="NAME", default=names, help="of the runs only these"
    )
    parser.add_argument("--seeds", nargs="+", type=int, metavar="N", default=list(range(5)))
    parser.add_argument("--workers", type=int, metavar="N", help="processes of a run (default: the usable cores)")
    parser.add_argument("--page", action="store_true", help="run nothing")
    options = parser.parse_args()
    if not options.page:
        report = Report("racetrack")
        for seed in options.seeds:
            for name in options.only:
                if name not in SCRIPTS or seed == 0:
                    _run(name, seed, options.workers, report)
    _write_page()


def _run(name: str, seed: int, workers: int | None, report: Report) -> None:
    file = PAGES / "racetrack" / f"{name.replace(' ', '-')}-s{seed}.json"
    if file.exists():
        return
    found: dict[str, Any] = {"name": name, "seed": seed, "machine": report.machine, "commit": commit()}
    if name in SCRIPTS:
        policy = Checkpoint.scripted("RaceTrack-v0", SCRIPTS[name])
    else:
        run = _trained(name, seed, workers)
        assert run.checkpoint is not None
        policy, seconds = run.checkpoint, sum(stats.seconds for stats in run.history)
        found |= {"steps": run.history[-1].total_steps, "seconds": seconds, "config": run.config.to_json()}
        found["train"] = _laps(policy, OTHER, workers, **run.config.env_kwargs)
    for split in ("test", "hard"):
        found[split] = _laps(policy, TRACKS, workers, split=split, tracks=None, mirror=False)
    found["physics"] = {
        world: _laps(policy, OTHER, workers, split="test", tracks=None, mirror=False, randomize=values)
        for world, values in PHYSICS.items()
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{json.dumps(found)}\n", encoding="utf-8")
    laps = {split: percent(float(np.mean(np.array(found[split]) < TWICE_THE_LIMIT)), 1) for split in ("test", "hard")}
    report.say(f"{name}, seed {seed}: finished {laps}")


def _trained(name: str, seed: int, workers: int | None) -> Run:
    folder = RUNS / f"{name.replace(' ', '-')}-s{seed}"
    if (folder / "config.json").exists():
        return train(Run.open(folder).config, run_dir=folder, resume=True, workers=workers)
    settings = {"generations": 10**6, "max_steps": STEPS, "eval_every": 0, **NAMES[name]}
    return train("RaceTrack-v0", run_dir=folder, seed=seed, workers=workers, **settings)


def _laps(policy: Checkpoint, episodes: int, workers: int | None, **env_kwargs: Any) -> list[float]:
    """Times of laps on unseen starts [s]; of equal number, all policies have the same tracks and starts."""
    checkpoint, definition = find_policy(policy, generation=None, env_kwargs=env_kwargs, trust=True)
    with LocalPool(definition, checkpoint.config, workers=workers, most=episodes) as pool:
        seeds = episode_seeds(0, Purpose.TEST, episodes)
        played = pool.rollouts(checkpoint.mean, checkpoint.statistics, seeds)
    infos = [episode.final_info for episode in played]
    return [round(float(info["time"]), 3) if info["is_success"] else TWICE_THE_LIMIT for info in infos]


def _write_page() -> None:
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((PAGES / "racetrack").glob("*.json"))]
    of = {name: [each for each in found if each["name"] == name] for name in (*SCRIPTS, *NAMES)}
    if not found:
        return
    trained = [each for each in found if "seconds" in each]
    machines = sorted({in_words(each["machine"]) for each in found})
    commits = sorted({each["commit"] or "unknown" for each in found})
    minutes = [each["seconds"] / 60 for each in trained]
    reference = of[next(iter(SCRIPTS))]
    laps = [_row(name, runs, reference) for name, runs in of.items() if runs]
    columns = ["trained on", "seeds", "train", "test", "hard", "train - test", "time, test [s]", "time, hard [s]",
               "test, of pure pursuit's", "hard, of pure pursuit's"]  # fmt: skip
    shown = [name for name in of if of[name] and not name.startswith("for ")]
    worlds = [[world, *(_finished([run["physics"][world] for run in of[name]]) for name in shown)] for world in PHYSICS]
    page = f"""# RaceTrack-v0

Does evolution learn to drive, or tracks by heart? Each run has {STEPS:,} steps on N training tracks, and its last
centre drives {TRACKS} test tracks of the same distribution and {TRACKS} hard ones (narrower, tighter, the other way
round), none of which training has drawn: the protocol of Procgen (Cobbe et al. 2020). The driver by pure pursuit sees
the map, which evolved ones do not; its numbers were found on training tracks only. All drive the same tracks from the
same starts. Shares are laps finished; times are interquartile means over tracks, with {TWICE_THE_LIMIT:g} s for a lap
that is not finished; all are means over seeds, with 95 % intervals. "For longer" are {LONGER:,} steps. After
{STEPS:,} steps the step size is still at its largest, and how well a centre drives hard tracks changes from one
generation to the next; then it shrinks, until every candidate finishes every lap and nothing is left to learn. The last
rows were trained on all tracks for another fitness: the distance from the start, progress and the time that is left, or
the time of the lap.

Command: `python benchmarks/racetrack.py`; machine: {"; ".join(machines)}; commits {", ".join(commits)}. A run
that had its core for itself took {min(minutes, default=0):.0f} minutes to train; others shared it, or paused. Five
seeds of each are planned; the table says how many are done.

{table(columns, laps)}

## Physics that training never met

Laps finished on {OTHER} test tracks. Friction is a factor; latency is in steps of 1/25 s; noise is the standard
deviation of each observed number.

{table(["world", *shown], worlds)}
"""
    (PAGES / "racetrack.md").write_text(page, encoding="utf-8")


def _row(name: str, runs: Sequence[dict[str, Any]], script: Sequence[dict[str, Any]]) -> list[str]:
    cells = [name, str(len(runs))]
    known = [split for split in ("train", "test", "hard") if split in runs[0]]
    cells += [_finished([run[split] for run in runs]) if split in known else "" for split in ("train", "test", "hard")]
    gaps = [100 * (_share(run["train"]) - _share(run["test"])) for run in runs if "train" in run]
    cells.append(estimated(gaps))
    middles = {split: [interquartile_mean(run[split]).value for run in runs] for split in ("test", "hard")}
    cells += [estimated(middles[split]) for split in ("test", "hard")]
    for split in ("test", "hard"):
        theirs = interquartile_mean(script[0][split]).value if script else None
        cells.append(estimated([middle / theirs for middle in middles[split]]) if theirs else "")
    return cells


def _share(laps: Sequence[float]) -> float:
    return float(np.mean(np.array(laps) < TWICE_THE_LIMIT))


def _finished(runs: Sequence[Sequence[float]]) -> str:
    """Share of laps that were finished, with its interval over seeds, or over tracks if there is one run."""
    shares = [_share(laps) for laps in runs]
    if len(runs) > 1:
        estimate = mean(shares)
        low, high = np.clip(estimate.interval or (estimate.value, estimate.value), 0.0, 1.0)
        return f"{percent(estimate.value, 1)} ({percent(low, 1)} to {percent(high, 1)})"
    count = len(runs[0])
    low, high = share_interval(round(shares[0] * count), count)
    return f"{percent(shares[0], 1)} ({percent(low, 1)} to {percent(high, 1)})"


if __name__ == "__main__":
    main()
