"""The long round can be run by turns, a part at a time."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_parts_of_the_long_round_are_all_of_it_and_share_no_test():
    def collected(*part):
        words = ["-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-m", "long", *part]
        files = ["tests/cli/test_doctor.py", "tests/config/test_budgets.py"]
        done = subprocess.run([sys.executable, *words, *files], cwd=ROOT, capture_output=True, text=True, check=True)
        return [line for line in done.stdout.splitlines() if "::" in line]

    whole = collected()
    assert len(whole) > 3
    parts = [collected("--part", f"{turn}/3") for turn in (1500, 1501, 1502)]
    assert sorted(test for part in parts for test in part) == sorted(whole)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
