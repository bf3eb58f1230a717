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
    from es_core.reports.comparison import Comparison
    from es_core.statistics import Estimate


def add(commands: Any) -> None:
    """Add these commands."""
    sub = add_command(commands, "runs", _runs, "list runs: their state, fitness, steps, age, and how to continue")
    sub.add_argument(
        "folder", nargs="?", default="runs", metavar="FOLDER", help="runs in it, at any depth (default: %(default)s)"
    )

    sub = add_command(
        commands, "report", _report, "write a page about a run: its score, what to do now, curves, films, settings"
    )
    sub.add_argument("run", metavar="RUN", help="a run folder")
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


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _report(options: argparse.Namespace) -> None:
    from es_core.reports.run_report import report

    page = _page(options, options.page)
    if options.follow:
        log(f"page, until the run ends: {page or Path(options.run) / 'report.html'}")
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
    from es_core.formatting import figures, interval_text

    def cell(number: "Estimate") -> str:
        value = figures(number.value, number.interval)
        return value if number.interval is None else f"{value} ({interval_text(number.interval)})"

    rows = [
        (
            group.name,
            str(len(group.runs)),
            str(group.solved),
            *map(cell, (group.fitness, group.middle, group.steps)),
        )
        for group in comparison.groups
    ]
    print_table([("group", "runs", "solved", "fitness (95 %)", "IQM (95 %)", "steps (95 %)"), *rows], headed=True)
    for contrast in comparison.contrasts:
        found = contrast.difference
        p = "unknown: too few runs, or no scatter" if found.p is None else f"{found.p:.3g}"
        what = f"{contrast.measure}: {contrast.group} against {contrast.against}"
        print_result(f"{what}: {found.value:+.4g}, p = {p} ({found.test})")
