"""Domain randomisation of Bullet worlds: properties that each episode draws within given ranges."""

from contextlib import closing

import numpy as np
import pytest

pytest.importorskip("pybullet")

from conftest import TINY
from gymnasium import spaces
from puck_env import Puck

import es_envs
from es_core import evaluate, train
from es_envs import testing
from es_envs.bullet import BulletEnv, Variation, pybullet
from es_envs.bullet.randomization import VARIATIONS, Randomization

IDS = es_envs.env_ids()
RANGES = {
    "friction": [0.6, 1.4],
    "mass": [0.5, 2.0],
    "motor_strength": [0.7, 1.3],
    "latency": [0, 3],
    "sensor_noise": [0.0, 0.05],
    "push": [0.0, 0.5],
}


def flown(env, seed, steps=200, options=None, actions=None):
    """Observations of an episode with random actions, and its last info."""
    env.action_space.seed(seed)
    observation, info = env.reset(seed=seed, options=options)
    seen = [observation]
    for number in range(steps):
        action = env.action_space.sample() if actions is None else actions[number]
        observation, _, terminated, _, info = env.step(action)
        seen.append(observation)
        if terminated:
            break
    return np.array(seen), info


@pytest.fixture
def make():
    """``make(id, randomize)``: an environment for the length of the test."""
    made = []

    def build(env_id, randomize=None, **kwargs):
        made.append(es_envs.make(env_id, randomize=randomize, **kwargs).unwrapped)
        return made[-1]

    yield build
    for env in made:
        env.close()


@pytest.mark.parametrize("env_id", IDS)
def test_each_episode_draws_its_values_within_the_ranges_from_its_seed(make, env_id):
    env, twin = make(env_id, RANGES), make(env_id, RANGES)
    found = []
    for seed in range(8):
        _, info = env.reset(seed=seed)
        assert info["randomized"].keys() >= RANGES.keys()
        found.append([info["randomized"][name] for name in RANGES])
        _, info = twin.reset(seed=seed)
        assert found[-1] == [info["randomized"][name] for name in RANGES]
    low, high = np.array(list(RANGES.values())).T
    assert (low <= found).all()
    assert (found <= high).all()
    assert (np.ptp(found, axis=0) > 0.3 * (high - low)).all()


@pytest.mark.parametrize("env_id", IDS)
def test_an_episode_does_not_depend_on_those_before_it(make, env_id):
    env = make(env_id, RANGES)
    expected, _ = flown(make(env_id, RANGES), 3)
    for seed in (0, 1, 2):
        flown(env, seed)
    assert np.array_equal(flown(env, 3)[0], expected)
    plain, _ = flown(make(env_id), 3)
    neutral = {name: variation.nominal for name, variation in env.variations.items()}
    assert np.array_equal(flown(env, 3, options={"randomize": neutral})[0], plain)


@pytest.mark.parametrize("env_id", IDS)
def test_randomized_values_change_the_episode_but_not_its_start(make, env_id):
    env = make(env_id)
    assert "randomized" not in flown(env, 1)[1]
    changed = {"friction": 0.0, "mass": 2.0, "motor_strength": 0.01, "latency": 3, "push": 2.0}
    # Nothing touches; and the wheels' motors are so strong that a car's mass cancels.
    del changed["friction" if "Pole" in env_id else "mass"]
    for name, value in changed.items():
        for seed in range(50):  # who falls within a fifth of a second is seldom pushed before
            plain, _ = flown(env, seed)
            varied, info = flown(env, seed, options={"randomize": {name: value}})
            assert info["randomized"][name] == value
            assert np.array_equal(varied[0], plain[0])
            if not np.array_equal(varied, plain):
                break
        else:
            pytest.fail(f"{name} changes nothing")
        assert np.array_equal(flown(env, seed)[0], plain)


@pytest.mark.parametrize("env_id", IDS)
def test_noise_is_on_what_is_seen_and_not_on_what_happens(make, env_id):
    env = make(env_id)
    plain, _ = flown(env, 1)
    noisy, _ = flown(env, 1, options={"randomize": {"sensor_noise": 0.02}})
    assert noisy.shape == plain.shape
    assert noisy.dtype == plain.dtype
    inside = (plain > env.observation_space.low + 0.1) & (plain < env.observation_space.high - 0.1)
    assert 0.015 < np.std((noisy - plain)[inside]) < 0.025
    assert all(each in env.observation_space for each in noisy)


class Counting(Puck):
    """Observes the whole number 100 in an array of this shape."""

    variations = {"slope": Variation("slope of the ground [rad]", 0.0, least=-0.3, most=0.3)}  # noqa: RUF012

    def __init__(self, shape, **options):
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        BulletEnv.__init__(self, **options)

    def observe(self):
        return np.full(self.observation_space.shape, 100, np.uint8)


def test_noise_on_whole_numbers_has_the_mean_0_and_pictures_have_none():
    noise = {"randomize": {"sensor_noise": 2.0}}
    with closing(Counting((1000,))) as env:
        observation, _ = env.reset(seed=0, options=noise)
        assert observation.dtype == np.uint8
        assert 99.7 < observation.mean() < 100.3
    with closing(Counting((8, 8, 3))) as env, pytest.raises(ValueError, match="is for numbers in a Box"):
        env.reset(seed=0, options=noise)


def test_pushes_come_about_once_a_second_from_every_side():
    box, period, steps = spaces.Box(-1, 1, (2,)), 0.02, 50_000
    varied = Randomization(0, [], VARIATIONS, box, period)
    varied.begin({"push": (0.5, 0.5)}, np.random.default_rng(0))
    pushes = np.array([push for push in (varied.push() for _ in range(steps)) if push is not None])
    assert len(pushes) == pytest.approx(steps * period, rel=0.1)
    assert np.hypot(*pushes.T) == pytest.approx(0.5)
    sides, _ = np.histogram(np.arctan2(*pushes.T), bins=8, range=(-np.pi, np.pi))
    assert sides == pytest.approx(len(pushes) / 8, rel=0.3)


def test_an_environments_own_variations_are_added_to_the_standard_ones():
    with closing(Counting((2,), randomize={"slope": [-0.2, 0.2], "mass": 2})) as env:
        env.reset(seed=0)
        assert env.varied.keys() == {*Puck.variations, "slope"}
    with pytest.raises(ValueError, match=r"nominal value, 1, must lie between least, -0\.3, and most, 0\.3"):
        Variation("slope", least=-0.3, most=0.3)


@pytest.mark.parametrize("env_id", IDS)
def test_with_latency_each_action_acts_later(make, env_id):
    env = make(env_id)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(20)]
    late = flown(env, 1, 12, {"randomize": {"latency": 2}}, actions)[0]
    assert np.array_equal(late, flown(env, 1, 12, None, [actions[0], actions[0], *actions])[0])


def test_a_track_is_drawn_with_the_difficulty_of_the_episode(make):
    env = make("RaceTrack-v0", {"difficulty": [0.0, 1.0]})
    lengths = set()
    for seed in range(6):
        _, info = env.reset(seed=seed, options={"track": 3})
        lengths.add(info["track_hash"])
        assert 0 <= info["randomized"]["difficulty"] <= 1
    assert len(lengths) == 6


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"frction": [0, 1]}, "a name in randomize must be one of friction, mass.* did you mean 'friction'"),
        ({"friction": [1.4, 0.6]}, r"randomize\['friction'\] must be \[low, high\] with the lower number first"),
        ({"friction": [0.6]}, r"randomize\['friction'\] must be two numbers of at least 0, \[low, high\], got \[0.6\]"),
        ({"friction": "much"}, "must be two numbers of at least 0"),
        ({"friction": [0.5, float("nan")]}, "must be two numbers of at least 0"),
        ({"friction": [0.5, 10**400]}, "must be two numbers of at least 0"),
        ({"mass": [0, 1]}, "must be two numbers of at least 0.01"),
        ({"latency": [0, 1.5]}, "must be two whole numbers of at least 0"),
        ({"difficulty": [0, 2]}, "must be two numbers from 0 to 1"),
        ([0.6, 1.4], "randomize must be a dict of ranges"),
    ],
)
def test_ranges_that_are_none_are_refused(make, given, message):
    with pytest.raises(ValueError, match=message):
        make("RaceTrack-v0", given)
    env = make("RaceTrack-v0")
    with pytest.raises(ValueError, match=message):
        env.reset(seed=0, options={"randomize": given})


@pytest.mark.parametrize("pool", ["local", pytest.param("vector", marks=pytest.mark.slow)])
def test_a_run_is_trained_and_scored_within_its_ranges(tmp_path, pool):
    ranges = {"motor_strength": [0.1, 2.0], "latency": [0, 1]}
    settings = {**TINY, "workers": 1 if pool == "local" else None}
    run = train("CartPoleBullet-v0", run_dir=tmp_path / "run", randomize=ranges, pool=pool, **settings)
    assert run.config.randomize == {"motor_strength": [0.1, 2.0], "latency": [0, 1]}
    plain = {"randomize": {}}
    scores = [evaluate(run, episodes=20), evaluate(run, episodes=20, env_kwargs=plain)]
    assert scores[0].mean != scores[1].mean
    with pytest.raises(ValueError, match="a name in randomize must be one of friction"):
        evaluate(run, env_kwargs={"randomize": {"frction": 1}})


def test_the_result_does_not_depend_on_the_number_of_workers(tmp_path):
    settings = {**TINY, "generations": 2, "population_size": 6, "randomize": RANGES, "max_episode_steps": 100}
    runs = [
        train("BalancingPlate-v0", run_dir=tmp_path / f"{workers}", **{**settings, "workers": workers})
        for workers in (1, 3)
    ]
    assert runs[0].checkpoint.parameter_hash == runs[1].checkpoint.parameter_hash


def test_a_definition_can_have_ranges_which_the_user_can_leave_out(register, tmp_path):
    env_id = register(
        "Varied-v0", "es_cartpole_bullet.env:CartPoleBulletEnv", max_episode_steps=20, randomize={"mass": [0.5, 2]}
    )
    assert train(env_id, run_dir=tmp_path / "a", **TINY).config.randomize == {"mass": [0.5, 2]}
    assert train(env_id, run_dir=tmp_path / "b", randomize={}, **TINY).config.randomize == {}


def test_the_conformance_kit_examines_an_environment_within_the_ranges_of_its_definition(register):
    env_id = register(
        "Varied-v0", "es_cartpole_bullet.env:CartPoleBulletEnv", max_episode_steps=20, randomize={"mas": [0.5, 2]}
    )
    with pytest.raises(testing.ConformanceError, match=r"a name in randomize must be one of friction.*'mass'"):
        testing.check_env(env_id)


def test_a_world_in_which_a_push_would_change_nothing_refuses_it():
    class Fastened(Puck):
        def build(self):
            super().build()
            pybullet.changeDynamics(self.puck, -1, mass=0.0, physicsClientId=self.client)

    message = "Fastened has no loose body that could be pushed: override its method"
    with pytest.raises(ValueError, match=message):
        Fastened(randomize={"push": [1, 2]})
    with closing(Fastened(randomize={"push": 0})) as env:
        env.reset(seed=0)
        with pytest.raises(ValueError, match=message):
            env.reset(seed=0, options={"randomize": {"mass": 2.0, "push": 1}})
        env.reset(seed=0)
        assert env.varied["mass"] == 1.0  # what was refused has changed nothing


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Walk-v0"])
def test_an_environment_that_takes_no_ranges_says_so(register, tmp_path, env_id):
    register("Walk-v0")
    with pytest.raises(ValueError, match=rf"{env_id}.* cannot be randomised: it takes no argument 'randomize'"):
        train(env_id, run_dir=tmp_path / "run", randomize={"mass": [0.5, 2]}, **TINY)
    assert not (tmp_path / "run").exists()
