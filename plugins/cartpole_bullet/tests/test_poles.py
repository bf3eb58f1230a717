"""CartPoleSwingUp-v0 and DoublePole-v0: their physics, their ends, their arguments."""

import math

import numpy as np
import pytest

pytest.importorskip("pybullet")

from es_cartpole_bullet.poles import CartPoleSwingUpEnv, DoublePoleEnv

import es_envs
from es_envs.bullet import pybullet

ENVS = [CartPoleSwingUpEnv, DoublePoleEnv]


@pytest.fixture
def make():
    """``make(class, ...)``: an environment for the length of the test."""
    made = []

    def build(kind, **options):
        made.append(kind(**options))
        return made[-1]

    yield build
    for env in made:
        env.close()


def joints(env):
    return [state[:2] for state in pybullet.getJointStates(env.body, env._joints, physicsClientId=env.client)]


def put(env, *positions):
    for joint, position in zip((env.cart, *env.poles), positions, strict=True):
        pybullet.resetJointState(env.body, joint, position, 0.0, physicsClientId=env.client)
    return env.observe()


def test_definitions_say_how_long_and_how_good():
    swing_up, double = es_envs.definition("CartPoleSwingUp-v0"), es_envs.definition("DoublePole-v0")
    assert (swing_up.max_episode_steps, swing_up.fitness) == (250, "episode_return")
    assert (double.max_episode_steps, double.solved_at, double.fitness) == (1000, 1000.0, "episode_length")


def test_a_pole_hangs_at_the_start_of_a_swing_up(make):
    env = make(CartPoleSwingUpEnv)
    starts = np.array([env.reset(seed=seed)[0] for seed in range(100)])
    assert starts[:, 3].max() < -0.99
    assert 0.08 < np.abs(starts[:, 0] * env.position_limit).max() <= 0.1 + 1e-6
    np.testing.assert_array_equal(starts[:, [1, 4]], 0.0)


def test_a_hanging_pole_swings_with_the_period_of_a_physical_pendulum(make):
    env = make(CartPoleSwingUpEnv)
    env.reset(seed=0)
    put(env, 0.0, math.pi + 0.05)
    sines = np.array([env.step([0.0])[0][2] for _ in range(250)])
    crossings = np.flatnonzero(np.diff(np.sign(sines)))
    period = 2 * (crossings[-1] - crossings[0]) / (len(crossings) - 1) / 25
    # A uniform rod of length l and mass m on a free cart of mass M: the cart's recoil makes it faster.
    rod, cart, length = 0.1, 1.0, 0.6
    expected = 2 * math.pi * math.sqrt((2 * length / 3 / 9.81) * (1 - 3 * rod / (4 * (rod + cart))))
    assert period == pytest.approx(expected, rel=0.01)
    assert np.abs(sines[-50:]).max() == pytest.approx(0.05, rel=0.05)  # no friction


@pytest.mark.parametrize("kind", ENVS)
def test_a_force_accelerates_the_cart_by_newtons_law(kind, make):
    env = make(kind)
    env.reset(seed=0)
    put(env, 0.0, *([math.pi] if kind is CartPoleSwingUpEnv else [0.0, 0.0]))
    env.step([1.0])
    (_, velocity), *_ = joints(env)
    velocity *= 2 / env.action_repeat
    poles = 0.1 if kind is CartPoleSwingUpEnv else 0.11
    assert velocity == pytest.approx(10 * 0.02 / (1 + poles / 4), rel=0.01)  # rods lag behind


@pytest.mark.parametrize("kind", ENVS)
def test_a_force_beyond_the_bounds_is_clipped(kind, make):
    env = make(kind)
    seen = []
    for force in (1.0, 7.0):
        env.reset(seed=1)
        seen.append(env.step([force])[0])
    np.testing.assert_array_equal(*seen)


@pytest.mark.parametrize("kind", ENVS)
@pytest.mark.parametrize("side", [-1, 1])
def test_the_end_of_the_rail_ends_the_episode(kind, side, make):
    env = make(kind)
    env.reset(seed=0)
    rest = [0.0] * len(env.poles)
    for position, ended in ((2.39, False), (2.41, True)):
        put(env, side * position, *rest)
        assert env.outcome()[1] is ended
    assert env.failure == "left the rail"


def test_an_upright_pole_that_rests_earns_one_and_one_that_whirls_little(make):
    env = make(CartPoleSwingUpEnv)
    env.reset(seed=0)
    put(env, 0.0, 0.0)
    assert env.outcome()[0] == 1.0
    pybullet.resetJointState(env.body, env.poles[0], 0.0, 15.0, physicsClientId=env.client)
    env.observe()
    assert env.outcome()[0] == pytest.approx(0.1)
    put(env, 0.0, math.pi)
    assert env.outcome()[0] == pytest.approx(0.0)


def test_a_swing_up_succeeds_once_the_pole_was_upright_for_two_seconds(make):
    env = make(CartPoleSwingUpEnv)
    env.reset(seed=0)
    for step in range(1, 52):
        put(env, 0.0, 0.01)
        *_, info = env.step([0.0])
        assert info["is_success"] is (step >= 50)
    put(env, 0.0, 1.0)
    assert env.step([0.0])[4]["is_success"] is False


def test_a_swing_up_whose_cart_leaves_the_rail_fails(make):
    env = make(CartPoleSwingUpEnv)
    env.reset(seed=0)
    for _ in range(60):
        put(env, 0.0, 0.01)
        env.step([0.0])
    put(env, 2.45, 0.01)
    _, _, terminated, _, info = env.step([0.0])
    assert terminated
    assert (info["is_success"], info["ending"]) == (False, "left the rail")


@pytest.mark.parametrize("pole", [0, 1])
def test_a_pole_that_leans_more_than_36_degrees_ends_the_episode(pole, make):
    env = make(DoublePoleEnv)
    env.reset(seed=0)
    for angle, ended in ((0.62, False), (-0.62, False), (0.63, True), (-0.63, True)):
        put(env, 0.0, *(angle if number == pole else 0.0 for number in range(2)))
        assert env.outcome() == (1.0, ended)


def test_poles_without_a_hand_fall_within_a_second(make):
    env = make(DoublePoleEnv)
    env.reset(seed=0)
    steps = next(step for step in range(1000) if env.step([0.0])[2])
    assert steps < 50


def test_velocities_of_a_double_pole_can_be_hidden(make):
    env, blind = make(DoublePoleEnv), make(DoublePoleEnv, observation="without_velocities")
    for of_all, of_some in ((env.reset(seed=3), blind.reset(seed=3)), (env.step([1.0]), blind.step([1.0]))):
        np.testing.assert_array_equal(of_all[0][:3], of_some[0])


@pytest.mark.parametrize("kind", ENVS)
def test_a_push_moves_the_cart_along_its_rail(kind, make):
    env = make(kind)
    env.reset(seed=0)
    env.push((0.5, 9.0))
    assert joints(env)[0][1] == pytest.approx(0.5)


def test_weaker_motors_push_less(make):
    velocities = []
    for strength in (1.0, 0.5):
        env = make(DoublePoleEnv, randomize={"motor_strength": strength})
        env.reset(seed=0)
        env.step([1.0])
        velocities.append(joints(env)[0][1])
    assert velocities[1] == pytest.approx(velocities[0] / 2, rel=0.05)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (CartPoleSwingUpEnv, {"start_noise": -0.1}, "start_noise must be at least 0 and below 1, got -0.1"),
        (DoublePoleEnv, {"start_noise": 0.7}, "start_noise must be at least 0 and below 0.6283, got 0.7"),
        (DoublePoleEnv, {"observation": "all"}, "observation must be one of full, without_velocities, got 'all'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(kind, options, message):
    with pytest.raises(ValueError, match=message):
        kind(**options)
