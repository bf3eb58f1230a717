"""The commands that look at runs as a whole: runs, report, compare."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from es_core.cli.arguments import add_command, add_trust
from es_core.cli.output import command_line, log, print_json, print_result, print_table
from es_envs.registry import plain_id

_NAME = 22  # characters of an environment's id: the table fits 80 columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from es_core.reports.comparison import Comparison
    from es_core.runs.listing import ListedRun


def add(commands: Any) -> None:
    """Add these commands."""
    sub = add_command(commands, "runs", _runs, "list runs: their state, fitness, steps, age, and how to continue")
    sub.add_argument(
        "folder", nargs="?", default="runs", metavar="FOLDER", help="runs in it, at any depth (default: %(default)s)"
    )

    sub = add_command(
        commands, "report", _report, "write a page about a run: its score, what to do now, curves, films, settings"
    )
    sub.add_argument("run", metavar="RUN", help="a run folder; of a folder of several, they are compared")
    sub.add_argument("page", nargs="?", metavar="PAGE.html", help="default: report.html in the run's folder")
    sub.add_argument("-o", "--output", metavar="PAGE.html", help="the same")
    sub.add_argument(
        "--film", action="store_true", help="film the best policy, and draw its worst and best start, for the page"
    )
    sub.add_argument(
        "--follow",
        action="store_true",
        help="while the run is training, write the page again after each generation; a browser then loads it again",
    )
    add_trust(sub)

    sub = add_command(
        commands,
        "compare",
        _compare,
        "compare runs: curves and tests over groups that differ only in the seed",
        examples=(
            "runs/RaceCar-v0",
            "runs/sigma-0.05 runs/sigma-0.1 sigma.html  # groups of seeds",
        ),
    )
    sub.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="run folders, or folders of several, of one environment and fitness; a last name that ends in .html is "
        "that of the page",
    )
    sub.add_argument("-o", "--output", metavar="PAGE.html", help="default: compare.html")


def _runs(options: argparse.Namespace) -> None:
    from es_core.formatting import duration, figures, percent
    from es_core.runs.listing import list_runs

    runs = list_runs(options.folder)
    if options.json:
        print_json([asdict(run) for run in runs])
        return
    if not runs:
        log(f"there are no runs in {options.folder}: `{command_line('train', 'ID')}` makes one")
        return
    rows = [("environment", "state", "fitness", "success", "generation", "steps", "age")]
    for run in runs:
        score, generation = run.score, "-" if run.generation is None else str(run.generation)
        if run.generation is not None and run.generations is not None:
            generation += f"/{run.generations}"
        fitness = "-" if score is None else figures(score.mean, score.interval)
        success = "-" if score is None or score.success_rate is None else percent(score.success_rate)
        name = "-" if run.env_id is None else _shortened(plain_id(run.env_id))
        rows.append((name, run.state, fitness, success, generation, figures(run.steps), duration(run.age)))
    below = (run.next if run.error is None else f"{run.error}: {run.next}" for run in runs)
    print_table(rows, headed=True, names=0, below=["", *below])
    _print_groups([run for run in runs if run.env_id is not None])


def _print_groups(runs: "Sequence[ListedRun]") -> None:
    """Print runs that differ only in the seed as groups, each with the command that compares it."""
    from es_core.config.train_config import TrainConfig
    from es_core.formatting import figures
    from es_core.reports.comparison import alike, estimate_text, group_names
    from es_core.runs.listing import run_folders
    from es_core.statistics import mean

    configs = [TrainConfig.load(run.directory / "config.json") for run in runs]
    groups = [group for group in alike(configs) if len(group) > 1]
    if not groups:
        return
    tasks = {(configs[group[0]].env_id, configs[group[0]].fitness) for group in groups}
    names: dict[int, str] = {}
    for task in tasks:
        firsts = [group[0] for group in groups if (configs[group[0]].env_id, configs[group[0]].fitness) == task]
        names |= zip(firsts, group_names([configs[first] for first in firsts]), strict=True)
    rows, below = [("environment", "group", "seeds", "solved", "fitness (95 %)")], [""]
    for group in groups:
        scores = [score.mean for score in (runs[k].score for k in group) if score is not None]
        solved = sum(runs[k].state == "solved" for k in group)
        seeds = _seeds_text(sorted(configs[k].seed for k in group))
        fitness = figures(None) if not scores else estimate_text(mean(scores))
        name = _shortened(plain_id(configs[group[0]].env_id))
        rows.append((name, names[group[0]], seeds, f"{solved} of {len(group)}", fitness))
        folders = [runs[k].directory for k in group]
        parent = folders[0].parent
        whole = {*folders} == {*run_folders(parent)}
        below.append(command_line("compare", *([parent] if whole else folders)))
    print_result("\nRuns that differ only in the seed:")
    print_table(rows, headed=True, names=0, below=below)


def _seeds_text(seeds: "Sequence[int]") -> str:
    """Return "0..4" for seeds without a gap, else "0,2,5"."""
    first, last = seeds[0], seeds[-1]
    return f"{first}..{last}" if seeds == list(range(first, last + 1)) else ",".join(map(str, seeds))


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _report(options: argparse.Namespace) -> None:
    from es_core.reports.run_report import report

    page = _page(options, options.page)
    if options.follow:
        log(f"page, until the run ends: {page or Path(options.run) / 'report.html'}")
    if folders := _runs_inside(Path(options.run)):
        if options.film or options.follow:
            raise ValueError(f"{options.run} has {len(folders)} runs: --film and --follow are for a page about one")
        options.runs, options.output = [options.run], page or str(Path(options.run) / "compare.html")
        _compare(options)
        return
    path = report(
        options.run,
        page,
        film=options.film,
        follow=options.follow,
        trust=options.trust_names,
        progress=not options.quiet,
    )
    if options.json:
        print_json({"path": str(path)})
    else:
        print_result(path)


def _runs_inside(folder: Path) -> list[Path]:
    """The runs in a folder that is none itself, if there are several."""
    from es_core.runs.listing import run_folders

    found = list(run_folders(folder)) if folder.is_dir() else []
    return found if len(found) > 1 else []


def _page(options: argparse.Namespace, name: str | None) -> str | None:
    """The page's name, given behind the runs or as an option."""
    if name is not None and options.output is not None:
        raise ValueError(f"the page is named twice, {name} and {options.output}: leave out one of the two")
    page: str | None = name if options.output is None else options.output
    return page


def _compare(options: argparse.Namespace) -> None:
    from es_core.reports.comparison import compare

    last = (
        options.runs.pop() if len(options.runs) > 1 and options.runs[-1].lower().endswith((".html", ".htm")) else None
    )
    page = _page(options, last)
    comparison = compare(options.runs)
    path = comparison.save(page or "compare.html")
    if options.json:
        print_json({**comparison.to_json(), "path": str(path)})
        return
    print_comparison(comparison)
    log(f"page: {path}")


def print_comparison(comparison: "Comparison") -> None:
    """Print the groups and their differences."""
    from es_core.reports.comparison import estimate_text

    rows = [
        (
            group.name,
            str(len(group.runs)),
            str(group.solved),
            *map(estimate_text, (group.fitness, group.middle, group.steps)),
        )
        for group in comparison.groups
    ]
    print_table([("group", "runs", "solved", "fitness (95 %)", "IQM (95 %)", "steps (95 %)"), *rows], headed=True)
    for sentence in comparison.verdicts if len(comparison.groups) > 1 else ():
        print_result(sentence)
