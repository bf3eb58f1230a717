"""Candidates on a CUDA device: what they compute there, and runs that continue elsewhere."""

import numpy as np
import pytest
from gymnasium import spaces
from written import lines

import es_envs
from es_core import Run, TrainConfig, evaluate, rebuild, train
from es_core.policies.by_name import make_policy

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

ROWS = 70
VECTOR = spaces.Box(-np.inf, np.inf, (3,), np.float32)
BOX = spaces.Box(np.array([-1, 0], np.float32), np.array([0.7, 10], np.float32))
NESTED = spaces.Dict({"pose": VECTOR, "gear": spaces.Discrete(3, start=1), "lights": spaces.MultiBinary(2)})
POLICIES = {
    "linear": (VECTOR, {"policy": "linear"}),
    "mlp": (VECTOR, {"policy": "mlp", "hidden_sizes": (16, 9)}),
    "dictionary": (NESTED, {"policy": "mlp", "hidden_sizes": (16,)}),
    "rnn": (VECTOR, {"policy": "rnn", "hidden_sizes": (7,)}),
    "gru": (VECTOR, {"policy": "gru", "hidden_sizes": (7,)}),
    "lstm": (VECTOR, {"policy": "lstm", "hidden_sizes": (7,)}),
    "cnn": (spaces.Box(0, 255, (36, 36, 3), np.uint8), {"policy": "cnn_small"}),
    "module": (VECTOR, {"policy": "small_modules:Net"}),
    "module with state": (VECTOR, {"policy": "small_modules:Summing"}),
    "module row by row": (VECTOR, {"policy": "small_modules:Remembering"}),
}
ACTIONS = {
    "box": (BOX, {}),
    "matrix": (spaces.Box(-2, 2, (2, 2), np.float64), {"action_squash": "tanh"}),
    "discrete": (spaces.Discrete(3, start=5), {}),
    "multi discrete": (spaces.MultiDiscrete([2, 5, 3], start=[0, 3, 0]), {}),
    "multi binary": (spaces.MultiBinary([2, 3]), {}),
    "bins": (BOX, {"action_bins": 10}),
    "noisy": (BOX, {"action_noise": 0.1}),
    "drawn box": (BOX, {"sample_actions": True}),
    "drawn discrete": (spaces.Discrete(4), {"sample_actions": True}),
    "drawn multi binary": (spaces.MultiBinary(3), {"sample_actions": True}),
}
SETTINGS = {
    "generations": 3,
    "population_size": 8,
    "episodes_per_candidate": 2,
    "eval_episodes": 3,
    "confirm_episodes": 5,
    "hidden_sizes": (8,),
    "observation_normalization": True,
    "pool": "vector",
    "progress": False,
}


def actors(device, policy):
    from es_core.policies.torch_actor import TorchActors

    made = TorchActors(policy, ROWS, device)
    for row in range(ROWS):
        parameters = np.random.default_rng(row).normal(0, 0.5, policy.size).astype(np.float32)
        made.load(row, parameters)
        made.reset(row, noise_seed=row)
    return made


def batches(space, count):
    """A batch of observations for each of ``count`` steps, stacked as a vector environment stacks them."""
    from gymnasium.vector.utils import batch_space

    many = batch_space(space, ROWS)
    many.seed(1)
    return [many.sample() for _ in range(count)]


def played(device, policy, observations):
    """Outputs and actions of all rows, step by step; half of the rows pause, and one starts anew on the way."""
    made, steps = actors(device, policy), []
    for number, batch in enumerate(observations):
        live = np.arange(ROWS) % 2 == 0 if number == 1 else np.ones(ROWS, np.bool_)
        if number == 3:
            made.reset(5, noise_seed=99)
        actions, wrong = made.act(made.flattened(batch), live)
        assert not wrong
        assert actions.device.type == device
        steps.append((made._raw.cpu().numpy()[live].copy(), actions.cpu().numpy()[live].copy()))
    return steps


@pytest.mark.parametrize(("space", "fields"), POLICIES.values(), ids=POLICIES)
def test_every_policy_computes_there_what_it_computes_on_the_cpu_within_rounding(space, fields):
    policy = make_policy(TrainConfig(env_id="Walk-v0", **fields), space, BOX)
    observations = batches(space, 5)
    for now, then in zip(played("cuda", policy, observations), played("cpu", policy, observations), strict=True):
        np.testing.assert_allclose(now[0], then[0], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(now[1], then[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("space", "fields"), ACTIONS.values(), ids=ACTIONS)
def test_every_kind_of_action_is_decoded_and_explored_there_as_on_the_cpu(space, fields):
    config = TrainConfig(env_id="Walk-v0", policy="mlp", hidden_sizes=(6,), **fields)
    policy, observations = make_policy(config, VECTOR, space), batches(VECTOR, 4)
    for now, then in zip(played("cuda", policy, observations), played("cpu", policy, observations), strict=True):
        np.testing.assert_allclose(now[1], then[1], rtol=1e-4, atol=1e-4)


def test_a_row_that_is_not_finite_is_named_and_spares_the_others():
    policy = make_policy(TrainConfig(env_id="Walk-v0", policy="mlp", hidden_sizes=(6,)), VECTOR, BOX)
    made, observations = actors("cuda", policy), np.zeros((ROWS, 3), np.float32)
    observations[9, 1] = np.nan
    actions, wrong = made.act(made.flattened(observations), np.ones(ROWS, np.bool_))
    assert [*wrong] == [9]
    assert "the observation is not finite" in str(wrong[9])
    assert torch.isfinite(actions[torch.arange(ROWS) != 9]).all()


def test_a_run_uses_the_device_without_being_asked_and_says_so(tmp_path):
    run = train("CartPole-v1", run_dir=tmp_path / "r", **SETTINGS)
    assert (run.config.device, run.config.engine) == ("cuda", "torch")


def test_the_same_run_once_more_and_a_resumed_one_have_the_same_bits_on_one_machine(tmp_path):
    whole = train("CartPole-v1", run_dir=tmp_path / "whole", **SETTINGS)
    stop = {**SETTINGS, "on_generation": lambda stats: stats.generation < 1}
    resumed = train("CartPole-v1", run_dir=tmp_path / "stopped", **stop).resume(pool="vector", progress=False)
    assert lines(resumed) == lines(whole)
    for file in ("checkpoints/000003.safetensors", "best.safetensors"):
        assert (resumed.directory / file).read_bytes() == (whole.directory / file).read_bytes()


def test_a_run_from_there_is_rebuilt_and_evaluated_on_the_cpu(tmp_path, monkeypatch):
    run = train("CartPole-v1", run_dir=tmp_path / "r", **SETTINGS)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # as on a machine without such a device
    opened = Run.open(run.directory)
    np.testing.assert_array_equal(rebuild(opened, 3).mean, opened.checkpoint_at(3).mean)
    assert evaluate(opened, episodes=3, workers=1).mean >= 8


@pytest.mark.parametrize("name", ["sb3:ppo", "sb3:td3", "erl"])
def test_a_learner_there_leaves_a_run_that_is_resumed_there_and_evaluated_on_the_cpu(name, tmp_path):
    pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed")
    options = {
        "sb3:ppo": {"n_steps": 64, "batch_size": 32, "device": "cuda"},
        "sb3:td3": {"batch_size": 16, "learning_starts": 20, "train_freq": 4, "device": "cuda"},
        "erl": {"learning_starts": 121, "learner_options": {"batch_size": 16, "device": "cuda"}},
    }
    count = {"population_size": 6, "workers": 1} if name == "erl" else {"steps_per_generation": 64}
    small = {"max_episode_steps": 20, "hidden_sizes": (8,), "eval_episodes": 1, "confirm_episodes": 2, **count}
    stopped = train(
        "Pendulum-v1", strategy=name, run_dir=tmp_path / "r", strategy_options=options[name], generations=3,
        on_generation=lambda stats: stats.generation < 1, progress=False, **small,
    )  # fmt: skip
    resumed = stopped.resume(progress=False)
    assert [stats.generation for stats in resumed.history] == [0, 1, 2, 3]
    assert evaluate(resumed, episodes=2, workers=1).mean < 0


def test_arrays_of_jax_stay_on_the_device(monkeypatch):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    pytest.importorskip("flax", reason="JAX is not installed")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX sees no CUDA device")
    from es_core.policies import torch_actor
    from es_core.pools.by_name import make_pool
    from es_core.pools.options import PoolOptions
    from es_core.strategies.population import Population

    seen = []
    tensor = torch_actor._tensor

    def watched(values, shape):
        seen.append(tensor(values, shape).device.type)
        return tensor(values, shape)

    monkeypatch.setattr(torch_actor, "_tensor", watched)
    config = TrainConfig.for_env("phys2d/CartPole-v1", hidden_sizes=(8,), max_episode_steps=40, device="cuda")
    with make_pool(es_envs.definition("phys2d/CartPole-v1"), config, PoolOptions(pool="vector")) as pool:
        policy = make_policy(pool.config, pool.observation_space, pool.action_space)
        population = Population(
            generation=0,
            base=policy.initial(0)[np.newaxis],
            parent=np.zeros(6, np.int64),
            scale=0.5,
            noise_seed=np.arange(6),
            sign=np.ones(6, np.int8),
        )
        first, again = (pool.evaluate(population, np.array([3, 4])) for _ in range(2))
    assert set(seen) == {"cuda"}
    np.testing.assert_array_equal(again.fitness, first.fitness)
    assert (first.fitness > 1).all()
