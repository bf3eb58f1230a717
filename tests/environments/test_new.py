"""`es-envs new`: what it writes works before anything in it is changed."""

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from documents import ROOT, block, run

from es_core.cli import main

KINDS = ["--bullet", "--gymnasium"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_plugin_is_named_formatted_and_found_by_git(kind, here, capsys):
    assert main(["new", "Lunar.rover_2", kind, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "folder": "Lunar.rover_2",
        "package": "lunar_rover_2",
        "env_id": "LunarRover2-v0",
    }
    folder = here / "Lunar.rover_2"
    assert [path.name for path in here.iterdir()] == [folder.name]
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    model = {"lunar_rover_2/rover.urdf"} if kind == "--bullet" else set()
    assert files == model | {
        ".github/workflows/test.yml",
        ".gitignore",
        "README.md",
        "lunar_rover_2/__init__.py",
        "lunar_rover_2/env.py",
        "lunar_rover_2/fitness.py",
        "pyproject.toml",
        "tests/test_lunar_rover_2.py",
    }
    assert "$" not in "".join((folder / name).read_text(encoding="utf-8") for name in files)
    pytest.importorskip("ruff")
    ruff = [sys.executable, "-m", "ruff"]
    for check in (["format", "--check"], ["check", "--extend-select", "B,I,PT,SIM,UP", "--ignore", "RUF012"]):
        done = subprocess.run(
            [*ruff, *check, "--isolated", "--no-cache"], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


def test_the_next_commands_are_printed_with_the_result(here, capsys):
    assert main(["new", "my-rover"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "my-rover\n"
    for command in ("cd my-rover", "pip install -e", "es-envs check MyRover-v0", "es-envs train MyRover-v0"):
        assert command in printed.err


@pytest.mark.parametrize("installed", [True, False])
def test_a_plugin_is_simulated_by_bullet_where_pybullet_is_installed(installed, here, monkeypatch):
    if installed:
        pytest.importorskip("pybullet")
    else:
        monkeypatch.setitem(sys.modules, "pybullet", None)  # as if it could not be found
    assert main(["new", "my-rover"]) == 0
    assert (here / "my-rover" / "my_rover" / "rover.urdf").exists() == installed


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "not a name for a distribution"),
        ("my rover", "not a name for a distribution"),
        ("../rover", "not a name for a distribution"),
        ("rover-", "not a name for a distribution"),
        ("röver", "not a name for a distribution"),
        ("3d-rover", "its package would be '3d_rover', which Python cannot import"),
        ("class", "which Python cannot import"),
        ("con", "Windows keeps this name for a device"),
        ("Aux.rover", "Windows keeps this name for a device"),
        ("json", "it would hide the existing package 'json'"),
        ("es.envs", "it would hide the existing package 'es_envs'"),
        ("tests", "it would hide the existing package 'tests'"),
        ("pygame-ce", "would replace the installed distribution pygame-ce"),
        ("race-car", "the environment RaceCar-v0 exists already"),
        ("cart-pole", "the environment CartPole-v0 exists already"),
    ],
)
def test_a_name_that_cannot_be_had_is_refused_with_the_reason(name, message, here, capsys):
    assert main(["new", name]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not list(here.iterdir())


def test_existing_files_are_left_unchanged(here, capsys):
    (here / "my-rover").mkdir()
    (here / "my-rover" / "mine").touch()
    assert main(["new", "my-rover"]) == 1
    assert "my-rover exists already: choose another name, or move it away" in capsys.readouterr().err
    assert [path.name for path in here.rglob("*")] == ["my-rover", "mine"]


@pytest.fixture
def borrowing(tmp_path, monkeypatch):
    """A shell's path with a new virtual environment, which finds what this one has, too, and asks no index."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    folder = tmp_path / "venv" / "bin"
    own = run(folder / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    shared = sysconfig.get_path("purelib")
    (Path(own) / "shared.pth").write_text(f"import site; site.addsitedir({shared!r})\n", encoding="utf-8")
    for command, module in (("es-envs", "es_core"), ("pip", "pip"), ("pytest", "pytest")):
        script = folder / command
        script.write_text(f'#!/bin/sh\nexec "{folder}/python" -m {module} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    for name, value in {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PIP_NO_BUILD_ISOLATION": "false",  # pip's way to say that there is none
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }.items():
        monkeypatch.setenv(name, value)


def works_unchanged(python, kind, work):
    """Write a plugin and do with it what its README says; the centre's interval must rise."""
    work.mkdir()
    es_envs = [python, "-m", "es_core"]
    written = json.loads(run(*es_envs, "new", f"rover{kind}", kind, "--json", cwd=work))
    folder, env_id = work / written["folder"], written["env_id"]
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", folder, cwd=work)
    run(python, "-m", "pytest", "--quiet", cwd=folder)
    assert "failed" not in run(*es_envs, "check", env_id, cwd=work)
    trained = run(*es_envs, "train", env_id, "--run-dir", "run", "--quiet", cwd=work).strip()
    start, end = (
        json.loads(run(*es_envs, "evaluate", trained, "--json", "--episodes", "50", *options, cwd=work))
        for options in (["--generation", "0"], [])
    )
    assert (end["interval"] or [end["mean"]])[0] > (start["interval"] or [start["mean"]])[-1]
    film = run(*es_envs, "record", trained, "--width", "96", "--height", "64", cwd=work).strip()
    assert Path(film).stat().st_size > 500


def follow(document, here, *, running=True):
    """Do what a page says, block by block; returns all that its commands print, and where they have led.

    ``running=False`` leaves out what runs anything.
    """
    printed = []
    for label, language, text in re.findall(r"(?:<!-- (.*?) -->\n)?```(\w+)\n(.*?)```", document, re.DOTALL):
        kind, _, name = label.partition(": ")
        if kind:
            before = (here / name).read_text(encoding="utf-8")
        if kind == "part of":
            assert text in before
        elif kind == "append to":
            (here / name).write_text(f"{before}\n\n{text}", encoding="utf-8")
        elif kind == "change":
            lines = text.splitlines(keepends=True)
            old, new = ("".join(line[1:] for line in lines if line[0] != sign) for sign in "+-")
            assert before.count(old) == 1
            (here / name).write_text(before.replace(old, new), encoding="utf-8")
        elif language == "text":
            assert all((here / line.split()[0]).is_file() for line in text.splitlines())
        elif not running:
            continue
        elif language == "python":
            printed.append(run("python", "-", input=text, cwd=here))
        else:
            commands = text.replace("es-envs record", "es-envs record --width 96 --height 64")
            *lines, last = run("bash", "-ec", f"{commands}\npwd", cwd=here).splitlines()
            here = Path(last)
            printed.append("\n".join(lines))
    return printed, here


TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


def test_code_that_the_tutorial_shows_is_in_a_new_plugin(here):
    assert main(["new", "lunar-rover", "--bullet"]) == 0
    follow(TUTORIAL, here / "lunar-rover", running=False)
    for name in ("env", "fitness", "__init__"):
        source = here / "lunar-rover" / "lunar_rover" / f"{name}.py"
        compile(source.read_text(encoding="utf-8"), source, "exec")


@pytest.mark.slow
def test_a_new_plugin_installs_passes_its_tests_trains_and_is_filmed(borrowing, tmp_path):
    works_unchanged("python", "--gymnasium", tmp_path / "work")


@pytest.mark.long
def test_commands_in_the_page_on_determinism_can_be_run(borrowing, tmp_path):
    assert "not a bit differs" in run("bash", "-ec", block("the same bits"), cwd=tmp_path)


@pytest.mark.long
def test_the_tutorial_leads_to_a_trained_filmed_and_packed_plugin(borrowing, tmp_path):
    printed, folder = follow(TUTORIAL, tmp_path)
    start, end = (
        json.loads(run("es-envs", "evaluate", "runs/earth", "--json", *options, cwd=folder))
        for options in (["--generation", "0"], [])
    )
    assert (end["interval"] or [end["mean"]])[0] > (start["interval"] or [start["mean"]])[-1]
    assert {path.name for path in folder.glob("*.mp4")} == {"earth.mp4", "moon.mp4"}
    assert "lunar_rover/rover.urdf" in printed[-1]


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """The Python of a virtual environment that has es-envs' wheel and what it needs, and nothing else."""
    folder = tmp_path_factory.mktemp("empty")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    run(sys.executable, "-m", "venv", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    constraints = ["--constraint", ROOT / "constraints.txt"]
    run(python, "-m", "pip", "install", "--quiet", *constraints, f"{wheel}[bullet]", "pytest", "setuptools")
    return python


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_new_plugin_of_either_kind_works_in_an_empty_environment(kind, empty, tmp_path):
    works_unchanged(empty, kind, tmp_path / "work")
