"""What the benchmarks share: options, the machine's line, alternating measurements, Markdown tables, JSON files."""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import numpy as np

from es_core.formatting import figures
from es_core.runs.provenance import versions
from es_core.statistics import mean

if TYPE_CHECKING:
    from es_core import Checkpoint

PACKAGES = ("es-envs", "numpy", "pybullet", "gymnasium")
QUICK = "--quick" in sys.argv
"""True if the command is only tried out: it does as little as it can, and its figures mean nothing."""
OUT = Path("runs/benchmarks")
PAGES, RUNS = (OUT / "quick", OUT / "quick" / "runs") if QUICK else (Path("docs/results"), Path("runs"))
"""Folders of pages with what they are written from, and of runs: what is tried out replaces no page."""


def arguments(documentation: str | None) -> argparse.ArgumentParser:
    """A parser of the command line that knows ``--quick``."""
    parser = argparse.ArgumentParser(
        description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--quick", action="store_true", help="only try the command out: its figures mean nothing")
    return parser


def page_options(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """What the command line of a command that writes pages asks for; what was tried out before is deleted."""
    given = parser.parse_args()
    if given.quick:
        shutil.rmtree(PAGES, ignore_errors=True)
        PAGES.mkdir(parents=True)
    return given


def options(documentation: str | None, *, seconds: float = 3.0, rounds: int = 5) -> argparse.Namespace:
    """What the command line says: ``rounds``, ``seconds`` (of each measurement), ``population``, ``quick``, ``out``."""
    parser = arguments(documentation)
    parser.add_argument("--rounds", type=int, help=f"how often everything is measured in turn (default: {rounds})")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the JSON file (default: %(default)s)")
    given = parser.parse_args()
    given.rounds = given.rounds or (1 if given.quick else rounds)
    given.seconds = 0.1 if given.quick else seconds
    given.population = 4 if given.quick else 64
    return given


def idle(policy: "Checkpoint") -> "Checkpoint":
    """The same policy with all parameters 0: its outputs are, too, so it does nothing."""
    return replace(policy, mean=np.zeros_like(policy.mean))


@dataclass(frozen=True)
class Spread:
    """What the rounds measured; it is shown as ``median (lower quartile to upper quartile)``."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return median(self.values)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The lower and the upper one."""
        if len(self.values) == 1:
            return self.values[0], self.values[0]
        lower, _, upper = quantiles(self.values, n=4, method="inclusive")
        return lower, upper

    def __format__(self, spec: str) -> str:
        lower, upper = self.quartiles
        return f"{self.median:{spec}} ({lower:{spec}} to {upper:{spec}})"

    def __truediv__(self, other: "Spread") -> "Spread":
        """Round by round, since what disturbs the machine for a while disturbs both sides of a round."""
        return Spread(tuple(ours / theirs for ours, theirs in zip(self.values, other.values, strict=True)))

    def to_json(self) -> dict[str, Any]:
        """Median, quartiles and every value."""
        return {"median": self.median, "quartiles": self.quartiles, "values": self.values}


def alternate(measurements: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, Spread]:
    """Measure A B C A B C ...: a machine that grows slower or faster meanwhile favours none of them."""
    values: dict[str, list[float]] = {name: [] for name in measurements}
    for _ in range(rounds):
        for name, measure in measurements.items():
            values[name].append(measure())
    return {name: Spread(tuple(measured)) for name, measured in values.items()}


class Report:
    """The machine's line and tables on stdout, and a JSON file.

    Args:
        name: of the file.
        out: its folder.
        packages: further distributions whose version matters.
    """

    def __init__(self, name: str, out: Path = OUT, packages: Iterable[str] = ()) -> None:
        self._path = out / f"{name}.json"
        self.machine: dict[str, Any] = {
            "architecture": platform.machine(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "python": platform.python_version(),
            "versions": versions(*PACKAGES, *packages),
        }
        print(in_words(self.machine))

    def head(self, *columns: str) -> None:
        """Begin a table."""
        print(f"\n{table(columns, [])}", flush=True)

    def row(self, *cells: object) -> None:
        """Add a row to it."""
        print(_line(map(str, cells)), flush=True)

    def say(self, text: str) -> None:
        """A sentence below the table."""
        print(f"\n{text}", flush=True)

    def save(self, results: object) -> None:
        """Write the machine and the results."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"machine": self.machine, "results": results}, indent=2, default=_plain, allow_nan=False)
        self._path.write_text(f"{text}\n", encoding="utf-8")


@dataclass(frozen=True)
class Target:
    """What a page's figures are to reach, and whether they do; None if they only compare what the line names."""

    line: str
    reached: bool | None = None

    def __str__(self) -> str:
        verdict = self.cells[1]
        return f"To reach: {self.line}. **{verdict.capitalize()}.**" if verdict else f"Compared: {self.line}."

    @property
    def cells(self) -> tuple[str, str]:
        """The columns "target" and "reached" of README.md."""
        if self.reached is None:
            return f"none: it compares {self.line}", ""
        return self.line, "reached" if self.reached else "missed"


def write_page(name: str, title: str, target: Target, text: str) -> None:
    """Write a page, and beside it a JSON file, from which ``results.py --page`` writes the page's row of README.md."""
    (PAGES / f"{name}.md").write_text(f"# {title}\n\n{text}", encoding="utf-8")
    row = json.dumps({"title": title, "target": target.line, "reached": target.reached}, indent=1)
    (PAGES / f"{name}.json").write_text(f"{row}\n", encoding="utf-8")


def table(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    return "\n".join([_line(columns), _line(["---"] * len(columns), space=""), *map(_line, rows)])


def _line(cells: Iterable[str], space: str = " ") -> str:
    return f"|{space}{f'{space}|{space}'.join(cells)}{space}|"


def estimated(values: Sequence[float]) -> str:
    """The mean, with its 95 % interval if there are several values; "" if there is none."""
    if not values:
        return ""
    found = mean(values)
    return with_interval(found.value, found.interval) if len(values) > 1 else figures(found.value)


def with_interval(value: float, interval: Sequence[float] | None) -> str:
    """A mean with the interval that is known of it."""
    if interval is None or interval[0] == interval[1]:  # as older versions wrote that there is none
        return f"{figures(value)} (all alike)"
    ends = interval[0], interval[1]
    return f"{figures(value, ends)} ({' to '.join(figures(end, ends) for end in ends)})"


def in_words(machine: Mapping[str, Any]) -> str:
    """``Report.machine`` in one line."""
    versions = ", ".join(f"{package} {number}" for package, number in machine["versions"].items())
    return f"{machine['architecture']}, {machine['cores']} cores, Python {machine['python']}, {versions}"


def pyplot(name: str) -> Any:
    """Matplotlib, whose files are equal if results are; None where it is missing and the command is only tried out."""
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        if QUICK:
            return None
        raise
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = name
    from matplotlib import pyplot as plt

    return plt


def commit() -> str:
    """The version that is measured, "unknown" outside of a checkout."""
    words = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def _plain(value: Any) -> Any:
    return value.to_json()
