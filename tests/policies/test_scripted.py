"""Scripted policies, which are scored and filmed like evolved ones, and environments other than in training."""

import json

import pytest
from conftest import TINY

from es_core import Checkpoint, Run, evaluate, export, record, train
from es_core.cli import main
from es_core.deployment.exporting import ExportError
from es_core.seeding import Purpose, episode_seeds
from es_envs import EnvDefinition, PluginError


@pytest.fixture
def walk(register):
    scripts = {"ahead": "small_envs:Ahead", "lost": "small_envs:Nowhere"}
    return register(scripts=scripts, fitness="episode_return")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_script_is_made_anew_for_each_episode(walk, workers):
    score = evaluate(Checkpoint.scripted(walk, "ahead"), episodes=5, workers=workers)
    assert (score.mean, score.std, score.episodes) == (3.0, 0.0, 5)


def test_a_script_sees_the_environment_as_its_plugin_recommends_to_prepare_it(register):
    recommended = {"preprocessing": {"stack": 2}}
    stacked = register("Stacked-v0", recommended=recommended, max_episode_steps=20)
    assert evaluate(Checkpoint.scripted(stacked), episodes=2, workers=1).episodes == 2


def test_random_actions_are_a_script_of_every_environment_and_depend_on_the_seed_alone():
    scores = [evaluate(Checkpoint.scripted("CartPole-v1"), episodes=20, workers=workers) for workers in (1, 2)]
    assert scores[0] == scores[1]
    assert scores[0].distinct == 20
    assert 15 < scores[0].mean < 30  # 22 after a hundred thousand episodes
    assert evaluate(Checkpoint.scripted("CartPole-v1"), episodes=20, seed=1).mean != scores[0].mean


def test_the_command_line_scores_a_script(walk, capsys):
    assert main(["evaluate", walk, "--policy", "ahead", "--episodes", "3", "--workers", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mean"] == 3.0


def test_a_film_shows_a_script_under_its_name(register, tmp_path):
    entry = "gymnasium.envs.classic_control:CartPoleEnv"
    pole = register("Pole-v0", entry, scripts={"aside": "small_envs:Aside"}, max_episode_steps=30)
    policy, film = Checkpoint.scripted(pole, "aside"), tmp_path / "film.gif"
    (episode,) = record(policy, film, seed=3, workers=1)
    assert episode.seed == episode_seeds(3, Purpose.TEST, 1)[0]
    assert episode.fitness == evaluate(policy, episodes=1, seed=3).mean
    (shot,) = json.loads(film.with_suffix(".json").read_text())["shots"]
    assert shot["players"][0]["script"] == "aside"


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("ahed", ValueError, "has no scripted policy 'ahed': it has random, ahead, lost"),
        ("lost", PluginError, r"scripts\['lost'\] 'small_envs:Nowhere' cannot be imported"),
    ],
)
def test_a_script_that_cannot_be_used_is_named(walk, name, error, message):
    with pytest.raises(error, match=message):
        Checkpoint.scripted(walk, name)


def test_a_script_plays_as_long_as_a_run_does_where_the_environment_has_no_step_limit(register):
    env_id = register("Endless-v0", "small_envs:Endless", max_episode_steps=None)
    assert evaluate(Checkpoint.scripted(env_id), episodes=1, workers=1).length == 1000


def test_a_definition_refuses_a_script_that_is_no_name():
    with pytest.raises(ValueError, match=r"scripts\['ahead'\] must be a string 'module:name', got 3"):
        EnvDefinition(id="Mine-v0", entry_point="small_envs:Walk", scripts={"ahead": 3})


def test_a_script_is_neither_evolved_nor_exported(walk, tmp_path):
    with pytest.raises(ValueError, match=r"no parameters to evolve.*es-envs evaluate Walk-v0 --policy ahead"):
        train(walk, policy="scripted:ahead", run_dir=tmp_path / "run", **{**TINY, "hidden_sizes": "auto"})
    assert not (tmp_path / "run").exists()
    with pytest.raises(ExportError, match="'ahead' is a scripted policy, without a network"):
        export(Checkpoint.scripted(walk, "ahead"), tmp_path / "policy.onnx")


def test_other_arguments_of_the_environment_are_for_its_score_alone(tmp_path, capsys):
    lake = {"is_slippery": False, "map_name": "4x4"}
    run = train("FrozenLake-v1", env_kwargs=lake, run_dir=tmp_path / "run", **TINY)
    before = evaluate(run, episodes=20)
    assert before.distinct == 1
    assert evaluate(run, episodes=20, env_kwargs={"is_slippery": True}).distinct > 1
    words = ["evaluate", str(run.directory), "--episodes", "20", "--json", "--env-kwargs"]
    assert main([*words, "is_slippery=True"]) == 0
    assert json.loads(capsys.readouterr().out)["distinct"] > 1
    assert evaluate(Run.open(run.directory), episodes=20) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ('{"map": "8x8"}', "takes no keyword argument 'map'"),
        ('{"map_name": "8x8"}', "has another observation_space now"),
        ("[1]", "env_kwargs must be"),
        ("{8x8}", "expected name=0.5"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(tmp_path, capsys, arguments, message):
    run = train("FrozenLake-v1", run_dir=tmp_path / "run", **TINY)
    try:
        code = main(["evaluate", str(run.directory), "--episodes", "1", "--env-kwargs", arguments])
    except SystemExit as error:
        code = error.code
    assert code in {1, 2}
    assert message in capsys.readouterr().err
