"""What these tests share with the project's own: its tests' folder on ``sys.path``, and some fixtures."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

from conftest import environments, forkers, register

__all__ = ["environments", "forkers", "register"]
