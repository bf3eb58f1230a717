"""Films of several: generations, populations, grids, ghosts, GIFs, cameras, and what stands beside a film."""

import json
import shutil
import warnings
from contextlib import closing
from dataclasses import replace
from importlib.metadata import version
from itertools import pairwise
from types import SimpleNamespace

import imageio.v2 as imageio
import numpy as np
import pytest
from conftest import TINY
from PIL import Image

import es_envs
from es_core import Checkpoint, TrainConfig, record, train
from es_core.cli import main
from es_core.seeding import Purpose, episode_seeds
from es_core.video.camera_paths import camera_path
from es_core.video.captions import Caption, Inset, Label, captioned, draw_progress
from es_core.video.clips import readout
from es_core.video.layout import alone, caption_height, frame_size, grid
from es_core.video.options import FilmOptions
from es_core.video.renderer import Renderer, Scene, ScoredEpisode
from es_envs import Episode
from es_envs.bullet.camera import Camera, View

# imageio's reader leaves its pipes to the garbage collector; es_envs reads no films, only this test does.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SMALL = {"width": 96, "height": 64, "workers": 1}
GOALS = {"CartPoleBullet-v0": 30.0, "CartPole-v1": None}
HOLD = 20  # frames: 1 s at 20 Hz


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of a Bullet environment and of another one, two generations of four candidates."""
    folder = tmp_path_factory.mktemp("runs")
    options = {"generations": 2, "population_size": 4, "checkpoint_every": 1, "eval_episodes": 2, "progress": False}
    options["max_episode_steps"] = 40
    return {
        env_id: train(env_id, run_dir=folder / env_id, workers=1, confirm_episodes=2, solved_at=goal, **options)
        for env_id, goal in GOALS.items()
    }


@pytest.fixture
def run(runs):
    return runs["CartPoleBullet-v0"]


@pytest.fixture
def captions(monkeypatch):
    """The captions of the films that a test makes, one for each frame."""
    written = []

    def note(frame, caption, number):
        written.append(caption)
        return captioned(frame, caption, number)

    monkeypatch.setattr("es_core.video.recording.captioned", note)
    return written


def frames_of(path):
    return np.array(imageio.mimread(path, memtest=False), int)


def side_car(path):
    return json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))


def test_an_evolution_shows_captioned_generations_on_the_same_start(run, tmp_path):
    path = tmp_path / "film.mp4"
    episodes = record(run, path, generations=[0, 1, 2], width=160, height=120, workers=1)
    assert {episode.seed for episode in episodes} == {episode_seeds(0, Purpose.TEST, 1)[0]}
    for generation, episode in enumerate(episodes):
        assert episode.fitness == run.evaluate(episodes=1, generation=generation).mean
    frames = frames_of(path)
    lengths = [episode.length for episode in episodes]
    assert len(frames) == sum(lengths) + 3 * HOLD
    shots = np.split(frames, np.cumsum([lengths[0] + HOLD, lengths[1] + HOLD]))
    captions = [shot[0, -20:-4, :80] for shot in shots]
    assert np.abs(captions[0] - captions[1]).max() > 100
    assert np.abs(captions[1] - captions[2]).max() > 100
    assert all(np.abs(shot[-1] - shot[-HOLD])[:100].max() < 30 for shot in shots), "its last frame is held"


@pytest.mark.parametrize(
    ("how", "titles"),
    [
        ({"generations": [0, 2]}, ["generation 0", "generation 2"]),
        ({"generation": 1}, ["generation 1"]),
        ({"generation": 1, "candidate": 2}, ["generation 1, candidate 2"]),
        ({"generations": [2, 0, 1], "layout": "grid"}, ["generations 0 to 2"]),
        ({"generation": 1, "population": 2, "layout": "ghosts"}, ["generation 1, 2 candidates"]),
        (
            {"generations": [0, 2], "population": 2, "layout": "ghosts"},
            [f"generation {g}, 2 candidates" for g in (0, 2)],
        ),
        (
            {"generations": [0, 2], "population": 2},
            [f"generation {g}, candidate {candidate}" for g in (0, 2) for candidate in (0, 1)],
        ),
    ],
)
def test_a_caption_names_the_generation_that_is_seen(run, how, titles, tmp_path, captions):
    record(run, tmp_path / "film.mp4", speed=20, **how, **SMALL)
    assert list(dict.fromkeys(caption.titles[-1] for caption in captions)) == titles


def test_a_caption_counts_the_fitness_up_and_says_how_it_ended(run, tmp_path, captions):
    [episode] = record(run, tmp_path / "film.mp4", **SMALL)
    assert captions[0].scores[:-1] == tuple(f"fitness {steps}" for steps in range(1, episode.length))
    assert captions[0].scores[-1] == f"fitness {episode.fitness:.0f}, lost the balance"


def test_a_player_of_a_grid_that_has_ended_is_dimmed_and_marked(run, tmp_path, captions):
    episodes = record(run, tmp_path / "film.mp4", layout="grid", population=4, width=384, height=64, workers=1)
    frames = frames_of(tmp_path / "film.mp4")
    for episode, label in zip(episodes, captions[0].labels, strict=True):
        (x, y), (width, height) = label.corner, label.size
        sky = frames[:, y : y + height // 4, x : x + width].mean(axis=(1, 2, 3))
        assert (len(label.texts), label.is_good) == (episode.length, episode.fitness >= run.config.solved_at)
        assert sky[episode.length - 1 :].max() < 0.75 * sky[: episode.length - 1].min(), "dimmed from its last frame on"


def test_a_player_has_no_mark_where_nobody_knows_what_is_good(runs, tmp_path, captions):
    record(runs["CartPole-v1"], tmp_path / "film.mp4", layout="grid", population=2, **SMALL)
    assert [label.is_good for label in captions[0].labels] == [None, None]


@pytest.mark.slow
def test_a_populations_title_counts_those_that_finish(tmp_path, captions):
    settings = {"population_size": 6, "generations": 1, "eval_every": 0, "sigma": 0.08, "progress": False}
    run = train("RaceCar-v0", initial=Checkpoint.pretrained("RaceCar-v0"), run_dir=tmp_path / "run", **settings)
    how = {"generations": [0], "population": 6, "layout": "ghosts", "speed": 40, **SMALL}
    episodes = record(run, tmp_path / "film.mp4", **how)
    finished = sum(episode.final_info["is_success"] for episode in episodes)
    assert 0 < finished < 6
    counts = [int(title.removeprefix("generation 0: ").split()[0]) for title in captions[0].titles]
    assert (counts, counts[0], counts[-1]) == (sorted(counts), 0, finished)
    assert captions[0].titles[-1].endswith("of 6 finish")
    scored = [run.evaluate(generation=0, candidate=k, episodes=1, workers=1) for k in range(6)]
    assert finished == sum(score.success_rate for score in scored), "as many as evaluate finds"
    [(colours, meaning)] = captions[0].legend
    assert (len(colours), meaning) == (5, "worst to best")


def test_a_film_comes_with_a_picture_and_a_description(run, tmp_path):
    path = tmp_path / "film.mp4"
    [episode] = record(run, path, generation=1, candidate=3, **SMALL)
    document = side_car(path)
    [shot] = document.pop("shots")
    [player] = shot.pop("players")
    assert shot == {"seed": episode.seed, "frames": episode.length}
    assert len(player.pop("parameter_hash")) == 16
    assert player == {
        "name": None,
        "generation": 1,
        "candidate": 3,
        "script": None,
        "fitness": episode.fitness,
        "fitnesses": episode.fitnesses,
        "steps": episode.length,
    }
    assert document.pop("es_envs") == version("es-envs")
    assert document["plugin"].pop("version") == version("es-cartpole-bullet")
    assert document == {
        "film": "film.mp4",
        "environment": "CartPoleBullet-v0",
        "plugin": {"name": "cartpole_bullet"},
        "env_kwargs": {},
        "randomize": {},
        "layout": "alone",
        "camera": None,
        "speed": 1.0,
        "rate": 20.0,
        "size": [96, 64],
        "frames": episode.length + HOLD,
        "seconds": episode.length / 20 + 1,
    }
    assert Image.open(path.with_suffix(".png")).size == (96, 64)


def test_a_few_generations_are_chosen_that_show_progress(run, monkeypatch):
    from es_core.video.filmed_policies import representative_generations

    fitness = [1.0, 2.0, 1.5, 7.0, 7.5, 6.0, 11.0, 10.0]
    stats = [replace(run.history[0], generation=g, fitness_mean=f, evaluation=None) for g, f in enumerate(fitness)]
    monkeypatch.setattr(run, "history", stats)
    assert representative_generations(run, range(9)) == [0, 3, 6]
    assert representative_generations(run, [0, 4, 8]) == [0, 4]
    monkeypatch.setattr(run, "history", [])
    assert representative_generations(run, [0]) == [0]


def test_an_evolution_shows_generations_that_have_no_checkpoint(run, tmp_path):
    folder = shutil.copytree(run.directory, tmp_path / "run")
    for generation in run.checkpoint_generations()[1:]:
        (folder / "checkpoints" / f"{generation:06d}.safetensors").unlink()
    whole, bare = (
        record(path, tmp_path / f"{path.name}.mp4", generations="auto", **SMALL) for path in (run.directory, folder)
    )
    assert len(whole) > 1
    assert [episode.fitness for episode in bare] == [episode.fitness for episode in whole]

    metrics = folder / "metrics.jsonl"
    lines = [{**json.loads(line), "log": None} for line in metrics.read_text().splitlines()]
    metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert len(record(folder, tmp_path / "first.mp4", generations="auto", **SMALL)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "layout"),
    [
        ("CartPoleBullet-v0", "ghosts"),
        ("CartPole-v1", "grid"),
        pytest.param("CartPoleBullet-v0", "grid", marks=pytest.mark.slow),
        pytest.param("CartPole-v1", "ghosts", marks=pytest.mark.long),
    ],
)
def test_a_population_film_is_the_same_from_one_process_and_two(env_id, layout, runs, tmp_path):
    films = []
    for workers in (1, 2):
        path = tmp_path / f"{workers}.mp4"
        episodes = record(runs[env_id], path, generation=0, layout=layout, speed=2, **{**SMALL, "workers": workers})
        films.append(frames_of(path))
    np.testing.assert_array_equal(films[1], films[0])
    steps = {"CartPoleBullet-v0": 2, "CartPole-v1": 4}[env_id]  # from frame to frame, of 20 and 50 a second
    second = {"CartPoleBullet-v0": 20, "CartPole-v1": 25}[env_id]  # frames
    assert len(films[0]) == np.ceil(max(episode.length for episode in episodes) / steps) + second
    document = side_car(path)
    assert document["layout"] == layout
    [shot] = document["shots"]
    assert sorted(player["candidate"] for player in shot["players"]) == [0, 1, 2, 3]
    assert [player["fitness"] for player in shot["players"]] == [episode.fitness for episode in episodes]
    if layout == "ghosts":
        assert [episode.fitness for episode in episodes] == sorted(episode.fitness for episode in episodes)


def test_a_film_may_be_smaller_than_its_captions(run, tmp_path):
    record(run, tmp_path / "film.mp4", generation=0, layout="grid", width=40, height=30, workers=1)
    record(run, tmp_path / "film.mp4", generation=0, width=20, height=16, workers=1)
    assert frames_of(tmp_path / "film.mp4").shape[1:] == (16, 20, 3)


def test_a_grid_without_room_is_refused():
    with pytest.raises(ValueError, match="a film of 16 by 12 has no room for a grid of 64"):
        grid(64, (16, 12))


@pytest.mark.parametrize(
    ("number", "size", "shape"),
    [(2, (640, 240), (2, 1)), (3, (960, 360), (3, 1)), (3, (640, 480), (2, 2)), (16, (640, 480), (4, 4)),
     (8, (640, 480), (3, 3)), (2, (480, 640), (1, 2)), (16, (640, 360), (4, 4)), (16, (640, 1138), (3, 6))],
)  # fmt: skip
def test_a_grid_fills_its_frame_above_the_caption_in_rows(number, size, shape):
    arrangement = grid(number, size, below=caption_height(size))
    (width, height), corners = arrangement.picture, arrangement.corners
    rows = sorted({y for _, y in corners})
    assert (sum(y == 0 for _, y in corners), len(rows)) == shape
    assert all(0 <= x <= size[0] - width for x, _ in corners)
    assert max(x for x, _ in corners) + width >= size[0] - 10
    assert rows[-1] + height in range(size[1] - caption_height(size) - 20, size[1] - caption_height(size) + 1)
    assert all(below - above > height for above, below in pairwise(rows))
    for row in rows:
        across = sorted(x for x, y in corners if y == row)
        assert all(right - left > width for left, right in pairwise(across))
        assert across[0] == pytest.approx(size[0] - width - across[-1], abs=2), "in the middle"


def test_a_grid_holds_all_of_its_pictures_even_if_one_would_fill_it():
    pictures = [np.full((48, 64, 3), shade, np.uint8) for shade in (50, 100, 150, 200)]
    assert {50, 100, 150, 200} <= set(np.unique(grid(4, (64, 48)).frame(pictures)))


@pytest.mark.parametrize("aspect", ["16:9", "1:1", "9:16"])
def test_captions_stay_inside_the_picture_and_apart(aspect):
    width, height = frame_size(320, None, aspect)
    title, score = "generation 12: 18 of 32 finish", "best fitness 12345.67, lost the balance"
    long = "a-run-with-a-name-that-is-longer-than-its-place-in-any-film-of-these"
    bare = Caption(titles=("", title, title), scores=("", "", score), subject="")

    def drawn(caption, number=0):
        frame = captioned(np.zeros((height, width, 3), np.uint8), caption, number)
        draw_progress(frame, [0, 1], 0)
        return frame[:-3].astype(int)

    def box(one, other):
        rows, columns = np.nonzero(np.abs(one - other).max(axis=2) > 20)
        return columns.min(), rows.min(), columns.max() + 1, rows.max() + 1

    empty = drawn(bare)
    legend = (((90, 90, 250),), long), ((), long)
    inset = Inset(picture=np.full((height // 4, width // 4, 3), 99, np.uint8), places=((5.0, 5.0),))
    label = Label(texts=(f"{long}:  12345.67",), is_good=True, corner=(100, 50), size=(80, 60))
    texts = [
        box(drawn(bare, 1), empty),
        box(drawn(bare, 2), drawn(bare, 1)),
        box(drawn(replace(bare, subject=f"RaceCar-v0, {long}")), empty),
    ]
    for above in (replace(bare, legend=legend), replace(bare, inset=inset)):
        boxes = [*texts, box(drawn(above), empty)]
        for number, (left, top, right, bottom) in enumerate(boxes):
            assert 0 < left < right < width
            assert 0 < top < bottom <= height - 3
            for other in boxes[:number]:
                assert left >= other[2] or right <= other[0] or top >= other[3] or bottom <= other[1]
    left, top, right, bottom = box(drawn(replace(bare, labels=(label,))), empty)
    assert (left > 100, top >= 50, right < 180, bottom <= 110) == (True,) * 4


def test_a_legends_words_are_next_to_their_colours():
    empty = Caption(titles=("",), scores=("",), subject="")
    shades = [(90, 90, 250), (90, 250, 90)]

    def drawn(text):
        legend = tuple(((shade,), text) for shade in shades)
        picture = np.zeros((240, 320, 3), np.uint8)
        return captioned(picture, replace(empty, legend=legend), 0).astype(int)

    colours = drawn("")
    words = np.abs(drawn("HHHH") - colours).max(axis=2) > 100
    for shade in shades:
        coloured = np.argwhere(np.abs(colours - shade).max(axis=2) < 3)  # blended
        (top, _), (bottom, right) = coloured.min(axis=0), coloured.max(axis=0)
        written = np.argwhere(words[top : bottom + 1])
        assert right < written[:, 1].min() < 2 * right
        assert abs(written[:, 0].min() + written[:, 0].max() - (bottom - top)) <= 2, "at the same height"


def test_the_colours_of_a_row_lie_side_by_side_before_its_words():
    shades = ((250, 90, 90), (90, 250, 90), (90, 90, 250))
    caption = Caption(titles=("",), scores=("",), subject="", legend=((shades, "HHHH"),))
    picture = captioned(np.zeros((240, 320, 3), np.uint8), caption, 0).astype(int)
    columns = [np.argwhere(np.abs(picture - shade).max(axis=2) < 3)[:, 1] for shade in shades]
    ends = [end for each in columns for end in (each.min(), each.max())]
    assert ends == sorted(ends)
    assert ends[-1] < np.argwhere((picture > 200).all(axis=2))[:, 1].min()


def test_letters_that_no_font_has_become_others_and_never_a_box():
    def drawn(text):
        caption = Caption(titles=(text,), scores=("",), subject="")
        return captioned(np.zeros((240, 320, 3), np.uint8), caption, 0).tobytes()

    letters = "üéñß×µ–Ωя?"  # noqa: RUF001
    assert len({drawn(letter) for letter in letters}) == len(letters)
    for text, shown in (
        ("中", "?"),
        ("a\nb", "a?b"),
        ("\udcff", "?"),
        ("a → b", "a > b"),
        ("u\u0308", "ü"),
        ("①", "1"),
    ):
        assert drawn(text) == drawn(shown)


def test_a_frame_of_any_shape_holds_a_picture_that_is_not_distorted(runs, tmp_path, captions):
    path = tmp_path / "film.mp4"
    tall, wide = {"aspect": "9:16", "width": 90}, {"aspect": "16:9", "height": 72}
    for how, size, shown, top in [({}, (600, 466), (600, 400), 0), (tall, (90, 160), (90, 60), 34),
                                  (wide, (128, 72), (60, 40), 0)]:  # fmt: skip
        record(runs["CartPole-v1"], path, speed=4, workers=1, **how)
        frame = frames_of(path)[0].mean(axis=2)
        bright = (frame > 128)[: top + shown[1] - 2]
        assert frame.shape == size[::-1]
        assert (bright.any(axis=0).sum(), shown) == (pytest.approx(shown[0], abs=2), shown)
        assert bright.any(axis=1).argmax() == pytest.approx(top, abs=2)
    with pytest.raises(ValueError, match="two of them are enough, got 90, 60 and 1:1"):
        record(runs["CartPole-v1"], path, width=90, height=60, aspect="1:1")


def test_captions_and_labels_lie_below_the_pictures_of_an_environment_that_draws_itself(runs, tmp_path):
    path, pole = tmp_path / "film.mp4", es_envs.make("CartPole-v1", render_mode="rgb_array")
    record(runs["CartPole-v1"], path, workers=1)
    frames = frames_of(path)
    pole.reset(seed=side_car(path)["shots"][0]["seed"])
    white = pole.render().min(axis=2) == 255
    pole.close()
    assert (frames[0][:400].min(axis=2)[white] > 230).mean() > 0.99
    assert frames[:, 400:].mean() < 40
    assert frames[0, 400:].max() > 200, "white letters"
    record(runs["CartPole-v1"], path, workers=1, layout="grid", population=2, height=240)
    rows = np.flatnonzero((frames_of(path)[0, :, 10:150].min(axis=2) > 200).mean(axis=1) > 0.7)
    assert len(rows) == pytest.approx(158 * 2 / 3, abs=4), "nothing lies on the pictures"
    assert rows[-1] - rows[0] < len(rows) + 4


def test_small_pictures_are_enlarged_a_whole_number_of_times():
    small = np.arange(2 * 160 * 210 * 3).reshape(2, 210, 160, 3).astype(np.uint8)
    for picture in small:
        frame = alone((640, 480), fits=False, apart=True).frame([picture])
        assert frame.shape[1] == 480
        assert np.array_equal(frame[:630:3, ::3], picture)
        assert np.array_equal(frame[2:630:3, 2::3], picture)
        assert not frame[630:].any()


@pytest.mark.parametrize(("given", "camera"), [({}, 0), ({"camera_id": -1}, -1)])
def test_the_camera_follows_a_mujoco_robot_unless_you_choose_another(given, camera):
    pytest.importorskip("mujoco")
    config = TrainConfig.for_env("Hopper-v5", env_kwargs=given)
    with closing(Renderer(Scene.alone(es_envs.definition("Hopper-v5"), config, size=(64, 48), fps=10))) as renderer:
        assert renderer.env.unwrapped.mujoco_renderer.camera_id == camera


def test_the_camera_of_pixels_that_a_policy_sees_stays_as_it_is():
    pytest.importorskip("mujoco")
    config = TrainConfig.for_env("Hopper-v5", preprocessing={"pixels": 32, "flatten": True})
    with closing(Renderer(Scene.alone(es_envs.definition("Hopper-v5"), config, size=(64, 48), fps=10))) as renderer:
        assert renderer.env.unwrapped.mujoco_renderer.camera_id == -1


def test_the_pictures_of_a_grid_stand_side_by_side_and_differ(run, tmp_path, captions):
    how = {"generations": [0, 0, 2, 1], "layout": "grid", "width": 200, "height": 193, "workers": 1}
    episodes = record(run, tmp_path / "film.mp4", **how)
    frame = frames_of(tmp_path / "film.mp4")[0]
    cells = [frame[y : y + 60, x : x + 98] for y in (0, 80) for x in (0, 100)]  # without their labels
    assert all(np.abs(cells[0] - cell).mean() < 3 for cell in cells), "the same start"
    assert min(cell.mean() for cell in cells) > 100
    texts = [label.texts for label in captions[0].labels]
    assert [each[-1] for each in texts] == [
        f"{g}:  {episode.fitness:.0f}" for g, episode in zip((0, 0, 2, 1), episodes, strict=True)
    ]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(("env_id", "workers"), [("CartPoleBullet-v0", 2), ("CartPole-v1", 1)])
def test_policies_of_several_runs_play_the_same_start_side_by_side(env_id, workers, runs, tmp_path):
    run, path = runs[env_id], tmp_path / "film.mp4"
    settings = {**TINY, "policy": "mlp", "hidden_sizes": (3,), "max_episode_steps": 40, "fitness": "episode_length"}
    other = train(env_id, run_dir=tmp_path / "another", strategy="ars", **settings)
    record(run, path, compare=[other.directory, other.checkpoint], **SMALL | {"workers": workers})
    document = side_car(path)
    (shot,) = document["shots"]
    assert document["layout"] == "grid"
    assert [player["name"] for player in shot["players"]] == [env_id.replace(".", ""), "another", "policy 3"]
    scores = [policy.evaluate(episodes=1).mean for policy in (run, other)]
    assert [player["fitness"] for player in shot["players"]][:2] == scores
    every, second = (2, 25) if env_id == "CartPole-v1" else (1, HOLD)  # of 50 steps a second 25 are drawn
    assert document["frames"] == np.ceil(max(player["steps"] for player in shot["players"]) / every) + second


def test_one_run_can_play_next_to_another(run, tmp_path):
    for k, other in enumerate((run, run.best, run.directory, str(run.directory))):
        assert len(record(run, tmp_path / f"{k}.mp4", compare=other, speed=20, **SMALL)) == 2


@pytest.fixture
def returned(tmp_path):
    """A run that maximises the return of its episodes, not their length."""
    return train("CartPoleBullet-v0", run_dir=tmp_path / "läuft", fitness="episode_return", **TINY)


def test_fitnesses_that_differ_are_shown_with_their_names(run, returned, tmp_path, captions):
    mine, other = record(run, tmp_path / "film.mp4", compare=returned, **SMALL)
    assert [label.texts[-1] for label in captions[0].labels] == [
        f"CartPoleBullet-v0:  episode_length {mine.fitness:.0f}",
        f"läuft:  episode_return {other.fitness:.0f}",
    ]
    assert captions[0].scores == ("",)


def test_the_command_line_says_whose_fitness_is_which(run, returned, tmp_path, capsys):
    size = ["--width", "96", "--height", "64", "--workers", "1", "--speed", "20"]

    def said(*words):
        assert main(["record", str(run.directory), str(tmp_path / "film.mp4"), *map(str, words), *size]) == 0
        return capsys.readouterr().err.strip().rpartition("fitness of the filmed episodes: ")[2]

    def fitnesses():
        return [
            f"{player['fitness']:.2f}"
            for shot in side_car(tmp_path / "film.mp4")["shots"]
            for player in shot["players"]
        ]

    line = said("--episodes", 2)
    assert line == ", ".join(fitnesses())
    line = said("--generations", "0,2")
    assert line == "generation 0: {}; generation 2: {}".format(*fitnesses())
    line = said("--generation", 1, "--population", 2)
    assert line == "generation 1, candidate 0: {}; generation 1, candidate 1: {}".format(*fitnesses())
    line = said("--episodes", 8)
    found = sorted(map(float, fitnesses()))
    low, middle, high = (f"{number:.2f}" for number in (found[0], (found[3] + found[4]) / 2, found[-1]))
    assert line.endswith(f"the 8 filmed episodes: {low} at least, {middle} in the middle, {high} at most")
    line = said("--compare", returned.directory)
    assert line == "CartPoleBullet-v0: episode_length {}; läuft: episode_return {}".format(*fitnesses())


def test_one_generation_and_several_are_refused_before_any_is_rebuilt(run, tmp_path, capsys):
    words = ["record", str(run.directory), str(tmp_path / "film.mp4"), "--generation", "1"]
    for several in (["--generations", "0,2"], ["--evolution"], ["--every", "1"]):
        assert main([*words, *several]) == 2
        sentence = f"--generation films one generation, and {several[0]} films several: leave out one of the two"
        assert capsys.readouterr().err == f"error: {sentence}\n"


def test_a_legend_names_each_run_whose_ghosts_are_seen(run, tmp_path, captions):
    beside = [shutil.copytree(run.directory, tmp_path / name) for name in ("second", "third")]
    record(run, tmp_path / "film.mp4", compare=beside, layout="ghosts", speed=9, **SMALL)
    names = [name for _, name in captions[0].legend]
    assert names == ["CartPoleBullet-v0", "second", "third, in its own colours"]


def test_a_map_shows_where_a_car_is_that_the_camera_follows(tmp_path, captions):
    record(Checkpoint.pretrained("RaceCar-v0"), tmp_path / "film.mp4", speed=40, **SMALL)
    inset = captions[0].inset
    height, width = inset.picture.shape[:2]
    assert (width, height) == (24, 16)
    assert all(0 <= x < width and 0 <= y < height for x, y in inset.places)
    assert np.ptp(inset.places, axis=0).max() > width / 2


def test_policies_of_different_worlds_are_not_filmed_side_by_side(runs, tmp_path):
    run = runs["CartPoleBullet-v0"]
    with pytest.raises(ValueError, match="their environment is CartPoleBullet-v0 and CartPole-v1"):
        record(run, tmp_path / "film.mp4", compare=[runs["CartPole-v1"]])
    with pytest.raises(ValueError, match="choose"):
        record(run, tmp_path / "film.mp4", compare=[run], generations="auto")
    assert list(tmp_path.iterdir()) == []
    varied = train("CartPoleBullet-v0", run_dir=tmp_path / "varied", randomize={"mass": [1, 2]}, **TINY)
    with pytest.raises(ValueError, match=r"their randomize is \{\} and \{'mass': \[1, 2\]\}"):
        record(run, tmp_path / "film.mp4", compare=[varied])
    record(varied, tmp_path / "film.mp4", compare=[run], env_kwargs={"randomize": {}}, speed=20, workers=1)
    assert json.loads((tmp_path / "film.json").read_text())["randomize"] == {}


def test_ghosts_are_seen_where_their_bodies_are_and_nowhere_else():
    env = es_envs.make("CartPoleBullet-v0", render_mode="rgb_array", width=320, height=240).unwrapped
    env.reset(seed=0)
    camera = env.camera()
    middle = env.pose()
    left, right = middle.copy(), middle.copy()
    left[7], right[7] = -0.6, 0.6  # behind the base's position and orientation: the cart's place on the rail
    alone = env.picture(camera, [right]).astype(int)
    both = env.picture(camera, [left, right]).astype(int)
    np.testing.assert_array_equal(env.picture(camera, [right]), alone)  # nothing of the ghost has stayed
    changed = np.abs(both - alone).max(axis=2) > 20
    assert changed[:, :150].sum() > 300
    assert not changed[:, 170:].any()
    assert (
        both[changed].mean(axis=0)[2] > alone[changed].mean(axis=0)[2] * 0.8
    )  # bluish, the road behind shines through
    env.close()


def test_drawing_ghosts_changes_no_number_of_the_next_episode():
    env = es_envs.make("RaceCar-v0", render_mode="rgb_array", width=64, height=48).unwrapped

    def played():
        first, _ = env.reset(seed=5)
        return [first, *(env.step(np.array([0.1 * k], np.float32))[0] for k in range(10))]

    before = played()
    env.picture(env.camera(), [env.pose() + 0.1, env.pose()])
    np.testing.assert_array_equal(played(), before)
    env.close()


def test_a_pose_is_drawn_as_the_state_that_it_was_taken_from():
    for env_id in ("BalancingPlate-v0", "PlateFigureEight-v0", "RaceCar-v0"):
        env = es_envs.make(env_id, render_mode="rgb_array", width=160, height=120).unwrapped
        env.reset(seed=1)
        env.action_space.seed(1)
        for _ in range(30):
            env.step(env.action_space.sample())
        shown, pose, camera = env.render().astype(int), env.pose(), env.camera()
        env.reset(seed=2)
        assert np.abs(env.picture(camera, [pose]) - shown).mean() < 0.2
        env.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DefaultClient", "ModuleState"])
def test_players_that_would_disturb_each_other_play_as_alone(register, tmp_path, name):
    env_id = register("Naive-v0", f"naive_envs:{name}", max_episode_steps=20)
    how = {**TINY, "population_size": 4, "strategy": "openai_es", "sigma": 1.0}
    one, other = (train(env_id, run_dir=tmp_path / str(seed), seed=seed, **how) for seed in (1, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = [record(one, tmp_path / "alone.gif", generation=0, candidate=k, **SMALL)[0] for k in range(3)]
        for layout in ("grid", "ghosts"):
            filmed = record(one, tmp_path / f"{layout}.gif", generation=0, population=3, layout=layout, **SMALL)
            assert sorted(episode.fitness for episode in filmed) == sorted(episode.fitness for episode in alone)
        seeds = [alone[0].seed, alone[0].seed + 1]
        apart = [
            [record(run, tmp_path / "run.gif", seeds=[seed], **SMALL)[0] for run in (one, other)] for seed in seeds
        ]
        beside = record(one, tmp_path / "beside.gif", compare=other, seeds=seeds, **SMALL)

    assert len({episode.fitness for episode in alone}) > 1
    assert [episode.fitness for episode in beside] == [episode.fitness for pair in apart for episode in pair]


@pytest.mark.slow
def test_ghosts_of_other_environments_shine_through_each_other(runs, tmp_path):
    record(runs["CartPole-v1"], tmp_path / "film.mp4", generation=0, layout="ghosts", workers=1)
    record(runs["CartPole-v1"], tmp_path / "alone.mp4", generation=0, candidate=0, workers=1)
    blended, alone = (frames_of(tmp_path / f"{name}.mp4")[4, :320] for name in ("film", "alone"))
    assert blended.shape == alone.shape == (320, 600, 3)
    assert (blended.min(axis=2) < 250).sum() > 1.05 * (alone.min(axis=2) < 250).sum()


def test_a_gif_plays_in_real_time_again_and_again(run, tmp_path):
    path = tmp_path / "film.gif"
    [episode] = record(run, path, **SMALL)
    with Image.open(path) as film:
        assert film.format == "GIF"
        assert film.info["loop"] == 0
        assert film.n_frames == np.ceil(episode.length / 2) + 10  # 10 of 20 steps a second
        durations = []
        for number in range(film.n_frames):
            film.seek(number)
            durations.append(film.info["duration"])
        assert sum(durations) == 100 * film.n_frames
    assert sorted(file.name for file in tmp_path.iterdir()) == ["film.gif", "film.json", "film.png"]


def test_a_fixed_camera_stands_still_and_an_orbiting_one_moves(run, tmp_path):
    films = {}
    for camera in ("fixed", "orbit"):
        record(run, tmp_path / f"{camera}.mp4", camera=camera, width=160, height=120, workers=1)
        films[camera] = frames_of(tmp_path / f"{camera}.mp4")[:, -40:-4, :30]  # a corner where nothing moves by itself
    moved = {camera: np.abs(film[-1] - film[0]).mean() for camera, film in films.items()}
    assert moved["fixed"] < 1
    assert moved["orbit"] > moved["fixed"] + 0.5


def test_a_narrow_film_shows_as_much_from_side_to_side(run, tmp_path):
    carts = []
    for width in (256, 108):
        record(run, tmp_path / "film.mp4", width=width, height=192, workers=1)
        red, _, blue = np.moveaxis(frames_of(tmp_path / "film.mp4")[0][:140], -1, 0)
        carts.append(np.mean((blue > red + 40).any(axis=0)))
    assert carts[0] == pytest.approx(carts[1], rel=0.4)
    assert 0.1 < carts[0] < 0.4


def test_chosen_seeds_are_those_of_the_episodes(run, tmp_path):
    episodes = record(run, tmp_path / "film.mp4", seeds=np.array([11, 7]), **SMALL)
    assert [episode.seed for episode in episodes] == [11, 7]
    assert [shot["seed"] for shot in side_car(tmp_path / "film.mp4")["shots"]] == [11, 7]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layout": "heap"}, "layout must be one of grid, ghosts, got 'heap'"),
        ({"camera": "drone"}, "camera must be one of follow, fixed, orbit, got 'drone'"),
        ({"speed": 0}, "speed must be from 0.01 to 1000, got 0"),
        ({"speed": 1e-9}, "speed must be from 0.01 to 1000, got 1e-09"),
        ({"speed": float("nan")}, "speed must be from 0.01 to 1000, got nan"),
        ({"fps": 1e-3}, "fps must be from 0.1 to 1000, got 0.001"),
        ({"population": 0}, "population must be a whole number"),
        ({"seeds": []}, "seeds must be one or more whole numbers"),
        ({"seeds": [3, -1]}, r"seeds must be one or more whole numbers of at least 0, got \[3, -1\]"),
        ({"seeds": [3, 4], "episodes": 3}, "seeds name 2 episodes, and episodes is 3: give one of the two"),
        ({"generations": []}, "generations must name at least one"),
        ({"generations": [0], "generation": 1}, "choose"),
        ({"candidate": 1, "layout": "grid"}, "choose"),
    ],
)
def test_conflicting_film_options_are_refused(options, message, run, tmp_path):
    with pytest.raises(ValueError, match=message):
        record(run, tmp_path / "film.mp4", **options)
    assert list(tmp_path.iterdir()) == []


def test_options_that_only_some_sources_have_are_explained(runs, tmp_path):
    with pytest.raises(ValueError, match=r"CartPole-v1 .*its own camera.*leave it out"):
        record(runs["CartPole-v1"], tmp_path / "film.mp4", camera="orbit")
    with pytest.raises(ValueError, match="generations can be chosen from a run, not from a single checkpoint"):
        record(runs["CartPole-v1"].checkpoint, tmp_path / "film.mp4", generations="auto")


def test_the_command_line_films_it_all(run, tmp_path, capsys):
    size = ["--width", "96", "--height", "64", "--workers", "1"]
    for words, shots, layout in [
        (["--evolution", "--ghosts", "--camera", "orbit", "--speed", "2"], 1, "ghosts"),
        (["--every", "2"], 2, "alone"),
        (["--generations", "0,1", "--seeds", "3,4"], 4, "alone"),
        (["--population", "3", "--grid", "--generation", "1"], 1, "grid"),
        (["--compare", str(run.directory), str(run.directory), "--ghosts"], 1, "ghosts"),
    ]:
        path = tmp_path / "film.gif"
        assert main(["record", str(run.directory), str(path), *size, *words]) == 0
        document = side_car(path)
        assert (len(document["shots"]), document["layout"]) == (shots, layout)
    assert main(["record", str(run.directory), str(path), "--every", "0"]) == 2
    assert "every must be a whole number of at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("size", [(320, 240), (640, 120), (120, 480)], ids=["usual", "wide", "narrow"])
@pytest.mark.parametrize("along", [(20.0, 0.0, 0.0), (0.0, 20.0, 0.0), (0.0, 0.0, 20.0)], ids=["x", "y", "z"])
def test_a_fixed_camera_sees_all_targets_with_room_around_them(along, size):
    ends = [tuple(share * way for way in along) for share in (0.0, 0.3, 1.0)]
    cameras = tuple(Camera(target=end, distance=3.0, yaw=20.0, pitch=-25.0) for end in ends)
    scored = ScoredEpisode(episode=es_envs.Episode(seed=0, total_reward=0.0, length=3, terminated=True,
                                                   truncated=False, final_info={}, fitnesses={}),
                           fitness=(None,) * 3, cameras=cameras)  # fmt: skip
    ((camera, *others),) = camera_path("fixed", [scored], size, 30.0)
    assert set(others) == {camera}
    column, row, depth = View.of(camera, size).to_pixels @ np.vstack([np.transpose(ends), np.ones(3)])
    for pixels, length in ((column / depth, size[0]), (row / depth, size[1])):
        assert length / 20 < pixels.min()
        assert pixels.max() < length * 19 / 20


@pytest.mark.parametrize(
    ("measured", "ending"),
    [
        ({"truncated": True, "total_reward": 40.0}, "held to the end"),
        ({"truncated": True, "final_info": {"is_success": True}}, "held to the end"),
        ({"truncated": True, "total_reward": -40.0}, "time is up"),
        ({"terminated": True, "final_info": {"is_success": True}}, "finished"),
        ({"terminated": True, "total_reward": 40.0}, "ended"),
        ({"truncated": True, "total_reward": 40.0, "final_info": {"ending": "fell"}}, "fell"),
    ],
)
def test_a_perfect_episode_is_held_to_the_end(measured, ending):
    how = {"seed": 0, "length": 40, "total_reward": 0.0, "terminated": False, "truncated": False}
    assert Episode(**how | measured).ending == ending


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("time", ("0.5 s", "1.0 s", "1.5 s", "1.8 s")),
        ("distance", ("0.0 m   0.0 m/s", "1.0 m   2.0 m/s", "2.0 m   2.0 m/s", "3.0 m   2.7 m/s")),
        (None, ()),
    ],
)
def test_runners_have_their_distance_and_speed_and_races_a_stopwatch(kind, texts):
    cameras = tuple(Camera(target=(number, 0.0, 0.0), distance=1.0, yaw=0.0, pitch=0.0) for number in range(4))
    episode = Episode(seed=0, length=7, total_reward=0.0, terminated=True, truncated=False)  # ends between two frames
    scored = ScoredEpisode(episode=episode, fitness=(0.0,) * 4, cameras=cameras)
    env, scene = SimpleNamespace(readout=kind), SimpleNamespace(speed=2.0)
    renderer = SimpleNamespace(free_camera=env, rate=4.0, every=2, scene=scene)
    assert readout(renderer, scored) == texts
    frame = np.full((240, 320, 3), 200, np.uint8)
    bare = Caption(titles=("",), scores=("",), subject="")
    corner = captioned(frame, replace(bare, readout=texts), 3)[:60, :160]
    assert (corner < 200).any() == bool(texts)


def test_a_grid_is_twice_as_wide_as_other_films():
    assert FilmOptions(layout="grid").arrange(4, apart=False).size == (1280, 960)
    assert FilmOptions().arrange(1, apart=False).size == (640, 480)
