"""A trial of a search for settings: a choice of settings, its runs, and the value by which trials are compared."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class RunScore:
    """Score of one run.

    Attributes:
        seed: the run's seed.
        solved: True if it solved the task.
        fitness: fitness of its best centre, on starts that no decision of the run has seen.
        steps: environment steps until it was solved or ended.
        success_rate: share of that centre's episodes that were successful; None if the environment does not say.
    """

    seed: int
    solved: bool
    fitness: float
    steps: int
    success_rate: float | None = None


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One choice of settings, and its result.

    Attributes:
        number: from 0.
        state: "complete", "pruned" (other trials were better at that point) or "failed".
        settings: the searched settings, as JSON.
        runs: scores of its runs, one for each seed; in an incomplete trial only of those that ended.
        reason: reason why it was pruned or failed.
    """

    number: int
    state: str
    settings: Mapping[str, Any]
    runs: tuple[RunScore, ...]
    reason: str = ""

    @property
    def solved(self) -> int:
        """Number of runs that solved the task."""
        return sum(run.solved for run in self.runs)

    @property
    def fitness(self) -> float:
        """Mean of the runs' fitness."""
        return fmean(run.fitness for run in self.runs)

    @property
    def success_rate(self) -> float | None:
        """Mean of the runs' success rates; None if the environment does not say."""
        rates = [run.success_rate for run in self.runs if run.success_rate is not None]
        return fmean(rates) if rates else None

    @property
    def steps(self) -> float:
        """Mean of the runs' environment steps."""
        return fmean(run.steps for run in self.runs)

    @property
    def value(self) -> float:
        """Value that the search maximises; see ``tune``."""
        return value_of(self.runs)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read what ``dataclasses.asdict`` returned."""
        return cls(**{**values, "runs": tuple(RunScore(**run) for run in values["runs"])})


def value_of(runs: Sequence[RunScore]) -> float:
    """Number of solved runs, plus a fraction from 0 to 1 for the mean steps if all are solved, else the mean fitness.

    Only the order matters, for both sampler and pruner.
    """
    solved = sum(run.solved for run in runs)
    measure = -fmean(run.steps for run in runs) if solved == len(runs) else fmean(run.fitness for run in runs)
    return solved + 0.5 + math.copysign(math.log1p(abs(measure)), measure) / 1500  # log1p stays below 710


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """The complete trial with the highest value, or None."""
    complete = [trial for trial in trials if trial.state == "complete"]
    return max(complete, key=lambda trial: trial.value, default=None)
