"""Trainers of plugins in the place of evolution: found by name, in a run like any other, resumed to the same bits."""

import numpy as np
import pytest
from conftest import TINY
from written import require_equal

from es_core import Results, Run, TrainConfig, Trainer, evaluate, finetune, train, tune
from es_core.config.strategy_defaults import is_trainer
from es_core.strategies.by_name import find_strategy
from es_core.training.by_name import find_trainer
from es_core.training.evolution import Evolution
from es_envs import PluginError, registry


class Climber(Trainer):
    """Takes a random step wherever it is better, by two episodes."""

    defaults = Trainer.defaults | {"hidden_sizes": (2,), "observation_normalization": False}
    unused = Trainer.unused - {"output_scale"}

    def __init__(self, config, policy, mean):
        self.generation, self.population_size, self.diagnostics = 0, config.population_size, {}
        self.seed = config.seed
        self.mean = policy.initial(config.seed) if mean is None else mean
        self.score = -1e9

    @classmethod
    def require_fit(cls, config, *, from_policy):
        if from_policy and config.strategy_options:
            raise ValueError("a climber has no options")

    def play(self, pool, rules, statistics, centre_seeds):
        chance = np.random.default_rng([self.seed, self.generation])
        self.tried = self.mean + chance.normal(size=self.mean.shape).astype(np.float32)
        episodes = pool.rollouts(self.tried, statistics, chance.integers(2**31, size=2).tolist(), explore=True)
        centre = pool.rollouts(self.mean, statistics, centre_seeds)
        return Results.from_episodes(self.generation, self.mean, episodes, centre)

    def learn(self, log, rules, transitions=()):
        if log.fitness.mean() > self.score:
            self.mean, self.score = self.tried, float(log.fitness.mean())
        self.diagnostics, self.generation = {"parameter_norm": float(np.linalg.norm(self.mean))}, self.generation + 1

    def state_dict(self):
        return {"mean": self.mean.copy(), "generation": self.generation, "score": self.score}

    def load_state_dict(self, state):
        self.mean, self.generation, self.score = state["mean"], int(state["generation"]), float(state["score"])


SETTINGS = {**TINY, "generations": 4, "strategy": "climb:up"}
for name in ("population_size", "hidden_sizes"):
    del SETTINGS[name]


@pytest.fixture(autouse=True)
def _plugin(monkeypatch):
    targets = {"climb:up": f"{__name__}:Climber", "cma_es": "no:Such", "climb:not": "builtins:int"}
    monkeypatch.setattr(registry, "trainers", lambda: {**targets, "climb:gone": "no_such_module:Climber"})


def test_a_trainer_makes_a_run_that_resumes_to_the_same_bits(walk, tmp_path):
    whole = train(walk, run_dir=tmp_path / "whole", **SETTINGS)
    assert whole.config.hidden_sizes == (2,)
    assert len({line.parameter_hash for line in whole.history}) > 1
    assert whole.history[0].population_size == 2
    assert whole.history[0].parameter_norm > 0
    part = train(walk, run_dir=tmp_path / "part", **SETTINGS, on_generation=lambda stats: stats.generation < 1)
    require_equal(part.resume(progress=False, workers=1), whole)
    assert evaluate(Run.open(whole.directory), episodes=2, workers=1).episodes == 2
    with pytest.raises(ValueError, match="strategy 'climb:up' has no population, and so no candidates"):
        evaluate(whole, candidate=0)


def test_finetune_finds_a_trainer_by_the_end_of_its_name(walk, tmp_path):
    source = train(walk, run_dir=tmp_path / "evolved", **TINY)
    run = finetune(source, algorithm="up", steps=20, run_dir=tmp_path / "run", workers=1, progress=False)
    assert run.config.strategy == "climb:up"
    np.testing.assert_array_equal(run.checkpoint_at(0).mean, source.best.mean)
    with pytest.raises(ValueError, match="a climber has no options"):
        finetune(source, algorithm="climb:up", steps=20, run_dir=tmp_path / "other", strategy_options={"a": 1})


def test_a_setting_that_a_trainer_does_not_use_is_refused(register):
    env = register("Walk-v0", recommended={"episodes_per_candidate": 4, "output_scale": 1.0})
    config = TrainConfig.for_env(env, strategy="climb:up")
    assert (config.episodes_per_candidate, config.output_scale) == (1, 1.0)
    with pytest.raises(ValueError, match=r"'climb:up' does not use sigma=0\.5: leave it out"):
        TrainConfig.for_env(env, strategy="climb:up", sigma=0.5)


def test_trainers_and_strategies_are_not_confused(walk):
    assert find_trainer("cma_es") is Evolution  # no plugin takes one of our names
    assert not is_trainer("cma_es")
    with pytest.raises(ValueError, match=r"strategy 'climb:up' has no population: it is for `es-envs train`"):
        find_strategy("climb:up")
    with pytest.raises(ValueError, match="strategy 'climb:up' has no population: tune searches"):
        tune(walk, strategy="climb:up", trials=1)
    with pytest.raises(PluginError, match=r"trainer 'climb:not' \(builtins:int\) must be a subclass of"):
        find_trainer("climb:not")
    with pytest.raises(PluginError, match=r"'climb:gone' \(no_such_module:Climber\) cannot be imported"):
        TrainConfig.for_env(walk, strategy="climb:gone")
    with pytest.raises(ValueError, match="no strategy is called 'climb:u': did you mean 'climb:up'"):
        find_strategy("climb:u")


@pytest.mark.parametrize("name", ["erl", "sb3:ppo", "ppo"])
def test_the_name_of_a_missing_gradient_algorithm_gets_an_install_hint(name, walk, monkeypatch):
    monkeypatch.setattr(registry, "strategies", dict)
    monkeypatch.setattr(registry, "trainers", dict)
    with pytest.raises(ValueError, match=rf"'{name}': there are openai_es, .*es-stable-baselines3: pip"):
        train(walk, **{**SETTINGS, "strategy": name})
