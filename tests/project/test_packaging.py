"""The distributions: what they contain, and that their wheels work in an empty environment."""

import os
import sys
import tomllib
from pathlib import Path

import pytest
from documents import ROOT, block, run
from packaging.requirements import Requirement

from es_envs import definition, env_ids
from es_envs.wheels import has_wheels

PROJECTS = {
    path.parent: tomllib.loads(path.read_text(encoding="utf-8"))
    for path in ROOT.glob("**/pyproject.toml")
    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)  # such as what .venv has installed
}


PYTHONS = ("3", "3.11", "3.12", "3.13", "3.14")


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: folder.name)
def test_every_folder_with_files_is_a_package_in_the_list(folder):
    """One that is not in the list may be left out of the wheel, or be a warning when it is built."""
    listed = set(PROJECTS[folder]["tool"]["setuptools"]["packages"])
    found = {"es_envs.urdf"} if folder == ROOT else set()
    for top in {name.partition(".")[0] for name in listed}:
        files = (file for file in (folder / top).rglob("*") if file.is_file() and "__pycache__" not in file.parts)
        found |= {".".join(file.parent.relative_to(folder).parts) for file in files}
    assert listed == found


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: folder.name)
def test_every_distribution_is_typed_licensed_and_needs_python_3_11(folder):
    project = PROJECTS[folder]["project"]
    assert project["requires-python"] == ">=3.11"
    assert project["license"] == "MIT"
    assert project["license-files"] == ["LICENSE"]
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    classifiers = {line for line in project["classifiers"] if line.startswith("Programming Language")}
    assert classifiers == {f"Programming Language :: Python :: {version}" for version in PYTHONS}
    for package in PROJECTS[folder]["tool"]["setuptools"]["packages"]:
        if "." not in package:
            assert (folder / package / "py.typed").exists()


def pins():
    """Exact versions in constraints.txt by name: one, or several for different Pythons."""
    found = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and line[0] != "#":
            requirement = Requirement(line)
            (specifier,) = requirement.specifier
            assert specifier.operator == "=="
            found.setdefault(requirement.name, set()).add(specifier.version)
    return found


def test_constraints_hold_exact_versions_of_everything_required():
    pinned = pins()
    assert pinned["torch"] == {"2.13.0"}
    for project in PROJECTS.values():
        extras = project["project"].get("optional-dependencies", {}).values()
        for text in [*project["project"]["dependencies"], *(line for extra in extras for line in extra)]:
            requirement = Requirement(text)
            if requirement.name.startswith("es-"):
                continue
            assert pinned[requirement.name.lower()], text
            assert all(map(requirement.specifier.contains, pinned[requirement.name.lower()])), text


def test_constraints_are_those_of_uv_lock():
    """If not: the first lines of constraints.txt say how they are exported; `uv lock` follows pyproject.toml."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    locked = {}
    for package in lock["package"]:
        if "registry" in package["source"]:
            locked.setdefault(package["name"], set()).add(package["version"])
    assert pins() == locked


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: folder.name)
def test_uv_lock_knows_all_requirements(folder):
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    project = PROJECTS[folder]["project"]
    (locked,) = (package for package in lock["package"] if package["name"] == project["name"])
    known = {each["name"] for each in locked["metadata"]["requires-dist"]}
    extras = project.get("optional-dependencies", {}).values()
    lines = [*project["dependencies"], *(line for extra in extras for line in extra)]
    assert {Requirement(line).name for line in lines} == known


def test_the_installer_needs_nothing_that_is_not_installed_yet():
    """Neither an installed package nor the folder of the user's own ones."""
    if not has_wheels():
        pytest.skip("there are no wheels of Bullet for this Python")
    ask = "import install; install.require_python()"
    assert run(sys.executable, "-S", "-s", "-c", ask, cwd=ROOT) == ""


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    """Wheels of every distribution that needs no torch, and of the plugin in README."""
    folder = tmp_path_factory.mktemp("wheels")
    hover = tmp_path_factory.mktemp("hover")
    for name in ("es_hover.py", "pyproject.toml"):
        (hover / name).write_text(block(f"plugin: {name}"), encoding="utf-8")
    for project in [*(folder for folder in PROJECTS if folder.name != "stable_baselines3"), hover]:
        run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, project, cwd=folder)
    return sorted(folder.glob("*.whl"))


@pytest.mark.long
def test_wheels_work_in_an_empty_environment_and_another_directory(wheels, tmp_path):
    """All plugins and README's own, without torch."""
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    bin_folder = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    python, es_envs = bin_folder / "python", bin_folder / "es-envs"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", *wheels, cwd=tmp_path)
    work = tmp_path / "elsewhere"
    work.mkdir()
    listed = run(es_envs, "list", cwd=work)
    plugins = {folder.name for folder in PROJECTS}
    ours = {env_id for env_id in env_ids() if definition(env_id).plugin in plugins}
    assert {line.split()[0] for line in listed.splitlines()} == {*ours, "Hover-v0"}
    urdf = run(python, "-c", "import es_envs; print(es_envs.urdf_path('balancing_plate.urdf'))", cwd=work).strip()
    assert Path(urdf).is_file()
    assert not Path(urdf).is_relative_to(ROOT)
    tiny = ["--generations", "2", "--population-size", "8", "--max-episode-steps", "100", "--quiet"]
    for env_id in ("BalancingPlate-v0", "Hover-v0"):
        folder = run(es_envs, "train", env_id, *tiny, cwd=work).strip()
        assert " episodes" in run(es_envs, "evaluate", folder, "--episodes", "5", cwd=work)
        assert env_id in Path(run(es_envs, "report", folder, cwd=work).strip()).read_text(encoding="utf-8")
        film = run(es_envs, "record", folder, "--width", "96", "--height", "64", cwd=work).strip()
        assert Path(film).stat().st_size > 500
    run(es_envs, "new", "my-rover", cwd=work)  # its templates are in the wheel
    installed = run(python, "-m", "pip", "list", cwd=work)
    assert "torch" not in installed
