"""Robots that run: what they observe, what they earn, how they fall."""

import math

import numpy as np
import pytest

pytest.importorskip("pybullet")

from es_locomotion import FEET, ROBOTS, robots

import es_envs
from es_core import Checkpoint, evaluate
from es_envs import Episode
from es_envs.bullet import pybullet

IDS = [f"{name}Bullet-v0" for name in ROBOTS]
SIZES = {"Hopper": (3, 15), "Walker2D": (6, 22), "HalfCheetah": (6, 26), "Ant": (8, 28), "Humanoid": (17, 44),
         "A1": (12, 36)}  # fmt: skip
STANDING = ("Hopper", "Walker2D", "HalfCheetah", "Humanoid", "A1")  # at the start; the ant drops to the floor


@pytest.fixture(scope="module")
def envs():
    """``envs(name)``: a robot's environment, for the length of the module."""
    made = {}

    def of(name):
        if name not in made:
            made[name] = getattr(robots, f"{name}Env")()
        return made[name]

    yield of
    for env in made.values():
        env.close()


def still(env):
    return np.zeros(env.action_space.shape, np.float32)


def joint_states(env):
    return pybullet.getJointStates(env.body, env._motors, physicsClientId=env.client)


@pytest.mark.parametrize("env_id", IDS)
def test_definitions_select_by_progress_and_survival_and_log_the_way_and_the_return(env_id):
    definition = es_envs.definition(env_id)
    score = evaluate(Checkpoint.scripted(env_id), episodes=3, workers=1)
    assert list(score.fitnesses) == ["progress_and_survival", "progress", "episode_return"]
    assert score.mean == pytest.approx(score.fitnesses["progress"] + score.length / 1000)
    assert score.returns == score.fitnesses["episode_return"]
    assert definition.max_episode_steps == 1000
    assert definition.plugin == "locomotion"


@pytest.mark.parametrize(
    ("env_id", "metres"),
    [
        ("HopperBullet-v0", 10),
        ("Walker2DBullet-v0", 6),
        ("HalfCheetahBullet-v0", 10),
        ("AntBullet-v0", 6),
        ("A1Bullet-v0", 15),
    ],
)
def test_the_pretrained_policies_run(env_id, metres):
    score = evaluate(Checkpoint.pretrained(env_id), episodes=4, workers=1)
    assert score.fitnesses["progress"] > metres


@pytest.mark.parametrize("name", SIZES)
def test_a_robot_with_a_locked_joint_and_a_weak_motor_plays_on_otherwise(name, envs):
    whole = envs(name)
    locked, weak = list(whole.motors)[-2:]
    broken = getattr(robots, f"{name}Env")(faults={"locked": [locked], "weak": {weak: 0.5}})
    swings = []
    for env in (whole, broken):
        env.reset(seed=0)
        places, random = [], np.random.default_rng(0)
        for step in range(60):
            env.step(np.sign(random.uniform(-1, 1, env.action_space.shape)).astype(np.float32))
            if step >= 20:  # the ant's joints start outside their limits, and are driven into them
                places.append(joint_states(env)[-2][0])
        swings.append(np.ptp(places))
    broken.close()
    assert swings[1] < 0.1 < swings[0]
    assert broken.observation_space == whole.observation_space


@pytest.mark.parametrize(("name", "sizes"), SIZES.items())
def test_robots_have_the_classic_sizes(name, sizes, envs):
    env = envs(name)
    assert (env.action_space.shape[0], env.observation_space.shape[0]) == sizes


@pytest.mark.parametrize("name", ROBOTS)
def test_the_data_sheet_says_from_where_the_height_counts(name, envs):
    env = envs(name)
    observation, _ = env.reset(seed=0)
    sheet = "less that of the start" if observation[0] == 0 else f"less {env.first_height:g} m"
    assert f"height of the torso, {sheet}" in type(env).__doc__


@pytest.mark.parametrize("name", ROBOTS)
def test_joints_start_at_rest_within_a_tenth_of_a_radian(name, envs):
    env = envs(name)
    starts = []
    for seed in range(20):
        observation, info = env.reset(seed=seed)
        starts.append([state[0] for state in joint_states(env)])
        np.testing.assert_array_equal(observation[9 : 8 + 2 * len(env.motors) : 2], 0.0)
        assert observation[0] == pytest.approx(0.0 if env.first_height is None else env.altitude - env.first_height)
        assert info["progress"] == 0.0
    bent = np.abs(np.array(starts) - env.start_positions)
    assert 0.08 < bent.max() <= 0.1 + 1e-9


@pytest.mark.parametrize("name", ROBOTS)
def test_a_push_gives_the_torso_speed(name, envs):
    env = envs(name)
    before = env.reset(seed=0)[0]
    env.push((1.0, 0.0))
    assert (env.observe() - before)[3] == pytest.approx(0.3, abs=0.02)  # scaled


@pytest.mark.parametrize("name", ROBOTS)
def test_joint_positions_are_observed_between_their_limits(name, envs):
    env = envs(name)
    env.reset(seed=0)
    for motor, state in zip(env._motors, joint_states(env), strict=True):
        low, high = pybullet.getJointInfo(env.body, motor, physicsClientId=env.client)[8:10]
        position = env.observe()[8 + 2 * env._motors.index(motor)]
        assert position == pytest.approx(np.clip((state[0] - (low + high) / 2) / ((high - low) / 2), -5, 5), abs=1e-6)


@pytest.mark.parametrize("name", ["Hopper", "Ant", "A1"])
def test_the_reward_is_the_sum_of_its_terms_and_pays_for_speed(name, envs):
    env = envs(name)
    env.reset(seed=1)
    env.action_space.seed(1)
    way = 0.0
    for _ in range(5):
        action = env.action_space.sample()
        _, reward, _, _, info = env.step(action)
        terms = {key: value for key, value in info.items() if key.startswith("reward_")}
        assert reward == pytest.approx(sum(terms.values()))
        way += info["reward_progress"] * 0.0165
        speeds = np.array([0.1 * state[1] for state in joint_states(env)])
        cost = 2 * np.abs(action * speeds).mean() + 0.1 * np.square(action).mean()
        assert info["reward_electricity"] == pytest.approx(-cost)
    assert way == pytest.approx(info["progress"])


@pytest.mark.parametrize("name", STANDING)
def test_a_robot_stands_at_first(name, envs):
    env = envs(name)
    env.reset(seed=0)
    for _ in range(3):
        _, _, terminated, _, info = env.step(still(env))
        assert not terminated
    assert info["reward_alive"] == env.alive


def test_a1_stands_until_the_step_limit_and_earns_nothing_for_it(envs):
    env = envs("A1")
    env.reset(seed=0)
    total = 0.0
    for _ in range(300):
        _, reward, terminated, _, _ = env.step(still(env))
        total += reward
        assert not terminated
    assert abs(total) < 5.0


@pytest.mark.parametrize("name", [name for name in ROBOTS if name != "A1"])
def test_a_robot_without_power_falls_and_its_last_step_costs_one(name, envs):
    env = envs(name)
    env.reset(seed=0)
    for _ in range(200):
        _, _, terminated, _, info = env.step(still(env))
        if terminated:
            break
    assert terminated
    assert info["reward_alive"] == -1.0


@pytest.mark.parametrize(("name", "link", "fallen"), [("ffoot", 0, False), ("fshin", 1, True), ("bthigh", 5, True)])
def test_a_cheetah_falls_when_anything_but_a_foot_touches_the_floor(name, link, fallen, envs):
    env = envs("HalfCheetah")
    env.reset(seed=0)
    assert env.contacts[link] == name
    env.touching = [float(number == link) for number in range(6)]
    assert env.has_fallen() is fallen


@pytest.mark.parametrize("name", ROBOTS)
def test_feet_feel_the_floor(name, envs):
    env = envs(name)
    env.reset(seed=0)
    felt = np.zeros(len(env.contacts))
    for _ in range(60):
        observation, *_ = env.step(still(env))
        felt = np.maximum(felt, observation[-len(felt) :])
        assert set(observation[-len(felt) :]) <= {0.0, 1.0}
    assert felt.any()


@pytest.mark.parametrize("name", ["Ant", "Humanoid", "A1"])
def test_the_velocity_is_seen_from_the_torsos_heading(name, envs):
    env = envs(name)
    env.reset(seed=0)
    place, _ = pybullet.getBasePositionAndOrientation(env.body, physicsClientId=env.client)
    left = pybullet.getQuaternionFromEuler((0.0, 0.0, math.pi / 2))
    pybullet.resetBasePositionAndOrientation(env.body, place, left, physicsClientId=env.client)
    pybullet.resetBaseVelocity(env.body, (0.0, 1.0, 0.0), (0.0, 0.0, 0.0), physicsClientId=env.client)
    observation = env.observe()
    np.testing.assert_allclose(observation[1:6], [-1.0, 0.0, 0.3, 0.0, 0.0], atol=1e-6)


def test_stronger_motors_accelerate_more(envs):
    speeds = []
    env = envs("Hopper")
    for strength in (0.5, 1.0):
        env.reset(seed=0, options={"randomize": {"motor_strength": strength}})
        env.step(np.array([0.0, 0.0, 1.0], np.float32))
        speeds.append(abs(joint_states(env)[2][1]))
    assert speeds[1] > 1.3 * speeds[0]


def test_actions_beyond_the_bounds_are_clipped(envs):
    env = envs("HalfCheetah")
    seen = []
    for action in (1.0, 4.0):
        env.reset(seed=0)
        seen.append(env.step(np.full(6, action, np.float32))[:2])
    np.testing.assert_array_equal(seen[0][0], seen[1][0])
    assert seen[0][1] == seen[1][1]
    with pytest.raises(ValueError, match="an action holds NaN"):
        env.step(np.full(6, np.nan, np.float32))


@pytest.mark.parametrize("name", FEET)
def test_a_gait_is_the_share_of_time_that_each_foot_is_down(name, envs):
    definition, env = es_envs.definition(f"{name}Bullet-v0"), envs(name)
    assert list(definition.behaviours) == list(FEET[name])
    assert len(FEET[name]) == len(env.contacts)
    env.reset(seed=1)
    touched = []
    for _ in range(60):
        *_, info = env.step(env.action_space.sample() * 0)
        touched.append(env.touching)
    assert info["down"] == pytest.approx(np.mean(touched, axis=0))
    assert sum(info["down"]) > 0
    episode = Episode(seed=1, total_reward=0.0, length=60, terminated=False, truncated=True, final_info=info)
    assert definition.load_behaviour()(episode) == info["down"]
    assert env.reset(seed=1)[1]["down"] == [0.0] * len(FEET[name])
