"""Commands that commands print: each does, as it is printed, what it says."""

import html
import re
import shlex

import gymnasium
import pytest
from small_envs import Walk

from es_core import Checkpoint, Run, TrainConfig, train
from es_core.cli import main
from es_core.config.commands import changed_settings, chosen_settings, run_command, train_command
from es_core.formatting import shell_line
from es_core.policies.by_name import make_policy
from es_core.strategies.defaults import make_plan

TINY = ["--generations=1", "--population-size=2", "--eval-episodes=1", "--confirm-episodes=1", "--workers=1"]
# A module of nobody's plugin, which registers an environment with Gymnasium. It fails while a file is there.
MODULE = """
import gymnasium
kwargs = {"fault": "step", "where": "fault"}
gymnasium.register(id="Stumble-v0", entry_point="small_envs:Walk", max_episode_steps=5, kwargs=kwargs)
def calm(episode):
    return -abs(episode.total_reward)
"""
NAMES = {
    "environment": ["strangers:Stumble-v0"],
    "fitness": ["strangers:Stumble-v0", "--fitness=strangers:calm"],
    "policy": ["strangers:Stumble-v0", "--policy=small_modules:Net"],
}


def test_commands_are_quoted_as_the_system_that_shows_them_reads_them(monkeypatch):
    words = ["es-envs", "resume", r"runs\\my run"]
    assert shlex.split(shell_line(words)) == words
    monkeypatch.setattr("sys.platform", "win32")
    assert shell_line(words) == r'es-envs resume "runs\\my run"'


@pytest.fixture
def fault(tmp_path, monkeypatch):
    """The file while which the module's environment fails."""
    where = tmp_path / "fault"
    (tmp_path / "strangers.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return where


def said(capsys, words, code=0):
    """What a command writes to stderr."""
    capsys.readouterr()
    assert main(words) == code
    return capsys.readouterr().err


def printed(text):
    """The words of the commands in a text, by the first."""
    found = re.findall(
        r"(?:es-envs|python -m es_core) ((?:resume|replay|evaluate|record|report) .*?)(?=[;`\n<]|$)", text
    )
    return {command.split()[0]: shlex.split(command) for command in found}


@pytest.mark.parametrize(
    "what",
    [
        "environment",
        pytest.param("fitness", marks=pytest.mark.slow),
        pytest.param("policy", marks=pytest.mark.long),
    ],
)
def test_commands_printed_by_a_run_with_an_unknown_module_work(what, fault, capsys):
    words = ["train", *NAMES[what], "--run-dir=a run", "--quiet", *TINY]
    fault.touch()
    commands = printed(said(capsys, words, code=1))
    assert set(commands) == {"replay", "resume"}
    error = said(capsys, commands["replay"], code=1)
    assert "the failure is reproduced" in error
    fault.unlink()
    commands = printed(said(capsys, commands["resume"]))
    assert set(commands) == {"evaluate", "record", "report"}
    assert "--trust-names" in commands["record"]
    for verb in ("evaluate", "report"):
        said(capsys, commands[verb])
    page = html.unescape((Run.open("a run").directory / "report.html").read_text(encoding="utf-8"))
    assert set(printed(page)) == {"evaluate", "record", "report"}
    assert all("--trust-names" in command for command in printed(page).values())


def test_the_page_of_a_run_that_nobody_vouches_for_trusts_nothing(fault, capsys):
    assert main(["train", *NAMES["fitness"], "--run-dir=a run", "--quiet", *TINY]) == 0
    config = Run.open("a run").config
    for verb in ("resume", "evaluate", "record", "report", "replay"):
        assert "--trust-names" not in run_command(verb, config, "a run", trusted=False)
        assert run_command(verb, config, "a run", trusted=True) == f"python -m es_core {verb} 'a run' --trust-names"
        usual = TrainConfig.for_env("CartPole-v1")
        assert run_command(verb, usual, "a run", trusted=True) == f"es-envs {verb} 'a run'"


def test_an_untrusted_run_is_refused_in_a_few_words(fault, capsys):
    assert main(["train", *NAMES["environment"], "--run-dir=a run", "--quiet", *TINY]) == 0
    for words in (["evaluate", "a run"], ["replay", "a run", "--generation=0", "--seed=1"], ["resume", "a run"]):
        error = said(capsys, words, code=2)
        assert "--trust-names" in error
        assert "a run/config.json names env_id='strangers:Stumble-v0'" in error
        assert len(error) < 400


def test_runs_checkpoints_and_configs_are_shown_in_a_few_words(walk, tiny, tmp_path):
    run = train(walk, run_dir=tmp_path / "run", sigma=0.2, **tiny)
    assert repr(run) == f"<Run of Walk-v0 in {tmp_path}/run>"
    assert repr(run.checkpoint) == "<Checkpoint of Walk-v0, generation 1>"
    assert isinstance(run.checkpoint, Checkpoint)
    config = TrainConfig(env_id="Walk-v0", sigma=0.2, hidden_sizes=(4,))
    assert repr(config) == "TrainConfig(env_id='Walk-v0', sigma=0.2, policy='mlp', hidden_sizes=(4,))"
    assert eval(repr(run.config)) == run.config


def test_a_scripts_run_is_repeated_with_given_settings_not_chosen_ones(tiny, tmp_path):
    def make():
        return Walk()

    said = {**tiny, "max_episode_steps": 5, "eval_every": 1}
    del said["population_size"]
    run = train(make, run_dir=tmp_path / "run", **said)
    command = train_command(run.config, run.directory, trusted=True)
    assert run.config.strategy == "cma_es"
    assert not re.search("strategy|sigma", command), command


def test_given_setting_is_not_listed_as_decided(walk, tiny, tmp_path):
    first = train(walk, run_dir=tmp_path / "first", **tiny)
    assert "sigma" in first.config.decided
    words = ["train", "--config", str(first.directory / "config.json"), "--sigma", "0.5", "--workers", "1", "--quiet"]
    assert main([*words, "--run-dir", str(tmp_path / "second"), "--trust-names"]) == 0
    second = Run.open(tmp_path / "second").config
    assert (second.sigma, "sigma" in second.decided, "strategy" in second.decided) == (0.5, False, True)
    words = [*words[:3], "--strategy", "openai_es", "--workers", "1", "--quiet"]
    assert main([*words, "--run-dir", str(tmp_path / "third"), "--trust-names"]) == 0
    third = Run.open(tmp_path / "third").config
    chosen = third.strategy, third.sigma, third.episode_seeds, third.strategy_options
    assert chosen == ("openai_es", 0.05, "common", {})


@pytest.mark.parametrize(
    "words", [["--population-size", "6"], ["--max-steps", "2000"], ["--hidden-sizes", "4,4"], ["--generations", "2"]]
)
def test_settings_given_with_a_file_decide_dependent_settings(words, walk, tiny, tmp_path):
    given = {name: value for name, value in tiny.items() if name not in {"population_size", "hidden_sizes"}}
    first = train(walk, run_dir=tmp_path / "first", sigma_final=0.01, **given)
    flags = {
        f"--{name.replace('_', '-')}": value for name, value in given.items() if name not in {"workers", "progress"}
    }
    flags = [f"{name}={value}" for name, value in flags.items() if name not in words]
    more = ["--workers", "1", "--quiet", "--trust-names", *words]
    file = ["--config", str(first.directory / "config.json")]
    assert main(["train", *file, *more, "--run-dir", str(tmp_path / "file")]) == 0
    assert main(["train", walk, "--sigma-final", "0.01", *flags, *more, "--run-dir", str(tmp_path / "id")]) == 0
    assert Run.open(tmp_path / "file", trust=True).config == Run.open(tmp_path / "id", trust=True).config


def test_settings_that_the_run_chose_are_not_listed_as_changed(walk, tiny, tmp_path):
    run = train(walk, run_dir=tmp_path / "run", sigma_final=0.01, **tiny)
    assert (run.config.engine, run.config.schedule_generations) == ("compiled", 1)
    assert changed_settings(run.config).keys() == {*tiny, "policy", "sigma_final"} - {"workers", "progress"}


def test_a_chosen_setting_is_listed_as_changed_once_another_is_recommended(register, tmp_path):
    walk = register("Walk-v0", max_episode_steps=10)
    fields = {"generations": 1, "workers": 1, "progress": False}
    run = train(walk, run_dir=tmp_path / "run", **fields)
    assert "sigma" in run.config.decided
    assert changed_settings(run.config) == {"generations": 1}
    register("Walk-v0", max_episode_steps=10, recommended={"sigma": 0.7}, override=True)
    assert changed_settings(run.config) == {"generations": 1, "sigma": run.config.sigma}


@pytest.mark.parametrize("fields", [{}, {"sigma": 0.3}, {"strategy": "cma_es"}, {"strategy": "pgpe"}], ids=str)
def test_the_settings_that_make_a_run_again_leave_to_it_what_it_chose_itself(fields):
    def begun(**given):
        config = TrainConfig.for_env("Pendulum-v1", **given)
        return make_plan(make_policy(config, env.observation_space, env.action_space))

    with gymnasium.make("Pendulum-v1") as env:  # few inputs, which the run may answer with another sigma
        assert chosen_settings(begun(**fields)) == fields
        assert begun(**chosen_settings(begun(**fields))) == begun(**fields)


def test_the_call_that_makes_a_scripts_run_again_names_its_pool(register, tmp_path):
    env = register("Mine-v0", plugin=None)
    config = TrainConfig.for_env(env, vector_envs=4)
    assert train_command(config, tmp_path, trusted=True) == "train('Mine-v0', vector_envs=4, pool='vector')"
