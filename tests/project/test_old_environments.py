"""The page for those who come with other environments: its blocks train, where the packages are installed."""

import importlib

import gymnasium
import numpy as np
import pytest
from conftest import TINY
from documents import block

import es_envs
from es_core import train

TINY_RUN = {**TINY, "max_episode_steps": 12}


@pytest.fixture
def module(tmp_path, monkeypatch):
    """``module(label)``: a block of the page as a module, if its packages are installed; returns the module's name."""

    def write(label, *packages):
        for package in packages:
            pytest.importorskip(package)
        name = f"from_the_page_{label.replace(' ', '_')}"
        (tmp_path / f"{name}.py").write_text(block(label), encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        return name

    return write


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("label", "env_id", "packages"),
    [
        ("old gym", "OldCart-v0", ("gym", "shimmy")),
        ("team", "Team-v0", ("pettingzoo", "pygame")),
        ("game of turns", "TicTacToe-v0", ("pettingzoo", "pygame")),
        ("reward vectors", "Treasure-v0", ("mo_gymnasium",)),
    ],
)
def test_an_environment_made_for_others_trains_by_the_pages_wrapper(label, env_id, packages, module, tmp_path):
    name = module(label, *packages)
    run = train(f"{name}:{env_id}", run_dir=tmp_path / "run", **{**TINY_RUN, "population_size": 4, "generations": 2})
    assert len(run.history) == 3
    assert np.isfinite(run.history[-1].verdict.mean)


@pytest.mark.filterwarnings("ignore")
def test_a_part_of_a_reward_vector_can_be_the_fitness(module, tmp_path):
    name = module("reward vectors", "mo_gymnasium")
    run = train(f"{name}:Treasure-v0", run_dir=tmp_path / "run", fitness=f"{name}:TreasureAlone", **TINY_RUN)
    assert run.history[-1].final.mean >= 0  # and time costs nothing


@pytest.mark.filterwarnings("ignore")
def test_the_port_of_pybullet_envs_trains(tmp_path):
    pytest.importorskip("pybullet_envs_gymnasium")
    assert train("pybullet_envs_gymnasium:HopperBulletEnv-v0", run_dir=tmp_path / "run", **TINY_RUN).history


class OldPuck:
    """As environments of Gym were before 0.26, without Gym."""

    class Bounds:
        low, high = np.full(2, -1.0), np.full(2, 1.0)

    observation_space = action_space = Bounds

    def seed(self, seed):
        self.random = np.random.default_rng(seed)

    def reset(self):
        self.place, self.time = self.random.uniform(-0.5, 0.5, 2), 0
        return self.place

    def step(self, action):
        self.place, self.time = np.clip(self.place + 0.1 * action, -1, 1), self.time + 1
        is_late = self.time == 7
        return self.place, -abs(self.place).sum(), is_late, {"TimeLimit.truncated": True} if is_late else {}


def test_four_values_from_step_become_five(module, tmp_path):
    old = importlib.import_module(module("four values"))
    run = train(lambda: old.FromOld(OldPuck()), run_dir=tmp_path / "run", **TINY_RUN)
    assert run.history[-1].final.length == 7
    assert run.history[-1].final.truncated == 1


def test_an_argument_called_env_id_is_the_environments_own(tmp_path, monkeypatch):
    """Wrappers of others take one; it once replaced the environment that was asked for."""
    made = []

    def wrapper(env_id):
        made.append(env_id)
        return gymnasium.make(env_id)

    monkeypatch.setitem(gymnasium.registry, "Wrapper-v0", gymnasium.envs.registration.EnvSpec("Wrapper-v0", wrapper))
    env = es_envs.definition("Wrapper-v0").build(env_id="MountainCar-v0")
    assert made == ["MountainCar-v0"]
    assert env.observation_space.shape == (2,)
