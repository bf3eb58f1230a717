"""Comparison of runs, in groups that differ only in the seed, with tests whether groups differ by more than chance.

Names in a run's files are never imported, and nothing that they name is built.
"""

import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_core.config.strategy_defaults import defaults_of
from es_core.config.train_config import TrainConfig
from es_core.files import write_whole
from es_core.formatting import figures, html_table, interval_text, text_of
from es_core.reports.pages import Chart, Mark, render, require_page
from es_core.runs.listing import run_folders
from es_core.runs.metrics import GenerationStats
from es_core.runs.run_folder import RunFolder
from es_core.statistics import (
    Difference,
    Estimate,
    compare_paired,
    compare_unpaired,
    interquartile_mean,
    mean,
    mean_band,
)

_AXES = ("generations", "steps", "seconds")
_POINTS = 200  # of a curve
_LEAST_PAIRS = 6  # with five, p is at least 0.0625, whatever the difference
_COLOURS = 8
_SAME = ("seed", "decided")  # runs of a group may differ in these
_LEVEL = 0.05  # of p, shared between the contrasts of a comparison (Bonferroni)
_MOST_LINES = 60  # runs that are drawn one by one


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs that differ only in the seed.

    Attributes:
        name: the strategy, if that tells the groups apart; else the chosen settings in which they differ.
        runs: the runs, in the order of their seeds.
        scores: for each run, the fitness of the best centre on starts that no decision has seen (see
            ``Run.best_score``).
        fitness: mean of the scores.
        middle: their interquartile mean.
        solved: number of runs that reached ``solved_at``.
        steps: mean environment steps of a run, until it was solved or ended.
    """

    name: str
    runs: tuple[RunFolder, ...]
    scores: tuple[float, ...]
    fitness: Estimate
    middle: Estimate
    solved: int
    steps: Estimate

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the runs."""
        return tuple(run.config.seed for run in self.runs)


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """A comparison of a group with the first one: in "fitness", and in "steps to solve" if every run of both solved."""

    group: str
    against: str
    measure: str
    difference: Difference


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Comparison of a set of runs by their settings.

    Attributes:
        env_id: the environment's id, the same for all runs.
        fitness: name of the fitness, the same for all runs.
        groups: the groups, in the order in which their first runs were given.
        settings: by name, the value in each group, for settings that differ between groups.
        contrasts: comparisons of each group with the first.
    """

    env_id: str
    fitness: str
    groups: tuple[Group, ...]
    settings: dict[str, tuple[str, ...]]
    contrasts: tuple[Contrast, ...]

    @property
    def verdicts(self) -> tuple[str, ...]:
        """A sentence for each contrast: which group is better, or that they differ by no more than chance.

        A group is better if p is below 0.05, divided by the number of contrasts in this measure.
        """
        if len(self.groups) == 1:
            found = self.groups[0]
            return (f"one group of {len(found.runs)} runs: fitness {estimate_text(found.fitness)}",)
        return tuple(map(self._verdict, self.contrasts))

    def _verdict(self, contrast: Contrast) -> str:
        named = {group.name: group for group in self.groups}
        first, other = named[contrast.against], named[contrast.group]
        is_fitness, p = contrast.measure == "fitness", contrast.difference.p
        better, worse = (other, first) if (contrast.difference.value > 0) == is_fitness else (first, other)
        values = [estimate_text(group.fitness if is_fitness else group.steps) for group in (better, worse)]
        unit = "fitness " if is_fitness else "steps to solve: "
        numbers = f"{unit}{values[0]} against {values[1]}"
        if p is None:
            return f"too few runs, or too much alike, to tell {better.name} from {worse.name}: {numbers}"
        if p >= _LEVEL / sum(each.measure == contrast.measure for each in self.contrasts):
            return f"no difference beyond chance between {better.name} and {worse.name}: {numbers}, p = {p:.2g}"
        return f"{better.name} is {'better' if is_fitness else 'faster'} than {worse.name}: {numbers}, p = {p:.2g}"

    def to_json(self) -> dict[str, Any]:
        """All numbers except the curves, as JSON."""
        groups = [
            {
                "name": group.name,
                "runs": [str(run.directory) for run in group.runs],
                "seeds": list(group.seeds),
                "scores": list(group.scores),
                "fitness": asdict(group.fitness),
                "interquartile_mean": asdict(group.middle),
                "solved": group.solved,
                "steps": asdict(group.steps),
            }
            for group in self.groups
        ]
        contrasts = [asdict(contrast) for contrast in self.contrasts]
        head = {"env_id": self.env_id, "fitness": self.fitness, "verdicts": list(self.verdicts)}
        return {**head, "groups": groups, "contrasts": contrasts}

    def _repr_html_(self) -> str:
        """For a notebook: a row for each group."""
        rows = [("", "runs", self.fitness, "95 % interval", "solved")]
        for group in self.groups:
            value, interval = group.fitness.value, group.fitness.interval
            cells = (figures(value, interval), interval_text(interval))
            rows.append((group.name, f"{len(group.runs)}", *cells, f"{group.solved}"))
        return html_table(*rows)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page: curves with intervals over the seeds, tables, tests.

        Raises:
            ValueError: ``path`` does not end in .html.
            OSError: the page cannot be written.
        """
        path = require_page(path)
        runs = [run for group in self.groups for run in group.runs]
        grids = {axis: _grid(axis, runs) for axis in _AXES}
        page = render(
            "compare.html",
            grids={axis: {axis: grids[axis].tolist()} for axis in _AXES},
            charts=_charts(self, grids),
            linked=False,
            comparison=self,
            runs=len(runs),
            colours=[_colour(number) for number in range(len(self.groups))],
            version=version("es-envs"),
            made=f"{datetime.now().astimezone():%Y-%m-%d %H:%M}",
        )
        write_whole(path, page)
        return path


def compare(sources: Sequence[RunFolder | str | os.PathLike[str]]) -> Comparison:
    """Compare runs of one environment and fitness.

    The others are compared with the first group: by the paired test if both have the same seeds, at least six, and the
    runs of a seed are scored on the same starts of the same environment; else by Welch's t. A run's value is its best
    centre's score on starts that no decision has seen, or, if it has not ended, the score that confirmed that centre.

    Args:
        sources: Runs or their folders, or folders of runs, such as a group's of ``train_seeds``; at least two runs.

    Raises:
        FileNotFoundError: there is no such run.
        CheckpointError: a run is damaged.
        ValueError: there are fewer than two runs, one is given twice, environments or fitness functions differ, or a
            run's centre was never evaluated.
    """
    runs = [run for source in sources for run in _open_runs(source)]
    _require_comparable(runs)
    members = [
        sorted((runs[k] for k in group), key=lambda run: run.config.seed)
        for group in alike([run.config for run in runs])
    ]
    for one, other in itertools.chain.from_iterable(map(itertools.pairwise, members)):
        if one.config.seed == other.config.seed:
            raise ValueError(
                f"{one.directory} and {other.directory} have equal settings and the same seed: they are the same run "
                "twice; leave one out"
            )
    settings = _different([group[0].config for group in members])
    groups = tuple(map(_group, group_names([group[0].config for group in members]), members))
    contrasts = [contrast for group in groups[1:] for contrast in _contrasts(groups[0], group)]
    return Comparison(
        env_id=runs[0].config.env_id,
        fitness=str(runs[0].config.fitness),
        groups=groups,
        settings=settings,
        contrasts=tuple(contrasts),
    )


def alike(configs: Sequence[TrainConfig]) -> list[list[int]]:
    """Groups of configs that differ only in the seed, as their places, in the order of their first ones."""
    groups: dict[str, list[int]] = {}
    for place, config in enumerate(configs):
        groups.setdefault(repr({**config.to_json(), **dict.fromkeys(_SAME)}), []).append(place)
    return list(groups.values())


def _different(configs: Sequence[TrainConfig]) -> dict[str, tuple[str, ...]]:
    """By name, the value in each config, of settings that differ."""
    values = [config.to_json() for config in configs]
    return {
        name: tuple(_label(each[name]) for each in values)
        for name in values[0]
        if name not in _SAME and any(each[name] != values[0][name] for each in values)
    }


def group_names(configs: Sequence[TrainConfig]) -> list[str]:
    """A name for each group: of the settings that differ, those that somebody chose, as far as these are enough.

    What follows from them, by the rule or a strategy's own defaults, is in the page's table.

    Args:
        configs: one of each group.
    """
    settings, chosen = _different(configs), {"strategy"}.union(*map(_changed_names, configs))
    for wanted in ({"strategy"}, chosen, {*settings}):
        named = {name: values for name, values in settings.items() if name in wanted}
        names = [", ".join(f"{name}={values[k]}" for name, values in named.items()) for k in range(len(configs))]
        if len({*names}) == len(names):
            return [name or "all runs" for name in names]
    return names


def _changed_names(config: TrainConfig) -> set[str]:
    """Settings that the run itself has not decided, and that differ from the defaults, its strategy's own included."""
    default = TrainConfig(env_id=config.env_id, **defaults_of(config.strategy)).to_json()
    return {name for name, value in config.to_json().items() if name not in config.decided and value != default[name]}


def _open_runs(source: RunFolder | str | os.PathLike[str]) -> list[RunFolder]:
    """A run, or all runs of a folder, at any depth."""
    if isinstance(source, RunFolder):
        return [source]
    return [RunFolder.open(folder) for folder in sorted(run_folders(Path(source))) or [Path(source)]]


def _require_comparable(runs: Sequence[RunFolder]) -> None:
    if len(runs) < 2:
        raise ValueError(f"a comparison needs at least two runs, got {len(runs)}")
    score = "; or score each run by one fitness: `es-envs evaluate RUN --fitness NAME`"
    for name, remedy in (("env_id", ""), ("fitness", score)):
        for run in runs:
            here, there = getattr(runs[0].config, name), getattr(run.config, name)
            if here != there:
                raise ValueError(
                    f"{run.directory} has {name}={there!r}, {runs[0].directory} has {here!r}: numbers of different "
                    f"tasks cannot be compared; give runs of one environment and one fitness{remedy}"
                )
    for run in runs:
        if run.best_score is None:
            cause = "eval_every=0" if run.history and run.config.eval_every == 0 else "no generation is finished"
            raise ValueError(f"the centre of {run.directory} was never evaluated ({cause}): leave that run out")


def _group(name: str, runs: Sequence[RunFolder]) -> Group:
    scores = [score.mean for _, score in filter(None, (run.best_score for run in runs))]
    return Group(
        name=name,
        runs=tuple(runs),
        scores=tuple(scores),
        fitness=mean(scores),
        middle=interquartile_mean(scores),
        solved=sum(run.end == "solved" for run in runs),
        steps=mean([run.history[-1].search_steps for run in runs]),
    )


def _contrasts(first: Group, other: Group) -> list[Contrast]:
    paired = first.seeds == other.seeds and len(first.seeds) >= _LEAST_PAIRS and _starts(first) == _starts(other)
    test = compare_paired if paired else compare_unpaired
    measures = {"fitness": (first.scores, other.scores)}
    if first.solved == len(first.runs) and other.solved == len(other.runs):
        steps = [[float(run.history[-1].search_steps) for run in group.runs] for group in (first, other)]
        measures["steps to solve"] = (tuple(steps[0]), tuple(steps[1]))
    return [
        Contrast(group=other.name, against=first.name, measure=name, difference=test(*values))
        for name, values in measures.items()
    ]


def _starts(group: Group) -> list[object]:
    """Settings, apart from the seed, that fix the starts of a run's score; without a final score they are its own."""
    names = ("env_kwargs", "randomize", "confirm_episodes", "vector_starts")
    return [
        [getattr(run.config, name) for name in names] if run.history[-1].final is not None else run.directory
        for run in group.runs
    ]


def estimate_text(number: Estimate) -> str:
    """A number with its interval, for people: "58 (14 to 91)"."""
    value = figures(number.value, number.interval)
    return value if number.interval is None else f"{value} ({interval_text(number.interval)})"


def _charts(comparison: Comparison, grids: dict[str, NDArray[np.float64]]) -> list[Chart]:
    def marks(value: Callable[[GenerationStats], float | None], *, interval: bool = True) -> tuple[Mark, ...]:
        drawn = []
        for axis, (number, group) in itertools.product(_AXES, enumerate(comparison.groups)):
            curves = np.array([_curve(run, axis, value, grids[axis]) for run in group.runs])
            curves[:, grids[axis] > max(_places(run, axis)[-1] for run in group.runs)] = np.nan
            values, low, high = (column.tolist() for column in mean_band(curves))
            ends = {"low": low, "high": high} if interval else {}
            drawn.append(Mark(label=group.name, colour=_colour(number), grid=axis, values=values, **ends))
        return tuple(drawn)

    def of_centre(stats: GenerationStats) -> float | None:
        return stats.evaluation.mean if stats.evaluation else None

    def of_population(stats: GenerationStats) -> float | None:
        return stats.fitness_mean

    runs = [(number, run) for number, group in enumerate(comparison.groups) for run in group.runs]
    single = [
        Mark(
            label=f"{run.directory}",
            colour=_colour(number),
            grid=axis,
            values=_curve(run, axis, of_centre, grids[axis]).tolist(),
            thin=True,
        )
        for axis, (number, run) in itertools.product(_AXES, runs)
        if len(runs) <= _MOST_LINES and len(comparison.groups[number].runs) > 1
    ]
    solved_at = {run.config.solved_at for group in comparison.groups for run in group.runs} - {None}
    goals = [Mark(label="solved at", colour="goal", rule=goal) for goal in solved_at if goal is not None]
    some_solved = any(group.solved for group in comparison.groups)
    return [
        Chart(
            name="fitness",
            title=f"Fitness of the centre: {comparison.fitness}",
            note="On starts that training never sees: the mean over a group's runs, with its 95 % interval over seeds; "
            "thin lines are single runs. "
            "A solved run keeps its last value while others of its group continue; a group's curve ends with its last "
            "run, or with the first unsolved one.",
            marks=(*(goals if len(goals) == 1 else ()), *single, *marks(of_centre)),
        ),
        Chart(
            name="solved",
            title="Solved",
            note="Share of a group's runs that have reached the goal.",
            marks=marks(lambda stats: float(stats.solved), interval=False) if some_solved else (),
            limits=(0, 1),
            percent=True,
        ),
        Chart(
            name="population",
            title="Fitness of the population",
            note="Mean fitness of the population in training, over the same runs.",
            marks=marks(of_population),
        ),
    ]


def _places(run: RunFolder, axis: str) -> NDArray[np.float64]:
    if axis == "seconds":
        return np.cumsum([stats.seconds for stats in run.history])
    name = {"generations": "generation", "steps": "search_steps"}[axis]
    return np.array([getattr(stats, name) for stats in run.history], float)


def _grid(axis: str, runs: Sequence[RunFolder]) -> NDArray[np.float64]:
    ends = [float(_places(run, axis)[-1]) for run in runs]
    grid = np.linspace(0, max(ends), _POINTS)
    return np.union1d(grid.round() if axis == "generations" else grid, ends)


def _curve(
    run: RunFolder, axis: str, value: Callable[[GenerationStats], float | None], grid: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A run's last value at each place of the grid; NaN before the first, and after the end of an unsolved run."""
    values = [value(stats) for stats in run.history]
    known = [k for k, each in enumerate(values) if each is not None]
    places = _places(run, axis)
    if not known:
        return np.full(len(grid), np.nan)
    found = np.searchsorted(places[known], grid, side="right") - 1
    curve = np.array([values[k] for k in known], float)[found]
    curve[found < 0] = np.nan
    if run.end != "solved":
        curve[grid > places[-1]] = np.nan
    return curve


def _label(value: Any) -> str:
    """The value of a setting; a float without meaningless digits."""
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else text_of(value)


def _colour(number: int) -> str:
    return f"group-{number % _COLOURS + 1}"
