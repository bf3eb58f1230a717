"""Old names of arguments and options: they work, with a warning that gives the new name; files keep their keys."""

import json

import pytest

from es_core import Run, record, train, tune
from es_core.cli import main
from es_core.config.keywords import RENAMED
from es_core.config.train_config import TrainConfig

TINY = {
    "generations": 1,
    "population_size": 2,
    "max_episode_steps": 5,
    "eval_every": 0,
    "workers": 1,
    "progress": False,
}
OLD = [("recycle_after", 3), ("steps_limit", None), ("stop_when", "plateau"), ("stop_when", None)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train("CartPole-v1", run_dir=tmp_path_factory.mktemp("runs") / "run", **TINY)


@pytest.mark.parametrize(("old", "value"), OLD)
def test_train_takes_an_old_name_and_warns_with_the_new_one(old, value, tmp_path):
    with pytest.warns(FutureWarning, match=f"{old} is now called {RENAMED[old]}; ") as warned:
        run = train("CartPole-v1", run_dir=tmp_path / "run", **TINY, **{old: value})
    assert len(warned) == 1
    assert warned[0].filename == __file__
    if old != "recycle_after":
        assert getattr(run.config, old) == value


def test_config_files_keep_the_old_keys(tmp_path):
    given = {"strategy": "snes", "steps_per_generation": 10, "max_steps_per_generation": 40, "stop_at_plateau": True}
    run = train("CartPole-v1", run_dir=tmp_path / "run", **{**TINY, "population_size": 4}, **given)
    stored = json.loads((run.directory / "config.json").read_text(encoding="utf-8"))
    assert (stored["steps_limit"], stored["stop_when"]) == (40, "plateau")
    assert run.resume(**given, workers=1, progress=False).config == run.config
    assert not {*RENAMED.values()} & stored.keys()


def test_a_name_given_both_ways_is_refused(tmp_path):
    with pytest.warns(FutureWarning), pytest.raises(TypeError, match="episodes_per_worker is given twice"):
        train("CartPole-v1", run_dir=tmp_path / "run", recycle_after=3, episodes_per_worker=3, **TINY)


def test_tune_takes_old_names():
    with (
        pytest.warns(FutureWarning, match="recycle_after is now"),
        pytest.raises(ValueError, match="episodes_per_worker"),
    ):
        tune("CartPole-v1", recycle_after=0)


def test_a_run_is_opened_and_filmed_with_old_names(run, tmp_path):
    with pytest.warns(FutureWarning, match="changed_code is now called allow_changed_code"):
        assert Run.open(run.directory, changed_code=True).history == run.history
    with pytest.warns(FutureWarning, match="beside is now called compare"):
        assert len(record(run, tmp_path / "film.gif", beside=run, width=64, height=48, workers=1)) == 2


@pytest.mark.parametrize("value", [1.5, "plateau"])
def test_stop_at_plateau_is_true_or_false(value, tmp_path):
    with pytest.raises(ValueError, match="stop_at_plateau must be True or False"):
        TrainConfig.for_env("CartPole-v1", stop_at_plateau=value)


@pytest.mark.filterwarnings("always::FutureWarning")
@pytest.mark.parametrize(
    ("words", "old", "field", "value"),
    [
        (["--steps-limit", "none"], "--steps-limit", "steps_limit", None),
        (["--steps-limit=none"], "--steps-limit", "steps_limit", None),
        (["--stop-when", "plateau"], "--stop-when", "stop_when", "plateau"),
        (["--stop-when=none"], "--stop-when", "stop_when", None),
        (["--recycle-after", "3"], "--recycle-after", "max_episode_steps", 5),
    ],
)
def test_commands_take_an_old_option_and_warn_with_the_new_one(words, old, field, value, tmp_path, capsys):
    tiny = ["--generations", "1", "--population-size", "2", "--max-episode-steps", "5", "--eval-every", "0", "--quiet"]
    folder = tmp_path / "run"
    assert main(["train", "CartPole-v1", "--run-dir", str(folder), "--workers", "1", *tiny, *words]) == 0
    assert f"{old} is now called --{RENAMED[old[2:].replace('-', '_')].replace('_', '-')};" in capsys.readouterr().err
    assert getattr(Run.open(folder).config, field) == value


@pytest.mark.filterwarnings("always::FutureWarning")
def test_record_takes_its_old_option(run, tmp_path, capsys):
    small = ["--width", "64", "--height", "48", "--workers", "1", "--quiet"]
    film = tmp_path / "film.gif"
    assert main(["record", str(run.directory), str(film), "--beside", str(run.directory), *small]) == 0
    assert "--beside is now called --compare" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "help_option"), [("train", "--help-all"), ("resume", "--help"), ("record", "--help")]
)
def test_help_shows_new_names_alone(command, help_option, capsys):
    with pytest.raises(SystemExit):
        main([command, help_option])
    words = capsys.readouterr().out.split()
    assert not {f"--{old.replace('_', '-')}" for old in RENAMED} & {*words}
