"""Several seeds of one config, side by side."""

import json
import signal
import subprocess
import sys

import pytest
from conftest import TINY, generations, running, wait_until

from es_core import Run, train, train_seeds
from es_core.cli import main

SETTINGS = {
    "generations": 2,
    "population_size": 8,
    "hidden_sizes": (),
    "eval_episodes": 2,
    "confirm_episodes": 2,
    "eval_budget": None,
}
WORDS = [
    "--generations=2", "--population-size=8", "--hidden-sizes=", "--eval-episodes=2", "--confirm-episodes=2",
    "--eval-budget=none",
]  # fmt: skip


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    """Two seeds, side by side, and their folder."""
    folder = tmp_path_factory.mktemp("seeds") / "runs"
    return train_seeds("CartPole-v1", [5, 61], run_dir=folder, workers=2, progress=False, **SETTINGS), folder


@pytest.mark.slow
def test_each_run_is_what_it_would_be_alone(seeds, tmp_path):
    comparison, folder = seeds
    (group,) = comparison.groups
    assert group.seeds == (5, 61)
    for run in group.runs:
        assert run.directory == folder / f"seed-{run.config.seed}"
        alone = train("CartPole-v1", run_dir=tmp_path / run.directory.name, seed=run.config.seed, workers=1,
                      progress=False, **SETTINGS)  # fmt: skip
        assert [stats.parameter_hash for stats in run.history] == [stats.parameter_hash for stats in alone.history]


@pytest.mark.slow
def test_runs_of_the_vector_pool_follow_one_another(tmp_path):
    comparison = train_seeds(
        "CartPole-v1", [5, 61], run_dir=tmp_path / "runs", pool="vector", progress=False, **SETTINGS
    )
    assert [run.end for run in comparison.groups[0].runs] == ["generations", "solved"]


def test_scores_have_a_mean_and_an_interquartile_mean_with_intervals(seeds):
    comparison, _ = seeds
    (group,) = comparison.groups
    scores = [run.best_score[1].mean for run in group.runs]
    assert group.fitness.value == pytest.approx(sum(scores) / 2)
    assert group.fitness.interval[0] <= group.middle.value <= group.fitness.interval[1]


@pytest.mark.long
def test_the_same_call_continues_unsolved_runs_to_a_later_end(seeds):
    _, folder = seeds
    longer = {**SETTINGS, "generations": 3}
    comparison = train_seeds("CartPole-v1", [5, 61], run_dir=folder, workers=2, progress=False, **longer)
    (group,) = comparison.groups
    assert [(run.end, len(run.history)) for run in group.runs] == [("generations", 4), ("solved", 1)]


def test_a_folder_of_other_settings_is_refused(seeds):
    _, folder = seeds
    with pytest.raises(ValueError, match="seed-5 holds a run with other settings"):
        train_seeds("CartPole-v1", [5, 61], run_dir=folder, progress=False, **{**SETTINGS, "sigma": 0.7})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seeds": [1]}, r"seeds must be at least two, all different, such as 0..4; got \[1\]"),
        ({"seeds": [1, 1]}, r"seeds must be at least two, all different, such as 0..4; got \[1, 1\]"),
        ({"seeds": [1, 2], "seed": 3}, "both seeds=.* and seed=3: leave out one of the two"),
        ({"seeds": [1, 2], "eval_every": 0}, "eval_every must be at least 1"),
        ({"seeds": [1, 2], "sigma": -1.0}, "sigma"),
        ({"seeds": [1, 2], "pool": "moon"}, "pool must be one of"),
        ({"seeds": [1, 2], "pool": "vector", "workers": 2}, "workers=2 is for the pools 'local' and 'ray'"),
        ({"seeds": [1, 2], "workers": 0}, "workers must be a whole number of at least 1"),
        ({"seeds": [1, 2], "max_seconds": -1.0}, "max_seconds"),
    ],
)
def test_impossible_arguments_are_refused_before_anything_starts(given, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        train_seeds("CartPole-v1", run_dir=tmp_path / "runs", **given)
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_is_a_run_is_no_place_for_others(walk, tmp_path):
    train(walk, run_dir=tmp_path / "run", **TINY)
    with pytest.raises(FileExistsError, match="is a run: choose another folder"):
        train_seeds(walk, [0, 1], run_dir=tmp_path / "run")
    assert not (tmp_path / "run" / "seed-0").exists()


def test_an_environment_of_a_script_is_refused_with_a_way_out(tmp_path, register):
    env = register("Mine-v0", plugin=None)
    with pytest.raises(ValueError, match=r"your script has registered Mine-v0.*es-envs new"):
        train_seeds(env, [1, 2], run_dir=tmp_path / "runs")


def test_a_run_that_fails_is_named_and_the_others_are_complete(tmp_path):
    other = tmp_path / "runs" / "seed-2"
    other.mkdir(parents=True)
    (other / "notes.txt").write_text("somebody else's", encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"(?s)1 of 2 runs have failed \(seeds 2\).*exists and is not empty"):
        train_seeds("CartPole-v1", [1, 2], run_dir=tmp_path / "runs", workers=1, progress=False, **SETTINGS)
    assert Run.open(tmp_path / "runs" / "seed-1").end == "generations"
    assert [path.name for path in other.iterdir()] == ["notes.txt"]


@pytest.mark.slow
def test_the_command_prints_scores_and_what_to_do_next(tmp_path, capsys):
    words = ["train", "CartPole-v1", "--seeds", "0..1", "--run-dir", str(tmp_path / "runs"), "--workers", "2", *WORDS]
    assert main(words) == 0
    said = capsys.readouterr()
    assert "IQM" in said.out
    assert "seed 0: generations reached in generation 2, best centre" in said.err
    assert f"  es-envs compare {tmp_path / 'runs'}\n" in said.err
    assert main(["compare", str(tmp_path / "runs"), "-o", str(tmp_path / "page.html")]) == 0
    assert capsys.readouterr().out == said.out
    assert main([*words, "--json", "--quiet"]) == 0
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    assert group["seeds"] == [0, 1]


@pytest.mark.slow
def test_stopping_several_runs_prints_how_to_continue(tmp_path, capsys):
    words = [
        "train",
        "CartPole-v1",
        "--seeds",
        "0..1",
        "--run-dir",
        str(tmp_path / "two runs"),
        "--workers",
        "2",
        *WORDS,
    ]
    assert main([*words, "--max-seconds", "0.001"]) == 0
    told = f"2 of 2 runs are not at their end: the same command with --run-dir '{tmp_path / 'two runs'}' continues"
    assert told in capsys.readouterr().err
    assert main(words) == 0
    assert told not in capsys.readouterr().err


@pytest.mark.parametrize("text", ["many", "3..1", "0..", "1;2"])
def test_seeds_that_are_no_seeds_are_explained(text, capsys):
    with pytest.raises(SystemExit):
        main(["train", "CartPole-v1", "--seeds", text])
    assert "expected FIRST..LAST or a list of numbers" in capsys.readouterr().err


def test_a_run_of_another_environment_is_not_continued(seeds):
    _, folder = seeds
    with pytest.raises(ValueError, match="seed-5 holds a run with other settings"):
        train_seeds("Acrobot-v1", [5, 61], run_dir=folder, progress=False, **SETTINGS)


@pytest.mark.long
def test_a_bound_set_back_to_its_default_is_reached_as_well(tmp_path):
    how = {"population_size": 2, "eval_episodes": 1, "confirm_episodes": 1, "solved_at": None, "max_steps": 3000}
    train_seeds("CartPole-v1", [1, 2], run_dir=tmp_path / "runs", generations=1, progress=False, **how)
    (group,) = train_seeds("CartPole-v1", [1, 2], run_dir=tmp_path / "runs", progress=False, **how).groups
    assert [run.end for run in group.runs] == ["max_steps", "max_steps"]


def test_runs_that_continue_keep_the_schedule_of_their_first_call(tmp_path):
    how = {"population_size": 2, "eval_episodes": 1, "confirm_episodes": 1, "solved_at": None, "progress": False,
           "strategy": "openai_es", "sigma": 0.1, "sigma_final": 0.01, "max_episode_steps": 5}  # fmt: skip
    for count in (2, 3):
        comparison = train_seeds("CartPole-v1", [1, 2], run_dir=tmp_path / "runs", generations=count, **how)
    (group,) = comparison.groups
    assert [(len(run.history), run.config.schedule_generations) for run in group.runs] == [(4, 2), (4, 2)]


@pytest.mark.long
def test_a_run_whose_parent_is_killed_ends_in_order(tmp_path):
    endless = ["--workers", "1", "--generations", "100000", "--solved-at", "none", "--population-size", "8"]
    words = ["--end-with-stdin", "train", "CartPole-v1", "--run-dir", "r", *endless, "--quiet"]
    with running([sys.executable, "-m", "es_core", *words], cwd=tmp_path, stdin=subprocess.PIPE) as process:
        wait_until(lambda: generations(tmp_path / "r") > 2, process)
        process.stdin.close()
        assert process.wait(timeout=60) != 0
    run = Run.open(tmp_path / "r")
    assert run.next_generation == len(run.history)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupted_call_leaves_runs_that_can_be_continued(tmp_path):
    command = [sys.executable, "-m", "es_core", "train", "CartPole-v1", "--seeds", "0,1", "--run-dir", "runs"]
    endless = ["--workers", "2", "--generations", "100000", "--solved-at", "none", "--population-size", "8"]
    folders = [tmp_path / "runs" / f"seed-{seed}" for seed in (0, 1)]
    with running([*command, *endless, "--quiet"], cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: all(generations(folder) > 2 for folder in folders), process)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 128 + signal.SIGINT
    for folder in folders:
        run = Run.open(folder)
        assert run.next_generation == len(run.history), "the generation it was in has its checkpoint"
