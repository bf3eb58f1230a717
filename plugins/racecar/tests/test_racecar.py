"""RaceCar-v0: the car, the track, the lidar, the fitness."""

import numpy as np
import pytest

pytest.importorskip("pybullet")

from es_racecar.env import RaceCarEnv
from es_racecar.fitness import distance_with_finish

import es_envs
from es_core import Checkpoint, evaluate
from es_envs import Episode
from es_envs.fitness import load_fitness


@pytest.fixture
def env():
    env = RaceCarEnv(start_noise=0.0)
    yield env
    env.close()


def towards_free_space(observation):
    """Steer to the side on which the lidar sees further."""
    right, left = observation[9:13].sum(), observation[13:].sum()
    return np.array([np.clip(1.5 * (right - left), -1.0, 1.0)], np.float32)


def play(env, seed, choose, steps=2000):
    observation, start_info = env.reset(seed=seed)
    total = 0.0
    for length in range(1, steps + 1):  # noqa: B007
        observation, reward, terminated, truncated, info = env.step(choose(observation))
        assert truncated is False
        total += reward
        if terminated:
            break
    return Episode(
        seed=seed, total_reward=total, length=length, terminated=terminated, truncated=not terminated,
        start_info=start_info, final_info=info,
    )  # fmt: skip


def test_the_definition_says_how_long_and_how_good():
    definition = es_envs.definition("RaceCar-v0")

    assert (definition.max_episode_steps, definition.solved_at) == (2000, 15.1)
    assert list(definition.fitness_names()) == ["distance_with_finish", "distance"]
    assert load_fitness(definition.fitness) is distance_with_finish
    assert definition.plugin == "racecar"


def test_the_car_starts_between_the_walls_and_sees_them(env):
    observation, info = env.reset(seed=0)

    position = observation[:2] * [7.5, 4.0] + [7.5, 4.0]
    np.testing.assert_allclose(position, [0.5, 0.5], atol=1e-5)
    assert observation[4] == pytest.approx(0.5)  # 90 degrees, of 180
    np.testing.assert_array_equal(observation[[2, 3, 5, 6, 7, 8]], 0.0)
    # The wall's faces are 1.35 m to the right of the car's middle and 0.35 m to the left.
    assert observation[9] == pytest.approx(1.35 / 5)
    assert observation[16] == pytest.approx(0.35 / 5)
    assert info["position"] == pytest.approx((0.5, 0.5))
    assert (info["distance_from_start"], info["is_success"], info["hit_wall"]) == (0.0, False, False)


def test_the_lidar_sees_walls_and_never_the_car_itself(env):
    observation, _ = env.reset(seed=0)
    for _ in range(150):
        assert observation[9:].min() > 0.05
        observation, *_ = env.step(towards_free_space(observation))


@pytest.mark.parametrize("rays", [1, 3, 40])
def test_the_lidar_has_as_many_rays_as_asked_for(rays):
    env = RaceCarEnv(lidar_rays=rays, start_noise=0.0)
    observation, _ = env.reset(seed=0)

    assert observation.shape == env.observation_space.shape == (9 + rays,)
    assert observation in env.observation_space
    assert observation[9 + rays // 2] == pytest.approx(min(3.35 / 5, 1.0), abs=0.1)  # straight ahead, or nearly
    env.close()


@pytest.mark.parametrize(("steer", "side"), [(-1.0, -1), (1.0, 1)])
def test_positive_steering_turns_right(env, steer, side):
    env.reset(seed=0)
    for _ in range(40):
        observation, *_ = env.step(np.array([steer], np.float32))

    assert np.sign(0.5 - observation[4]) == side  # heading is counterclockwise


def test_starts_vary_within_the_noise():
    env = RaceCarEnv(start_noise=0.05)
    starts = np.array([env.reset(seed=seed)[0][[0, 1, 4]] for seed in range(200)])
    offsets = np.abs(starts * [7.5, 4.0, np.pi] + [7.5 - 0.5, 4.0 - 0.5, -np.pi / 2])
    env.close()

    assert (offsets.max(0) <= 0.05 + 1e-5).all()
    assert (offsets.max(0) > 0.045).all()


def test_a_car_that_follows_the_free_space_crosses_the_finish_line():
    env = RaceCarEnv()
    episode = play(env, 1, towards_free_space)
    env.close()
    info = episode.final_info

    assert episode.terminated
    assert (info["is_success"], info["hit_wall"]) == (True, False)
    assert info["position"][0] > 13.5
    assert distance_with_finish(episode) == pytest.approx(info["distance_from_start"] + 1.0)
    assert es_envs.definition("RaceCar-v0").solved_at < distance_with_finish(episode) < 16.0
    assert episode.total_reward == pytest.approx(distance_with_finish(episode))


def test_a_car_that_turns_hits_a_wall(env):
    episode = play(env, 0, lambda _: np.array([1.0], np.float32))

    assert (episode.final_info["is_success"], episode.final_info["hit_wall"]) == (False, True)
    assert distance_with_finish(episode) == episode.final_info["distance_from_start"]
    assert episode.total_reward == pytest.approx(distance_with_finish(episode))


def test_every_finish_outranks_every_crash():
    nearest_finish = {"distance_from_start": 14.15, "is_success": True}
    farthest_crash = {"distance_from_start": 14.95, "is_success": False}
    fitnesses = [
        distance_with_finish(
            Episode(seed=0, total_reward=0.0, length=1, terminated=True, truncated=False, final_info=info)
        )
        for info in (nearest_finish, farthest_crash)
    ]

    assert fitnesses[0] > es_envs.definition("RaceCar-v0").solved_at > fitnesses[1]


def test_the_throttle_sets_the_speed():
    distances = []
    for throttle in (0.0, 0.4, 0.8):
        env = RaceCarEnv(throttle=throttle, start_noise=0.0)
        distances.append(play(env, 0, lambda _: np.array([0.0], np.float32), 100).final_info["distance_from_start"])
        env.close()

    assert distances[0] < 0.05 < distances[1] < distances[2]


def test_throttle_as_an_action_covers_the_constant_one(env):
    both = RaceCarEnv(control="steering_throttle", start_noise=0.0)
    assert both.action_space.shape == (2,)
    env.reset(seed=0)
    both.reset(seed=0)
    for _ in range(50):
        alone = env.step(np.array([0.25], np.float32))[0]
        together = both.step(np.array([0.25, -0.2], np.float32))[0]  # halfway from -1 to 1, less a tenth: 0.4
    both.close()

    np.testing.assert_allclose(alone, together, atol=1e-4)


def test_actions_beyond_the_bounds_are_clipped(env):
    episodes = []
    for steer in (1.0, 7.0):
        env.reset(seed=0)
        episodes.append([env.step([steer])[0] for _ in range(30)])

    np.testing.assert_array_equal(*episodes)


def test_an_action_that_is_not_a_number_is_refused(env):
    env.reset(seed=0)
    with pytest.raises(ValueError, match="an action holds NaN"):
        env.step(np.array([np.nan], np.float32))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"control": "pedals"}, "control must be one of steering, steering_throttle, got 'pedals'"),
        ({"throttle": 1.5}, "throttle must be from 0 to 1, got 1.5"),
        ({"lidar_rays": 0}, "lidar_rays must be a whole number from 1 to 8192, got 0"),
        ({"start_noise": 0.5}, r"start_noise must be from 0 to 0\.15, got 0\.5"),
    ],
)
def test_wrong_options_are_refused_with_the_value(options, message):
    with pytest.raises(ValueError, match=message):
        RaceCarEnv(**options)


def test_the_pretrained_policy_solves_the_task_from_unseen_starts():
    score = evaluate(Checkpoint.pretrained("RaceCar-v0"), episodes=2, workers=1)

    assert score.mean >= es_envs.definition("RaceCar-v0").solved_at
    assert score.success_rate == 1.0
