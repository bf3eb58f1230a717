"""The commands that look at runs as a whole: report."""

import argparse
from typing import Any

from es_core.cli.arguments import add_command, add_trust
from es_core.cli.output import print_json


def add(commands: Any) -> None:
    """Add these commands."""
    sub = add_command(
        commands, "report", _report, "write a page about a run: curves, films, settings, how to repeat it"
    )
    sub.add_argument("run", metavar="RUN", help="a run folder")
    sub.add_argument("-o", "--output", metavar="PAGE.html", help="default: report.html in the run's folder")
    add_trust(sub)


def _report(options: argparse.Namespace) -> None:
    from es_core.report import report

    path = report(options.run, options.output, trust=options.trust_names)
    if options.json:
        print_json({"path": str(path)})
    else:
        print(path)
