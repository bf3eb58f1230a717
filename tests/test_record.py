import struct

import imageio.v2 as imageio
import imageio_ffmpeg
import numpy as np
import psutil
import pytest

import es_envs
from es_core import record, train
from es_core.evaluate import find_policy
from es_core.seeding import Purpose, episode_seeds

# imageio's reader leaves its pipes to the garbage collector; es_envs reads no films, only this test does.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SIZE = {"width": 96, "height": 64}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A hardly trained run of each environment."""
    folder = tmp_path_factory.mktemp("runs")
    options = {"generations": 1, "population_size": 4, "eval_every": 0, "max_episode_steps": 61, "progress": False}
    return {
        env_id: train(env_id, run_dir=folder / env_id, workers=1, **options)
        for env_id in [*es_envs.env_ids(), "CartPole-v1"]
    }


def meta_of(path):
    with imageio.get_reader(path) as reader:
        return reader.get_meta_data()


def atoms(path):
    """Names of an MP4's top-level parts, in their order."""
    data, names, at = path.read_bytes(), [], 0
    while at < len(data):
        size, name = struct.unpack(">I4s", data[at : at + 8])
        names.append(name.decode())
        at += size
    return names


@pytest.mark.parametrize("env_id", es_envs.env_ids())
def test_a_film_plays_everywhere_and_lasts_as_long_as_the_episode(env_id, runs, tmp_path):
    path = tmp_path / "film.mp4"
    [episode] = record(runs[env_id], path, **SIZE)
    meta = meta_of(path)
    assert (meta["codec"], meta["pix_fmt"].partition("(")[0], meta["size"]) == ("h264", "yuv420p", (96, 64))
    names = atoms(path)
    assert names[0] == "ftyp"
    assert names.index("moov") < names.index("mdat")
    rate = es_envs.make(env_id).metadata["render_fps"]
    assert rate / 2 < meta["fps"] * np.ceil(rate / 30) <= rate * 1.001
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(path))
    assert frames == np.ceil(episode.length / np.ceil(rate / 30))
    assert abs(seconds - episode.length / rate) <= 1 / meta["fps"] + 0.01
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("env_id", es_envs.env_ids())
def test_what_is_filmed_is_what_was_scored(env_id, runs, tmp_path):
    score = runs[env_id].evaluate(episodes=2, seed=5)
    filmed = record(runs[env_id], tmp_path / "film.mp4", episodes=2, seed=5, **SIZE)
    assert [episode.seed for episode in filmed] == list(episode_seeds(5, Purpose.TEST, 2))
    assert np.mean([episode.fitness for episode in filmed]) == score.mean
    assert sum(episode.length for episode in filmed) == score.steps


def test_frames_differ_and_carry_a_caption(runs, tmp_path):
    path = tmp_path / "film.mp4"
    record(runs["RaceCar-v0"], path, width=320, height=240)
    frames = np.array(imageio.mimread(path, memtest=False), float)
    assert np.abs(frames[-1] - frames[0]).mean() > 0.5
    strip = frames[0, -14:-3]
    assert strip.max() > 200  # white letters
    assert np.median(strip) < 100  # on a dark strip


def test_an_environment_with_frames_of_its_own_size_is_filmed_at_that_size(runs, tmp_path):
    pytest.importorskip("pygame")
    record(runs["CartPole-v1"], tmp_path / "film.mp4", **SIZE)
    assert meta_of(tmp_path / "film.mp4")["size"] == (600, 400)


def test_odd_sizes_are_cut_to_even_ones(runs, tmp_path):
    record(runs["CartPoleBullet-v0"], tmp_path / "film.mp4", width=99, height=75)
    assert meta_of(tmp_path / "film.mp4")["size"] == (98, 74)


def test_fewer_frames_a_second_still_make_real_time(runs, tmp_path):
    [episode] = record(runs["BalancingPlate-v0"], tmp_path / "film.mp4", fps=10, **SIZE)
    meta = meta_of(tmp_path / "film.mp4")
    assert meta["fps"] == pytest.approx(10)
    assert meta["duration"] == pytest.approx(episode.length / 100, abs=0.11)


def test_a_generation_can_be_chosen(runs, tmp_path):
    run = runs["CartPoleBullet-v0"]
    record(run, tmp_path / "film.mp4", generation=0, **SIZE)
    with pytest.raises(FileNotFoundError, match="no checkpoint of generation 7; there are: 0, 1"):
        record(run, tmp_path / "film.mp4", generation=7)
    with pytest.raises(ValueError, match="single checkpoint"):
        record(run.checkpoint, tmp_path / "film.mp4", generation=0)


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("film.avi", {}, ValueError, r"\.mp4"),
        ("film", {}, ValueError, r"\.mp4"),
        ("nowhere/film.mp4", {}, FileNotFoundError, "nowhere"),
        ("film.mp4", {"episodes": 0}, ValueError, "episodes"),
        ("film.mp4", {"width": -2}, ValueError, "width"),
        ("film.mp4", {"fps": 0}, ValueError, "fps"),
    ],
)
def test_what_cannot_be_filmed_is_refused_before_anything_is_played(name, options, error, message, runs, tmp_path):
    with pytest.raises(error, match=message):
        record(runs["CartPoleBullet-v0"], tmp_path / name, **options)
    assert list(tmp_path.iterdir()) == []


def test_a_film_that_fails_leaves_the_old_one_and_no_half_one(runs, tmp_path, monkeypatch):
    path = tmp_path / "film.mp4"
    record(runs["CartPoleBullet-v0"], path, **SIZE)
    before = path.read_bytes()
    checkpoint, _ = find_policy(runs["CartPoleBullet-v0"], generation=None, trust=False)
    from es_cartpole_bullet.env import CartPoleBulletEnv

    monkeypatch.setattr(CartPoleBulletEnv, "render", lambda self: np.zeros((4, 4)))
    with pytest.raises(ValueError, match=r"CartPoleBullet-v0.*render\(\) must return uint8"):
        record(checkpoint, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_recording_takes_little_memory(runs, tmp_path, monkeypatch):
    from es_balancing_plate.env import BalancingPlateEnv

    process, sizes, drawn = psutil.Process(), [], BalancingPlateEnv.render

    def render(self):
        sizes.append(sum(member.memory_info().rss for member in [process, *process.children(recursive=True)]))
        return drawn(self)

    monkeypatch.setattr(BalancingPlateEnv, "render", render)
    before = process.memory_info().rss
    record(runs["BalancingPlate-v0"], tmp_path / "film.mp4", episodes=3)
    assert len(sizes) > 40
    assert max(sizes) - before < 200e6
