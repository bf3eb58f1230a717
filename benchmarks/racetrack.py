"""RaceTrack-v0: does evolution learn to drive, or does it learn tracks by heart? The page docs/results/racetrack.md.

Usage: python benchmarks/racetrack.py [--only NAME ...] [--seeds N ...] [--workers N]
       python benchmarks/racetrack.py --page       only write the page, from what is there
       python benchmarks/racetrack.py --quick      only try it out, with a few rows

The protocol is that of Procgen (Cobbe et al. 2020): train on N tracks, then drive tracks that training never drew. Each
run has 1.2 million steps, in one row 3 million, and its last centre is scored: on its own training tracks, from 1000
starts on test tracks of the same distribution, from 1000 on hard ones of another, and on test tracks in a world whose
physics it never met. The scripted driver, whose numbers pure_pursuit.py found on training tracks, drives the same
tracks from the same starts. Each run writes docs/results/racetrack/NAME-sSEED.json; those that are there are left out.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from report import (
    PAGES,
    QUICK,
    RUNS,
    Report,
    Target,
    arguments,
    commit,
    estimated,
    idle,
    in_words,
    page_options,
    table,
    write_page,
)

from es_core import Checkpoint, Run, train
from es_core.evaluation.scoring import find_policy
from es_core.formatting import figures, percent
from es_core.pools.local import LocalPool
from es_core.pools.options import PoolOptions
from es_core.seeding import Purpose, episode_seeds
from es_core.statistics import interquartile_mean, mean, share_interval

STEPS, LONGER = (100, 200) if QUICK else (1_200_000, 3_000_000)
STARTS = 3 if QUICK else 1000  # on test and on hard tracks
OTHER = 2 if QUICK else 100  # on training tracks, and on test tracks with other physics
MINUTES = 10  # that training may take on two cores
TWICE_THE_LIMIT = 40.0  # [s], for a lap that is not finished
ID = "RaceTrack-v0"

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
}
SMALL = {"population_size": 4, "episodes_per_candidate": 1, "max_episode_steps": 25} if QUICK else {}
SCRIPTS: Mapping[str, Callable[[], Checkpoint]] = {
    "pure pursuit": lambda: Checkpoint.scripted(ID, "pure_pursuit"),
    "random actions": lambda: Checkpoint.scripted(ID, "random"),
    "doing nothing": lambda: idle(Checkpoint.pretrained(ID)),
}
"""Policies that are not evolved; the first is what the others are compared with."""
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
    parser = arguments(__doc__)
    names = [*SCRIPTS, *NAMES]
    parser.add_argument(
        "--only", nargs="+", choices=names, metavar="NAME", help="of the runs only these",
        default=["pure pursuit", "8 tracks"] if QUICK else names,
    )  # fmt: skip
    parser.add_argument("--seeds", nargs="+", type=int, metavar="N", default=[*range(1 if QUICK else 5)])
    default = 1 if QUICK else None
    parser.add_argument(
        "--workers", type=int, default=default, metavar="N", help="of a run (default: the usable cores)"
    )
    parser.add_argument("--page", action="store_true", help="run nothing")
    options = page_options(parser)
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
        policy = SCRIPTS[name]()
    else:
        run = _trained(name, seed, workers)
        assert run.checkpoint is not None
        policy, seconds = run.checkpoint, sum(stats.seconds for stats in run.history)
        found |= {"steps": run.history[-1].total_steps, "seconds": seconds, "config": run.config.to_json()}
        found["train"], _ = _laps(policy, OTHER, workers, **run.config.env_kwargs)
    for split in ("test", "hard"):
        found[split], found[f"tracks, {split}"] = _laps(policy, STARTS, workers, split=split, tracks=None, mirror=False)
    found["physics"] = {
        world: _laps(policy, OTHER, workers, split="test", tracks=None, mirror=False, randomize=values)[0]
        for world, values in PHYSICS.items()
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{json.dumps(found)}\n", encoding="utf-8")
    laps = {split: percent(float(np.mean(np.array(found[split]) < TWICE_THE_LIMIT)), 1) for split in ("test", "hard")}
    report.say(f"{name}, seed {seed}: finished {laps}")


def _trained(name: str, seed: int, workers: int | None) -> Run:
    folder = RUNS / "racetrack" / f"{name.replace(' ', '-')}-s{seed}"
    if (folder / "config.json").exists():
        return train(Run.open(folder).config, run_dir=folder, resume=True, workers=workers)
    settings = {"max_steps": STEPS, "eval_every": 0, **NAMES[name], **SMALL}
    return train(ID, run_dir=folder, seed=seed, workers=workers, **settings)


def _laps(policy: Checkpoint, episodes: int, workers: int | None, **env_kwargs: Any) -> tuple[list[float], int]:
    """Times of laps from unseen starts [s], the same for all policies; and the number of tracks that they are on."""
    checkpoint, definition = find_policy(policy, generation=None, env_kwargs=env_kwargs, trust=True)
    with LocalPool(definition, checkpoint.config, PoolOptions(workers=workers), most=episodes) as pool:
        seeds = episode_seeds(0, Purpose.TEST, episodes)
        played = pool.rollouts(checkpoint.mean, checkpoint.statistics, seeds)
    infos = [episode.final_info for episode in played]
    times = [round(float(info["time"]), 3) if info["is_success"] else TWICE_THE_LIMIT for info in infos]
    return times, len({info["track"] for info in infos})


def _write_page() -> None:
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((PAGES / "racetrack").glob("*.json"))]
    of = {name: [each for each in found if each["name"] == name] for name in (*SCRIPTS, *NAMES)}
    if not found:
        return
    machines = sorted({in_words(each["machine"]) for each in found})
    commits = sorted({each["commit"] for each in found})
    tracks = {split: next((f"{each[key]}" for each in found if (key := f"tracks, {split}") in each), "some")
              for split in ("test", "hard")}  # fmt: skip
    reference = of[next(iter(SCRIPTS))]
    laps = [_row(name, runs, reference) for name, runs in of.items() if runs]
    columns = ["trained on", "seeds", "train", "test", "hard", "train - test", "time, test [s]", "time, hard [s]",
               "test, of pure pursuit's", "hard, of pure pursuit's", "minutes"]  # fmt: skip
    shown = [name for name in of if of[name]]
    worlds = [[world, *(_finished([run["physics"][world] for run in of[name]]) for name in shown)] for world in PHYSICS]
    goals = _goals(of)
    target = Target(
        f"after at most {MINUTES} minutes on two cores, at least 98 % of laps finished on test tracks and 90 % on hard "
        "ones, on test tracks times that are at most pure pursuit's, and with 64 tracks a gap of at most two points "
        "between training and test",
        any(all(found.values()) for found in goals.values()) and goals.get("64 tracks", {}).get("the gap", False),
    )
    text = f"""\
Does evolution learn to drive, or tracks by heart? Each run has {STEPS:,} steps on N training tracks, and its last
centre drives from {STARTS} starts on test tracks of the same distribution ({tracks["test"]} different ones) and from
{STARTS} on hard tracks ({tracks["hard"]} different ones: narrower, tighter, the other way round). Training has drawn
none of them: the protocol of Procgen (Cobbe et al. 2020). In training, half of the episodes are mirrored, which makes
right turns of left ones; tests never are. The driver by pure pursuit sees the map,
which evolved ones do not; its numbers were found on training tracks only.

{target}
{_which_goals(goals)}

Shares are laps finished. Times are interquartile means over starts, with {TWICE_THE_LIMIT:g} s for a lap that is not
finished; "of pure pursuit's" is the interquartile mean of the quotients, lap by lap, from the same starts on the same
tracks. All are means over seeds, with 95 % intervals from three seeds on; of a single driver's shares, over starts.
Minutes are those of training on one core unless two are named, the fastest of the runs: others shared their core, or
paused. "For longer" are {LONGER:,} steps: after {STEPS:,} the step size is still at its largest, and how well a centre
drives hard tracks changes from one generation to the next; then it shrinks, until every candidate finishes every lap
and nothing is left to learn. "Random physics" was trained with friction 0.6 to 1.4 and latency 0 to 2, and drives these
laps in such worlds, too, while pure pursuit and the other rows have the usual one: compare it in the second table.
"Network of 16" has 16 hidden units, and the others are linear. "Doing nothing" are outputs of 0, which drive straight
on at half throttle. "Train" is from {OTHER} starts.

{table(columns, laps)}

## Other physics

Laps finished from {OTHER} starts on test tracks. Training met none of these worlds but the first, except in "random
physics": for that column only latency 3 and the noise are new. Friction is a factor; latency is in steps of 1/25 s;
noise is the standard deviation of each observed number.

{table(["world", *shown], worlds)}

Command: `python benchmarks/racetrack.py`; machine: {"; ".join(machines)}; commits {", ".join(commits)}.
"""
    write_page("racetrack", f"{ID}: tracks that training never drew", target, text)


def _goals(of: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, dict[str, bool]]:
    """By the name of runs, which goals are reached on average over seeds."""
    pursuit, reached = of[next(iter(SCRIPTS))], {}
    for name in ("all tracks", "64 tracks", "all tracks for longer"):
        runs = of.get(name, ())
        if not runs or not pursuit:
            continue
        test, hard = (float(np.mean([share(run[split]) for run in runs])) for split in ("test", "hard"))
        gap = 100 * (float(np.mean([share(run["train"]) for run in runs])) - test)
        quotient = float(np.mean([_quotient(run["test"], pursuit[0]["test"]) for run in runs]))
        goals = {"test tracks": test >= 0.98, "hard tracks": hard >= 0.9, "pure pursuit's time": quotient <= 1}
        goals["ten minutes"] = min(run["seconds"] for run in runs) <= MINUTES * 60
        if name.startswith("64"):
            goals["the gap"] = gap <= 2
        reached[name] = goals
    return reached


def _which_goals(goals: Mapping[str, Mapping[str, bool]]) -> str:
    missed = {name: [goal for goal, is_reached in found.items() if not is_reached] for name, found in goals.items()}
    words = [f"*{name}* {'misses ' + ' and '.join(of) if of else 'reaches all'}" for name, of in missed.items()]
    return f"On average over seeds: {'; '.join(words)}." if words else ""


def _row(name: str, runs: Sequence[dict[str, Any]], script: Sequence[dict[str, Any]]) -> list[str]:
    cells = [name, str(len(runs))]
    known = [split for split in ("train", "test", "hard") if split in runs[0]]
    cells += [_finished([run[split] for run in runs]) if split in known else "" for split in ("train", "test", "hard")]
    cells.append(_of_seeds([100 * (share(run["train"]) - share(run["test"])) for run in runs if "train" in run]))
    for split in ("test", "hard"):
        cells.append(_of_seeds([interquartile_mean(run[split]).value for run in runs]))
    for split in ("test", "hard"):
        cells.append(_of_seeds([_quotient(run[split], script[0][split]) for run in runs]) if script else "")
    return [*cells, ", ".join(_minutes(runs))]


def _minutes(runs: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Training's time on one core and on two, as far as there are such runs: that of the fastest."""
    for cores, words in ((1, ""), (2, " on two cores")):
        seconds = [run["seconds"] for run in runs if run.get("seconds") and run["machine"]["cores"] == cores]
        if seconds:
            yield f"{min(seconds) / 60:.1f}{words}"


def _of_seeds(values: Sequence[float]) -> str:
    """The mean, with its interval if it tells something: Student's t knows nothing from two."""
    return estimated(values) if len(values) > 2 else figures(float(np.mean(values))) if values else ""


def _quotient(laps: Sequence[float], others: Sequence[float]) -> float:
    """Times of laps by those of others, from the same starts."""
    return interquartile_mean((np.array(laps) / np.array(others)).tolist()).value


def share(laps: Sequence[float]) -> float:
    """Share of the laps that are finished."""
    return float(np.mean(np.array(laps) < TWICE_THE_LIMIT))


def fast_share(laps: Sequence[float], others: Sequence[float]) -> float:
    """Share of the laps that are finished no later than others, from the same starts."""
    return float(np.mean((np.array(laps) < TWICE_THE_LIMIT) & (np.array(laps) <= np.array(others))))


def _finished(runs: Sequence[Sequence[float]]) -> str:
    """Share of laps that were finished, with its interval over seeds, or over starts if there is one run."""
    shares = [share(laps) for laps in runs]
    if len(runs) == 2:
        return percent(float(np.mean(shares)), 1)
    if len(runs) > 1:
        estimate = mean(shares)
        if estimate.interval is None:  # equal shares say nothing about other seeds
            return percent(estimate.value, 1)
        low, high = np.clip(estimate.interval, 0.0, 1.0)
        return f"{percent(estimate.value, 1)} ({percent(low, 1)} to {percent(high, 1)})"
    count = len(runs[0])
    low, high = share_interval(round(shares[0] * count), count)
    return f"{percent(shares[0], 1)} ({percent(low, 1)} to {percent(high, 1)})"


if __name__ == "__main__":
    main()
