"""The documents, as tests read them, and commands, as tests run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {document: document.read_text(encoding="utf-8") for document in DOCUMENTS}


def block(label):
    """The one code block behind the marker ``<!-- label -->``."""
    pattern = rf"<!-- {re.escape(label)} -->\n```\w*\n(.*?)```"
    (found,) = (text for document in TEXTS.values() for text in re.findall(pattern, document, re.DOTALL))
    return found


def run_python(script, folder):
    done = subprocess.run([sys.executable, "-"], input=script, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(*command, cwd=None, **options):
    """What a command prints, without the tests on its path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
