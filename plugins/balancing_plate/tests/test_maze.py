"""BallMaze-v0: the way through the maze, its goal, the reward."""

import numpy as np
import pytest

pytest.importorskip("pybullet")

from es_balancing_plate.maze import GOAL_RADIUS, HOLE_RADIUS, HOLES, REST_HEIGHT, STEP_LIMIT, WAY, BallMazeEnv

import es_envs
from es_envs.bullet import pybullet

LEVEL = np.zeros(2)


@pytest.fixture(scope="module")
def env():
    env = BallMazeEnv()
    yield env
    env.close()


def put(env, x, y):
    pybullet.resetBasePositionAndOrientation(
        env.ball, (x, y, REST_HEIGHT), (0.0, 0.0, 0.0, 1.0), physicsClientId=env.client
    )


def towards(env, observation, x, y):
    """The tilt that rolls the ball to a place and lets it rest there."""
    away = np.array([x, y]) - env.position[:2]
    wanted = 6 * away - 2 * observation[2:4]
    return np.array([-wanted[1], wanted[0]])


def drive(env, seed):
    """Roll the ball from corner to corner."""
    observation, _ = env.reset(seed=seed)
    total, corner = 0.0, 1
    for step in range(1, STEP_LIMIT + 1):  # noqa: B007
        if np.hypot(*(np.array(WAY[corner]) - env.position[:2])) < 0.03:
            corner = min(corner + 1, len(WAY) - 1)
        observation, reward, terminated, _, info = env.step(towards(env, observation, *WAY[corner]))
        total += reward
        if terminated:
            break
    return total, step, info


def test_the_definition_has_the_time_limit_of_the_bonus():
    assert es_envs.definition("BallMaze-v0").max_episode_steps == STEP_LIMIT


def test_the_ball_starts_at_rest_at_the_beginning_of_the_first_lane(env):
    starts = np.array([env.reset(seed=seed)[0][:2] * 0.18 for seed in range(100)])
    assert 0.013 < np.abs(starts - WAY[0]).max() <= 0.015 + 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_a_hand_that_knows_the_way_rolls_the_ball_to_the_goal(seed, env):
    total, steps, info = drive(env, seed)
    assert info["is_success"]
    assert info["progress"] == 1.0
    assert steps < 600
    assert info["time"] == pytest.approx(steps / 50)
    start = env.reset(seed=seed)[1]["progress"]
    assert total == pytest.approx(2 - start - steps / STEP_LIMIT)


def test_a_level_maze_keeps_the_ball_where_it_is(env):
    env.reset(seed=0)
    for _ in range(200):
        _, _, terminated, _, info = env.step(LEVEL)
        assert not terminated
    assert info["progress"] < 0.03


@pytest.mark.parametrize("pitch", [-1, 0, 1])
@pytest.mark.parametrize("roll", [-1, 0, 1])
def test_no_constant_tilt_leads_to_the_goal(pitch, roll, env):
    env.reset(seed=0)
    for _ in range(STEP_LIMIT):
        _, _, terminated, _, info = env.step(np.array([pitch, roll]))
        if terminated:
            break
    assert not info["is_success"]


def test_walls_hold_the_ball(env):
    env.reset(seed=0)
    for _ in range(300):
        env.step(np.array([1.0, 0.0]))  # towards the first wall
    assert env.position[1] == pytest.approx(0.06 + 0.005 + 0.02, abs=0.005)


@pytest.mark.parametrize("corner", range(len(WAY)))
def test_progress_grows_from_corner_to_corner(corner, env):
    env.reset(seed=0)
    x, y = WAY[corner]
    put(env, x, y)
    env.observe()
    env.outcome()
    pieces = np.abs(np.diff(WAY, axis=0)).sum(axis=1)
    assert env.info()["progress"] == pytest.approx(pieces[:corner].sum() / pieces.sum(), abs=1e-3)


def test_the_goal_ends_the_episode_with_the_share_of_time_that_is_left(env):
    env.reset(seed=0)
    x, y = WAY[-1]
    for aside, reached in ((GOAL_RADIUS + 0.005, False), (GOAL_RADIUS - 0.005, True)):
        put(env, x - aside, y)
        env.observe()
        reward, terminated = env.outcome()
        assert terminated is reached
    assert env.info()["reward_time"] == pytest.approx(1 - 2 / STEP_LIMIT)
    assert reward == pytest.approx(env.info()["reward_progress"] + env.info()["reward_time"])


@pytest.mark.parametrize(("x", "y"), HOLES)
def test_a_ball_over_a_hole_has_fallen_and_one_at_its_rim_has_not(x, y, env):
    env.reset(seed=0)
    for aside, fell in ((HOLE_RADIUS + 0.002, False), (HOLE_RADIUS - 0.002, True)):
        put(env, x - aside, y)
        env.observe()
        assert env.outcome()[1] is fell
    assert not env.info()["is_success"]


def test_a_ball_off_the_plate_ends_the_episode(env):
    env.reset(seed=0)
    pybullet.resetBasePositionAndOrientation(
        env.ball, (0.4, 0.0, 0.05), (0.0, 0.0, 0.0, 1.0), physicsClientId=env.client
    )
    env.observe()
    assert env.outcome()[1]


def test_tilts_beyond_the_bounds_are_clipped(env):
    seen = []
    for tilt in (1.0, 5.0):
        env.reset(seed=1)
        for _ in range(10):
            observation, *_ = env.step(np.array([tilt, -tilt]))
        seen.append(observation)
    np.testing.assert_array_equal(*seen)


def test_a_start_in_a_wall_is_refused():
    with pytest.raises(ValueError, match=r"start_noise must be from 0 to 0\.02, got 0\.1"):
        BallMazeEnv(start_noise=0.1)
