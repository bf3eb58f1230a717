"""What a generation costs in addition to its episodes, for policies from 5 thousand to 1.7 million parameters.

Usage: python benchmarks/policy_size.py [--quick]

64 candidates on 2 workers play one step each of an environment without physics, with Humanoid's 376 observations and 17
actions: what remains is drawing noise, one forward pass, gathering results, the update, and communication.

Seconds inside a generation are those of metrics.jsonl; the wall clock adds what lies between two generations: metrics,
loggers and every tenth time a checkpoint. Memory is the most that was seen of PSS, summed over main process and
workers, above the same training with the smallest policy; measured in trainings of their own.
"""

import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from loops import HUMANOID, Training, trained
from processes import MEGABYTE, watch
from report import Report, Spread, options

WORKERS = 2
WIDTHS = (12, 64, 256, 512, 1120)  # of both hidden layers
GENERATIONS = 12  # with one checkpoint in between


def parameters(width: int) -> int:
    """Number of parameters of an MLP 376-width-width-17, biases included."""
    return 377 * width + (width + 1) * width + (width + 1) * 17


def total_memory(width: int, population: int) -> float:
    """Most PSS of all processes of a training together [MB]."""
    words = {
        "workers": WORKERS,
        "population-size": population,
        "hidden-sizes": f"{width},{width}",
        "max-episode-steps": 1,
        "eval-every": 0,
        "generations": GENERATIONS,
    }
    with TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "es_core",
            "train",
            HUMANOID,
            "--quiet",
            "--run-dir",
            str(Path(folder) / "run"),
        ]
        for name, value in words.items():
            command += [f"--{name}", str(value)]
        return watch(command).total_pss / MEGABYTE


def main() -> None:
    """Measure all sizes in turn, round after round."""
    given = options(__doc__)
    report = Report("policy_size", given.out)
    widths = WIDTHS[:2] if given.quick else WIDTHS
    trainings: dict[int, list[Training]] = {width: [] for width in widths}
    memory: dict[int, list[float]] = {width: [] for width in widths}
    train_once = partial(
        trained, HUMANOID, workers=WORKERS, seconds=given.seconds, population_size=given.population, max_episode_steps=1
    )
    for _ in range(given.rounds):
        for width in widths:
            trainings[width].append(train_once(hidden_sizes=(width, width)))
            memory[width].append(total_memory(width, given.population))

    report.head(
        "parameters",
        "seconds inside a generation",
        "by the wall clock",
        "target",
        "memory [MB]",
        "above the smallest [MB]",
        "less 4 policies [MB]",
        "target",
    )
    results = {}
    for width in widths:
        count = parameters(width)
        largest = width == WIDTHS[-1]
        inside = Spread(tuple(training.seconds / training.generations for training in trainings[width]))
        wall = Spread(tuple(training.wall_seconds / training.generations for training in trainings[width]))
        total = Spread(tuple(memory[width]))
        above = total.median - Spread(tuple(memory[widths[0]])).median
        beyond = above - 4 * 4 * count / MEGABYTE  # a parameter has 4 bytes
        report.row(
            f"{count:,}",
            f"{inside:.4f}",
            f"{wall:.4f}",
            "at most 0.35" if largest else "",
            f"{total:.0f}",
            f"{above:.0f}",
            f"{beyond:.0f}",
            "at most 300" if largest else "",
        )
        results[count] = {
            "seconds_inside": inside,
            "seconds_by_the_wall_clock": wall,
            "memory_mb": total,
            "memory_above_smallest_mb": above,
            "memory_beyond_4_policies_mb": beyond,
        }
    report.save(results)


if __name__ == "__main__":
    main()
