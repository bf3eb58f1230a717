"""Algorithms of Stable-Baselines3 as trainers, from their own start or an evolved policy's, with the real library."""

from contextlib import closing
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("es_stable_baselines3")

from conftest import first_fast
from es_stable_baselines3.algorithms import ALGORITHMS
from es_stable_baselines3.environment import LearnerEnv
from es_stable_baselines3.models import Model
from es_stable_baselines3.trainers import PPO

import es_envs
from es_core import CheckpointError, Run, TrainConfig, evaluate, finetune, rebuild, train, tune
from es_core.cli import main
from es_core.policies.by_name import make_policy
from es_core.training.state import TrainingState

TINY = {
    "eval_episodes": 2,
    "confirm_episodes": 2,
    "max_episode_steps": 30,
    "solved_at": None,
    "workers": 1,
    "progress": False,
}
BLOCK = {**TINY, "steps_per_generation": 64}
CRITICS = {"vf": [8], "qf": [8]}


def options(name, **others):
    """Hyperparameters of an algorithm that make it fast."""
    algorithm = ALGORITHMS[name]
    small = {"policy_kwargs": {"net_arch": {each: CRITICS[each] for each in algorithm.critic}}}
    if name in {"ppo", "trpo"}:
        small |= {"n_steps": 64, "batch_size": 32}
    elif algorithm.acts != "sampled":
        small |= {"batch_size": 16, "learning_starts": 20, "train_freq": 4}
    return {**small, **others}


def task(name):
    return "Pendulum-v1" if ALGORITHMS[name].is_bounded else "CartPole-v1"


def learn(folder, name="ppo", generations=2, **settings):
    given = {**BLOCK, "hidden_sizes": (8,), "strategy_options": options(name), "generations": generations, **settings}
    return train(task(name), strategy=f"sb3:{name}", run_dir=folder, **given)


@pytest.fixture(scope="module")
def evolved(tmp_path_factory):
    """``evolved(env_id)``: a run of evolution, with normalised observations."""
    runs = {}

    def of(env_id, **settings):
        key = env_id, *settings.items()
        if key not in runs:
            folder = tmp_path_factory.mktemp("evolved") / "run"
            network = {} if settings.get("policy") == "linear" else {"hidden_sizes": (8,)}
            given = {**TINY, **network, "observation_normalization": True, "sigma": 1.0, "generations": 1, **settings}
            runs[key] = train(env_id, run_dir=folder, population_size=4, **given)
        return runs[key]

    return of


def test_a_single_episode_is_not_reported_as_equal_to_others(tmp_path):
    first, _ = learn(tmp_path / "run", "sac", generations=1, max_episode_steps=64).history
    assert (first.population_size, first.fitness_std) == (1, None)


def test_blocks_in_which_no_episode_ends_are_learnt_from(tmp_path):
    run = learn(tmp_path / "run", "sac", max_episode_steps=100)
    assert [line.fitness_mean for line in run.history] == [None, None, None]
    assert len({line.parameter_hash for line in run.history}) == 3


@pytest.mark.parametrize("name", first_fast(sorted(ALGORITHMS, key="qrdqn ppo td3 sac".find, reverse=True), 4))
def test_an_algorithm_leaves_a_run_like_evolutions(name, tmp_path):
    run = learn(tmp_path / "run", name, generations=1)
    first, last = run.history
    assert first.steps >= 64
    assert first.parameter_hash != last.parameter_hash
    assert last.total_steps == first.steps + first.evaluation_steps + last.evaluation_steps
    assert Run.open(tmp_path / "run").evaluate(episodes=2) == evaluate(run, episodes=2)
    with pytest.raises(ValueError, match=f"strategy 'sb3:{name}' has no population, and so no candidates"):
        evaluate(run, candidate=0)
    assert_acts_like(TrainingState.at(run.checkpoint, "the checkpoint").trainer._model, run.checkpoint)


def assert_acts_like(model, checkpoint):
    """Weights of any size, read from a model of Stable-Baselines3, act like what its ``predict`` does."""
    with torch.no_grad():
        for parameter in model._sb3.policy.parameters():
            parameter.uniform_(0.1, 0.8)
    act = replace(checkpoint, mean=model.read(np.ones(checkpoint.policy().outputs))).actor()
    for observation in np.random.default_rng(0).normal(size=(20, checkpoint.policy().inputs)).astype(np.float32):
        theirs, _ = model._sb3.predict(observation, deterministic=True)
        np.testing.assert_allclose(act(observation), model._envs[0]._decode(theirs), atol=1e-5)


@pytest.mark.parametrize("name", ["ppo", "sac"])
def test_a_run_stopped_within_a_block_resumes_to_the_same_bits(name, tmp_path, monkeypatch):
    whole, steps, step = learn(tmp_path / "whole", name, generations=3), count(), LearnerEnv.step

    def interrupted(env, action):
        if next(steps) == 100:
            raise KeyboardInterrupt
        return step(env, action)

    monkeypatch.setattr(LearnerEnv, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learn(tmp_path / "parts", name, generations=3)
    assert Run.open(tmp_path / "parts").next_generation == 1
    resumed = Run.open(tmp_path / "parts").resume(workers=1, progress=False)
    assert [line.parameter_hash for line in resumed.history] == [line.parameter_hash for line in whole.history]
    ours, theirs = resumed.checkpoint.strategy, whole.checkpoint.strategy
    assert all(np.array_equal(ours[key], theirs[key]) for key in {*ours, *theirs})
    with pytest.raises(CheckpointError, match="learns from is in no log"):
        rebuild(resumed, 2)


HAND_OVERS = {
    "ppo, choices": ("CartPole-v1", {}),
    "dqn, choices": ("CartPole-v1", {}),
    "ppo, clip": ("Pendulum-v1", {"action_squash": "clip"}),
    "sac, clip": ("Pendulum-v1", {"action_squash": "clip"}),
    "sac, tanh": ("Pendulum-v1", {"action_squash": "tanh"}),
    "td3, linear": ("Pendulum-v1", {"policy": "linear"}),
}


@pytest.mark.parametrize("case", HAND_OVERS)
def test_a_transferred_policy_is_unchanged_while_the_critic_learns(case, evolved, tmp_path):
    name, (env_id, settings) = case.partition(",")[0], HAND_OVERS[case]
    source = evolved(env_id, **settings)
    given = {**BLOCK, "strategy_options": options(name, learning_starts=0, warmup_steps=128)}
    if name == "ppo":
        del given["strategy_options"]["learning_starts"]
    run = finetune(source, algorithm=name, steps=10_000, generations=3, run_dir=tmp_path / "run", **given)
    first = run.checkpoint_at(0)
    assert evaluate(first, episodes=3) == evaluate(source.best, episodes=3)
    hashes = [line.parameter_hash for line in run.history]
    assert hashes[0] == hashes[1] == hashes[2] != hashes[3]
    np.testing.assert_array_equal(first.statistics.total, run.checkpoint.statistics.total)


REFUSED = {
    "sb3:sac": (
        "CartPole-v1",
        {},
        "for Box actions without action_bins, and those of CartPole-v1 are Discrete.* these fit: sb3:a2c",
    ),
    "sb3:dqn": ("Pendulum-v1", {}, "for Discrete actions, and those of Pendulum-v1 are Box"),
    "sb3:td3": ("Pendulum-v1", {"action_bins": 3}, "for Box actions without action_bins"),
    "sb3:pppo": ("CartPole-v1", {}, "did you mean 'sb3:ppo'"),
    "sb3:recurrentppo": ("CartPole-v1", {}, "it remembers, and its network is none of the policies here"),
    "sb3:trpo": ("CartPole-v1", {"policy": "gru", "hidden_sizes": (4,)}, "cannot be learnt .* since it remembers"),
    "sb3:a2c": ("CartPole-v1", {"learning_rate": 0.1}, "does not use learning_rate=0.1.* are strategy_options"),
    "sb3:ppo": ("CartPole-v1", {"strategy_options": {"n_step": 64}}, "has no option 'n_step'; did you mean 'n_steps'"),
}


@pytest.mark.parametrize(
    "wrong",
    [{"learning_rate": "lin_0.001"}, {"n_steps": 1, "batch_size": 1}, {"policy_kwargs": {"net_arch": {"vf": "x"}}}],
)
def test_options_that_an_algorithm_refuses_are_named_before_anything_starts(wrong, tmp_path):
    with pytest.raises(ValueError, match=f"strategy_options: sb3:ppo refuses .*{next(iter(wrong))}"):
        learn(tmp_path / "run", strategy_options=wrong)


def test_returns_of_several_steps_end_where_a_block_cuts_an_episode(tmp_path):
    settings = {name: value for name, value in BLOCK.items() if name not in {"workers", "progress"}}
    settings |= {"strategy_options": options("sac", n_steps=3), "hidden_sizes": (8,), "policy": "mlp"}
    config = TrainConfig.for_env("Pendulum-v1", strategy="sb3:sac", generations=2, **settings)
    with closing(es_envs.make("Pendulum-v1")) as env:
        policy = make_policy(config, env.observation_space, env.action_space)
    model = Model(config, policy, ALGORITHMS["sac"], handed_over=False)
    with model.block(0, None):
        model.learn()
    buffer = model._sb3.replay_buffer
    assert buffer.pos == 64
    assert buffer.timeouts[[62, 63], 0].tolist() == [0, 1]


@pytest.mark.parametrize("strategy", REFUSED)
def test_actions_that_an_algorithm_cannot_learn_are_refused_with_the_reason(strategy, tmp_path):
    env_id, settings, reason = REFUSED[strategy]
    with pytest.raises(ValueError, match=reason):
        train(env_id, strategy=strategy, run_dir=tmp_path / "run", **TINY, **settings)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("initialization", "orthogonal"),
        ("output_scale", 0.1),
        ("statistics_fraction", 0.5),
        ("episodes_per_candidate", 4),
        ("on_candidate_error", "worst"),
        ("episode_seeds", "independent"),
        ("schedule", "cosine"),
    ],
)
def test_a_setting_of_evolution_alone_is_refused_by_name(setting, value, tmp_path):
    with pytest.raises(ValueError, match=f"does not use {setting}="):
        train("CartPole-v1", strategy="sb3:ppo", run_dir=tmp_path / "run", **TINY, **{setting: value})


def test_recommendations_for_evolution_are_left_out(register):
    env = register("Walk-v0", recommended={"episodes_per_candidate": 4, "output_scale": 1.0, "episode_cap_start": 9})
    PPO.require_fit(TrainConfig.for_env(env, strategy="sb3:ppo"), from_policy=False)


def test_a_policy_that_cannot_be_transferred_is_refused_with_the_reason(evolved, tmp_path):
    lstm = evolved("CartPole-v1", policy="lstm", hidden_sizes=(4,))
    with pytest.raises(ValueError, match=r"policy 'lstm' cannot be learnt .* since it remembers"):
        finetune(lstm, algorithm="ppo", steps=100, run_dir=tmp_path / "run")
    with pytest.raises(ValueError, match="'sb3:trpo' cannot start from a policy; these can: a2c"):
        finetune(evolved("CartPole-v1"), algorithm="trpo", steps=100, run_dir=tmp_path / "run")
    with pytest.raises(ValueError, match="has no population: tune searches for settings of evolution"):
        tune("CartPole-v1", strategy="sb3:ppo", trials=1)
    (tmp_path / "model.zip").write_bytes(b"PK")
    with pytest.raises(CheckpointError, match="cannot be read as a checkpoint"):
        finetune(tmp_path / "model.zip", algorithm="ppo", steps=100)
    with pytest.raises(ValueError, match="no strategy is called 'ppoo': did you mean 'sb3:ppo'"):
        finetune(evolved("CartPole-v1"), algorithm="ppoo", steps=100, run_dir=tmp_path / "run")


def test_the_command_continues_by_gradients_and_compares_with_evolution(evolved, tmp_path, capsys):
    source, folder = evolved("CartPole-v1"), tmp_path / "tuned"
    given = ["--steps", "64", "--strategy-options", '{"n_steps": 64, "batch_size": 32}', "--steps-per-generation", "64"]
    main(["finetune", str(source.directory), "--algorithm", "ppo", *given, "--run-dir", str(folder), "--quiet"])
    assert Run.open(folder).config.hidden_sizes == source.config.hidden_sizes
    main(["compare", str(source.directory), str(folder), "--output", str(tmp_path / "page.html")])
    main(["report", str(folder), "--output", str(tmp_path / "report.html")])
    assert "sb3:ppo" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "64 steps or more each" in (tmp_path / "report.html").read_text(encoding="utf-8")
