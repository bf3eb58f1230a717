"""The state of a model of Stable-Baselines3: what it keeps, and that a model goes on from it to the same bits."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("es_stable_baselines3")

from es_stable_baselines3.model_state import load_state, state_of
from stable_baselines3 import DQN, PPO, SAC

MODELS = {
    "PPO": lambda seed: PPO("MlpPolicy", "Pendulum-v1", n_steps=64, seed=seed, device="cpu"),
    "SAC": lambda seed: SAC("MlpPolicy", "Pendulum-v1", learning_starts=20, buffer_size=50, seed=seed, device="cpu"),
    "DQN": lambda seed: DQN("MlpPolicy", "CartPole-v1", learning_starts=20, seed=seed, device="cpu"),
}


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_model_continues_from_anothers_state_to_the_same_bits(name):
    first, second = MODELS[name](0), MODELS[name](1)
    first.learn(64)
    load_state(second, state_of(first))
    for model in (first, second):
        model.set_random_seed(2)
        model._last_obs = None
        model.learn(64, reset_num_timesteps=False)
    ours, theirs = state_of(first), state_of(second)
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[key], theirs[key]) for key in ours)


def test_a_state_of_other_layers_is_refused():
    small = SAC("MlpPolicy", "Pendulum-v1", policy_kwargs={"net_arch": [8]}, device="cpu")
    with pytest.raises(ValueError, match="numbers where the model has"):
        load_state(small, state_of(MODELS["SAC"](0)))
