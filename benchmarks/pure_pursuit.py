"""Tune RaceTrack-v0's scripted driver on training tracks, then score it on tracks that nobody was tuned on.

Usage: python benchmarks/pure_pursuit.py [--tune] [--tracks N] [--quick]

With --tune, 64 drivers with numbers drawn at random drive training tracks; the better quarter goes on to four times as
many, twice; the fastest on average of those left is printed, an unfinished lap counting twice the limit. Its numbers
are the defaults of es_racecar.pursuit.Tuning. Without, these drive the test and the hard tracks, which takes minutes.
"""

from collections.abc import Sequence
from multiprocessing import Pool
from typing import Any

import numpy as np
from es_racecar.fitness import TIME_LIMIT
from es_racecar.pursuit import PurePursuit, Tuning
from es_racecar.track_env import RaceTrackEnv
from report import QUICK, Report, arguments, table

from es_core.formatting import figures, percent
from es_core.machine import usable_cores
from es_core.statistics import mean, share_interval

STEPS = 500
DRIVERS, ROUNDS = (4, (1, 2)) if QUICK else (64, (8, 32, 128))  # of the search, and its tracks
_env: dict[str, RaceTrackEnv] = {}


def main() -> None:
    """Tune or score."""
    parser = arguments(__doc__)
    parser.add_argument("--tune", action="store_true", help="search, on training tracks only")
    parser.add_argument(
        "--tracks", type=int, default=4 if QUICK else 1000, help="tracks of each split (default: %(default)s)"
    )
    options = parser.parse_args()
    report = Report("pure_pursuit")
    with Pool(usable_cores()) as pool:
        if options.tune:
            report.say(f"{_search(pool, report)}")
            return
        rows = []
        for split in ("test", "hard"):
            laps = pool.starmap(lap, [(split, number, Tuning()) for number in range(options.tracks)], chunksize=8)
            done = [time for time in laps if time < TIME_LIMIT]
            low, high = share_interval(len(done), len(laps))
            middle = np.sort(np.where(np.array(laps) < TIME_LIMIT, laps, 2 * TIME_LIMIT))
            quarter = len(middle) // 4
            rows.append([split, f"{percent(len(done) / len(laps), 1)} ({percent(low, 1)} to {percent(high, 1)})",
                         figures(float(middle[quarter : len(middle) - quarter].mean()))])  # fmt: skip
        report.say(table(["split", "laps finished", "interquartile mean of the time [s]"], rows))


def lap(split: str, number: int, tuning: Tuning) -> float:
    """Time of a lap [s], twice the limit if it is not finished."""
    if split not in _env:
        _env[split] = RaceTrackEnv(split=split)
    env = _env[split]
    driver = PurePursuit(env, tuning=tuning)
    observation, info = env.reset(seed=number, options={"track": number})
    for _ in range(STEPS):
        observation, _, terminated, _, info = env.step(driver(observation))
        if terminated:
            break
    return float(info["time"]) if info["is_success"] else 2 * TIME_LIMIT


def _search(pool: Any, report: Report) -> Tuning:
    random = np.random.default_rng(0)
    left = [
        Tuning(
            look_ahead=random.uniform(0.3, 1.0),
            look_ahead_time=random.uniform(0.0, 0.4),
            sideways=random.uniform(0.5, 5.0),
            braking=random.uniform(0.5, 4.0),
            fastest=random.uniform(1.5, 4.0),
        )
        for _ in range(DRIVERS)
    ]
    for tracks in ROUNDS:
        jobs = [("train", number, tuning) for tuning in left for number in range(tracks)]
        times = np.array(pool.starmap(lap, jobs, chunksize=8)).reshape(len(left), tracks)
        order = np.argsort(times.mean(1), kind="stable")
        report.say(_ranking([left[place] for place in order[:4]], times[order[:4]]))
        left = [left[place] for place in order[: max(1, len(left) // 4)]]
    return left[0]


def _ranking(tunings: Sequence[Tuning], times: Any) -> str:
    rows = [
        [str(tuning), figures(mean(each).value, mean(each).interval), percent((each < TIME_LIMIT).mean())]
        for tuning, each in zip(tunings, times, strict=True)
    ]
    return table(["driver", f"mean time on {times.shape[1]} training tracks [s]", "laps finished"], rows)


if __name__ == "__main__":
    main()
