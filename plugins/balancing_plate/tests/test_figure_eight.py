"""PlateFigureEight-v0: the point, the ball after it, the reward."""

import math

import numpy as np
import pytest

pytest.importorskip("pybullet")

from es_balancing_plate.env import BalancingPlateEnv
from es_balancing_plate.figure_eight import PERIOD, SIZE, PlateFigureEightEnv

from es_envs.bullet import pybullet

IDLE = np.array([0, 0])


@pytest.fixture(scope="module")
def env():
    env = PlateFigureEightEnv()
    yield env
    env.close()


def put(env, x, y, height=0.18):
    pybullet.resetBasePositionAndOrientation(env.ball, (x, y, height), (0.0, 0.0, 0.0, 1.0), physicsClientId=env.client)


def test_the_ball_starts_anywhere_within_ten_centimetres(env):
    starts = np.array([env.reset(seed=seed)[0][:3] / 10 for seed in range(200)])
    for axis in (0, 1):
        assert starts[:, axis].min() < -0.09 < 0.09 < starts[:, axis].max()
    assert np.abs(starts[:, :2]).max() <= 0.1
    np.testing.assert_allclose(starts[:, 2], 0.02, atol=1e-6)


def test_the_point_runs_through_a_figure_eight_in_ten_seconds(env):
    env.reset(seed=0)
    points = [env.target]
    for _ in range(round(PERIOD * 100)):
        put(env, 0.0, 0.0)
        env.step(IDLE)
        points.append(env.target)
    way = np.array(points)
    np.testing.assert_allclose(way[0], way[-1], atol=1e-9)
    np.testing.assert_allclose(np.abs(way).max(axis=0), SIZE, atol=1e-3)
    crossings = np.flatnonzero(np.diff(np.sign(way[:, 0])))
    assert len(crossings) == 2
    np.testing.assert_allclose(way[crossings], 0.0, atol=0.002)  # both times through the middle


def test_the_point_starts_somewhere_else_with_each_seed(env):
    points = set()
    for seed in range(20):
        env.reset(seed=seed)
        points.add(env.target)
    assert len(points) == 20


def test_the_policy_sees_the_way_from_the_point_and_how_fast_the_point_moves(env):
    env.reset(seed=0)
    before = env.target
    observation, *_ = env.step(IDLE)
    away = np.array(env.position[:2]) - env.target
    np.testing.assert_allclose(observation[10:12], away * 10, rtol=1e-5)
    np.testing.assert_allclose(observation[12:], (np.array(env.target) - before) / 0.01 * 10, rtol=0.05, atol=0.01)


def test_the_plate_starts_as_without_a_point(env):
    plate = BalancingPlateEnv()
    np.testing.assert_array_equal(env.reset(seed=5)[0][2:10], plate.reset(seed=5)[0][2:])
    plate.close()


@pytest.mark.parametrize(("distance", "reward"), [(0.0, 1.0), (0.05, 0.75), (0.2, 0.0), (0.23, 0.0)])
def test_the_reward_falls_with_the_distance(env, distance, reward):
    env.reset(seed=0)
    put(env, env.target[0] + distance * 0.6, env.target[1] + distance * 0.8)
    env._steps -= 1  # the point stays where it was
    env.observe()
    assert env.outcome() == (pytest.approx(reward, abs=1e-6), False)
    assert env.info()["distance"] == pytest.approx(distance)


def test_two_rounds_near_the_point_are_a_success_and_far_from_it_are_none(env):
    for aside, success in ((0.02, True), (0.04, False)):
        env.reset(seed=0)
        for _ in range(2000):
            put(env, env.target[0] + aside, env.target[1])
            *_, info = env.step(IDLE)
        assert info["is_success"] is success


def test_a_ball_that_fell_off_ends_the_episode_without_success(env):
    env.reset(seed=0)
    put(env, 0.3, 0.0, 0.09)
    assert env.step(IDLE)[2]
    assert math.hypot(*env.position[:2]) > 0.2


def test_rates_can_be_hidden_here_too():
    env = PlateFigureEightEnv(observation="without_rates")
    assert env.reset(seed=0)[0].shape == env.observation_space.shape == (12,)
    env.close()


def test_the_mark_of_a_picture_lies_on_the_plate_at_the_point():
    env = PlateFigureEightEnv(render_mode="rgb_array")
    env.reset(seed=0)
    for _ in range(10):
        env.step(np.array([1, 0]))
    mark, _ = pybullet.getBasePositionAndOrientation(env._mark, physicsClientId=env.client)
    assert mark[:2] == pytest.approx(env.target)
    assert mark[2] == pytest.approx(0.16, abs=0.01)
    env.close()
