"""Tuning: whole searches with Optuna on an environment of one step."""

import json
import shlex
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import asdict, replace

import pytest
from conftest import STRATEGIES, options_for, registered, running
from small_envs import Aim

import es_envs
from es_core import RolloutError, Run, TrainConfig, tune
from es_core.cli import main
from es_core.policies.by_name import make_policy
from es_core.runs.locks import LockLostError, hold
from es_core.strategies.defaults import make_plan
from es_core.tuning.trial import RunScore, Trial

RUN = {"generations": 10, "population_size": 8, "eval_episodes": 1, "confirm_episodes": 1, "hidden_sizes": ()}
RECOMMENDED = {
    "strategy": "openai_es",
    "population_size": 8,
    "observation_normalization": False,
    "action_squash": "clip",
}
TINY = {**RUN, "workers": 1, "progress": False, "seeds": 1, "search": {"sigma": (0.001, 10.0)}}
SEARCH = {
    **{name: value for name, value in TINY.items() if name != "population_size"},
    "search": {"sigma": (0.0001, 1.0), "population_size": (4, 16), "optimizer": ["adam", "sgd"]},
    "seeds": 2,
    "seed": 6,
    "learning_rate": 0.2,
    "generations": 3,
}


@pytest.fixture(scope="module")
def aim():
    fields = {"max_episode_steps": 1, "solved_at": -0.05, "recommended": RECOMMENDED}
    with registered("Aim-v0", "small_envs:Aim", **fields) as definition:
        yield definition.id


@pytest.fixture(scope="module")
def found(aim, tmp_path_factory):
    """A search, and its folder."""
    return tune(aim, trials=9, directory=tmp_path_factory.mktemp("found") / "a search", **SEARCH)


def outcomes(tuning):
    return [asdict(trial) for trial in tuning.trials]


def run_of(solved=False, fitness=0.0, steps=100):
    return RunScore(seed=0, solved=solved, fitness=fitness, steps=steps)


def test_trials_are_compared_by_solved_seeds_then_by_steps_or_fitness():
    solved, slowly = run_of(solved=True, fitness=9.0), run_of(solved=True, fitness=9.5, steps=10**9)
    ascending = [
        [run_of(fitness=-1e12), run_of(fitness=-1e12)],
        [run_of(fitness=-8.0), run_of(fitness=-1.0)],
        [run_of(fitness=-4.0), run_of(fitness=-4.0)],
        [run_of(fitness=1e12), run_of(fitness=1e12)],
        [slowly, run_of(fitness=-1e12)],
        [slowly, run_of(fitness=9.0)],
        [slowly, slowly],
        [slowly, solved],
        [solved, run_of(solved=True, steps=99)],
    ]
    values = [Trial(number=0, state="complete", settings={}, runs=tuple(runs)).value for runs in ascending]
    assert values == sorted(set(values))


@pytest.mark.long
def test_the_first_trial_has_the_settings_that_train_would_take(found):
    assert found.trials[0].settings == {"sigma": 0.05, "population_size": 8, "optimizer": "adam"}


def test_settings_stay_in_their_ranges_and_population_sizes_even(found):
    for trial in found.trials:
        assert set(trial.settings) == {"sigma", "population_size", "optimizer"}
        assert 0.0001 <= trial.settings["sigma"] <= 1.0
        assert trial.settings["population_size"] in range(4, 17, 2)
        assert trial.settings["optimizer"] in {"adam", "sgd"}
    assert len({trial.settings["sigma"] for trial in found.trials}) == 9


def test_bad_trials_are_pruned_and_the_best_is_among_the_complete_ones(found):
    pruned = [trial for trial in found.trials if trial.state == "pruned"]
    assert pruned
    assert all("below the median" in trial.reason for trial in pruned)
    assert all(trial.number >= 5 for trial in pruned)
    complete = [trial for trial in found.trials if trial.state == "complete"]
    assert all(len(trial.runs) == 2 for trial in complete)
    assert found.best.value == max(trial.value for trial in complete)
    assert found.best.value > found.trials[0].value


def test_only_the_runs_of_the_best_trial_are_kept(found):
    kept = list((found.directory / "trials").iterdir())
    assert [folder.name for folder in kept] == [f"{found.best.number:04d}"]
    assert {folder.name for folder in kept[0].iterdir()} == {"seed-6", "seed-7"}
    assert {entry.name for entry in found.directory.iterdir()} <= {"study.jsonl", "trials", ".lock"}


def test_all_trials_play_about_as_many_episodes(aim, tmp_path):
    given = {**TINY, "search": {"episodes_per_candidate": [4, 5]}, "population_size": 20, "generations": 12}
    config = tune(aim, trials=1, directory=tmp_path, **given, eval_every=5, solved_at=None).run.config
    assert config.episodes_per_candidate in {4, 5}
    assert config.generations == round(12 / config.episodes_per_candidate)
    assert config.eval_every == 1


def test_trials_with_a_population_are_as_long_as_the_first_of_a_run_that_chooses_its_own(wander, tmp_path):
    plain = TrainConfig.for_env(wander)
    assert (plain.steps_per_generation, plain.population_size) == ("auto", "auto")
    search = {"search": {"population_size": [8, 32]}, "generations": 6, "seeds": 1, "workers": 1, "progress": False}
    config = tune(wander, trials=1, directory=tmp_path, **search).run.config
    assert config.generations == {8: 12, 32: 3}[config.population_size]


def test_max_steps_bound_each_run_by_the_generation_that_reaches_them(aim, tmp_path, capsys):
    result = tune(aim, trials=2, directory=tmp_path, **{**TINY, "generations": 100, "seeds": 2}, max_steps=50)
    for trial in result.trials:
        assert all(run.solved or run.steps >= 50 for run in trial.runs)
    stats = result.run.history
    assert stats[-1].solved or stats[-3].total_steps < 50 <= stats[-1].total_steps
    with pytest.raises(SystemExit):
        main(["tune", "--help-all"])
    assert "environment steps after which the run ends" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_the_printed_command_makes_the_best_run_again(aim, tmp_path, capsys):
    options = ["--generations", "4", "--eval-episodes", "1", "--confirm-episodes", "1", "--seed", "3", "--quiet"]
    options += ["--solved-at=-1e-05", "--observation-clip", "none", "--action-bins", "[-1, 0, 1]"]
    options += ["--observation-normalization", "--strategy-options", "{}", "--initialization", "zeros"]
    ranges = ["--search", "sigma=0.01..1", "--search", "hidden_sizes=|4|4,4", "--search", "population-size=4..8"]
    where = ["--dir", str(tmp_path / "search"), "--workers", "1", "--trials", "3", "--seeds", "2"]
    assert main(["tune", aim, *options, *ranges, *where]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("trial  solved  fitness")
    command = captured.out.strip().splitlines()[-1]
    _, made = captured.err.split("What the command above makes is there already.\nNext:\n")
    assert main([*shlex.split(made)[1:], "--episodes", "1"]) == 0
    capsys.readouterr()
    assert main(["tune", aim, *options, *ranges, *where, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["command"] == command
    assert len(summary["trials"]) == 3
    program, *words = shlex.split(command)
    assert program == "es-envs"
    assert "--learning-rate" not in words
    assert main([*words, "--run-dir", str(tmp_path / "again"), "--quiet"]) == 0
    again, best = Run.open(tmp_path / "again"), Run.open(summary["run"])
    assert again.config == best.config
    assert [stats.parameter_hash for stats in again.history] == [stats.parameter_hash for stats in best.history]
    assert again.best_path.read_bytes() == best.best_path.read_bytes()


@pytest.fixture(scope="module")
def long_search():
    arguments = ["tune", "CartPole-v1", "--search", "sigma=0.01..1", "--search", "activation=tanh|relu"]
    arguments += ["--generations", "3", "--population-size", "4", "--max-episode-steps", "20", "--eval-episodes", "1"]
    return [*arguments, "--confirm-episodes", "1", "--trials", "3", "--seeds", "1", "--workers", "1", "--json"]


@pytest.fixture(scope="module")
def uninterrupted(long_search, tmp_path_factory):
    folder = tmp_path_factory.mktemp("search")
    command = [sys.executable, "-m", "es_core", *long_search, "--dir", str(folder)]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


@pytest.mark.long
@pytest.mark.parametrize("how", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGKILL])
def test_an_interrupted_search_finds_what_an_uninterrupted_one_does(how, long_search, uninterrupted, tmp_path, capsys):
    long_search = [*long_search, "--dir", str(tmp_path)]
    command = [sys.executable, "-m", "es_core", *long_search]
    with running(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line.startswith("trial 0 (1 of 3 done)"):
                process.send_signal(how)
                break
        _, rest = process.communicate(timeout=60)
    assert process.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL)
    assert ("the same command continues the search" in rest) == (how == signal.SIGINT)
    assert "resume" not in rest
    assert main(long_search) == 0
    captured = capsys.readouterr()
    assert "1 of 3 trials are done" in captured.err
    found = json.loads(captured.out)
    assert (found["trials"], found["settings"]) == (uninterrupted["trials"], uninterrupted["settings"])


@pytest.mark.slow
def test_the_same_call_does_nothing_and_more_trials_continue_the_search(aim, tmp_path):
    first = tune(aim, trials=2, directory=tmp_path, **TINY)
    assert outcomes(tune(aim, trials=2, directory=tmp_path, **TINY)) == outcomes(first)
    more = tune(aim, trials=3, directory=tmp_path, **TINY)
    assert outcomes(more)[:2] == outcomes(first)
    assert len(more.trials) == 3


@pytest.mark.long
def test_a_continued_search_samples_the_same_as_a_single_call(aim, tmp_path):
    """Beyond the first ten trials, where the results before it count."""
    for trials in (3, 14):
        parts = tune(aim, trials=trials, directory=tmp_path / "parts", **SEARCH)
    assert outcomes(parts) == outcomes(tune(aim, trials=14, directory=tmp_path / "whole", **SEARCH))


def test_settings_are_played_once_and_a_search_ends_when_none_are_left(aim, tmp_path, capfd):
    given = {**TINY, "generations": 1, "search": {"optimizer": ["adam", "sgd"]}, "progress": True}
    found = tune(aim, trials=20, directory=tmp_path, **given)
    assert sorted(trial.settings["optimizer"] for trial in found.trials) == ["adam", "sgd"]
    assert [trial.number for trial in found.trials] == [0, 1]
    assert "no other settings are left: the search ends after 2 trials" in capfd.readouterr().err
    assert outcomes(tune(aim, trials=20, directory=tmp_path, **given)) == outcomes(found)
    said = capfd.readouterr().err
    assert "2 of 20 trials are done" in said
    assert "3 of 20 done" not in said


@pytest.mark.long
def test_a_range_with_hardly_any_numbers_ends_a_search_too(aim, tmp_path, capfd):
    given = {**TINY, "generations": 1, "search": {"sigma": (0.1, 0.1001)}, "progress": True}
    found = tune(aim, trials=20, directory=tmp_path, **given)
    assert len({trial.settings["sigma"] for trial in found.trials}) == len(found.trials) <= 2
    assert "no other settings are left" in capfd.readouterr().err


@pytest.mark.long
def test_a_search_among_choices_plays_all_of_them_in_one_call_or_in_parts(aim, tmp_path):
    search = {"optimizer": ["adam", "sgd", "clipup"], "sigma": [0.01, 0.1, 0.3], "top_directions": [2, 100]}
    given = {**TINY, "generations": 3, "search": search}
    for trials in (4, 11, 100):
        parts = tune(aim, trials=trials, directory=tmp_path / "parts", **given)
    whole = tune(aim, trials=100, directory=tmp_path / "whole", **given)
    assert outcomes(parts) == outcomes(whole)
    assert len({json.dumps(trial.settings) for trial in whole.trials}) == len(whole.trials) == 18
    assert {trial.state for trial in whole.trials} == {"complete", "pruned", "failed"}


@pytest.mark.long
def test_a_trial_tells_how_often_its_runs_succeed_where_the_environment_does(tmp_path, capsys):
    words = ["tune", "RaceCar-v0", "--search", "sigma=0.05|0.1", "--trials", "1", "--seeds", "1", "--generations", "1"]
    words += ["--population-size", "4", "--eval-episodes", "2", "--confirm-episodes", "2", "--workers", "1"]
    words += ["--max-episode-steps", "5", "--dir", str(tmp_path / "search")]
    assert main(words) == 0
    captured = capsys.readouterr()
    head, row, *_ = captured.out.splitlines()
    assert dict(zip(head.split(), row.replace(" of ", "/").replace(" %", "%").split(), strict=True))["success"] == "0%"
    assert ", 0 % successful, 0 of 1 solved" in captured.err
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["best"]["runs"][0]["success_rate"] == 0


@pytest.mark.long
def test_without_a_folder_the_arguments_choose_one(aim, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = [tune(aim, trials=1, **{**TINY, "sigma_final": final}).directory for final in (None, 0.01, None)]
    assert folders[0] == folders[2] != folders[1]
    assert all(folder.parent == tmp_path / "runs" / "tune" and folder.name.startswith("Aim-v0-") for folder in folders)


@pytest.mark.long
def test_settings_that_are_refused_make_a_failed_trial_with_the_reason(aim, tmp_path, capfd):
    search = {"top_directions": [2, 100], "sigma": (0.1, 1.0)}
    result = tune(aim, trials=6, directory=tmp_path, **{**TINY, "search": search, "progress": True})
    for trial in result.trials:
        assert (trial.state == "failed") == (trial.settings["top_directions"] == 100)
        assert ("top_directions" in trial.reason) == (trial.state == "failed")
    assert {"failed", "complete"} <= {trial.state for trial in result.trials}
    assert "failed, top_directions" in capfd.readouterr().err


def test_a_search_of_which_nothing_can_be_run_ends_early_and_says_why(aim, tmp_path):
    with pytest.raises(RuntimeError, match=r"none of 3 trials could be run; the last one: .*'bad'"):
        tune(aim, directory=tmp_path, **TINY, shaping="bad")


@pytest.mark.slow
def test_a_broken_environment_ends_the_search_but_a_broken_trial_does_not(register, tmp_path, capfd):
    broken = tmp_path / "broken"
    walk = register("Walk-v0", "small_envs:Walk", kwargs={"fault": "step", "where": str(broken)}, max_episode_steps=5)
    given = {**TINY, "directory": tmp_path / "search", "generations": 2, "progress": True}
    broken.touch()
    with pytest.raises(RolloutError, match="the motor is on fire") as caught:
        tune(walk, trials=1, **given)
    assert "the same command continues" in caught.value.__notes__[0]
    broken.unlink()
    assert [trial.state for trial in tune(walk, trials=1, **given).trials] == ["complete"]
    broken.touch()
    result = tune(walk, trials=2, **given)
    assert [trial.state for trial in result.trials] == ["complete", "failed"]
    assert "the motor is on fire" in result.trials[1].reason
    assert "Traceback" not in capfd.readouterr().err


def test_two_searches_at_once_in_a_folder_are_refused(aim, tmp_path):
    tune(aim, trials=1, directory=tmp_path, **TINY)
    with (
        hold(tmp_path / ".lock"),
        pytest.raises(RuntimeError, match="another process is searching"),
    ):
        tune(aim, trials=2, directory=tmp_path, **TINY)


def test_a_search_whose_lock_is_deleted_stops_and_leaves_the_folder_as_it_is(register, tmp_path):
    folder = tmp_path / "search"
    walk = register("Walk-v0", "small_envs:Walk", kwargs={"fault": "delete", "where": str(folder / ".lock")},
                    max_episode_steps=5)  # fmt: skip
    with pytest.raises(LockLostError, match="was deleted or replaced while this process held it"):
        tune(walk, trials=3, **{**TINY, "directory": folder})
    assert "complete" not in (folder / "study.jsonl").read_text(encoding="utf-8")


def test_time_that_is_up_before_the_first_trial_is_an_error(aim, tmp_path, capfd):
    with pytest.raises(RuntimeError, match="time was up before the first trial"):
        tune(aim, directory=tmp_path, max_seconds=1e-9, **TINY)
    assert len(tune(aim, trials=1, directory=tmp_path, **TINY).trials) == 1
    more = tune(aim, trials=2, directory=tmp_path, max_seconds=1e-9, **{**TINY, "progress": True})
    assert len(more.trials) == 1
    assert "time is up after 1 of 2 trials: the same command continues" in capfd.readouterr().err


@pytest.mark.filterwarnings("ignore:all .* candidates of generation 0 have the same behaviour")
@pytest.mark.parametrize(
    "strategy",
    [
        "openai_es",
        "ga",
        *(pytest.param(name, marks=pytest.mark.long) for name in sorted(set(STRATEGIES) - {"openai_es", "ga"})),
    ],
)
def test_every_strategy_has_ranges_around_what_train_would_take(aim, tmp_path, strategy):
    given = {**TINY, "search": None, "generations": 1, "strategy": strategy, **options_for(strategy, 1)}
    for name in ("population_size", "hidden_sizes"):
        del given[name]
    result = tune(aim, trials=1, directory=tmp_path, **given)
    usual = TrainConfig.for_env(aim, strategy=strategy, **options_for(strategy, 1))
    with closing(es_envs.make(aim)) as env:
        spaces = env.observation_space, env.action_space
    base = make_plan(make_policy(usual, *spaces)).to_json()
    settings = result.trials[0].settings
    assert {"sigma", "population_size"} <= set(settings)
    assert ("learning_rate" in settings) == (strategy in {"openai_es", "nsra_es", "ars", "pgpe", "snes"})
    drawn = {name for name in settings if base[name] is None}  # train derives these from others
    assert {**base, **settings} == {**base, **{name: settings[name] for name in drawn}}
    given = {"strategy", "strategy_options", "generations", "eval_episodes", "confirm_episodes"}
    assert {*result.settings} - {*settings} <= given
    again = make_plan(make_policy(TrainConfig.for_env(aim, **result.settings), *spaces))
    chosen = {"engine": "auto", "device": "auto", "decided": ()}  # by the run
    assert replace(again, **chosen) == replace(result.run.config, **chosen)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ("sigmma=0.1..1", "no setting is called 'sigmma': did you mean 'sigma'?"),
        ("sigma=1..0.1", r"the lower one first; for sigma got (1, 0.1)"),
        ("sigma=0.1..0.1", "the lower one first"),
        ("sigma=0..1", "sigma must be a finite number above 0, or 'auto', got 0"),
        ("sigma=low..high", "expected sigma=LOW..HIGH with two numbers"),
        ("sigma=0.1", "sigma has only one value to choose from, 0.1"),
        ("sigma=", "expected sigma=LOW..HIGH"),
        ("statistics_fraction=0.5..2", "statistics_fraction must be a number above 0, at most 1, got 2"),
        ("population_size=4.5..10", "must be a whole number of at least 2, at most 1000000, or 'auto', got 4.5"),
        ("population_size=1..10", "must be a whole number of at least 2, at most 1000000, or 'auto', got 1"),
        ("optimizer=1..2", "optimizer is not a number"),
        ("hidden_sizes=1..2", "hidden_sizes is not a number"),
        ("hidden_sizes=[[8], [0]]", "hidden_sizes must be layer sizes"),
        ("hidden_sizes=[[8], ", "expected hidden_sizes=LOW..HIGH"),
        ("hidden_sizes=[]", "or a list, got []"),
        ("seed=0..5", "seed must be the same in all trials"),
        ("max_steps=100..500", "max_steps must be the same in all trials"),
        ("optimizer=adam|nope", "optimizer must be one of adam"),
        ("policy=linear|mpl", "policy must be one of"),
        ("learning_rate=0.1..1", "learning_rate is both searched for and set"),
    ],
)
def test_impossible_searches_are_refused_before_anything_is_made(search, message, aim, tmp_path, capsys):
    folder = tmp_path / "search"
    assert main(["tune", aim, "--search", search, "--learning-rate", "0.1", "--dir", str(folder)]) == 2
    assert message in capsys.readouterr().err
    assert not folder.exists()


def test_auto_can_be_one_of_the_values_of_a_search(aim, tmp_path, capsys):
    options = ["--trials", "2", "--seeds", "1", "--generations", "1", "--workers", "1", "--quiet", "--json"]
    assert main(["tune", aim, "--search", "sigma=auto|0.2", "--dir", str(tmp_path / "search"), *options]) == 0
    tried = [trial["settings"]["sigma"] for trial in json.loads(capsys.readouterr().out)["trials"]]
    assert sorted(tried, key=str) == [0.2, "auto"]


def test_a_setting_that_is_searched_twice_is_refused(aim, capsys):
    assert main(["tune", aim, "--search", "sigma=0.01..0.1", "--search", "sigma=0.5..1.5"]) == 2
    assert "--search sigma is given twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"trials": 0}, "trials must be a whole number of at least 1, got 0"),
        ({"seeds": 0}, "seeds must be a whole number of at least 1"),
        ({"max_seconds": 0}, "max_seconds must be a finite number above 0"),
        ({"pool": "nowhere"}, "nowhere"),
        ({"workers": 0}, "workers must be a whole number of at least 1"),
        ({"pool": "vector", "workers": 2}, "workers=2 is for the pools 'local' and 'ray'"),
        ({"eval_every": 0}, "eval_every must be at least 1, got 0"),
        ({"search": {"optimizer": "adam"}}, "or a list, got 'adam'"),
        ({"search": {"episodes_per_candidate": (1, 5.5)}}, "got 5.5"),
        ({"search": {"episodes_per_candidate": {1, 2}}}, "or a list, got {1, 2}"),
        ({"search": {"epsiodes": [1, 2]}}, "no setting is called 'epsiodes'"),
    ],
)
def test_arguments_that_cannot_be_are_refused(arguments, message, aim, tmp_path):
    with pytest.raises((ValueError, TypeError), match=message):
        tune(aim, directory=tmp_path / "search", **{**TINY, **arguments})
    assert not (tmp_path / "search").exists()


def test_an_environment_without_an_id_is_refused_with_a_remedy():
    with pytest.raises(TypeError, match=r"id of an environment.*got <class .*Aim'>: put it into a module or plugin"):
        tune(Aim)


@pytest.mark.long
def test_a_folder_of_another_search_is_refused_with_what_differs(aim, tmp_path, capsys):
    tune(aim, trials=1, directory=tmp_path, **TINY)
    others = [
        ({"search": {"sigma": (0.001, 5.0)}}, "search sigma: .* there, .* here"),
        ({"seeds": 2}, "seeds: 1 there, 2 here"),
        ({"max_steps": 100}, "setting max_steps: null there, 100 here"),
    ]
    for changed, message in others:
        with pytest.raises(ValueError, match=message):
            tune(aim, trials=1, directory=tmp_path, **{**TINY, **changed})
    with pytest.raises(ValueError, match='environment: "Aim-v0" there, "CartPole-v1" here'):
        tune("CartPole-v1", trials=1, directory=tmp_path, **TINY)


def test_a_folder_with_something_else_in_it_is_refused(aim, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="contains no search"):
        tune(aim, trials=1, directory=tmp_path, **TINY)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_damaged_study_is_an_error_that_names_the_file(aim, tmp_path):
    (tmp_path / "study.jsonl").write_text("no journal\n" * 100)
    with pytest.raises(RuntimeError, match=r"study\.jsonl cannot be read"):
        tune(aim, trials=1, directory=tmp_path, **TINY)


def test_a_line_that_a_full_disk_has_cut_off_is_written_again(aim, tmp_path):
    first = tune(aim, trials=1, directory=tmp_path, **TINY)
    study = tmp_path / "study.jsonl"
    study.write_bytes(study.read_bytes()[:-20])  # the result: the trial is repeated
    for trials in (1, 2):
        assert outcomes(tune(aim, trials=trials, directory=tmp_path, **TINY))[:1] == outcomes(first)


def test_a_search_of_an_earlier_version_is_refused_with_a_way_out(aim, tmp_path):
    (tmp_path / "study.db").touch()
    with pytest.raises(FileExistsError, match=r"by es-envs 0\.1 .*choose another folder .* to begin the search anew"):
        tune(aim, trials=1, directory=tmp_path, **TINY)


def test_without_optuna_the_command_that_installs_it_is_named(aim, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert main(["tune", aim]) == 1
    assert "pip install 'es-envs[tune]'" in capsys.readouterr().err


def test_the_command_line_knows_tune_without_loading_optuna():
    code = "import sys, es_core.cli, es_core.tuning.settings_search; print('optuna' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
