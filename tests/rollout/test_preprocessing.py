"""Gymnasium's wrappers around a run's environment: what a policy sees through them, and that they forget an episode."""

import sys
from contextlib import closing

import gymnasium
import imageio_ffmpeg
import numpy as np
import pytest
from conftest import TINY
from gymnasium import spaces
from small_envs import Pale, Reusing, Seen

import es_envs
from es_core import TrainConfig, train
from es_core.pools.by_name import make_pool
from es_core.pools.options import PoolOptions
from es_core.rollout.environment import make_env, preprocessed
from es_core.rollout.rollout import Rollout
from es_core.seeding import Purpose, episode_seeds
from es_envs import definition
from es_envs.bullet import Camera

ALL = {"skip": 2, "grey": True, "resize": 36, "stack": 3}
STILL = np.zeros(1, np.float32)


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ({}, (36, 40, 3)),
        ({"skip": 3}, (36, 40, 3)),
        ({"grey": True}, (36, 40, 1)),
        ({"grey": False, "resize": 20}, (20, 20, 3)),
        ({"grey": True, "resize": 20}, (20, 20, 1)),
        ({"stack": 4, "grey": True}, (4, 36, 40)),
        (ALL, (3, 36, 36)),
        ({**ALL, "flatten": True}, (3 * 36 * 36,)),
        ({"flatten": False}, (36, 40, 3)),
    ],
    ids=str,
)
def test_images_come_in_the_shape_that_the_settings_ask_for(settings, shape):
    env = preprocessed(Seen(), settings)
    assert env.observation_space == spaces.Box(0, 255, shape, np.uint8)
    assert env.observation_space.contains(env.reset(seed=0)[0])
    assert env.observation_space.contains(env.step(STILL)[0])


@pytest.mark.parametrize("env_id", ["BalancingPlate-v0", "CartPole-v1"])
@pytest.mark.parametrize(
    ("settings", "shape"),
    [({"pixels": 32}, (32, 32, 3)), ({"skip": 2, "pixels": 24, "grey": True, "stack": 2}, (2, 24, 24))],
    ids=str,
)
def test_any_environment_that_draws_pictures_can_be_played_from_them(env_id, settings, shape):
    plain = es_envs.make(env_id, render_mode="rgb_array")
    env = make_env(definition(env_id), TrainConfig(env_id=env_id, preprocessing=settings))
    with closing(plain), closing(env):
        assert env.observation_space == spaces.Box(0, 255, shape, np.uint8)
        env.action_space.seed(0)
        action = env.action_space.sample()
        plain.reset(seed=1)
        seen = [env.reset(seed=1)[0], env.step(action)[0], env.reset(seed=1)[0]]
        assert all(each in env.observation_space for each in seen)
        np.testing.assert_array_equal(seen[0], seen[2])
        assert not np.array_equal(seen[0], seen[1])
        if shape[-1] == 3:  # colours, as the environment draws them
            drawn = plain.render()
            assert np.abs(seen[0].mean(axis=(0, 1)) - drawn.mean(axis=(0, 1))).max() < 16


def test_a_car_sees_what_is_before_it_and_not_what_films_show():
    ahead, above = [], []
    with closing(es_envs.make("RaceTrack-v0", render_mode="rgb_array", start_noise=0.0).unwrapped) as env:
        for track in (0, 1, 2):
            env.reset(seed=1, options={"track": track})
            ahead.append(env.seen(48))
            above.append(env.picture(env.camera()))
    sky, road = np.mean(ahead, axis=0)[0], np.mean(ahead, axis=0)[28]
    assert (sky[:, 2] > sky[:, 0] + 10).all(), "blue"
    assert np.ptp(road.mean(axis=0)) < 30, "grey"
    assert not any(np.array_equal(ahead[0], each) for each in ahead[1:])
    assert above[0].shape == (480, 640, 3)


def test_a_car_does_not_see_itself_and_its_films_show_it_all_the_same():
    with closing(es_envs.make("RaceTrack-v0", render_mode="rgb_array", start_noise=0.0).unwrapped) as env:
        env.reset(seed=1)
        film, looking_down = env.render(), Camera(target=(*env.position, 0.0), distance=1.0, yaw=0.0, pitch=-60.0)
        env.eyes = lambda: looking_down
        np.testing.assert_array_equal(film, env.render())
        seen, drawn = env.seen(48), env.picture(looking_down)
        np.testing.assert_array_equal(film, env.render())
    yellow = [np.abs(picture.astype(int) - (255, 191, 26)).sum(axis=2).min() for picture in (seen, drawn)]
    assert yellow[0] > 100 > yellow[1]


def test_a_mirrored_car_sees_the_mirrored_track():
    with closing(es_envs.make("RaceTrack-v0", render_mode="rgb_array", mirror=True).unwrapped) as env:
        pictures = {}
        for seed in range(8):
            env.reset(seed=seed, options={"track": 0})
            pictures[env.mirrored] = env.seen(16)
            if env.mirrored:
                env.mirrored = False
                np.testing.assert_array_equal(env.seen(16)[:, ::-1], pictures[True])
        assert pictures.keys() == {True, False}


def test_an_environment_that_cannot_draw_cannot_be_played_from_pixels(walk, tiny, tmp_path):
    with pytest.raises(ValueError, match=r"preprocessing 'pixels' needs .* pictures: Walk-v0 .* cannot render"):
        train(
            walk,
            run_dir=tmp_path / "r",
            preprocessing={"pixels": 32},
            policy="cnn_small",
            **{**tiny, "hidden_sizes": "auto"},
        )
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ({"sensor_noise": [0, 0.1]}, r"^randomize 'sensor_noise' is for numbers"),
        (3, "^randomize must be a dict of ranges"),
    ],
    ids=str,
)
def test_ranges_that_pixels_cannot_have_are_refused_by_their_own_sentence(ranges, message):
    config = TrainConfig(env_id="CartPoleBullet-v0", env_kwargs={"randomize": ranges}, preprocessing={"pixels": 32})
    with pytest.raises(ValueError, match=message):
        make_env(definition("CartPoleBullet-v0"), config)


def test_a_skipped_step_sums_rewards_and_shows_the_largest_pixels():
    env, plain = preprocessed(Seen(), {"skip": 3}), Seen()
    env.reset(seed=1)
    plain.reset(seed=1)
    action = np.array([0.1], np.float32)
    frames = [plain.step(action)[0] for _ in range(3)]
    observation, reward, terminated, _, _ = env.step(action)
    np.testing.assert_array_equal(observation, np.maximum(*frames[1:]))
    assert reward == pytest.approx(0.3)
    assert not terminated


def test_states_that_are_choices_are_not_skipped():
    with pytest.raises(
        ValueError, match=r"'skip' is not for observations Discrete\(16\): the larger of two choices is no"
    ):
        preprocessed(gymnasium.make("FrozenLake-v1"), {"skip": 2})


def test_pictures_that_are_no_pixels_are_refused():
    with pytest.raises(ValueError, match=r"render\(\) must always return uint8 pixels of one shape.*, got float64"):
        preprocessed(Pale(render_mode="rgb_array"), {"pixels": 8}).reset(seed=0)


@pytest.mark.parametrize("skip", [4, 5, 8])
def test_an_episode_that_ends_within_a_step_has_its_own_last_frame(skip):
    env, plain = preprocessed(Seen(), {"skip": skip}), Seen()
    for seed in (1, 2):  # Gymnasium's wrapper shows a frame of the first episode at the end of the second
        env.reset(seed=seed)
        plain.reset(seed=seed)
        frames, ended = [plain.step(STILL)[0] for _ in range(5)], False
        while not ended:
            observation, _, ended, _, _ = env.step(STILL)
        played = frames[-(5 % skip or skip) :][-2:]
        np.testing.assert_array_equal(observation, np.max(played, axis=0))


def test_a_stack_shows_the_last_observations_and_is_refilled_at_reset():
    env = preprocessed(Reusing(), {"stack": 3})  # which returns the same array again and again
    for seed in (1, 2):
        first, _ = env.reset(seed=seed)
        np.testing.assert_array_equal(first, [first[0]] * 3)
        second, *_ = env.step(np.ones(1, np.float32))
        third, *_ = env.step(np.ones(1, np.float32))
        np.testing.assert_array_equal(second[:2], first[:2])
        np.testing.assert_array_equal(third[:2], second[1:])
        assert third[:, 1].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"gray": True},
            "a dict of skip, pixels, grey, resize, stack, flatten, and 'gray' is none of them; did you mean 'grey'",
        ),
        ({"skip": 1}, "a dict whose 'skip' is a whole number of at least 2"),
        ({"stack": True}, "a dict whose 'stack' is a whole number of at least 2"),
        ({"grey": 1}, "a dict whose 'grey' is True or False"),
        ({"resize": [84, 84]}, "a dict whose 'resize' is a whole number of at least 1"),
        ([4], "a dict that JSON can hold"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_the_config(settings, message):
    with pytest.raises(ValueError, match=f"preprocessing must be {message}"):
        TrainConfig(env_id="Walk-v0", preprocessing=settings)


@pytest.mark.parametrize("settings", [{"grey": True}, {"resize": 84}], ids=str)
def test_a_wrapper_for_images_is_refused_where_there_are_none(settings, walk, tiny, tmp_path):
    (name,) = settings
    with pytest.raises(ValueError, match=rf"Walk-v0 .*: preprocessing '{name}' is not for observations Box.*, \(2,\)"):
        train(walk, run_dir=tmp_path / "r", preprocessing=settings, **tiny)
    assert not (tmp_path / "r").exists()


def test_without_opencv_resize_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(ValueError, match=r"preprocessing 'resize' needs OpenCV: pip install 'es-envs\[image\]'"):
        preprocessed(Seen(), {"resize": 20})


def test_skip_and_stack_are_for_other_observations_too(register, tmp_path, tiny):
    nested = register("Nested-v0", "small_envs:Nested", fitness="episode_return", max_episode_steps=5)
    run = train(nested, run_dir=tmp_path / "stacked", preprocessing={"stack": 2}, **tiny)
    assert run.checkpoint.policy().inputs == 2 * (1 + 3 + 2)
    with pytest.raises(ValueError, match="preprocessing 'skip' is not for observations Dict"):
        train(nested, run_dir=tmp_path / "skipped", preprocessing={"skip": 2}, **tiny)


@pytest.fixture
def seen(register):
    # Long enough for a step limit of its own, in steps of the environment.
    return register("Seen-v0", "small_envs:Seen", fitness="episode_return", max_episode_steps=4)


FIELDS = {
    "policy": "cnn_small",
    "preprocessing": ALL,
    "generations": 2,
    "population_size": 4,
    "episodes_per_candidate": 2,
    "eval_episodes": 2,
    "confirm_episodes": 2,
    "sigma": 0.1,
    "progress": False,
}


def test_workers_do_not_change_a_bit_of_a_run_with_wrappers(seen, tmp_path):
    runs = [train(seen, run_dir=tmp_path / str(workers), workers=workers, **FIELDS) for workers in (1, 2)]
    one, two = [(run.directory / "checkpoints/000002.safetensors").read_bytes() for run in runs]
    assert one == two
    assert runs[0].history[0].episode_length == 2, "4 steps of the environment"
    assert not np.array_equal(runs[0].checkpoint.mean, runs[0].checkpoint_at(0).mean)


@pytest.mark.parametrize("env_id", ["CartPoleBullet-v0", "CartPole-v1"])
def test_a_policy_that_acts_on_pixels_is_trained_scored_and_filmed(env_id, tmp_path):
    fields = {**FIELDS, "preprocessing": {"pixels": 24, "grey": True, "stack": 2}, "max_episode_steps": 6}
    runs = [train(env_id, run_dir=tmp_path / str(workers), workers=workers, **fields) for workers in (1, 2)]
    one, two = [(run.directory / "checkpoints/000002.safetensors").read_bytes() for run in runs]
    assert one == two
    assert runs[0].config.policy == "cnn_small"
    score = runs[0].evaluate(episodes=1, workers=1)
    [filmed] = runs[0].record(tmp_path / "film.mp4", workers=1)
    assert filmed.fitness == score.mean
    assert imageio_ffmpeg.count_frames_and_secs(str(tmp_path / "film.mp4"))[0] >= filmed.length / 2  # drawn at 25 Hz


@pytest.mark.parametrize("policy", ["auto", "linear", "gru"])
def test_a_small_picture_is_a_row_of_numbers_for_other_policies(policy, tmp_path):
    fields = {**FIELDS, "policy": policy, "preprocessing": {"pixels": 6, "grey": True, "stack": 2, "flatten": True}}
    run = train("Pendulum-v1", run_dir=tmp_path / "r", workers=1, max_episode_steps=6, **fields)
    assert run.checkpoint.policy().inputs == 2 * 6 * 6
    assert run.history[0].parameter_hash != run.history[-1].parameter_hash
    assert "cnn" not in run.config.policy


def test_an_actor_plays_the_scored_episode_behind_the_same_wrappers(seen, tmp_path):
    run = train(seen, run_dir=tmp_path / "r", workers=1, **FIELDS)
    config, act = run.config, run.checkpoint.actor()
    env = preprocessed(es_envs.make(seen).unwrapped, config.preprocessing)
    totals = []
    for seed in episode_seeds(config.seed, Purpose.EVALUATION, 2, 2):
        act.reset()
        observation, total = env.reset(seed=seed)[0], 0.0
        for _ in range(2):
            observation, reward, *_ = env.step(act(observation))
            total += reward
        totals.append(total)
    assert np.mean(totals) == run.history[-1].evaluation.mean


def test_an_episode_does_not_depend_on_the_one_before(register):
    seen = register("Seen-v0", "small_envs:Seen", fitness="episode_return", max_episode_steps=6)
    config = TrainConfig.for_env(seen, policy="cnn_small", preprocessing={**ALL, "skip": 3})
    with closing(Rollout(definition(seen), config)) as rollout:
        rollout.use(10 * rollout.policy.initial(0), None)
        episodes = [rollout.episode(seed) for seed in (1, 2, 1)]
    np.testing.assert_array_equal(episodes[0].last_observation, episodes[2].last_observation)
    assert not np.array_equal(episodes[0].last_observation, episodes[1].last_observation)
    with make_pool(definition(seen), config, PoolOptions(workers=2)) as pool:
        there = pool.rollouts(10 * rollout.policy.initial(0), None, [2, 1])
    np.testing.assert_array_equal(there[1].last_observation, episodes[0].last_observation)


def test_a_film_of_skipped_steps_runs_in_real_time(tmp_path, tiny):
    run = train("CartPole-v1", run_dir=tmp_path / "r", preprocessing={"skip": 2, "stack": 2}, **tiny)
    [episode] = run.record(tmp_path / "film.mp4", workers=1)
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(tmp_path / "film.mp4"))
    assert frames == episode.length + 25  # of 25 a second: the last one is held
    assert seconds == pytest.approx(2 * episode.length / 50 + 1, abs=0.05)


@pytest.mark.parametrize("pool", ["local", pytest.param("vector", marks=pytest.mark.slow)])
@pytest.mark.parametrize("beside", [False, True])
def test_large_pictures_are_grey_and_small_unless_something_is_given(beside, pool, register, tmp_path, capsys):
    pytest.importorskip("cv2")
    env_id = register("Seen-v0", "small_envs:Seen", kwargs={"shape": (60, 80, 3), "beside": beside})
    how = {**TINY, "workers": 1 if pool == "local" else None, "pool": pool, "progress": True}
    del how["hidden_sizes"]  # which would say that the policy is an mlp
    run = train(env_id, run_dir=tmp_path / "run", strategy="openai_es", **how)
    assert run.config.preprocessing == {"grey": True, "resize": 48}
    assert {"policy", "preprocessing"} <= set(run.config.decided)
    space = run.checkpoint.observation_space
    assert (space["camera"] if beside else space).shape == (48, 48, 1)
    assert "chosen: pictures grey, 48 by 48 pixels" in capsys.readouterr().err
    assert run.evaluate(episodes=2, workers=1).episodes == 2
    more = train(env_id, run_dir=tmp_path / "more", initial=run, strategy="openai_es", **how)
    assert more.config.preprocessing == run.config.preprocessing
    again = train(run.config, run_dir=tmp_path / "again", progress=False, workers=how["workers"], pool=pool)
    assert again.history[-1].parameter_hash == run.history[-1].parameter_hash

    for name, given in {"raw": {"preprocessing": {"grey": False}}, "small": {"policy": "cnn_small"}}.items():
        raw = train(env_id, run_dir=tmp_path / name, strategy="openai_es", **given, **how)
        space = raw.checkpoint.observation_space
        assert (space["camera"] if beside else space).shape == (60, 80, 3)


def test_a_small_grey_picture_is_left_as_it_is(register, tmp_path):
    env_id = register("Seen-v0", "small_envs:Seen", kwargs={"shape": (36, 40, 1)})
    settings = {name: value for name, value in TINY.items() if name != "hidden_sizes"}
    run = train(env_id, run_dir=tmp_path / "run", strategy="openai_es", **settings)
    assert run.config.preprocessing == {}


def test_a_policy_of_millions_of_parameters_is_advised_to_see_less(register, tmp_path, capsys):
    env_id = register("Seen-v0", "small_envs:Seen", kwargs={"shape": (84, 84, 3)})
    settings = {**TINY, "progress": True, "policy": "cnn_nature", "strategy": "openai_es"}
    train(env_id, run_dir=tmp_path / "run", **settings)
    lines = capsys.readouterr().err.splitlines()
    (place,) = [number for number, line in enumerate(lines) if "--preprocessing grey=true,resize=48" in line]
    assert lines[place].startswith("advice: the policy has 1")
    assert not any("generation" in line for line in lines[:place]), "before it starts"


def test_wrappers_reach_the_pictures_of_nested_parts():
    class Nested(gymnasium.Env):
        observation_space = spaces.Dict(
            {
                "eyes": spaces.Dict({"left": spaces.Box(0, 255, (60, 80, 3), np.uint8), "far": spaces.Discrete(3)}),
                "place": spaces.Box(-1, 1, (2,)),
            }
        )
        action_space = spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.observation_space.seed(seed)
            return self.observation_space.sample(), {}

    bare, env = Nested(), preprocessed(Nested(), {"grey": True, "resize": 40, "stack": 2})
    seen, expected = env.reset(seed=1)[0], bare.reset(seed=1)[0]
    assert env.observation_space.contains(seen)
    assert seen["eyes"]["left"].shape == (2, 40, 40)
    picture = spaces.Box(0, 255, (60, 80, 3), np.uint8)
    alone = preprocessed(Alone(picture, expected["eyes"]["left"]), {"grey": True, "resize": 40, "stack": 2})
    np.testing.assert_array_equal(seen["eyes"]["left"], alone.reset()[0])
    np.testing.assert_array_equal(seen["place"][0], expected["place"])


class Alone(gymnasium.Env):
    """One picture, always."""

    action_space = spaces.Discrete(2)

    def __init__(self, space, picture):
        self.observation_space, self.picture = space, picture

    def reset(self, *, seed=None, options=None):
        return self.picture, {}


@pytest.mark.parametrize("part", [spaces.Sequence(spaces.Discrete(2)), spaces.Graph(spaces.Discrete(2), None)], ids=str)
def test_spaces_that_cannot_be_flattened_are_refused_in_a_sentence(part):
    with pytest.raises(ValueError, match=r"'flatten' is not for observations .*no fixed length"):
        preprocessed(Alone(spaces.Dict({"part": part}), None), {"flatten": True})
