"""Every strategy by hand, through ask and tell, on the sphere and on Rosenbrock's valley: docs/results/functions.md.

Usage: python benchmarks/functions.py [--quick]

Five parameters, 16 candidates, 1000 generations, three seeds, beside the package cmaes with the same population and
first step size. It takes a minute, and needs cmaes and matplotlib.
"""

from collections.abc import Callable, Mapping
from typing import Any

import cmaes
import numpy as np
from numpy.typing import NDArray
from report import PAGES, QUICK, Report, Target, arguments, in_words, page_options, pyplot, table, write_page

from es_core import STRATEGIES
from es_core.strategies.schedules import schedule

SIZE, POPULATION, SEEDS = 5, 16, range(3)
SHOWN = (1, 3, 10) if QUICK else (100, 300, 1000)  # generations
GENERATIONS = SHOWN[-1]
BELOW = 0.01  # what the sphere is to reach
Values = NDArray[Any]
Curve = list[float]  # of the centre, before each generation and after the last


def sphere(x: Values) -> float:
    """Sum of the squares."""
    return float(np.square(x, dtype=np.float64).sum())


def rosenbrock(x: Values) -> float:
    """A bent valley whose floor is nearly flat; 0 where all parameters are 1 (Rosenbrock 1960)."""
    x = x.astype(np.float64)
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


# Where they start: at a distance of some steps from the best point, in all parameters.
FUNCTIONS: Mapping[str, tuple[Callable[[Values], float], float]] = {
    "sphere": (sphere, 1.5),
    "Rosenbrock": (rosenbrock, 0.0),
}


def falling(first: float, last: float) -> Any:
    """From ``first`` to ``last``, by the same factor in each generation: without, a fixed step stays a fixed step."""
    return schedule(first, last, shape="exponential", generations=GENERATIONS)


SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "openai_es": {"sigma": falling(0.1, 0.001), "learning_rate": falling(0.1, 0.001)},
    "ars": {"sigma": falling(0.1, 0.001), "learning_rate": falling(0.1, 0.001)},
    "pgpe": {"sigma": 0.3, "learning_rate": falling(0.1, 0.001)},
    "snes": {"sigma": 0.3},
    "cma_es": {"sigma": 0.3},
    "sep_cma_es": {"sigma": 0.3},
    "ga": {"sigma": falling(0.3, 0.003)},
    "random_search": {"sigma": 1.0},
}


def ours(name: str, function: Callable[[Values], float], start: float, seed: int) -> Curve:
    """The values of the mean of one of our strategies."""
    mean = np.full(SIZE, start, np.float32)
    strategy = STRATEGIES[name](mean, population_size=POPULATION, seed=seed, **SETTINGS[name])
    curve = [function(strategy.mean)]
    for _ in range(GENERATIONS):
        population = strategy.ask()
        strategy.tell(np.array([-function(population.candidate(index)) for index in range(POPULATION)]))
        curve.append(function(strategy.mean))
    return curve


def theirs(kind: type[cmaes.CMA | cmaes.SepCMA], function: Callable[[Values], float], start: float, seed: int) -> Curve:
    """The values of the mean of the package's."""
    optimizer = kind(mean=np.full(SIZE, start), sigma=0.3, population_size=POPULATION, seed=seed)
    curve = [function(optimizer.mean)]
    for _ in range(GENERATIONS):
        asked = [optimizer.ask() for _ in range(POPULATION)]
        optimizer.tell([(candidate, function(candidate)) for candidate in asked])
        curve.append(function(optimizer.mean))
    return curve


def main() -> None:
    """Measure, print, and write the page."""
    page_options(arguments(__doc__))
    report = Report("functions", packages=["cmaes"])
    contenders: dict[str, Callable[..., Curve]] = {
        **{name: lambda *how, name=name: ours(name, *how) for name in SETTINGS},
        "cmaes.CMA": lambda *how: theirs(cmaes.CMA, *how),
        "cmaes.SepCMA": lambda *how: theirs(cmaes.SepCMA, *how),
    }
    curves = {
        (title, name): [run(function, start, seed) for seed in SEEDS]
        for title, (function, start) in FUNCTIONS.items()
        for name, run in contenders.items()
    }
    tables = []
    for title in FUNCTIONS:
        rows = [_row(name, curves[title, name]) for name in contenders]
        head = ["", *(f"after {count} generations" for count in SHOWN), "worst seed at the end"]
        tables.append(f"## {title}\n\n{table(head, rows)}")
    text = "\n\n".join(tables)
    print(f"\n{text}")
    worst = {name: max(curve[-1] for curve in curves["sphere", name]) for name in SETTINGS if name != "random_search"}
    target = Target(
        f"the sphere below {BELOW} with every seed and every strategy but random search", max(worst.values()) < BELOW
    )
    write_page(
        "functions",
        "Every strategy by hand, on two functions",
        target,
        f"""\
Every strategy that learns from fitness alone, through `ask` and `tell`: {SIZE} parameters, {POPULATION} candidates,
{GENERATIONS} generations, seeds {min(SEEDS)} to {max(SEEDS)}. Shown is the value of the centre, the median over the
seeds; 0 is best. The sphere starts at 1.5 in all parameters, Rosenbrock's valley at 0; the settings are in
`benchmarks/functions.py`: sigma and learning rate fall from the first generation to the last where a strategy does not
adapt its steps by itself. Parameters are float32 here, float64 in the package `cmaes`, which has the same population
and the same first step size.

{target}

{text}

![Values of the centre](functions.svg)

`python benchmarks/functions.py`; {in_words(report.machine)}.
""",
    )
    _plot(list(contenders), curves)
    report.save({f"{title}, {name}": [run[-1] for run in own] for (title, name), own in curves.items()})


def _row(name: str, own: list[Curve]) -> list[str]:
    medians = [f"{np.median([curve[count] for curve in own]):.1e}" for count in SHOWN]
    return [name, *medians, f"{max(curve[-1] for curve in own):.1e}"]


def _plot(names: list[str], curves: Mapping[tuple[str, str], list[Curve]]) -> None:
    if not (plt := pyplot("functions")):
        return
    figure, axes = plt.subplots(1, len(FUNCTIONS), figsize=(11, 4), layout="constrained")
    for title, axis in zip(FUNCTIONS, axes, strict=True):
        for number, name in enumerate(names):
            style = "--" if "." in name else "-"
            median = np.median(curves[title, name], axis=0)
            axis.plot(np.maximum(median, 1e-16), style, color=f"C{number}", label=name, linewidth=1.2)
        axis.set(title=title, xlabel="generation", ylabel="value of the centre, median of the seeds", yscale="log")
    axes[-1].legend(fontsize=8)
    figure.savefig(PAGES / "functions.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
