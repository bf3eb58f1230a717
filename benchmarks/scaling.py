"""What 16, 128 and 1440 workers would reach, from costs measured with a few workers on this machine.

Usage: python benchmarks/scaling.py [--quick]

The model, for N candidates, W workers and episodes of L steps:

    main(N, W) = m0 + m1 W + m2 N + m3 N W      seconds of the main process in each generation
    work(N, W) = w1 W + w2 N + w3 N W + N L s   seconds of all workers together
    generation = main + work / W                where no two processes share a core
    generation = max(that, (main + work) / C)   on a machine with C cores

m and w are fitted (least squares of the relative error, no negative cost) to the processor time of main process and
workers in generations of one-step episodes, over a grid of N and W; s follows from whole episodes with one worker. The
model is then compared with the measured wall time of whole generations, with 1 and 2 workers.

It assumes that the main process and the workers never work at the same time, which is too pessimistic; that there is a
core for each process, that cores do not slow each other down, that messages cost as much as through the pipes of
one machine, and that work is spread evenly, which are too optimistic. Everything beyond the workers measured here is
extrapolation: the fit has seen at most 8 workers, and at most as many at work at once as there are cores.

Salimans et al. (2017) report 657 minutes on 18 cores and 10 minutes on 1440 for Humanoid: an efficiency of 82 %,
relative to 18 cores, for one and the same task. Efficiency here is relative to one worker with its share of the
candidates, which is easier. FixedHumanoid has the
spaces of Humanoid but no physics, so its step is assumed to take 1 ms; published PyBullet robots run at 750 to 1900
steps/s on a core.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import psutil
from loops import CART_POLE, HUMANOID, RACE_CAR, Training, trained
from report import Report, Spread, options

import es_envs
from es_core.formatting import percent

WORKLOADS = {  # hidden sizes, seconds of a step (None: measured)
    CART_POLE: ((64, 64), None),
    RACE_CAR: ((64, 64), None),
    HUMANOID: ((256, 256), 1e-3),
}
GRID = [(candidates, workers) for candidates in (64, 512) for workers in (1, 2, 8)]
SCALES = (1, 16, 128, 1440)
CANDIDATES_PER_WORKER = (2, 20)
_LEAST = 1e-6  # seconds; processor time comes in ticks, so that very little of it reads as none


@dataclass(frozen=True)
class Reading:
    """Since they began: processor time of the main process and of its workers [s], bytes that the workers have read."""

    main: float
    workers: float
    read: int


def meter() -> Reading:
    """What main process and workers have used so far."""
    workers = psutil.Process().children()
    times = [process.cpu_times() for process in workers]
    return Reading(
        time.process_time(),
        sum(used.user + used.system for used in times),
        sum(process.io_counters().read_chars for process in workers),
    )


def per_generation(training: Training) -> Reading:
    """What a generation used."""
    first, last = training.metered
    return Reading(*((getattr(last, name) - getattr(first, name)) / training.generations for name in vars(first)))


def fitted(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Coefficients, none negative, that minimise the squares of the relative error."""
    scaled = np.array(rows, float) / np.maximum(values, _LEAST)[:, np.newaxis]
    used = list(range(scaled.shape[1]))
    while True:
        solution = np.linalg.lstsq(scaled[:, used], np.ones(len(values)), rcond=None)[0]
        if (solution >= 0).all():
            return [float(solution[used.index(column)]) if column in used else 0.0 for column in range(scaled.shape[1])]
        used.pop(int(solution.argmin()))


@dataclass(frozen=True)
class Model:
    """See the module's docstring; all costs in seconds."""

    main: tuple[float, ...]
    worker: tuple[float, ...]
    step: float
    length: int

    def generation(self, candidates: int, workers: int, cores: int | None = None) -> float:
        """Seconds of a generation; ``cores`` None: one for each process."""
        terms = _terms(candidates, workers)
        main = np.dot(self.main, terms)
        work = np.dot(self.worker, terms[1:]) + candidates * self.length * self.step
        alone = float(main + work / workers)
        return alone if cores is None else max(alone, float(main + work) / cores)


def _terms(candidates: int, workers: int) -> tuple[int, ...]:
    return 1, workers, candidates, candidates * workers


def fit_model(
    readings: dict[tuple[int, int], Reading], whole: Training | None, step: float | None, length: int
) -> Model:
    """The model of one round's measurements."""
    terms = [_terms(*point) for point in readings]
    main = fitted(terms, [reading.main for reading in readings.values()])
    worker = fitted([term[1:] for term in terms], [reading.workers for reading in readings.values()])
    if step is None and whole is not None:
        steps = whole.steps / whole.generations
        overhead = float(np.dot(worker, _terms(round(steps / length), 1)[1:]))
        step = max(per_generation(whole).workers - overhead, 0.0) / steps  # the ticks of a short trial may say less
    return Model(tuple(main), tuple(worker), step or 0.0, length)


@dataclass(frozen=True)
class Round:
    """One round's measurements of a workload.

    Attributes:
        model: fitted to them.
        checks: by workers: seconds of a generation of whole episodes, measured and by the model.
        bytes_read: by each worker, in a generation of the grid's last point.
    """

    model: Model
    checks: dict[int, tuple[float, float]]
    bytes_read: float


def measure(env_id: str, grid: Sequence[tuple[int, int]], *, seconds: float, population: int) -> Round:
    """Measure a workload once."""
    hidden_sizes, assumed_step = WORKLOADS[env_id]
    length = es_envs.definition(env_id).max_episode_steps or 0
    play = partial(trained, env_id, seconds=seconds, hidden_sizes=hidden_sizes, meter=meter)
    readings = {
        (candidates, workers): per_generation(play(population_size=candidates, workers=workers, max_episode_steps=1))
        for candidates, workers in grid
    }
    whole = {}
    if assumed_step is None:
        whole = {workers: play(population_size=population, workers=workers) for workers in (1, 2)}
    model = fit_model(readings, whole.get(1), assumed_step, length)
    cores = len(os.sched_getaffinity(0))
    checks = {
        workers: (training.seconds / training.generations, model.generation(population, workers, cores))
        for workers, training in whole.items()
    }
    return Round(model, checks, readings[grid[-1]].read / grid[-1][1])


def main() -> None:
    """Measure, fit, compare, predict."""
    given = options(__doc__, seconds=1.0)
    grid = [(candidates // 16, workers) for candidates, workers in GRID[::2]] if given.quick else GRID
    report = Report("scaling", given.out)
    measured: dict[str, list[Round]] = {env_id: [] for env_id in WORKLOADS}
    for _ in range(given.rounds):
        for env_id, rounds in measured.items():
            rounds.append(measure(env_id, grid, seconds=given.seconds, population=given.population))
    results = {env_id.partition(":")[2]: _summary(rounds) for env_id, rounds in measured.items()}

    report.head(
        "costs [µs]", "main: m0", "m1 (worker)", "m2 (candidate)", "m3 (both)",
        "workers: w1 (worker)", "w2 (candidate)", "w3 (both)", "s (step)", "read by a worker [kB]",
    )  # fmt: skip
    for name, result in results.items():
        costs = (f"{cost.median:.3g}" for cost in result["costs_us"])
        report.row(name, *costs, f"{result['bytes_read_by_a_worker'].median / 1e3:.0f}")
    report.say(f"Read: in a generation of {grid[-1][0]} candidates on {grid[-1][1]} workers, by each of these.")

    report.head(f"generation of {given.population} [s]", "workers", "measured", "model", "model / measured")
    for name, result in results.items():
        for workers, check in result["checks"].items():
            ratio = check["model"] / check["measured"]
            report.row(name, workers, f"{check['measured']:.3f}", f"{check['model']:.3f}", f"{ratio:.2f}")

    report.head("extrapolated", "workers", "candidates", "seconds of a generation", "steps/s", "efficiency")
    for name, result in results.items():
        for line in result["extrapolated"]:
            report.row(
                name,
                line["workers"],
                f"{line['candidates']:,}",
                f"{line['seconds']:.3g}",
                f"{line['steps_per_second']:,.0f}",
                percent(line["efficiency"]),
            )
    report.say("Published beside it: 82 % with 1440 cores, relative to 18, on Humanoid (Salimans et al. 2017).")
    report.save(results)


def _summary(rounds: Sequence[Round]) -> dict[str, Any]:
    """Costs, checks and predictions: medians over the rounds."""
    models = [each.model for each in rounds]
    columns = zip(*((*model.main, *model.worker, model.step) for model in models), strict=True)
    predictions = []
    for each in CANDIDATES_PER_WORKER:
        alone = median(model.generation(each, 1) for model in models)
        for workers in SCALES:
            seconds = median(model.generation(each * workers, workers) for model in models)
            predictions.append(
                {
                    "workers": workers,
                    "candidates": each * workers,
                    "seconds": seconds,
                    "steps_per_second": each * workers * models[0].length / seconds,
                    "efficiency": alone / seconds,
                }
            )
    return {
        "costs_us": [Spread(tuple(1e6 * value for value in column)) for column in columns],
        "bytes_read_by_a_worker": Spread(tuple(each.bytes_read for each in rounds)),
        "checks": {
            workers: {
                name: Spread(tuple(each.checks[workers][position] for each in rounds))
                for position, name in enumerate(("measured", "model"))
            }
            for workers in rounds[0].checks
        },
        "extrapolated": predictions,
    }


if __name__ == "__main__":
    main()
