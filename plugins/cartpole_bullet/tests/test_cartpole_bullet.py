"""CartPoleBullet-v0: its physics, its ends, its arguments."""

from dataclasses import replace

import numpy as np
import pytest

pybullet = pytest.importorskip("pybullet")

from es_cartpole_bullet.env import ANGLE_LIMIT, ANGLE_SCALE, POSITION_SCALE, CartPoleBulletEnv

import es_envs
from es_core import Checkpoint, evaluate

# A linear policy that balances: weights of position, velocity, angle and rate.
BALANCING = np.array([-0.16, -0.32, 0.41, 1.04])


@pytest.fixture
def env():
    env = CartPoleBulletEnv()
    yield env
    env.close()


def play(env, seed, choose, steps=500):
    observation, _ = env.reset(seed=seed)
    total = 0.0
    for step in range(1, steps + 1):  # noqa: B007  (the length)
        observation, reward, terminated, truncated, info = env.step(choose(observation))
        total += reward
        assert truncated is False
        assert info.get("ending") == ("lost the balance" if terminated else None)
        if terminated:
            break
    return step, total, observation


def test_the_definition_says_how_long_and_how_good():
    definition = es_envs.definition("CartPoleBullet-v0")

    assert (definition.max_episode_steps, definition.solved_at) == (500, 500.0)
    assert definition.fitness == "episode_length"
    assert definition.plugin == "cartpole_bullet"


def test_episodes_start_near_the_middle_at_rest(env):
    starts = np.array([env.reset(seed=seed)[0] for seed in range(200)])

    positions, angles = starts[:, 0] / POSITION_SCALE, starts[:, 2] / ANGLE_SCALE
    for values in (positions, angles):
        assert 0.045 < np.abs(values).max() <= 0.05 + 1e-6
    np.testing.assert_array_equal(starts[:, [1, 3]], 0.0)


def test_a_push_to_the_right_moves_the_cart_right_and_tips_the_pole_left(env):
    env.reset(seed=0)
    observation, reward, *_, info = env.step(1)

    assert observation[1] > 0 > observation[3]
    assert reward == info["reward_survive"] == 1.0


def test_pushing_one_way_drops_the_pole(env):
    for action in (0, 1):
        length, total, observation = play(env, 0, lambda _, action=action: action)

        assert length == total < 10
        assert abs(observation[2]) > ANGLE_LIMIT * ANGLE_SCALE


def test_the_pole_can_be_balanced_to_the_step_limit_from_many_starts(env):
    lengths = [play(env, seed, lambda observation: int(observation @ BALANCING > 0))[0] for seed in range(20)]

    assert lengths == [500] * 20


@pytest.mark.parametrize("side", [-1, 1])
def test_leaving_the_rail_on_either_side_ends_the_episode(env, side):
    env.reset(seed=0)
    for position, ended in (side * 10.0, False), (side * 10.01, True):
        pybullet.resetJointState(env.body, env.cart, position, physicsClientId=env.client)
        env.observe()
        assert env.outcome() == (1.0, ended)
    assert env.failure == "left the rail"


def test_a_fixed_start_is_upright_in_the_middle():
    env = CartPoleBulletEnv(start_noise=0.0)
    for seed in (0, 1):
        np.testing.assert_array_equal(env.reset(seed=seed)[0], np.zeros(4))
    env.close()


@pytest.mark.parametrize("action", [2, -1, None, 0.5, np.array([1])])
def test_an_action_that_does_not_exist_is_refused(env, action):
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"an action is 0 .left. or 1 .right., got"):
        env.step(action)


@pytest.mark.parametrize("action", [1, np.int64(1), np.array(1)])
def test_numpy_integers_are_actions(env, action):
    env.reset(seed=0)
    assert env.step(action)[0][1] > 0


def test_velocities_can_be_hidden(env):
    blind = CartPoleBulletEnv(observation="without_velocities")
    for of_all, of_some in ((env.reset(seed=3), blind.reset(seed=3)), (env.step(1), blind.step(1))):
        np.testing.assert_array_equal(of_all[0][[0, 2]], of_some[0])
    blind.close()


def test_an_observation_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="observation must be one of full, without_velocities, got 'short'"):
        CartPoleBulletEnv(observation="short")


def test_a_start_beyond_the_limit_is_refused():
    with pytest.raises(ValueError, match=r"start_noise must be at least 0 and below 0\.2095, got 0\.3"):
        CartPoleBulletEnv(start_noise=0.3)


def test_a_score_tells_the_share_of_episodes_that_last_until_their_time_is_up():
    policy = Checkpoint.pretrained("CartPoleBullet-v0")
    assert evaluate(policy, episodes=2, workers=1).truncated == 1
    idle = replace(policy, mean=np.zeros_like(policy.mean))
    assert evaluate(idle, episodes=2, workers=1).truncated == 0


def test_the_pretrained_policy_solves_the_task_from_unseen_starts():
    score = evaluate(Checkpoint.pretrained("CartPoleBullet-v0"), episodes=2, workers=1)

    assert score.mean >= es_envs.definition("CartPoleBullet-v0").solved_at
    assert score.success_rate is None  # it does not say what success is
