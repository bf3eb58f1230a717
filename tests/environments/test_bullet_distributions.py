"""Which distribution brings Bullet to which machine, and what a machine without it is advised."""

import platform
import sys
import tomllib
from importlib.metadata import Distribution, version
from itertools import product
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from es_core import train
from es_core.runs.provenance import versions
from es_envs.requirements import bullet_distributions, missing
from es_envs.wheels import BULLET, how_to_get_bullet

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
PYTHONS = [(3, 11), (3, 12), (3, 13), (3, 14)]
MACHINES = [("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"), ("win32", "AMD64"), ("win32", "ARM64")]


def chosen(python, system, machine):
    """Distributions that the extra ``bullet`` asks for on a machine."""
    words = {"python_version": ".".join(map(str, python)), "sys_platform": system, "platform_machine": machine}
    requirements = [Requirement(text) for text in EXTRAS["bullet"]]
    return [each.name for each in requirements if each.marker.evaluate(words)]


def test_the_extra_asks_for_the_distribution_that_has_a_wheel():
    found = {(*machine, python): chosen(python, *machine) for python, machine in product(PYTHONS, MACHINES)}
    assert found == {
        **{(*machine, python): [] for python, machine in product(PYTHONS, MACHINES)},
        ("linux", "x86_64", (3, 11)): ["pybullet"],
        **{("linux", "x86_64", python): ["pybullet-arm64"] for python in PYTHONS[1:3]},
        **{("darwin", "arm64", python): ["pybullet-arm64"] for python in PYTHONS[:3]},
        **{("win32", "AMD64", python): ["pybullet-arm64"] for python in PYTHONS[:3]},
    }


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("machine", MACHINES, ids="-".join)
def test_the_advice_is_pip_exactly_where_the_extra_installs_something(monkeypatch, python, machine):
    monkeypatch.setattr(sys, "platform", machine[0])
    monkeypatch.setattr(platform, "machine", lambda: machine[1])
    monkeypatch.setattr(sys, "version_info", (*python, 0, "final", 0))
    advice = how_to_get_bullet()
    if chosen(python, *machine):
        assert advice == "`pip install 'es-envs[bullet]'` installs it"
    else:
        assert "conda install -c conda-forge pybullet" in advice
        assert ("uv venv --python 3.13" in advice) is (python > (3, 13))


def test_a_run_records_the_distribution_that_contains_the_module():
    pytest.importorskip("pybullet")
    (name,) = bullet_distributions()
    assert versions("numpy", BULLET[0], "no-such-distribution") == {"numpy": version("numpy"), name: version(name)}


def installed(folder, name, *, requires=()):
    info = folder / f"{name.replace('-', '_')}-9.9.dist-info"
    info.mkdir()
    lines = [f"Requires-Dist: {each}" for each in requires]
    (info / "METADATA").write_text("\n".join(["Metadata-Version: 2.4", f"Name: {name}", "Version: 9.9", *lines, ""]))
    (info / "top_level.txt").write_text("pybullet\n")


def test_two_distributions_that_overwrite_each_other_are_both_found(tmp_path, monkeypatch):
    pytest.importorskip("pybullet")
    (before,) = bullet_distributions()
    (other,) = {*BULLET} - {before}
    installed(tmp_path, other)
    monkeypatch.syspath_prepend(tmp_path)
    assert bullet_distributions() == sorted(BULLET)


def test_lists_of_files_that_do_not_name_the_module_are_not_parsed(monkeypatch):
    """A run begins with this: to parse all lists took as long as the rest of a small run."""
    parsed = []
    monkeypatch.setattr(Distribution, "files", property(lambda found: parsed.append(found.metadata["Name"])))
    bullet_distributions()
    assert "numpy" not in parsed


def test_a_distribution_whose_files_are_elsewhere_says_what_it_contains(tmp_path, monkeypatch):
    installed(tmp_path, "es-bullet")
    (tmp_path / "es_bullet-9.9.dist-info" / "RECORD").write_text("__editable__.es_bullet.pth,,\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "es-bullet" in bullet_distributions()


@pytest.mark.parametrize("name", BULLET)
def test_a_plugin_lacks_nothing_where_another_distribution_has_the_module(tmp_path, monkeypatch, name):
    pytest.importorskip("pybullet")
    installed(tmp_path, "es-robot", requires=[f"{name}>=99", "es-envs[bullet]"])
    monkeypatch.syspath_prepend(tmp_path)
    assert [each for each in missing("es-robot") if "bullet" in each] == []


@pytest.mark.parametrize("requires", ["pybullet", "es-envs[bullet]"])
def test_a_plugin_lacks_bullet_where_nothing_has_the_module(tmp_path, python, requires):
    installed(tmp_path, "es-robot", requires=[requires])
    done = python(
        "from es_envs import requirements\n"
        "find = requirements.find_spec\n"
        "requirements.find_spec = lambda name: None if name == 'pybullet' else find(name)\n"
        "print(*requirements.missing('es-robot'))",
        path=[tmp_path],
    )
    assert done.out == "pybullet\n", done.err


@pytest.mark.parametrize("broken", ["raise ImportError('half of it is gone')", None])
def test_training_without_bullet_ends_before_anything_is_compiled(tmp_path, python, broken):
    """The module cannot be imported; or its data, which another distribution's removal has taken along, are gone."""
    name = "pybullet.py" if broken else "pybullet_data.py"
    (tmp_path / name).write_text(broken or "raise ModuleNotFoundError('No module named pybullet_data')")
    compiled = tmp_path / "compiled"
    done = python(
        arguments=["-m", "es_core", "train", "CartPoleBullet-v0", "--run-dir", str(tmp_path / "run")],
        path=[tmp_path],
        environment={"NUMBA_CACHE_DIR": str(compiled)},
    )
    assert done.code == 1
    assert "compiling" not in done.err
    assert how_to_get_bullet() in done.err
    assert "Traceback" not in done.err
    assert not list(compiled.rglob("*.o"))
    assert not (tmp_path / "run").exists()


HASHES = {
    "BallMaze-v0": "f0776a93992c16e6",
    "BalancingPlate-v0": "8f6ed5a5108c7643",
    "CartPoleBullet-v0": "e56b032e7ab6b61c",
    "DoublePole-v0": "875cc15203d7c276",
    "HopperBullet-v0": "242a00fdb1f8ef9c",
    "RaceCar-v0": "a95a2b59584b536d",
}


@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="elsewhere the bits are others")
@pytest.mark.parametrize("env_id", HASHES)
def test_every_bullet_and_every_python_evolve_the_same_bits(env_id, tmp_path):
    """Fresh machines have another Bullet and another Python than the others, and run this, too."""
    options = {"strategy": "openai_es", "policy": "mlp", "hidden_sizes": (4,), "sigma": 0.1, "learning_rate": 0.1}
    small = {"generations": 2, "population_size": 8, "max_episode_steps": 60, "eval_every": 0, "workers": 1}
    run = train(env_id, run_dir=tmp_path / "run", seed=5, progress=False, **options, **small)
    assert run.checkpoint.parameter_hash == HASHES[env_id]
