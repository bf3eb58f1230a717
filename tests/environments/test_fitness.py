"""Fitness: by every way to name one, of every kind, and what happens when one fails."""

import json

import numpy as np
import pytest
import small_envs
from conftest import first_fast
from written import lines

from es_core import Checkpoint, RolloutError, Run, TrainConfig, evaluate, train
from es_core.cli import main
from es_core.formatting import figures
from es_envs import Episode
from es_envs.fitness import distance_from_start, load_fitness


def episode(**fields):
    return Episode(**{"seed": 0, "total_reward": 2.5, "length": 7, "terminated": True, "truncated": False, **fields})


@pytest.mark.parametrize("prefix", ["", "es_envs.fitness:"])
@pytest.mark.parametrize(
    ("name", "fields", "value"),
    [
        ("episode_return", {}, 2.5),
        ("episode_length", {}, 7.0),
        ("distance_from_start", {"final_info": {"distance_from_start": 4}}, 4.0),
        (
            "distance_from_start",
            {"start_info": {"position": (1, 1)}, "final_info": {"position": np.array([4.0, 5.0])}},
            5.0,
        ),
        ("final_info:speed", {"final_info": {"speed": np.float32(1.5)}}, 1.5),
        ("final_info:a:b", {"final_info": {"a:b": 3}}, 3.0),
    ],
)
def test_a_named_fitness_measures(prefix, name, fields, value):
    measured = load_fitness(prefix + name)(episode(**fields))
    assert measured == value
    assert isinstance(measured, float)


def test_a_missing_key_is_named_with_those_that_are_there():
    with pytest.raises(KeyError) as error:
        distance_from_start(episode(start_info={"position": 0}, final_info={"speed": 1}))
    for text in ("info['distance_from_start']", "info['position']", "['position'] from reset", "['speed'] at the end"):
        assert text in str(error.value)
    with pytest.raises(KeyError, match=r"final_info:energy: the last info has the keys \['speed'\]"):
        load_fitness("final_info:energy")(episode(final_info={"speed": 1}))


def test_a_misspelt_fitness_of_a_definition_is_not_offered_instead_of_itself():
    with pytest.raises(ValueError, match="no fitness 'return': expected one of spare, episode_return, "):
        load_fitness("return", known=["return", "spare"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "episode_retrun",
            "no fitness 'episode_retrun': expected one of episode_return, .*final_info:KEY.*'module:name'",
        ),
        ("final_info:", "no fitness 'final_info:'"),
        ("small_envs:absent", "module 'small_envs' has no 'absent'"),
        ("small_envs:NOT_CALLABLE", "'small_envs:NOT_CALLABLE' must be callable, got 3"),
        ("builtins:dict", r"a class needs on_step\(observation, action, reward, info\) and result\(episode\)"),
    ],
)
def test_a_name_that_names_no_fitness_is_refused(name, message):
    with pytest.raises(ValueError, match=message):
        load_fitness(name)


def test_the_chosen_fitness_comes_first_and_all_others_are_computed_too(register):
    from es_envs import definition

    found = definition(register("A-v0", fitness="small_envs:place_reached", fitnesses={"far": "final_info:position"}))
    assert list(found.fitness_names()) == ["place_reached", "far"]
    assert found.fitness_names("far") == {"far": "final_info:position", "place_reached": "small_envs:place_reached"}
    assert list(found.fitness_names("episode_length")) == ["episode_length", "place_reached", "far"]
    with pytest.raises(ValueError, match="has not been computed"):
        _ = episode().fitness


CHOICES = [
    "place_reached",  # a name of the definition
    "energy",  # another name of the definition
    "episode_length",  # one of es_envs.fitness
    "es_envs.fitness:episode_length",
    "final_info:energy",
    "small_envs:depends_on_seed",
    small_envs.place_reached,
    small_envs.LongestStep,
]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: getattr(choice, "__name__", choice))
def test_training_maximises_the_chosen_fitness(choice, register, tiny, tmp_path):
    fitnesses = {"energy": "final_info:energy", "longest": "small_envs:LongestStep"}
    env_id = register("Walk-v0", fitness="small_envs:place_reached", fitnesses=fitnesses)
    run = train(env_id, fitness=choice, run_dir=tmp_path / "run", **tiny)

    first, last = lines(run)
    chosen = next(iter(first["fitnesses"]))
    assert first["fitnesses"][chosen] == pytest.approx(first["fitness_mean"])
    assert last["evaluation"]["fitnesses"][chosen] == last["evaluation"]["mean"]
    others = {"place_reached", "energy", "longest"}
    if choice is small_envs.LongestStep:
        assert chosen == "longest"  # the definition's name for it
    assert others | {chosen} == set(first["fitnesses"])
    assert None not in first["fitnesses"].values()
    assert Run.open(run.directory).config.fitness == run.config.fitness


def test_a_run_can_be_scored_by_another_fitness_than_its_own(register, tiny, tmp_path):
    fitnesses = {"energy": "final_info:energy", "longest": "small_envs:LongestStep"}
    env_id = register("Walk-v0", fitness="small_envs:place_reached", fitnesses=fitnesses)
    run = train(env_id, run_dir=tmp_path / "run", **tiny)
    usual = run.evaluate(episodes=3, workers=1)
    for name in ("energy", "longest", "place_reached"):
        score = run.evaluate(episodes=3, workers=1, fitness=name)
        assert score.mean == pytest.approx(usual.fitnesses[name])
        assert score.fitnesses == usual.fitnesses
    assert run.evaluate(episodes=3, workers=1, fitness="episode_length").mean == 5
    assert run.evaluate(episodes=3, workers=1, fitness="small_envs:constant").mean == small_envs.constant(None)
    with pytest.raises(ValueError, match=r"no fitness 'enrgy': expected one of place_reached, energy, longest, "):
        run.evaluate(fitness="enrgy")


def test_a_survival_bonus_does_not_keep_another_fitness_from_scoring(walk, tiny, tmp_path):
    run = train(walk, run_dir=tmp_path / "run", fitness="episode_return", survival_bonus=0.5, **tiny)
    assert run.evaluate(episodes=2, workers=1, fitness="episode_length").mean == 5


def test_the_command_tells_all_named_fitnesses_and_scores_by_one(register, tiny, tmp_path, capsys):
    run = train(register("Walk-v0", fitnesses={"energy": "final_info:energy"}), run_dir=tmp_path / "run", **tiny)
    words = ["evaluate", str(run.directory), "--episodes", "2", "--workers", "1", "--quiet"]
    assert main(words) == 0
    score = run.evaluate(episodes=2, workers=1)
    told = ", ".join(f"{name} {figures(score.fitnesses[name])}" for name in ("episode_return", "energy"))
    assert capsys.readouterr().out.splitlines() == [f"fitness {score}", f"by name: {told}"]
    assert main([*words, "--fitness", "episode_length", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mean"] == 5
    alone = train(register("Lone-v0"), run_dir=tmp_path / "alone", **tiny)
    assert main(["evaluate", str(alone.directory), *words[2:]]) == 0
    assert "by name" not in capsys.readouterr().out


def test_a_per_step_class_sees_every_step_and_is_fresh_each_episode(walk, tiny, tmp_path):
    """LongestStep itself asserts that it saw as many steps as the episode has."""
    run = train(
        walk,
        run_dir=tmp_path / "run",
        fitness="small_envs:LongestStep",
        **{**tiny, "eval_episodes": 4, "episodes_per_candidate": 3},
    )
    assert len(lines(run)) == 2


@pytest.fixture(scope="module")
def undisturbed(walk, tiny, tmp_path_factory):
    run = train(walk, run_dir=tmp_path_factory.mktemp("fitness") / "run", **{**tiny, "generations": 2})
    return [line["parameter_hash"] for line in lines(run)]


@pytest.mark.parametrize("name", ["failing", "not_a_number", "text", "nothing", "FailingOnStep", "FailingToStart"])
def test_a_secondary_fitness_that_fails_is_null_and_changes_nothing(name, undisturbed, register, tiny, tmp_path):
    env_id = register("Walk-v0", fitnesses={"odd": f"small_envs:{name}"})
    with pytest.warns(RuntimeWarning, match=r"fitness 'odd' fails, and is left out of the metrics; .*check Walk-v0"):
        run = train(env_id, run_dir=tmp_path / "run", **{**tiny, "generations": 2})

    first, second, last = lines(run)
    assert [line["parameter_hash"] for line in (first, second, last)] == undisturbed
    assert first["fitnesses"]["odd"] is second["fitnesses"]["odd"] is None
    assert last["evaluation"]["fitnesses"]["odd"] is None
    assert first["fitnesses"]["episode_return"] is not None
    assert run.evaluate(episodes=2, workers=1).fitnesses["odd"] is None


@pytest.mark.parametrize(
    ("name", "cause"),
    first_fast(
        [
            ("failing", "ArithmeticError: no such thing as a distance here"),
            ("FailingOnStep", "ArithmeticError: cannot measure this step"),
            ("not_a_number", "it returned nan, expected a finite number"),
            ("text", "it returned 'very good', expected a finite number"),
            ("nothing", "it returned None, expected a finite number"),
            ("FailingToStart", "ArithmeticError: cannot measure this episode"),
        ],
        2,
    ),
)
def test_a_chosen_fitness_that_fails_ends_the_run_and_is_named(name, cause, walk, tiny, tmp_path):
    with pytest.raises(RolloutError) as error:
        train(walk, run_dir=tmp_path / "run", fitness=f"small_envs:{name}", **tiny)
    message = str(error.value)
    assert f"fitness 'small_envs:{name}' failed: " in message
    assert cause in message
    for text in ("Walk-v0 (plugin 'walking')", "candidate 0 in generation 0", "episode seed ", "run seed 0"):
        assert text in message


@pytest.mark.parametrize("aggregation", ["mean", "median", "min"])
def test_a_candidates_fitness_is_the_aggregate_of_its_episodes(aggregation, walk, tiny, tmp_path):
    run = train(
        walk,
        run_dir=tmp_path / "run",
        fitness="small_envs:depends_on_seed",
        **{**tiny, "fitness_aggregation": aggregation, "episodes_per_candidate": 3},
    )
    from es_core.seeding import Purpose, episode_seeds

    values = [seed % 1000 for seed in episode_seeds(0, Purpose.TRAINING, 3, 0)]
    line = lines(run)[0]
    assert line["fitness_mean"] == pytest.approx(getattr(np, aggregation)(values))
    assert line["fitnesses"]["small_envs:depends_on_seed"] == pytest.approx(np.mean(values))
    assert line["fitness_std"] == 0.0
    assert line["next_hash"] == line["parameter_hash"]  # all candidates alike: no gradient


def test_another_fitness_drops_the_environments_threshold(register):
    env_id = register("Walk-v0", solved_at=3.0, fitness="episode_return")
    assert TrainConfig.for_env(env_id).solved_at == 3.0
    assert TrainConfig.for_env(env_id, fitness="episode_return").solved_at == 3.0  # its own, by name
    assert TrainConfig.for_env(env_id, fitness="episode_length").solved_at is None
    assert TrainConfig.for_env(env_id, fitness="episode_length", solved_at=5).solved_at == 5


@pytest.mark.parametrize("fitness", ["distance_from_start", "small_envs:way"])
def test_an_environment_may_write_into_the_arrays_that_it_returned(fitness, walk, register, tiny, tmp_path):
    reusing = register("Reusing-v0", "small_envs:Reusing")
    runs = [train(env_id, run_dir=tmp_path / env_id, fitness=fitness, **tiny) for env_id in (walk, reusing)]
    first, other = ([(stats.fitness_mean, stats.parameter_hash) for stats in run.history] for run in runs)
    assert first == other
    assert first[0][0] != 0


def test_a_fitness_has_its_goal_by_whichever_name():
    for name in ("episode_return", "es_envs.fitness:episode_return"):
        assert TrainConfig.for_env("CartPole-v1", fitness=name).solved_at == 475
    assert TrainConfig.for_env("CartPole-v1", fitness="small_envs:constant").solved_at is None


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_rewards_of_any_precision_are_added_up_in_double_precision(kind, register):
    env_id = register("Coins-v0", "small_envs:Coins", kwargs={"kind": kind}, max_episode_steps=3000)
    score = evaluate(Checkpoint.scripted(env_id), episodes=1, workers=1)
    assert score.returns == pytest.approx(3000 * float(np.dtype(kind).type(0.1)), rel=1e-12)
