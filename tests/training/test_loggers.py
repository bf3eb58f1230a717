"""What the built-in loggers write: sessions.jsonl, TensorBoard's files, and those of Weights & Biases."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import TINY

from es_core import Run, train
from es_core.cli import main
from es_core.runs.run_folder import RunFolder
from es_core.training.loggers import TensorBoardLogger, _histogram
from es_envs import hookimpl


class Listener:
    def __init__(self):
        self.fitness = []

    @hookimpl
    def generation_finished(self, fitness):
        self.fitness.append(fitness)


@pytest.fixture(scope="module")
def listener():
    return Listener()


@pytest.fixture(scope="module")
def run(walk, listener, tmp_path_factory):
    """A run of two generations in two sessions."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    settings = {**TINY, "population_size": 8, "generations": 2, "loggers": [listener]}
    train(walk, run_dir=folder, on_generation=lambda _: False, **settings)
    return train(walk, run_dir=folder, resume=True, **settings)


def test_loggers_receive_the_fitness_of_every_candidate(run, listener):
    first, second, last = listener.fitness
    assert last is None
    for fitness, stats in zip((first, second), run.history[:-1], strict=True):
        assert fitness.shape == (8,)
        assert (fitness.min(), fitness.mean(), fitness.max()) == pytest.approx(
            (stats.fitness_min, stats.fitness_mean, stats.fitness_max)
        )


def test_each_session_of_a_run_notes_machine_and_versions(run):
    sessions = [json.loads(line) for line in (run.directory / "sessions.jsonl").read_text().splitlines()]
    assert [session["generation"] for session in sessions] == [0, 1]
    for session in sessions:
        assert session["versions"]["numpy"] == np.__version__
        assert session["versions"]["es-envs"]
        assert session["cores"] >= 1
        assert sys.version.startswith(session["python"])


@pytest.mark.parametrize("value", [0.0, 1.0, -1e15, 1e150])
def test_a_histogram_can_show_values_that_are_all_alike(value):
    counts, edges = _histogram(np.full(8, value))
    assert (counts.sum(), edges[0] < value < edges[-1]) == (8, True)


def test_tensorboard_can_read_the_histograms_and_the_settings(run, listener):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run.directory / "tensorboard"), {"histograms": 0, "tensors": 0})
    events.Reload()
    histograms = events.Histograms("population/fitness")
    assert [each.step for each in histograms] == [0, 1]
    for each, fitness in zip(histograms, listener.fitness, strict=False):
        value = each.histogram_value
        assert (value.num, value.min, value.max) == (8, fitness.min(), fitness.max())
        assert sum(value.bucket) == 8
        assert value.sum == pytest.approx(fitness.sum())
    (text, *_) = [event.tensor_proto.string_val[0].decode() for event in events.Tensors("settings")]
    assert json.loads(text) == run.config.to_json()


@pytest.mark.parametrize("fitness", [[0.741, 0.741 + 2e-16], [-3e9, -3e9], [0.0, 1.0]])
def test_histograms_bear_values_that_hardly_differ(run, fitness, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = TensorBoardLogger()
    logger.run_started(run=RunFolder(tmp_path, run.config), config=run.config)
    logger.generation_finished(stats=run.history[0], fitness=np.array(fitness))
    events = EventAccumulator(str(tmp_path / "tensorboard"), {"histograms": 0})
    events.Reload()
    (histogram,) = events.Histograms("population/fitness")
    assert sum(histogram.histogram_value.bucket) == 2


def test_an_unknown_or_missing_logger_is_refused_before_the_run(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "run"
    assert main(["train", "CartPole-v1", "--run-dir", str(folder), "--logger", "wand"]) == 2
    assert "there are tensorboard, wandb" in capsys.readouterr().err
    for name in ("wandb", "tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
        assert main(["train", "CartPole-v1", "--run-dir", str(folder), "--logger", name]) == 1
        assert f"pip install 'es-envs[{name}]'" in capsys.readouterr().err
    assert not folder.exists()


def logged(content):
    """The records of a .wandb file: LevelDB's log format behind a head of seven bytes."""
    place, data = 7, b""
    while place + 7 <= len(content):
        room = 2**15 - place % 2**15
        if room < 7:  # the rest of a block is too short for a record
            place += room
            continue
        length, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        data += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in {1, 4}:  # whole, or the last piece
            yield data
            data = b""


@pytest.mark.long
def test_weights_and_biases_gets_the_run_and_keeps_its_id_on_resume(tmp_path):
    from wandb.proto.wandb_internal_pb2 import Record

    folder = tmp_path / "run"
    tiny = ["--population-size", "4", "--max-episode-steps", "20", "--eval-episodes", "2", "--confirm-episodes", "2"]

    def command(*arguments):
        words = [sys.executable, "-m", "es_core", *arguments, "--generations", generations, "--workers", "1", "--quiet"]
        environment = {**os.environ, "WANDB_MODE": "offline"}
        done = subprocess.run(
            [*words, "--logger", "wandb"], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "switched off" not in done.stderr

    generations = "2"
    command("train", "CartPole-v1", "--run-dir", str(folder), *tiny)
    generations = "3"
    command("resume", str(folder))

    files = sorted((folder / "wandb").glob("offline-run-*/*.wandb"), key=lambda file: file.stat().st_mtime)
    ids = {re.fullmatch(r"run-(\w+)\.wandb", file.name)[1] for file in files}
    assert ids == {(folder / "wandb" / "run-id").read_text()}
    sent = []
    for file in files:
        records = [Record.FromString(data) for data in logged(file.read_bytes())]
        config = next(record.run.config for record in records if record.HasField("run"))
        settings = {item.key: json.loads(item.value_json) for item in config.update}
        assert settings["population_size"] == 4
        for record in records:
            if record.HasField("history"):
                items = record.history.item
                sent.append({item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items})
    assert len(files) == 2
    history = Run.open(folder).history
    assert {line["generation"] for line in sent} == {0, 1, 2, 3}
    for line in sent:
        stats = history[line["generation"]]
        if stats.population_size is not None and "population/fitness_mean" in line:
            assert line["population/fitness_mean"] == pytest.approx(stats.fitness_mean)
            assert sum(line["population/fitness.values"]) == 4


def test_the_logger_in_the_manual_hears_of_every_generation(tmp_path):
    from documents import block, run_python

    tiny = "generations=2, max_episode_steps=20, population_size=4, confirm_episodes=2, workers=1"
    printed = run_python(block("logger").replace("generations=2", tiny), tmp_path)
    assert re.findall(r"generation (\d): candidate \d+ is the worst", printed) == ["0", "1"]
