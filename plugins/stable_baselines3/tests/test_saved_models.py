"""Policies that Stable-Baselines3 has saved: taken over exactly, and without running what the file contains."""

import io
import json
import pickle
import tracemalloc
import zipfile
from copy import deepcopy

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch")
stable_baselines3 = pytest.importorskip("stable_baselines3")
pytest.importorskip("es_stable_baselines3")

from conftest import TINY, first_fast
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from es_core import Checkpoint, CheckpointError, Run, evaluate, from_stable_baselines3, record, train
from es_core.cli import main

SMALL = {"net_arch": [6, 5]}
MODELS = {
    "PPO": ("CartPole-v1", {}),
    "PPO, relu": ("Pendulum-v1", {"policy_kwargs": {**SMALL, "activation_fn": torch.nn.ReLU}}),
    "PPO, squashed": ("Pendulum-v1", {"use_sde": True, "policy_kwargs": {**SMALL, "squash_output": True}}),
    "A2C, linear": ("CartPole-v1", {"policy_kwargs": {"net_arch": {"pi": [], "vf": [8]}}}),
    "A2C, one of sixteen": ("FrozenLake-v1", {"policy_kwargs": SMALL}),
    "SAC": ("Pendulum-v1", {"policy_kwargs": SMALL}),
    "TD3": ("Pendulum-v1", {"policy_kwargs": {"net_arch": {"pi": [6], "qf": [8]}}}),
    "DDPG": ("Pendulum-v1", {"policy_kwargs": SMALL}),
    "DQN": ("CartPole-v1", {"policy_kwargs": SMALL}),
}


def model(name, env=None, **options):
    env_id, fields = MODELS[name]
    algorithm = getattr(stable_baselines3, name.partition(",")[0])
    made = algorithm("MlpPolicy", env or env_id, device="cpu", seed=3, **deepcopy({**fields, **options}))
    with torch.no_grad():
        for each in made.policy.parameters():
            each.normal_(0.0, 0.8)  # or outputs hardly depend on the observation
    return made


@pytest.fixture
def saved(tmp_path):
    """``saved(name)``: a model and the path of its file."""

    def of(name):
        made = model(name)
        made.save(tmp_path / "model.zip")
        return made, tmp_path / "model.zip"

    return of


@pytest.mark.parametrize("name", first_fast(sorted(MODELS, key=["PPO", "SAC"].__contains__, reverse=True), 2))
def test_the_checkpoint_acts_like_the_model(name, saved):
    made, path = saved(name)
    env_id = MODELS[name][0]
    checkpoint = from_stable_baselines3(path, env_id)
    act = checkpoint.actor()
    act.reset()
    env = gymnasium.make(env_id)
    env.observation_space.seed(0)
    actions = []
    for _ in range(200):
        observation = env.observation_space.sample()
        if isinstance(observation, np.ndarray):
            observation = np.clip(observation, -2, 2)
        expected, _ = made.predict(observation, deterministic=True)
        actions.append(np.asarray(act(observation), float))
        np.testing.assert_allclose(actions[-1], expected, atol=2e-6)
    assert np.ptp(actions) > 0.3, "different actions"


def test_normalised_observations_are_normalised_alike(tmp_path):
    env = VecNormalize(DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")]), clip_obs=1.5)
    made = model("PPO, relu", env)
    env.obs_rms.mean, env.obs_rms.var = np.array([0.3, -0.2, 1.0]), np.array([0.2, 0.5, 9.0])
    made.save(tmp_path / "model.zip")
    statistics = {
        "observation_mean": env.obs_rms.mean,
        "observation_variance": env.obs_rms.var,
        "observation_clip": 1.5,
    }
    act = from_stable_baselines3(tmp_path / "model.zip", "Pendulum-v1", **statistics).actor()
    space = gymnasium.make("Pendulum-v1").observation_space
    space.seed(1)
    for _ in range(100):
        observation = space.sample()
        expected, _ = made.predict(env.normalize_obs(observation), deterministic=True)
        np.testing.assert_allclose(act(observation), expected, atol=1e-5)


def test_evolution_begins_with_the_model_and_its_network(saved, register, tmp_path, capfd):
    _, path = saved("PPO, relu")
    other = {"hidden_sizes": (3,), "observation_normalization": True, "sigma": 0.02}
    env_id = register("Swing-v0", "gymnasium.envs.classic_control:PendulumEnv", fitness="episode_return",
                      max_episode_steps=30, recommended=other)  # fmt: skip
    run = train(env_id, run_dir=tmp_path / "run", initial=path, **{**TINY, "hidden_sizes": "auto"})
    assert (run.config.hidden_sizes, run.config.activation, run.config.sigma) == ((6, 5), "relu", 0.02)
    assert not run.config.observation_normalization
    assert run.history[0].parameter_hash == from_stable_baselines3(path, env_id).parameter_hash
    path.unlink()
    assert run.resume(generations=2, workers=1, progress=False).history[1].generation == 1
    words = ["train", env_id, "--run-dir", str(tmp_path / "other"), "--generations", "1", "--population-size", "4"]
    assert main([*words, "--initial", str(saved("PPO, relu")[1]), "--workers", "1", "--quiet"]) == 0
    assert Run.open(tmp_path / "other").history[0].parameter_hash == run.history[0].parameter_hash
    capfd.readouterr()


def test_a_model_is_scored_kept_and_filmed_like_any_policy(saved, tmp_path):
    made, path = saved("DQN")
    checkpoint = from_stable_baselines3(path, "CartPole-v1")
    score = evaluate(checkpoint, episodes=2, workers=1)
    checkpoint.save(tmp_path / "policy.safetensors")
    assert evaluate(Checkpoint.load(tmp_path / "policy.safetensors"), episodes=2, workers=1).mean == score.mean
    [episode] = record(checkpoint, tmp_path / "film.mp4", workers=1)
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=episode.seed)
    length, ended = 0, False
    while not ended:
        observation, _, terminated, truncated, _ = env.step(int(made.predict(observation, deterministic=True)[0]))
        length, ended = length + 1, terminated or truncated
    assert episode.length == length


class Bomb:
    def __reduce__(self):
        return exec, ("raise SystemExit('it has run')",)


def zipped(path, **parts):
    with zipfile.ZipFile(path, "w") as file:
        for name, content in {"data": b"{}", **parts}.items():
            file.writestr(name.replace("_pth", ".pth"), content)
    return path


def weights(**tensors):
    stored = io.BytesIO()
    torch.save({name.replace("__", "."): tensor for name, tensor in tensors.items()}, stored)
    return stored.getvalue()


def inflated():
    """Weights that take a thousand times their room in the file."""
    plain, packed = zipfile.ZipFile(io.BytesIO(weights(a=torch.zeros(5_000_000)))), io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for name in plain.namelist():
            file.writestr(name, plain.read(name))
    return packed.getvalue()


def repeated():
    """Weights that are one number, seen ten million times."""
    return weights(a=torch.zeros(1).expand(10_000, 1000))


def test_a_model_that_is_far_larger_than_its_file_is_not_opened(tmp_path):
    packed = tmp_path / "packed.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("policy.pth", weights(a=torch.zeros(5_000_000)))
        file.writestr("data", "{}")
    for path in (packed, *(zipped(tmp_path / "model.zip", policy_pth=made()) for made in (inflated, repeated))):
        tracemalloc.start()
        with pytest.raises(CheckpointError, match=rf"{path} .* bytes of it are stored in \d+, which is no model's"):
            from_stable_baselines3(path, "CartPole-v1")
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
        tracemalloc.stop()
    zipped(packed, policy_pth=weights(a=torch.zeros(1)), data=b"[" + b"[]," * 10**6 + b"[]]")
    with pytest.raises(CheckpointError, match="entries, lists and objects"):
        from_stable_baselines3(packed, "CartPole-v1")


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({}, "cannot be read as a model"),
        ({"policy_pth": b"no tensors"}, "is damaged, or has pickled classes"),
        ({"policy_pth": pickle.dumps(Bomb())}, "has pickled classes among its weights, which are never read"),
        ({"policy_pth": weights(actor=Bomb())}, "has pickled classes among its weights, which are never read"),
        ({"policy_pth": weights(action_net__weight=torch.full((2, 4), torch.nan))}, "has weights that are not finite"),
        ({"policy_pth": weights(action_net__weight=torch.zeros(2, 4)), "data": b"{"}, "cannot be read as a model"),
    ],
    ids=["nothing", "no tensors", "a pickle", "a pickle within", "not finite", "no JSON"],
)
def test_a_file_that_is_no_model_is_refused_and_runs_nothing(parts, reason, tmp_path):
    with pytest.raises(CheckpointError, match=reason) as refused:
        from_stable_baselines3(zipped(tmp_path / "model.zip", **parts), "CartPole-v1")
    assert str(tmp_path / "model.zip") in str(refused.value)
    assert "weights_only" not in str(refused.value)  # torch advises to switch it off
    (tmp_path / "text.zip").write_text("text")
    with pytest.raises(CheckpointError, match="cannot be read as a model"):
        from_stable_baselines3(tmp_path / "text.zip", "CartPole-v1")


def test_pickled_data_of_a_model_is_never_opened(saved, tmp_path):
    _, path = saved("PPO, relu")
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    data = json.loads(parts["data"])
    for entry in data.values():
        if isinstance(entry, dict) and ":serialized:" in entry:
            entry[":serialized:"] = "QUJD"
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as file:
        for name, content in {**parts, "data": json.dumps(data)}.items():
            file.writestr(name, content)
    assert from_stable_baselines3(tmp_path / "other.zip", "Pendulum-v1").config.activation == "relu"


def test_a_policy_that_cannot_be_taken_over_is_refused_with_the_reason(saved, register, tmp_path):
    _, path = saved("PPO")
    with pytest.raises(ValueError, match="maps 4 numbers to 2, and Pendulum-v1 needs 3 to 1: it was trained"):
        from_stable_baselines3(path, "Pendulum-v1")
    for name, message in (
        ("features_extractor.cnn.0.weight", "has features of its own, as for images"),
        ("lstm_actor.weight_ih_l0", "remembers"),
        ("quantile_net.quantile_net.0.weight", "is none of PPO or A2C, SAC, TD3 or DDPG, DQN with an MlpPolicy"),
    ):
        with pytest.raises(ValueError, match=message):
            from_stable_baselines3(
                zipped(tmp_path / "m.zip", policy_pth=weights(**{name: torch.zeros(2, 4)})), "CartPole-v1"
            )
    model("PPO", policy_kwargs={"activation_fn": torch.nn.ELU}).save(tmp_path / "elu.zip")
    with pytest.raises(ValueError, match="has the activation ELU: only Tanh, ReLU"):
        from_stable_baselines3(tmp_path / "elu.zip", "CartPole-v1")
    model("SAC", use_sde=True).save(tmp_path / "sde.zip")
    with pytest.raises(ValueError, match="was trained with use_sde=True"):
        from_stable_baselines3(tmp_path / "sde.zip", "Pendulum-v1")
    small = register("Maps-v0", "space_envs:Spaces", kwargs={"observation": "image", "action": "discrete"},
                     max_episode_steps=6, fitness="episode_return")  # fmt: skip
    with pytest.raises(ValueError, match=r"which Stable-Baselines3 takes for images: it divides their pixels by 255"):
        from_stable_baselines3(path, small)
    with pytest.raises(FileNotFoundError):
        from_stable_baselines3(tmp_path / "none.zip", "CartPole-v1")


def test_an_environment_without_a_step_limit_gets_the_one_that_is_given(saved, register, tmp_path):
    _, path = saved("PPO")
    endless = register("Endless-v0", "gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=None)
    assert from_stable_baselines3(path, endless).config.max_episode_steps == 1000
    assert from_stable_baselines3(path, endless, max_episode_steps=20).config.max_episode_steps == 20
    settings = {name: value for name, value in TINY.items() if name != "hidden_sizes"}
    run = train(endless, initial=path, run_dir=tmp_path / "run", max_episode_steps=20, **settings)
    assert run.config.hidden_sizes == (64, 64)


@pytest.mark.parametrize(
    ("statistics", "message"),
    [
        ({"observation_mean": np.zeros(4)}, "belong together"),
        ({"observation_mean": np.zeros(3), "observation_variance": np.ones(3)}, "must be 4 finite numbers"),
        ({"observation_mean": np.zeros(4), "observation_variance": -np.ones(4)}, "must not be negative"),
    ],
)
def test_statistics_that_do_not_fit_are_refused(statistics, message, saved):
    _, path = saved("PPO")
    with pytest.raises(ValueError, match=message):
        from_stable_baselines3(path, "CartPole-v1", **statistics)
