"""Environments as others wrote them: each message names what is wrong, where, and the way out."""

import re

import pytest
from conftest import first_fast

from es_core import RolloutError, train
from es_core.cli import main

POOLS = {"local": {}, "vector": {"pool": "vector", "vector_envs": 1, "workers": None}}
GYM = """
class Env:
    metadata = {}
class Box:
    def __init__(self, low, high, shape): self.shape = shape
"""
OLD = """
import gym, gymnasium, numpy as np
from gym.spaces import Box
from gym.envs.registration import register
class Old(gym.Env):
    observation_space, action_space = Box(-1, 1, (2,)), Box(-1, 1, (1,))
class Mixed(gymnasium.Env):
    observation_space, action_space = Box(-1, 1, (2,)), Box(-1, 1, (1,))
class MixedActions(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (2,)), Box(-1, 1, (1,))
register("Old-v0")
gymnasium.register("OldMade-v0", entry_point="old_module:Old", max_episode_steps=5)
gymnasium.register("Mixed-v0", entry_point="old_module:Mixed", max_episode_steps=5)
gymnasium.register("MixedActions-v0", entry_point="old_module:MixedActions", max_episode_steps=5)
"""


@pytest.fixture
def old_gym(tmp_path):
    """A folder with a package ``gym`` as far as this project looks at it, and a module that uses it."""
    registration = "registry = {}\ndef register(id): registry[id] = id\n"
    files = {
        "gym/__init__.py": f"{GYM}Env.__module__ = 'gym.core'\n",
        "gym/spaces.py": GYM,
        "gym/envs/__init__.py": "",
        "gym/envs/registration.py": registration,
        "old_module.py": OLD,
        "pybullet_envs/__init__.py": "import gym\ngym.envs.registry.env_specs\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("env_id", "way"),
    [
        ("old_module:Old-v0", "It registers one with the old gym: in old_module replace `import gym` by `import gymn"),
        ("old_module:OldMade-v0", "Old is an environment of the old gym: in old_module replace `import gym` by"),
        ("old_module:Mixed-v0", "observation space <gym.spaces.Box .* is one of the old gym: take it from gymnasium"),
        ("old_module:MixedActions-v0", "action space <gym.spaces.Box .* is one of the old gym: take it from gymnasium"),
        ("pybullet_envs:AntBulletEnv-v0", "made for the old gym: pybullet_envs_gymnasium has the same environments"),
    ],
)
def test_an_environment_of_the_old_gym_is_refused_with_a_remedy(env_id, way, old_gym, python):
    settings = ["--generations", "1", "--population-size", "4", "--strategy", "openai_es", "--workers", "1", "--quiet"]
    done = python(arguments=["-m", "es_core", "train", env_id, *settings], cwd=old_gym)
    assert done.code != 0
    assert re.search(way, done.err), done.err
    assert "Traceback" not in done.err


def test_a_module_that_needs_a_missing_gym_is_named_with_the_way_out(python, tmp_path):
    (tmp_path / "needs_gym.py").write_text("import gym", encoding="utf-8")
    done = python(arguments=["-m", "es_core", "train", "needs_gym:Old-v0"], cwd=tmp_path)
    assert "it is made for the old gym: in needs_gym replace `import gym` by `import gymnasium as gym`" in done.err


def test_an_id_of_an_installed_package_is_named_with_the_package(python, tmp_path):
    package, info = tmp_path / "arm_gym", tmp_path / "arm_gym-1.0.dist-info"
    broken = tmp_path / "broken-1.0.dist-info"
    for folder in (package, info, broken):
        folder.mkdir()
    source = (
        "from gymnasium.envs.registration import register\nfor task in 'Reach', 'Push':\n    register(f'Arm{task}-v3')"
    )
    (package / "__init__.py").write_text(source, encoding="utf-8")
    (info / "METADATA").write_text("Name: arm-gym\nVersion: 1.0\nRequires-Dist: gymnasium>=1\n", encoding="utf-8")
    (info / "RECORD").write_text("arm_gym/__init__.py,,\n", encoding="utf-8")
    done = python(arguments=["-m", "es_core", "train", "ArmReach-v3"], path=[tmp_path], cwd=tmp_path)
    assert "'arm_gym', which is installed, registers environments when it is imported" in done.err
    assert "'arm_gym:ArmReach-v3'" in done.err
    assert "arm_gym" not in python(arguments=["-m", "es_core", "train", "Leg-v3"], path=[tmp_path], cwd=tmp_path).err


HABITS = {
    "old reset": r"reset of Foreign returned .*must return \(observation, info\) \(the old gym's returned the observat",
    "four values": "step of Foreign returned 4 values.*the old gym's returned four values, whose `done` is now termin",
    "arrays as terminated": r"step of Foreign returned terminated=array\(\[False, False\]\), expected True or False",
    "two rewards": r"step of Foreign returned the reward array\(\[.*\), expected a number",
    "StopIteration": r"StopIteration was raised, by next\(\).*, in line \d+ of .*foreign_envs.py \(step\)",
    "StopIteration at reset": r"StopIteration was raised, by next\(\).*, in line \d+ of .*foreign_envs.py \(reset\)",
    "KeyboardInterrupt": r"KeyboardInterrupt: raise KeyboardInterrupt, in line \d+ of .*foreign_envs.py \(step\)",
    "GeneratorExit": r"GeneratorExit: raise GeneratorExit, in line \d+ of .*foreign_envs.py \(step\)",
    "sys.exit": "SystemExit: no track is left",
    "percent": "RuntimeError: battery at 5 % of its charge",
    "percent at reset": "RuntimeError: battery at 5 % of its charge",
    "own error": "Own: of a class that only this process knows",
    "short observation": r"observation has shape \(1,\), its space says \(2,\)",
    "assertion": r"AssertionError: assert self.time < 2, in line \d+ of .*foreign_envs.py \(step\)",
    "missing key": r"observation has the keys \['here'\], its space says \['goal', 'here'\]",
    "short tuple": r"observation \(1,\) is not a tuple of 2 parts",
}
FAST = "percent", "missing key", "sys.exit"  # in the vector pool, one for each way in which an error leaves a copy


@pytest.mark.filterwarnings("ignore:.*(a step failed|a worker is replaced)")
@pytest.mark.parametrize(
    ("pool", "habit"),
    [
        *(("local", habit) for habit in HABITS),
        *(
            pytest.param("vector", habit, marks=[] if habit in FAST else pytest.mark.slow)
            for habit in HABITS
            if habit != "KeyboardInterrupt"  # here, where this pool plays random actions, it might be the user's
        ),
    ],
)
def test_a_strange_habit_of_an_environment_is_named(pool, habit, register, tiny, tmp_path):
    env_id = register("Foreign-v0", "foreign_envs:Foreign", kwargs={"habit": habit})
    with pytest.raises(RolloutError, match=HABITS[habit]) as caught:
        train(env_id, run_dir=tmp_path / "run", **{**tiny, **POOLS[pool]})
    assert "on_candidate_error='worst'" in " ".join(caught.value.__notes__)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*a step failed")
@pytest.mark.parametrize("when", ["in a copy", "when a copy is made"])
def test_an_environments_interrupt_in_a_copy_is_no_ctrl_c(when, register, tiny, tmp_path):
    env_id = register("Foreign-v0", "foreign_envs:Foreign", kwargs={"habit": f"KeyboardInterrupt {when}"})
    with pytest.raises(RolloutError, match=r"KeyboardInterrupt: raise KeyboardInterrupt, in line \d+ of .*foreign_"):
        train(env_id, run_dir=tmp_path / "run", **{**tiny, **POOLS["vector"]})


def test_a_copy_that_dies_at_its_start_is_no_broken_connection(register, tiny, tmp_path):
    env_id = register("Foreign-v0", "foreign_envs:Foreign", kwargs={"habit": "death when a copy is made"})
    with pytest.raises(RolloutError, match="a worker could not start: the process died; its output on stderr is above"):
        train(env_id, run_dir=tmp_path / "run", **{**tiny, **POOLS["vector"]})


@pytest.mark.filterwarnings("ignore:.*a step failed")
@pytest.mark.parametrize("when", ["", " when made"])
@pytest.mark.parametrize("pool", first_fast(POOLS))
def test_an_environments_interrupt_is_no_ctrl_c_to_a_command(pool, when, register, tmp_path, capsys):
    env_id = register("Foreign-v0", "foreign_envs:Foreign", kwargs={"habit": f"KeyboardInterrupt{when}"})
    words = ["train", env_id, "--pool", pool, "--generations", "1", "--population-size", "2", "--policy", "mlp"]
    assert main([*words, "--run-dir", str(tmp_path / "run")]) == 1
    assert "KeyboardInterrupt: raise KeyboardInterrupt, in line" in capsys.readouterr().err


def test_a_reset_without_a_seed_is_named(register, tiny, tmp_path):
    env_id = register("TakesNoSeed-v0", "foreign_envs:TakesNoSeed")
    with pytest.raises(RolloutError, match="reset of TakesNoSeed takes no argument 'seed', like the old gym's"):
        train(env_id, run_dir=tmp_path / "run", **tiny)


@pytest.mark.parametrize("pool", POOLS)
def test_arrays_with_one_entry_count_as_that_entry(pool, register, tiny, tmp_path):
    runs = []
    for habit in "", "arrays of one":
        env_id = register("Foreign-v0", "foreign_envs:Foreign", kwargs={"habit": habit})
        runs.append(train(env_id, run_dir=tmp_path / f"run{habit}", **{**tiny, **POOLS[pool]}))
    plain, of_one = ([stats.parameter_hash for stats in run.history] for run in runs)
    assert of_one == plain


def test_arguments_that_gymnasiums_environment_needs_are_named(tiny, tmp_path):
    message = r"needs the keyword arguments 'track' and 'laps' \(env_kwargs"
    with pytest.raises(ValueError, match=message):
        train("foreign_envs:NeedsArguments-v0", run_dir=tmp_path / "run", **tiny)
    with pytest.raises(ValueError, match=r"needs the keyword arguments 'laps' \(env_kwargs"):
        train("foreign_envs:NeedsArguments-v0", run_dir=tmp_path / "run", env_kwargs={"track": "oval"}, **tiny)


def test_gymnasiums_environment_without_render_mode_says_what_to_add(tiny, tmp_path):
    run = train("foreign_envs:Undrawn-v0", run_dir=tmp_path / "run", **tiny)
    with pytest.raises(ValueError, match="foreign_envs:Foreign takes no render_mode argument; add it to its construc"):
        run.record(tmp_path / "film.mp4")
