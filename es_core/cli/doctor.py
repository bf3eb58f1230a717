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
        rows: list[tuple[str, str, str]] = []
        for finding in findings:
            rows.append((finding.status, finding.name, finding.found))
            if finding.advice:
                rows.append(("", "", f"-> {finding.advice}"))
        print_table(rows, names=1)
    return 1 if any(finding.status == "broken" for finding in findings) else 0
