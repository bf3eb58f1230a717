import contextlib
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import imageio.v2 as imageio
import imageio_ffmpeg
import numpy as np
import psutil
import pytest
from conftest import ENV_IDS, TINY, first_fast, left_behind, running, wait_until

import es_envs
from es_core import record, train
from es_core.cli import main
from es_core.evaluation.scoring import find_policy
from es_core.rollout.errors import RolloutError
from es_core.runs.unfinished import working_folder
from es_core.seeding import Purpose, episode_seeds

OWN_FORKERS = True

# imageio's reader leaves its pipes to the garbage collector; es_envs reads no films, only this test does.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SIZE = {"width": 96, "height": 64}
RECORD = sys.modules[record.__module__]


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


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def atoms(path):
    """Names of an MP4's top-level parts, in their order."""
    data, names, at = path.read_bytes(), [], 0
    while at < len(data):
        size, name = struct.unpack(">I4s", data[at : at + 8])
        names.append(name.decode())
        at += size
    return names


@pytest.mark.parametrize("env_id", first_fast(sorted(ENV_IDS, key="HopperBullet-v0".__ne__)))  # it soon falls
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
    assert frames == np.ceil(episode.length / np.ceil(rate / 30)) + round(meta["fps"])
    assert abs(seconds - episode.length / rate - 1) <= 1 / meta["fps"] + 0.05
    assert names_in(tmp_path) == ["film.json", "film.mp4", "film.png"]


@pytest.mark.parametrize("env_id", first_fast(ENV_IDS))
def test_films_show_the_scored_episodes(env_id, runs, tmp_path):
    score = runs[env_id].evaluate(episodes=2, seed=5)
    filmed = record(runs[env_id], tmp_path / "film.mp4", episodes=2, seed=5, **SIZE)
    assert [episode.seed for episode in filmed] == list(episode_seeds(5, Purpose.TEST, 2))
    assert np.mean([episode.fitness for episode in filmed]) == score.mean
    assert sum(episode.length for episode in filmed) == score.steps


@pytest.mark.parametrize("kwargs", [{}, {"width": 5}])
def test_an_environment_whose_width_is_no_pictures_is_filmed_as_it_was_scored(kwargs, register, tmp_path):
    rooms = register("Rooms-v0", "small_envs:Rooms", fitness="episode_return", max_episode_steps=4)
    run = train(rooms, run_dir=tmp_path / "run", env_kwargs=kwargs, **TINY)
    [episode] = record(run, tmp_path / "film.mp4", **SIZE)
    assert episode.fitness == run.evaluate(episodes=1).mean
    assert episode.fitness == episode.length * kwargs.get("width", 3) * 2


@pytest.mark.parametrize(
    ("entry_point", "kwargs", "message"),
    [
        ("Rooms", {"fps": -5}, r"Rooms-v0.*: metadata\['render_fps'\] must be a number above 0, got -5"),
        ("Rooms", {"fps": "fast"}, r"metadata\['render_fps'\] must be a number above 0, got 'fast'"),
        ("Swelling", {}, "Rooms-v0.*, episode seed .*, frame 1: the pictures of render.. have changed their size"),
    ],
)
def test_wrong_pictures_of_an_environment_are_explained(entry_point, kwargs, message, register, tmp_path):
    rooms = register("Rooms-v0", f"small_envs:{entry_point}", max_episode_steps=4, fitness="small_envs:steps")
    run = train(rooms, run_dir=tmp_path / "run", env_kwargs=kwargs, **TINY)
    with pytest.raises(ValueError, match=message):
        record(run, tmp_path / "film.mp4", workers=1)


def test_frames_differ_and_carry_a_caption(runs, tmp_path):
    path = tmp_path / "film.mp4"
    record(runs["RaceCar-v0"], path, width=320, height=240)
    frames = np.array(imageio.mimread(path, memtest=False), float)
    assert np.abs(frames[-1] - frames[0]).mean() > 0.5
    strip = frames[0, -20:-6]
    assert strip.max() > 200  # white letters
    assert np.median(strip) < 100  # on a dark strip
    progress = frames[:, -2, 160] - frames[0, -2, 160]
    assert np.abs(progress[-1]).max() > 50  # the line along the lower edge


def test_odd_sizes_are_cut_to_even_ones(runs, tmp_path):
    record(runs["CartPoleBullet-v0"], tmp_path / "film.mp4", width=99, height=75)
    assert meta_of(tmp_path / "film.mp4")["size"] == (98, 74)


def test_fewer_frames_a_second_still_make_real_time(runs, tmp_path):
    [episode] = record(runs["BalancingPlate-v0"], tmp_path / "film.mp4", fps=10, **SIZE)
    meta = meta_of(tmp_path / "film.mp4")
    assert meta["fps"] == pytest.approx(10)
    assert meta["duration"] == pytest.approx(episode.length / 100 + 1, abs=0.11)


def test_a_generation_can_be_chosen(runs, tmp_path):
    run = runs["CartPoleBullet-v0"]
    record(run, tmp_path / "film.mp4", generation=0, **SIZE)
    with pytest.raises(FileNotFoundError, match="has no generation 7: it reached generation 1"):
        record(run, tmp_path / "film.mp4", generation=7)
    with pytest.raises(ValueError, match="single checkpoint"):
        record(run.checkpoint, tmp_path / "film.mp4", generation=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("film.avi", {}, ValueError, r"must end in \.mp4 or \.gif"),
        ("film", {}, ValueError, r"\.mp4"),
        ("nowhere/film.mp4", {}, FileNotFoundError, "nowhere"),
        ("film.mp4", {"episodes": 0}, ValueError, "episodes"),
        ("film.mp4", {"width": -2}, ValueError, "width"),
        ("film.mp4", {"fps": 0}, ValueError, "fps"),
        ("film.mp4", {"workers": 0}, ValueError, "workers"),
    ],
)
def test_impossible_films_are_refused_before_anything_is_played(name, options, error, message, runs, tmp_path):
    with pytest.raises(error, match=message):
        record(runs["CartPoleBullet-v0"], tmp_path / name, **options)
    assert list(tmp_path.iterdir()) == []


def test_a_film_does_not_replace_what_describes_no_film(runs, tmp_path):
    notes = tmp_path / "film.json"
    notes.write_text('{"mean": 3.0}', encoding="utf-8")
    how = {"speed": 20, "workers": 1, "width": 64, "height": 48}
    with pytest.raises(FileExistsError, match=r"film\.json exists and describes no film: choose another name"):
        record(runs["CartPoleBullet-v0"], tmp_path / "film.mp4", **how)
    assert [file.name for file in tmp_path.iterdir()] == ["film.json"]
    notes.unlink()
    picture = tmp_path / "film.png"
    picture.write_bytes(b"a photograph")
    with pytest.raises(FileExistsError, match=r"film\.png exists and belongs to no film: choose another name"):
        record(runs["CartPoleBullet-v0"], tmp_path / "film.gif", **how)
    assert picture.read_bytes() == b"a photograph"
    picture.unlink()
    for _ in range(2):  # a film of one's own may be made again
        assert record(runs["CartPoleBullet-v0"], tmp_path / "film.mp4", **how)
    (tmp_path / "folder.mp4").mkdir()
    with pytest.raises(FileExistsError, match=r"folder\.mp4 is a folder"):
        record(runs["CartPoleBullet-v0"], tmp_path / "folder.mp4", **how)


def test_a_films_name_after_compare_is_refused_with_its_place(runs, capsys):
    run = str(runs["CartPoleBullet-v0"].directory)
    assert main(["record", run, "--compare", run, "film.gif"]) == 2
    assert (
        "--compare takes all names that follow it: write the film's name, film.gif, before it"
        in capsys.readouterr().err
    )


def test_a_film_that_another_process_writes_stays_its_own(runs, tmp_path):
    run, how = runs["CartPoleBullet-v0"], {"speed": 20, "workers": 1, "width": 64, "height": 48}
    with working_folder(tmp_path / "film.mp4") as folder:
        (folder / "film.mp4").write_bytes(b"half a film")
        with pytest.raises(FileExistsError, match=r"another process is writing .*film\.mp4: choose another name"):
            record(run, tmp_path / "film.mp4", **how)
        record(run, tmp_path / "film.gif", **how)
        assert (folder / "film.mp4").read_bytes() == b"half a film"
    assert names_in(tmp_path) == ["film.gif", "film.json", "film.png"]


def test_leftovers_in_a_films_folder_are_removed_by_the_next_film(runs, tmp_path):
    left = tmp_path / "film.mp4.unfinished" / "deep"
    left.mkdir(parents=True)
    (left.parent / ".lock").touch()
    (left / "palette.png").write_bytes(b"half a palette")
    record(runs["CartPoleBullet-v0"], tmp_path / "film.mp4", speed=20, workers=1, **SIZE)
    assert names_in(tmp_path) == ["film.json", "film.mp4", "film.png"]


def test_a_folder_that_was_not_made_for_a_film_stays_as_it_is(runs, tmp_path, capsys):
    folder = tmp_path / "film.mp4.unfinished"
    folder.mkdir()
    (folder / "thesis.txt").write_text("five years of work")
    words = ["record", str(runs["CartPoleBullet-v0"].directory), str(tmp_path / "film.mp4"), "--workers", "1"]
    assert main(words) == 1
    assert f"{folder}, in which film.mp4 would be written, exists and was not made" in capsys.readouterr().err
    assert (folder / "thesis.txt").read_text() == "five years of work"
    folder.rename(tmp_path / "mine")
    for put in (folder.touch, lambda: folder.symlink_to(tmp_path / "mine")):
        put()
        assert main(words) == 1
        assert (tmp_path / "mine" / "thesis.txt").exists()
        folder.unlink()


def test_a_new_name_is_neither_that_of_a_film_nor_of_one_that_is_being_written(runs, tmp_path, capsys):
    folder = shutil.copytree(runs["CartPoleBullet-v0"].directory, tmp_path / "run")
    videos = folder / "videos"
    shutil.rmtree(videos, ignore_errors=True)  # as a tool does that copies no empty folders
    assert main(["record", str(folder), "--speed", "20", "--workers", "1"]) == 0
    assert capsys.readouterr().out == f"{videos / 'film-1.mp4'}\n"
    shutil.rmtree(videos)
    videos.mkdir()
    (videos / "film-1.gif").touch()
    (videos / "film-3.mp4.unfinished").mkdir()  # of a killed process
    with working_folder(videos / "film-2.mp4"):
        assert main(["record", str(folder), "--speed", "20", "--workers", "1"]) == 0
    assert capsys.readouterr().out == f"{videos / 'film-3.mp4'}\n"
    assert names_in(videos) == ["film-1.gif", "film-3.json", "film-3.mp4", "film-3.png"]


def test_a_folder_that_is_no_run_stays_as_it_is(tmp_path, capsys):
    assert main(["record", str(tmp_path), "--workers", "1"]) == 1
    assert "is not a run folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_film_without_a_run_is_written_to_the_current_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "CartPoleBullet-v0").mkdir()  # where `train` keeps its runs
    assert main(["record", "CartPoleBullet-v0", "--policy", "random", "--speed", "20", "--workers", "1"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'film-1.mp4'}\n"


@pytest.mark.long
def test_films_of_a_run_that_are_made_at_once_have_names_of_their_own(runs, tmp_path):
    folder = shutil.copytree(runs["CartPoleBullet-v0"].directory, tmp_path / "run")
    words = [sys.executable, "-m", "es_core", "record", folder, "--speed", "20", "--workers", "1"]
    with contextlib.ExitStack() as stack:
        how = {"stdout": subprocess.PIPE, "text": True}
        filming = [stack.enter_context(running(words, **how)) for _ in range(4)]
        said = [process.communicate()[0].strip() for process in filming]
    assert [process.returncode for process in filming] == [0] * 4
    assert sorted(said) == [str(folder / "videos" / f"film-{number}.mp4") for number in range(1, 5)]
    assert all(imageio_ffmpeg.count_frames_and_secs(film)[0] > 20 for film in said)
    assert len(names_in(folder / "videos")) == 3 * 4


@pytest.mark.slow
def test_filming_without_a_display_says_no_word_of_it(runs, tmp_path):
    code = "import sys; from es_core import record; record(*sys.argv[1:], speed=20, workers=1)"
    bare = {k: v for k, v in os.environ.items() if k not in {"DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR"}}
    bare.pop("SDL_VIDEODRIVER", None)
    words = [sys.executable, "-c", code, runs["CartPole-v1"].directory, tmp_path / "film.mp4"]
    done = subprocess.run(words, env=bare, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


DARK = """
import gymnasium, numpy as np
from es_core import record, train

class Dark(gymnasium.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = action_space = gymnasium.spaces.Box(-1, 1, (1,))
    brightest = 0

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.zeros(1, np.float32), 1.0, self.time > 5, False, {}

    def render(self):
        return np.full((32, 32, 3), min(self.time, self.brightest), np.uint8)

class Dawn(Dark):
    brightest = 255

for env in (Dark, Dawn):
    small = {"max_episode_steps": 9, "generations": 1, "population_size": 2, "workers": 1, "progress": False}
    run = train(env, run_dir=env.__name__, **small)
    run.record(f"{env.__name__}.mp4", workers=1)
"""


@pytest.mark.slow
def test_only_a_film_that_shows_nothing_at_all_warns(python, tmp_path):
    done = python(DARK, cwd=tmp_path)
    assert done.code == 0, done.err
    warned = [line for line in done.err.splitlines() if "Warning" in line]
    assert len(warned) == 1, done.err
    assert "Dark.mp4 shows no picture of the environment: all pixels have one colour" in warned[0]


MUJOCO = """
import os
os.environ.pop("MUJOCO_GL", None)
from es_core import train
small = {"max_episode_steps": 20, "generations": 1, "population_size": 2, "workers": 1, "progress": False}
run = train("Hopper-v5", run_dir="run", **small)
run.record("film.mp4")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is always a display")
def test_a_mujoco_robot_is_filmed_without_a_display_and_without_advice(python, tmp_path):
    pytest.importorskip("mujoco")
    done = python(MUJOCO, cwd=tmp_path, environment={"DISPLAY": "", "WAYLAND_DISPLAY": ""})
    assert (done.code, done.err) == (0, "")
    with imageio.get_reader(tmp_path / "film.mp4") as film:
        picture = film.get_data(5)
    assert picture[40:].std(axis=(0, 1)).max() > 20  # below the caption


def test_a_film_that_fails_leaves_the_old_one_and_no_half_one(runs, tmp_path, monkeypatch):
    path = tmp_path / "film.mp4"
    record(runs["CartPoleBullet-v0"], path, **SIZE)
    before = path.read_bytes()
    checkpoint, _ = find_policy(runs["CartPoleBullet-v0"], generation=None, trust=False)
    from es_cartpole_bullet.env import CartPoleBulletEnv

    monkeypatch.setattr(CartPoleBulletEnv, "render", lambda self: np.zeros((4, 4)))
    with pytest.raises(ValueError, match=r"CartPoleBullet-v0.*render\(\) must return uint8"):
        record(checkpoint, path, workers=1)
    assert path.read_bytes() == before
    assert names_in(tmp_path) == ["film.json", "film.mp4", "film.png"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_recording_takes_little_memory(workers, runs, tmp_path, monkeypatch):
    """Neither this process with its encoder, nor any process that draws."""
    process, sizes, captioned = psutil.Process(), [], RECORD.captioned

    def measure(*values):
        by_kind = {"here": process.memory_info().rss - before, "drawing": 0.0}
        for child in left_behind():
            draws = child.exe() == process.exe()
            size = child.memory_info().rss
            if draws:
                by_kind["drawing"] = max(size, by_kind["drawing"])
            else:
                by_kind["here"] += size
        sizes.append(by_kind)
        return captioned(*values)

    monkeypatch.setattr(RECORD, "captioned", measure)
    before = process.memory_info().rss
    record(runs["BalancingPlate-v0"], tmp_path / "film.mp4", episodes=3, workers=workers)
    assert len(sizes) > 40
    assert max(size["here"] for size in sizes) < 200e6
    assert 0 <= max(size["drawing"] for size in sizes) < 260e6  # with the compiler's library
    assert (max(size["drawing"] for size in sizes) > 0) == (workers > 1)


# ---- several processes


def frames_of(path):
    return np.array(imageio.mimread(path, memtest=False))


@pytest.fixture
def artist(register, tiny, tmp_path):
    """``artist(fault)``: a run of ``broken_envs.Artist`` with that fault where frames are drawn."""
    run = train(register("Artist-v0", "broken_envs:Artist", max_episode_steps=100), run_dir=tmp_path / "run", **tiny)

    def make(fault):
        register("Artist-v0", "broken_envs:Artist", max_episode_steps=100, kwargs={"fault": fault})
        return run

    return make


@pytest.mark.slow
def test_a_film_is_the_same_whatever_the_number_of_processes(runs, tmp_path):
    films, episodes = [], []
    for workers in (1, 2, 3):
        path = tmp_path / f"{workers}.mp4"
        episodes.append(record(runs["RaceCar-v0"], path, episodes=2, workers=workers, **SIZE))
        films.append(frames_of(path))
    hold = 25  # frames, at each episode's end
    assert len(films[0]) == sum(np.ceil(episode.length / 4) + hold for episode in episodes[0]) > 60
    for film, played in zip(films[1:], episodes[1:], strict=True):
        np.testing.assert_array_equal(film, films[0])
        assert [e.fitnesses for e in played] == [e.fitnesses for e in episodes[0]]


def test_one_process_is_enough_for_a_short_film_and_for_one_worker(runs, tmp_path, monkeypatch):
    def child(*_, **__):
        raise AssertionError("a process was started")

    monkeypatch.setattr("es_core.video.parallel_rendering.Child", child)
    monkeypatch.setattr(RECORD, "usable_cores", lambda: 8)
    record(runs["RaceCar-v0"], tmp_path / "short.mp4", **SIZE)
    record(runs["CartPole-v1"], tmp_path / "alone.mp4", episodes=3, workers=1)
    with pytest.raises(AssertionError, match="a process was started"):
        record(runs["CartPole-v1"], tmp_path / "together.mp4", episodes=3, workers=2)


@pytest.mark.parametrize("fault", first_fast(["other", "shorter", "longer"]))
def test_an_environment_that_differs_between_processes_is_filmed_by_one(fault, artist, tmp_path):
    alone, together = tmp_path / "alone.mp4", tmp_path / "together.mp4"
    run = artist(fault)
    record(run, alone, workers=1)
    with pytest.warns(RuntimeWarning, match=r"Artist-v0 .*is not deterministic: the episode with seed \d+ had fitness"):
        [episode] = record(run, together, workers=2)
    assert episode.length == len(frames_of(alone)) - 30 == 40
    np.testing.assert_array_equal(frames_of(together), frames_of(alone))
    assert left_behind() == []


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    first_fast(
        [
            (
                "render",
                ValueError,
                r"Artist-v0 .*episode seed \d+, step 7: render\(\) failed: RuntimeError: the lamp",
            ),
            (
                "step",
                RolloutError,
                r"Artist-v0 .*: the episode with seed \d+ failed at step 7: RuntimeError: the motor is",
            ),
            ("start", RolloutError, r"Artist-v0 .*that draws frames could not start: .*no place for me here"),
            ("crash", RolloutError, r"Artist-v0 .*: drawing frames failed: the process died \(exit code -9; killed"),
        ],
        fast=2,
    ),
)
def test_an_error_in_a_rendering_process_is_reported_without_leftovers(fault, error, message, artist, tmp_path):
    with pytest.raises(error, match=message) as caught:
        record(artist(fault), tmp_path / "film.mp4", workers=2)
    assert fault == "crash" or "broken_envs.py" in caught.value.__notes__[0]  # the traceback
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert left_behind() == []


FILMING = """
import sys, es_envs
from es_core import record
es_envs.register(es_envs.EnvDefinition(id="Artist-v0", entry_point="broken_envs:Artist", kwargs={"note": True},
                                       max_episode_steps=100))
record("run", "film.mp4", episodes=300, workers=2, trust=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
@pytest.mark.parametrize("number", first_fast([signal.SIGKILL, signal.SIGINT]))
def test_no_process_outlives_a_recording_that_is_interrupted_or_killed(number, artist, tmp_path):
    artist(None)
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r}){FILMING}"
    with running([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as main:
        drawing = set()
        while len(drawing) < 2:
            line = main.stderr.readline()
            assert line
            drawing |= {line for _ in range(line.startswith("drawn by"))}
        wait_until((tmp_path / "film.mp4.unfinished" / "film.mp4").exists, main)
        time.sleep(0.3)  # Python passes over an interrupt in the middle of an import
        main.send_signal(number)
        main.stderr.read()  # until all that could write to it have ended
        main.wait(timeout=60)
    assert main.returncode == -number
    assert number == signal.SIGKILL or [path.name for path in tmp_path.iterdir()] == ["run"]
