"""BalancingPlate-v0: its physics, its encodings, its arguments."""

import numpy as np
import pytest

pybullet = pytest.importorskip("pybullet")

from es_balancing_plate.env import BalancingPlateEnv
from gymnasium import spaces

import es_envs
from es_core import Checkpoint, evaluate


@pytest.fixture
def env():
    env = BalancingPlateEnv()
    yield env
    env.close()


def balancing(observation):
    """Turn against ball position, ball velocity, angle and rate."""
    x, y, _, vx, vy, _, pitch, roll, pitch_rate, roll_rate = observation
    return np.array(
        [y + 0.5 * vy - 0.8 * pitch - 0.3 * pitch_rate > 0, -x - 0.5 * vx - 0.8 * roll - 0.3 * roll_rate > 0], np.int8
    )


def play(env, seed, choose, steps=2000):
    observation, _ = env.reset(seed=seed)
    for step in range(1, steps + 1):  # noqa: B007  (the length)
        observation, reward, terminated, truncated, info = env.step(choose(observation))
        assert (reward, truncated) == (info["reward_survive"], False) == (1.0, False)
        if terminated:
            break
    return step


def test_the_definition_says_how_long_and_how_good():
    definition = es_envs.definition("BalancingPlate-v0")

    assert (definition.max_episode_steps, definition.solved_at) == (2000, 1950.0)
    assert definition.fitness == "episode_length"
    assert definition.plugin == "balancing_plate"


def test_the_ball_is_dropped_onto_a_nearly_level_plate(env):
    starts = np.array([env.reset(seed=seed)[0] for seed in range(200)]) / 10.0

    np.testing.assert_allclose(starts[:, :6], [[0.0, 0.0, 0.02, 0.0, 0.0, 0.0]] * 200, atol=1e-6)
    assert 0.00045 < np.abs(starts[:, 6:8]).max() <= 0.0005 + 1e-9
    assert 0.000045 < np.abs(starts[:, 8:]).max() <= 0.00005 + 1e-9


def test_bodies_have_their_sizes_and_masses(env):
    mass = [pybullet.getDynamicsInfo(env.plate, link, physicsClientId=env.client)[0] for link in range(2)]

    assert mass == pytest.approx([0.5, 0.3])
    assert pybullet.getDynamicsInfo(env.ball, -1, physicsClientId=env.client)[0] == pytest.approx(0.0007)
    low, high = pybullet.getAABB(env.plate, 1, physicsClientId=env.client)
    assert np.subtract(high, low) == pytest.approx([0.3, 0.3, 0.02], abs=0.005)


@pytest.mark.parametrize(
    ("action", "signs"), [((0, 0), (-1, -1)), ((1, 0), (1, -1)), ((0, 1), (-1, 1)), ((1, 1), (1, 1))]
)
def test_each_action_turns_its_axis(env, action, signs):
    env.reset(seed=0)
    for _ in range(20):
        observation = env.step(np.array(action, np.int8))[0]

    assert tuple(np.sign(observation[8:])) == signs


def test_a_random_policy_loses_the_ball_within_seconds(env):
    env.action_space.seed(0)
    lengths = [play(env, seed, lambda _: env.action_space.sample()) for seed in range(10)]

    assert min(lengths) > 150
    assert max(lengths) < 400


def test_the_ball_can_be_held_to_the_step_limit(env):
    assert [play(env, seed, balancing) for seed in range(3)] == [2000] * 3


def test_the_short_observation_hides_the_rates_and_nothing_else(env):
    short = BalancingPlateEnv(observation="without_rates")
    assert short.observation_space.shape == (8,)
    action = np.array([1, 0], np.int8)
    np.testing.assert_array_equal(short.reset(seed=3)[0], env.reset(seed=3)[0][:8])
    for _ in range(50):
        np.testing.assert_array_equal(short.step(action)[0], env.step(action)[0][:8])
    short.close()


def test_both_encodings_give_the_same_episode(env):
    discrete = BalancingPlateEnv(action_encoding="discrete")
    assert discrete.action_space == spaces.Discrete(4)
    np.testing.assert_array_equal(discrete.reset(seed=4)[0], env.reset(seed=4)[0])
    for action in np.random.default_rng(0).integers(4, size=100).tolist():
        pair = np.array([action // 2, action % 2], np.int8)
        np.testing.assert_array_equal(discrete.step(np.array(action))[0], env.step(pair)[0])
    discrete.close()


@pytest.mark.parametrize("encoding", ["multi_binary", "discrete"])
@pytest.mark.parametrize("action", [4, None, np.array([0, 2]), np.array([1])])
def test_an_action_that_does_not_exist_is_refused(encoding, action):
    env = BalancingPlateEnv(action_encoding=encoding)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="an action is a member of"):
        env.step(action)
    env.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observation": "short"}, "observation must be one of full, without_rates, got 'short'"),
        ({"action_encoding": "dqn"}, "action_encoding must be one of multi_binary, discrete, got 'dqn'"),
    ],
)
def test_wrong_options_are_refused_with_the_value(options, message):
    with pytest.raises(ValueError, match=message):
        BalancingPlateEnv(**options)


def test_the_pretrained_policy_solves_the_task_from_unseen_starts():
    score = evaluate(Checkpoint.pretrained("BalancingPlate-v0"), episodes=2, workers=1)

    assert score.mean >= es_envs.definition("BalancingPlate-v0").solved_at
    assert score.success_rate is None  # it does not say what success is
