"""The commands that look at runs as a whole: report, compare."""

import argparse
from typing import TYPE_CHECKING, Any

from es_core.cli.arguments import add_command, add_trust
from es_core.cli.output import print_json, print_table, put, say

if TYPE_CHECKING:
    from es_core.reports.comparison import Comparison
    from es_core.statistics import Estimate


def add(commands: Any) -> None:
    """Add these commands."""
    sub = add_command(
        commands, "report", _report, "write a page about a run: curves, films, settings, commands to repeat it"
    )
    sub.add_argument("run", metavar="RUN", help="a run folder")
    sub.add_argument("-o", "--output", metavar="PAGE.html", help="default: report.html in the run's folder")
    add_trust(sub)

    sub = add_command(
        commands, "compare", _compare, "compare runs: curves and tests over groups that differ only in the seed"
    )
    sub.add_argument("runs", nargs="+", metavar="RUN", help="run folders of one environment and fitness, at least two")
    sub.add_argument("-o", "--output", default="compare.html", metavar="PAGE.html", help="default: %(default)s")


def _report(options: argparse.Namespace) -> None:
    from es_core.reports.run_report import report

    path = report(options.run, options.output, trust=options.trust_names)
    if options.json:
        print_json({"path": str(path)})
    else:
        put(path)


def _compare(options: argparse.Namespace) -> None:
    from es_core.reports.comparison import compare

    comparison = compare(options.runs)
    path = comparison.save(options.output)
    if options.json:
        print_json({**comparison.to_json(), "path": str(path)})
        return
    print_comparison(comparison)
    say(f"page: {path}")


def print_comparison(comparison: "Comparison") -> None:
    """Print the groups and their differences."""
    from es_core.formatting import figures

    def cells(number: "Estimate") -> tuple[str, str]:
        ends = [figures(end, number.interval) for end in number.interval or ()]
        return figures(number.value, number.interval), " to ".join(ends)

    rows = [
        (
            group.name,
            str(len(group.runs)),
            str(group.solved),
            *cells(group.fitness),
            *cells(group.middle),
            *cells(group.steps),
        )
        for group in comparison.groups
    ]
    print_table([("group", "runs", "solved", "fitness", "95 %", "IQM", "95 %", "steps", "95 %"), *rows])
    for contrast in comparison.contrasts:
        found = contrast.difference
        p = "unknown: too few runs, or no scatter" if found.p is None else f"{found.p:.3g}"
        what = f"{contrast.measure}: {contrast.group} against {contrast.against}"
        put(f"{what}: {found.value:+.4g}, p = {p} ({found.test})")
