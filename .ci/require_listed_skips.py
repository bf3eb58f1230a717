"""Fail if a test was skipped for a reason that is not listed: a missing dependency must not pass for a green run.

Usage: require_listed_skips.py LIST JUNIT_XML...
"""

import sys
from pathlib import Path
from xml.etree import ElementTree as ET


def main() -> int:
    """Print the skips of all reports; return 1 if a reason among them stands in no line of the list."""
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    listed = [line for line in lines if line and not line.startswith("#")]
    unlisted = 0
    for report in sys.argv[2:]:
        cases = ET.parse(report).findall(".//testcase")  # noqa: S314  (pytest has just written it)
        if not cases:
            print(f"{report} tells of no test")
            return 1
        for case in cases:
            for skipped in case.findall("skipped"):
                reason = skipped.get("message", "")
                if reason not in listed:
                    unlisted += 1
                    print(f"{case.get('classname')}::{case.get('name')} was skipped, unlisted: {reason}")
    print(f"{unlisted} tests were skipped for reasons that are not listed")
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
