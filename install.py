"""Install es-envs and its plugins into .venv, a virtual environment in this folder.

    python3 install.py           what the demo and training need
    python3 install.py --tests   what the tests need, too: torch, Ray, Stable-Baselines3, ... (on Linux several GB)

It asks for nothing but a Python: what is missing, and how to get it, is a sentence.
"""

import argparse
import importlib.util
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
UV = "Or let uv (https://docs.astral.sh/uv) bring one along: uv run es-envs demo"


def main() -> None:
    """Install, or say what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", action="store_true", help="install what the tests need, too")
    options = parser.parse_args()
    require_python()
    make_environment()
    install("requirements-test.txt" if options.tests else "requirements.txt")


def require_python() -> None:
    """End if this Python is too old, or too new for the wheels of Bullet, before anything is made."""
    if sys.version_info < (3, 11):  # hence nothing in this file that an old Python does not know
        here = "{}.{}".format(*sys.version_info)
        sys.exit(
            f"es-envs needs Python 3.11 or newer, and {sys.executable} is {here}. Run this with a newer one that is "
            f"installed, such as: python3.13 install.py\n{UV}"
        )
    wheels = runpy.run_path(str(ROOT / "es_envs" / "wheels.py"))
    if not wheels["has_wheels"]():
        sys.exit(
            "Bullet, which simulates the environments of the plugins, cannot be installed here: "
            f"{wheels['how_to_get_bullet']()}.\nEnvironments of Gymnasium train without it: "
            "`python3 -m venv .venv`, then `.venv/bin/pip install -r requirements.txt`."
        )


def make_environment() -> None:
    """Make .venv, or complete one that is there; on Debian and Ubuntu, install first what that needs."""
    if importlib.util.find_spec("ensurepip") is None:  # Debian and Ubuntu keep it in a package of its own
        install_ensurepip()
    made = VENV / "pyvenv.cfg"
    here = " = {}.{}.".format(*sys.version_info)  # behind "version", or "version_info" if uv has made it
    if made.exists() and here not in made.read_text(encoding="utf-8"):
        sys.exit(f"{VENV} is the environment of another Python: delete it, or run this with that Python.")
    if run(sys.executable, "-m", "venv", VENV):
        sys.exit(f"{VENV} could not be made: the lines above say why.")


def install_ensurepip() -> None:
    """Install Debian's package for virtual environments, as root or by sudo."""
    package = "python{}.{}-venv".format(*sys.version_info)
    by_hand = f"Python's package for virtual environments is missing: {package} on Debian and Ubuntu.\n{UV}"
    if not shutil.which("apt-get"):
        sys.exit(by_hand)
    sudo = [] if os.geteuid() == 0 else ["sudo"]
    if sudo and not shutil.which("sudo"):
        sys.exit(f"{by_hand}\nOr have an administrator run: apt-get install {package}")
    print(f"installing {package}, which virtual environments need", file=sys.stderr)
    if run(*sudo, "apt-get", "update") or run(*sudo, "apt-get", "install", "--yes", package):
        sys.exit(by_hand)


def install(requirements: str) -> None:
    """Install a file of requirements into .venv."""
    pip = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python"), "-m", "pip"
    if run(*pip, "install", "--disable-pip-version-check", "--retries", 1, "--requirement", requirements):
        sys.exit(
            "pip could not install everything: its last lines above say why. It needs a network, or a folder of wheels "
            "(PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER) that `pip download` has filled elsewhere. Then run this again."
        )


def run(*command: object) -> int:
    """Run a command in this folder, and return its exit code."""
    return subprocess.run([str(word) for word in command], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    main()
