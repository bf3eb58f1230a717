"""The command about the installation: doctor."""

import argparse
from dataclasses import asdict
from typing import Any

from es_core.cli.arguments import add_command
from es_core.cli.output import print_json, print_table


def add(commands: Any) -> None:
    """Add this command."""
    add_command(
        commands,
        "doctor",
        _doctor,
        "examine this installation and machine, and say how to fix problems; exit code 1 if something is broken",
    )


def _doctor(options: argparse.Namespace) -> int:
    from es_core.cli.examination import examine

    findings = examine()
    if options.json:
        print_json([asdict(finding) for finding in findings])
    else:
        rows = [(finding.status, finding.name, finding.found) for finding in findings]
        # Below, and not in the last column: a command that is broken into lines could not be copied.
        below = [f"-> {finding.advice}" if finding.advice else "" for finding in findings]
        print_table(rows, names=1, below=below)
    return 1 if any(finding.status == "broken" for finding in findings) else 0
