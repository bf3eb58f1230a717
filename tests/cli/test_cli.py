import contextlib
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import first_fast, registered
from gymnasium import spaces

import es_envs
from es_core import Run, TrainConfig, train
from es_core.cli import GROUPS, main, make_parser
from es_core.config.given import BOUNDS
from es_core.config.keywords import keyword, to_fields, to_keywords
from es_core.config.train_config import option_fields
from es_core.reports.data_sheet import space_text
from es_core.runs.run_folder import lock

TINY = [
    "--generations",
    "2",
    "--population-size",
    "4",
    "--max-episode-steps",
    "40",
    "--eval-episodes",
    "2",
    "--workers",
    "1",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert main(["train", "CartPoleBullet-v0", "--run-dir", str(folder), "--quiet", *TINY]) == 0
    return folder


def results(capsys, *arguments, code=0):
    """What a command prints on stdout, and on stderr."""
    capsys.readouterr()
    assert main([str(argument) for argument in arguments]) == code
    return capsys.readouterr()


def test_list_shows_every_environment_with_its_summary(capsys):
    out = results(capsys, "list").out
    for env_id in es_envs.env_ids():
        assert env_id in out
        assert es_envs.definition(env_id).summary in out
    assert [row["id"] for row in json.loads(results(capsys, "list", "--json").out)] == es_envs.env_ids()


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize("env_id", es_envs.env_ids())
def test_show_prints_the_data_sheet_as_plain_text_within_the_terminal(env_id, columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    out = results(capsys, "show", env_id).out
    definition = es_envs.definition(env_id)
    assert definition.fitness.rpartition(":")[2] in out
    words = " ".join(out.split())
    for settings in (definition.recommended, *definition.recommended_for.values()):  # 40 columns break long ones
        assert columns == 40 or ", ".join(f"{name}={value}" for name, value in settings.items()) in words
    for heading in ("Actions", "Observations", "Reward", "Start", "End", "Arguments"):
        assert f"\n{heading}\n" in out
    assert not re.search(r"`|\||^#|Args:|\n\n\n", out, re.MULTILINE)
    assert max(map(len, out.splitlines())) <= columns
    with contextlib.closing(definition.build()) as env:
        sheet = inspect.getdoc(env.unwrapped).replace("Args:", "")
    if columns == 80:  # where no word is longer than its place
        assert set(re.findall(r"\w{6,}", sheet)) <= set(re.findall(r"\w{6,}", out))
    assert json.loads(results(capsys, "show", env_id, "--json").out)["id"] == env_id


def box(low, high):
    return spaces.Box(np.array(low, np.float32), np.array(high, np.float32))


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (spaces.Box(-1.0, 1.0, (17,)), "Box(-1.0, 1.0, (17,), float32)"),
        (box(range(9), range(1, 10)), "Box([0. 1. … 8.], [1. 2. … 9.], (9,), float32)"),
        (spaces.Dict(a=box([0] * 40, range(1, 41))), "Dict('a': Box(0.0, [1. 2. … 40.], (40,), float32))"),
        (spaces.Discrete(2), "Discrete(2)"),
    ],
)
def test_a_space_is_described_in_one_line(space, text):
    assert space_text(space) == text


def test_plugins_shows_what_is_installed(capsys):
    pytest.importorskip("pybullet")
    out = results(capsys, "plugins").out
    assert "es-racecar" in out
    assert all(plugin["status"] == "active" for plugin in json.loads(results(capsys, "plugins", "--json").out))


def test_train_prints_the_run_folder_and_what_to_do_next(capsys, tmp_path):
    captured = results(capsys, "train", "CartPoleBullet-v0", "--run-dir", tmp_path / "a run", *TINY, "--seed", "4")
    assert captured.out.strip() == str(tmp_path / "a run")
    assert f"es-envs evaluate '{tmp_path}/a run'" in captured.err
    config = Run.open(tmp_path / "a run").config
    assert (config.seed, config.generations, config.max_episode_steps) == (4, 2, 40)


def test_a_run_that_only_paused_has_no_score_from_unseen_starts(capsys, tmp_path):
    words = ("train", "CartPoleBullet-v0", "--run-dir", tmp_path / "r", *TINY)
    began = results(capsys, *words, "--max-seconds", "0.001").err
    ended = results(capsys, *words, "--continue").err
    for err, is_unseen in ((began, False), (ended, True)):
        (line,) = re.findall(r"best centre, of generation \d: fitness .*", err)
        assert line.endswith("from starts that no decision has seen") == is_unseen


# A setting as it may be typed (a flag alone: an empty text), and what it means: by its type, unless it needs its own.
BY_TYPE = {bool: ("", True), int: ("6", 6), float: ("0.5", 0.5)}
OWN_EXAMPLES = {
    "env_kwargs": ("start_noise=0.01,observation=full", {"start_noise": 0.01, "observation": "full"}),
    "randomize": ("mass=[0.5,2.0], friction=[1,2]", {"mass": [0.5, 2.0], "friction": [1, 2]}),
    "preprocessing": ("skip=2,grey=true,flatten=False", {"skip": 2, "grey": True, "flatten": False}),
    "fitness": ("episode_return", "episode_return"),
    "fitness_aggregation": ("median", "median"),
    "max_steps": ("100000", 100000),
    "max_episodes": ("none", None),
    "stop_at_plateau": ("", True),
    "strategy": ("pgpe", "pgpe"),
    "strategy_options": ("sigma_learning_rate=.2", {"sigma_learning_rate": 0.2}),
    "steps_per_generation": ("300", 300),
    "contenders": ('[{"sigma": 0.5}, {}]', [{"sigma": 0.5}, {}]),
    "learning_rate": ("1e-2", 0.01),
    "learning_rate_final": ("none", None),
    "schedule": ("cosine", "cosine"),
    "optimizer": ("sgd", "sgd"),
    "optimizer_options": ('{"momentum": 0.5}', {"momentum": 0.5}),
    "shaping": ("z_score", "z_score"),
    "policy": ("mlp", "mlp"),
    "policy_options": ('size=8,name="a,b=c",of={"c": [1]}', {"size": 8, "name": "a,b=c", "of": {"c": [1]}}),
    "hidden_sizes": ("8,4", (8, 4)),
    "activation": ("relu", "relu"),
    "initialization": ("orthogonal", "orthogonal"),
    "observation_clip": ("none", None),
    "action_squash": ("tanh", "tanh"),
    "action_bins": ("[-1, 0.5, 1]", [-1, 0.5, 1]),
    "on_candidate_error": ("drop", "drop"),
    "episode_seeds": ("independent", "independent"),
    "episode_cap": ("growing", "growing"),
    "eval_budget": ("none", None),
    "solved_at": ("none", None),
    "engine": ("compiled", "compiled"),
    "device": ("cpu", "cpu"),
}


def example(setting):
    by_type = (found for kind, found in BY_TYPE.items() if setting.type in {kind, kind | None})
    found = OWN_EXAMPLES.get(keyword(setting.name)) or next(by_type, None)
    assert found is not None, f"OWN_EXAMPLES needs one for {setting.name}"
    return found


EXAMPLES = {keyword(setting.name): example(setting) for setting in option_fields()}


def test_every_setting_can_be_given_on_the_command_line(capsys, monkeypatch):
    assert OWN_EXAMPLES.keys() <= EXAMPLES.keys()
    given = {}

    def train(env_id, **arguments):
        given.update(arguments)
        raise ValueError("that is all")

    monkeypatch.setattr(importlib.import_module("es_core.run"), "train", train)
    for name, (text, value) in EXAMPLES.items():
        flag = f"--{name.replace('_', '-')}"
        results(capsys, "train", "CartPoleBullet-v0", flag, *([text] if text else []), code=2)
        assert given[name] == value
        TrainConfig(env_id="CartPoleBullet-v0", **to_fields({name: value}))


def test_settings_of_the_command_line_are_those_of_the_run(capsys, tmp_path):
    names = [
        "env_kwargs", "fitness", "max_steps", "max_episodes", "steps_per_generation", "weight_decay", "policy",
        "hidden_sizes", "optimizer", "optimizer_options", "observation_normalization", "statistics_fraction",
        "episode_seeds", "survival_bonus", "episode_cap", "episode_cap_start", "eval_share", "solved_at",
    ]  # fmt: skip
    arguments = [part for name in names for part in (f"--{name.replace('_', '-')}", EXAMPLES[name][0]) if part]
    results(capsys, "train", "CartPoleBullet-v0", "--run-dir", tmp_path / "r", "--quiet", *TINY, *arguments)
    config = Run.open(tmp_path / "r").config
    assert {name: getattr(config, name) for name in names} == {name: EXAMPLES[name][1] for name in names}


def help_of(capsys, *words):
    with pytest.raises(SystemExit) as stop:
        main([*words])
    assert stop.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("command", ["train", "bench", "tune"])
def test_help_all_names_every_setting_with_its_default(command, capsys):
    out = help_of(capsys, command, "--help-all").replace("--[no-]", "--")
    for field in option_fields():
        assert f"--{keyword(field.name).replace('_', '-')}" in out
    assert "(default: auto)" in out
    assert "(default: 0.03)" in out


def test_help_of_train_names_a_dozen_options(capsys):
    usage, *lines = help_of(capsys, "train", "--help").splitlines()
    assert usage == "usage: es-envs train ID [options]"
    named = [line.split()[0] for line in lines if line.startswith("  --")]
    shown = {"seed", "seeds", "workers", "run-dir", "generations", "max-seconds", "strategy", "population-size",
             "sigma", "learning-rate", "policy", "fitness"}  # fmt: skip
    assert {*(f"--{name}" for name in shown), "--config", "--quiet", "--json", "--help-all"} <= {*named}
    assert len(named) <= 20
    assert "All settings: `es-envs train --help-all`" in lines


def test_help_of_the_program_arranges_all_commands_in_groups(capsys):
    out = help_of(capsys, "--help")
    assert help_of(capsys) == out
    listed = [name for names in GROUPS.values() for name in names]
    for group, names in GROUPS.items():
        part = out.partition(f"\n{group}:\n")[2].partition("\n\n")[0]
        assert tuple(re.findall(r"^  (\S+)", part, re.MULTILINE)) == names
    (choices,) = (action.choices for action in make_parser()._actions if isinstance(action.choices, dict))
    assert sorted(listed) == sorted(choices)


def test_train_takes_the_settings_of_a_file_and_those_given_with_it(folder, capsys, tmp_path):
    config = Run.open(folder).config
    words = ["--config", folder / "config.json", "--seed", 4, "--hidden-sizes", 4, "--run-dir", tmp_path / "r"]
    results(capsys, "train", *words, "--workers", 1, "--quiet")
    assert "hidden_sizes" in config.decided
    decided = tuple(name for name in config.decided if name != "hidden_sizes")
    assert Run.open(tmp_path / "r").config == replace(config, seed=4, hidden_sizes=(4,), decided=decided)


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        (None, [], "there is no file .*config.json: expected the config.json of a run"),
        ("{", [], "config.json is damaged"),
        ('{"env_id": "CartPole-v1"}', ["Acrobot-v1"], "is for CartPole-v1, not for Acrobot-v1: leave out one"),
        (
            '{"env_id": "os:Walk-v0"}',
            [],
            "names env_id='os:Walk-v0', which is not a function or class of an installed plugin",
        ),
        ('{"env_id": "CartPole-v1", "fitness": "os:getcwd"}', [], "names fitness='os:getcwd'"),
        ('{"env_id": "CartPole-v1", "sigma": -1}', [], "sigma must be"),
    ],
)
def test_a_config_file_that_cannot_be_used_is_explained(content, words, message, tmp_path, capsys):
    path = tmp_path / "config.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    assert main(["train", *words, "--config", str(path), "--run-dir", str(tmp_path / "run")]) in {1, 2}
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "run").exists()


def test_evaluate_prints_a_score_with_its_interval(folder, capsys):
    assert "all 5 alike) over 5 episodes" in results(capsys, "evaluate", folder, "--episodes", 5, "--workers", 1).out
    score = json.loads(results(capsys, "evaluate", folder, "--episodes", 5, "--json").out)
    expected = Run.open(folder).evaluate(episodes=5).to_json()
    assert score == json.loads(json.dumps(expected))


def test_record_prints_the_films_path(folder, capsys):
    for number in (1, 2):
        out = results(capsys, "record", folder, "--width", 64, "--height", 48).out.strip()
        assert out == str(folder / "videos" / f"film-{number}.mp4")
        assert (folder / "videos" / f"film-{number}.mp4").stat().st_size > 500


def test_resume_continues_and_says_when_there_is_nothing_to_do(folder, capsys):
    assert "nothing to do" in results(capsys, "resume", folder).err
    results(capsys, "resume", folder, "--generations", 3, "--quiet")
    assert len(Run.open(folder).history) == 4


@pytest.mark.slow
def test_resume_refuses_to_change_any_setting_but_its_bounds(folder, capsys):
    config = Run.open(folder).config
    settings = to_keywords({field.name: getattr(config, field.name) for field in option_fields()})
    for name, (text, value) in EXAMPLES.items():
        if name in BOUNDS or settings[name] == value:
            continue
        flag = f"--{name.replace('_', '-')}"
        error = results(capsys, "resume", folder, flag, *([text] if text else []), code=2).err
        assert error.startswith(f"error: {name} cannot change in a resumed run: it was ")
        assert f"Only {', '.join(BOUNDS)} can, and only grow" in error
    with pytest.raises(SystemExit):
        main(["resume", "--help"])
    assert "--sigma" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["train", "CartPolBullet-v0"], 2, "Did you mean 'CartPoleBullet-v0'"),
        (["train", "CartPoleBullet-v0", "--sigma", "0"], 2, "sigma must be a finite number above 0, or 'auto', got 0"),
        (["evaluate", "nowhere"], 1, "nowhere"),
        (["record", "nowhere"], 1, "nowhere"),
        (["resume", "nowhere"], 1, "not a run folder"),
    ],
)
def test_errors_go_to_stderr_with_the_documented_exit_code(arguments, code, message, capsys):
    captured = results(capsys, *arguments, code=code)
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert message in captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "there is no command 'trian' (did you mean train?)"),
        (["banana"], "there is no command 'banana'; `es-envs --help`"),
        (["train"], "an ID is required: an environment's, or --config FILE of a run; `es-envs train --help` lists"),
        (["train", "X-v0", "--sigma", "big"], "argument --sigma: invalid number value: 'big'"),
        (["train", "X-v0", "--sigma", "0,1"], "argument --sigma: numbers have a decimal point, got '0,1'"),
        (["train", "X-v0", "--env-kwargs", "{"], "expected name=0.5, or JSON, such as"),
        (["train", "X-v0", "--genertions", "3"], "unrecognized: --genertions 3 (did you mean --generations?)"),
        (["record", "run", "--out", "film.mp4"], "unrecognized: --out"),
    ],
)
def test_usage_errors_exit_with_2_in_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_a_name_behind_an_option_is_read_or_explained(capsys):
    """Newer versions of Python read it."""
    try:
        code = main(["record", "no-such-run", "--seed", "3", "film.mp4"])
    except SystemExit as stop:
        code = stop.code
    assert code in {1, 2}
    expected = r"unexpected argument: film.mp4 \(names come before|there is no run folder or checkpoint no-such-run"
    assert re.search(expected, capsys.readouterr().err)


def commands():
    """The parser of each command, by its name."""
    (choices,) = (action.choices for action in make_parser()._actions if isinstance(action.choices, dict))
    return choices


@pytest.mark.parametrize("name", list(commands()))
def test_a_command_with_two_letters_swapped_is_asked_about(name, capsys):
    with pytest.raises(SystemExit) as stop:
        main([name[:-2] + name[:-3:-1]])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert f"did you mean {name}?" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("name", ["", *commands()])
def test_no_command_takes_the_beginning_of_an_option_for_the_option(name):
    parser = commands()[name] if name else make_parser()
    required = [word for action in parser._actions for word in needed(action)]
    options = {flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")}
    for flag in options:
        for beginning in {flag[:-1], flag[:5]} - options:
            assert parser.parse_known_args([*required, f"{beginning}=1"])[1] == [f"{beginning}=1"]


def needed(action):
    """Words without which the command would not be understood."""
    if isinstance(action.choices, dict):
        return ["list"]
    if action.option_strings:
        return [action.option_strings[0], "1"] if action.required else []
    return [] if action.nargs == "?" else ["X"]


def test_a_folder_of_runs_names_the_latest_run_in_it(folder, capsys):
    assert f"did you mean {folder}?" in results(capsys, "evaluate", folder.parent, code=1).err
    assert "by default in runs/" in results(capsys, "watch", "nowhere", code=1).err


def test_runs_lists_the_state_of_each_run_and_how_to_continue(folder, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["runs"]) == 1
    assert "there is no folder runs" in capsys.readouterr().err
    for name in ("done", "stopped", "broken"):
        shutil.copytree(folder, tmp_path / "runs" / name)
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "runs" / "stopped" / "metrics.jsonl").write_text("".join(lines[:-1]))
    (tmp_path / "runs" / "broken" / "config.json").write_text("{")
    with lock("runs/stopped"):
        assert main(["runs", "--json"]) == 0
    told = {Path(run["directory"]).name: run for run in json.loads(capsys.readouterr().out)}
    assert {name: run["state"] for name, run in told.items()} == {
        "done": "finished", "stopped": "running", "broken": "damaged"
    }  # fmt: skip
    assert told["stopped"]["next"] == "es-envs watch runs/stopped --live"
    assert main(["runs"]) == 0
    out = capsys.readouterr().out
    assert "es-envs resume runs/stopped" in out
    assert "es-envs report runs/done" in out
    assert "config.json is damaged" in out
    assert all(len(line) <= 80 for line in out.splitlines() if "is damaged" not in line)


def test_python_m_es_core_is_the_same_command():
    done = subprocess.run([sys.executable, "-m", "es_core", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("es-envs ")


def test_a_reader_that_leaves_early_is_no_error():
    code = f'"{sys.executable}" -m es_core show RaceCar-v0 | head -n 1'
    done = subprocess.run(code, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("id")
    assert done.stderr == ""


@pytest.mark.long
def test_demo_trains_scores_and_films(capsys, tmp_path):
    captured = results(capsys, "demo", "--run-dir", tmp_path / "demo", "--width", 96, "--height", 64)
    assert "fitness 500.00" in captured.out
    film = tmp_path / "demo" / "videos" / "CartPoleBullet-v0.mp4"
    assert f"film: {film}" in captured.out.splitlines()
    assert film.stat().st_size > 1000
    assert "generation" in captured.err


@pytest.mark.parametrize(("encoding", "between"), [("ascii", " "), ("utf-8", "\u202f")])
def test_a_table_can_be_read_where_the_encoding_lacks_a_character(encoding, between, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "run")
    metrics = tmp_path / "run" / "metrics.jsonl"
    long = re.sub(r'"total_steps": \d+', '"total_steps": 1234567', metrics.read_text(encoding="utf-8"))
    metrics.write_text(long, encoding="utf-8")
    words = [sys.executable, "-m", "es_core", "runs", str(tmp_path)]
    done = subprocess.run(words, env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"  1{between}234{between}567  " in done.stdout.decode(encoding)


def test_the_size_of_the_demos_film_can_be_given():
    given = make_parser().parse_args(["demo", "--width", "96", "--height", "64"])
    assert (given.width, given.height) == (96, 64)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_data_sheet_in_json_tells_numbers_that_json_lacks_as_text(value, register, capsys):
    env_id = register("Keeping-v0", "broken_envs:Keeping", kwargs={"thing": value})
    assert main(["show", env_id, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kwargs"]["thing"] == str(value)


@pytest.mark.parametrize("words", [["show"], ["evaluate", "--policy", "random"], ["record", "--policy", "random"]])
def test_a_package_that_an_environment_lacks_is_named_in_a_line(words, register, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    env_id = register("Lacking-v0", "small_envs:Walk", kwargs={"fault": "package"})
    command, *options = words
    assert main([command, env_id, *options]) == 1
    told = capsys.readouterr().err
    assert "Box2D is not installed, run `pip install gymnasium[box2d]`" in told
    assert "Traceback" not in told


@pytest.fixture(scope="module")
def talking(tiny, tmp_path_factory):
    """The id of an environment that says on stdout what it does, and a run in it."""
    with registered("Talking-v0", "small_envs:Talking") as definition:
        yield definition.id, train(definition.id, run_dir=tmp_path_factory.mktemp("talking") / "run", **tiny)


@pytest.mark.parametrize(
    "words",
    first_fast(
        [
            "show ID",
            "bench ID --seconds 0.01 --workers 1",
            "train ID --generations 1 --run-dir OUT --workers 1",
            "train ID --generations 1 --run-dir OUT --pool vector",
            "tune ID --search sigma=0.1|0.2 --trials 2 --seeds 1 --generations 1 --dir OUT --workers 1",
            "evaluate RUN --workers 1",
            "evaluate ID --policy random",
            "record RUN OUT.mp4 --workers 1",
            "report RUN --film --output OUT.html",
            "collect RUN OUT",
            "export RUN OUT.onnx",
            "replay RUN --generation 0 --candidate 0 --seed 1",
        ],
        3,
    ),
)
def test_output_of_an_environment_is_no_part_of_a_result(words, talking, tmp_path, capfd):
    env_id, run = talking
    words = words.replace("ID", env_id).replace("RUN", str(run.directory)).replace("OUT", str(tmp_path / "new"))
    assert main([*words.split(), "--json"]) == 0
    json.loads(capfd.readouterr().out)
