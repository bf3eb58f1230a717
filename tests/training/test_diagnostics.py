"""What a generation's line says about the search, and the advice that follows from it: through whole runs."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import first_fast

from es_core import Run, train
from es_core.cli import main
from es_core.config.commands import train_command
from es_core.runs.metrics import DIAGNOSTICS
from es_core.training.advice import Adviser, advice
from es_core.training.rules.plateau import PLATEAU, is_plateau
from es_core.training.rules.rule import SearchHistory

SETTINGS = {
    "generations": 10,
    "population_size": 20,
    "hidden_sizes": (),
    "observation_normalization": False,
    "action_squash": "clip",
    "strategy": "openai_es",
    "sigma": 0.05,
    "eval_every": 0,
    "workers": 1,
}


@pytest.fixture
def run_of(register, tmp_path):
    """``run_of(class, **fields)``: a run in an environment of small_envs."""

    def run(name, *, limit=1000, progress=False, **fields):
        env_id = register(f"{name}-v0", f"small_envs:{name}", fitness="episode_return", max_episode_steps=limit)
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        return train(env_id, run_dir=folder, progress=progress, **{**SETTINGS, **fields})

    return run


@pytest.mark.parametrize("strategy", ["openai_es", "pgpe"])
def test_a_line_tells_how_the_centre_moved(strategy, run_of):
    run = run_of("Aim", strategy=strategy, generations=4, checkpoint_every=1)
    means = [run.checkpoint_at(generation).mean.astype(float) for generation in range(5)]
    steps = np.diff(means, axis=0)
    history = Run.open(run.directory).history
    for generation, stats in enumerate(history[:-1]):
        assert stats.step_norm == pytest.approx(np.linalg.norm(steps[generation]), rel=1e-3)
        assert stats.parameter_norm == pytest.approx(np.linalg.norm(means[generation + 1]), rel=1e-3)
        rms = np.sqrt(np.mean(steps[generation] ** 2))
        assert stats.step_to_sigma == pytest.approx(rms / stats.sigma, rel=0.1)  # PGPE's sigma has a direction
        assert stats.gradient_norm > 0
        assert -1 <= stats.half_agreement <= 1
        if generation:
            cosine = steps[generation] @ steps[generation - 1] / np.linalg.norm(steps[generation])
            assert stats.step_cosine == pytest.approx(cosine / np.linalg.norm(steps[generation - 1]), abs=1e-3)
    assert history[0].step_cosine is None
    assert all(getattr(history[-1], name) is None for name in (*DIAGNOSTICS, "tied_pairs", "capped_episodes"))


def test_the_mean_itself_is_no_pair_that_ties(run_of):
    assert run_of("Aim", strategy="nsra_es", population_size=4, generations=1).history[0].tied_pairs == 0


def test_strategies_without_mirrored_pairs_have_no_tied_pairs(run_of):
    fields = {"fitness": "small_envs:constant", "generations": 1}
    assert run_of("Walk", **fields).history[0].tied_pairs == 1
    assert run_of("Aim", generations=1).history[0].tied_pairs == 0
    assert run_of("Walk", strategy="random_search", policy="linear", **fields).history[0].tied_pairs is None


def test_ties_are_counted_in_the_fitness_that_the_strategy_gets(run_of):
    # Any reward is negative here, and so the sum of their signs is -1 for all.
    assert run_of("Aim", generations=1).history[0].tied_pairs == 0
    assert run_of("Aim", shaping="centered_sign", generations=1).history[0].tied_pairs == 1


@pytest.mark.parametrize(
    ("name", "fields", "sentence"),
    first_fast(
        [
            (
                "Walk",
                {"fitness": "small_envs:constant"},
                "had the same fitness as others with their start, 3 on average: it is the maximum, or",
            ),
            ("Walk", {"fitness": "small_envs:constant"}, "or sigma, 0.05, is too small to change them"),
            (
                "Valley",
                {"initialization": "zeros", "eval_every": 1, "generations": 16},
                "no centre of the first 16 generations scored higher than the first one, 0: ",
            ),
            (
                "Valley",
                {"output_scale": 50.0, "eval_every": 1, "generations": 27, "learning_rate": 0.01},
                "no better than doing nothing, 0 in 5 episodes: try a larger sigma, such as 0.15, or another strategy",
            ),
            (
                "Ledge",
                {"initialization": "zeros", "sigma": 0.5, "eval_every": 2, "generations": 16},
                "came near what its centre does (-0.",
            ),
            (
                "Aim",
                {"learning_rate": 0.2, "eval_every": 1, "generations": 250},
                "nothing was gained in 100 generations, at about -",
            ),
            (
                "Aim",
                {
                    "learning_rate": 1e-9,
                    "eval_every": 1,
                    "generations": 100,
                    "fitness": "small_envs:mostly_luck",
                    "seed": 2,
                },
                "than candidates on one start (",
            ),
            (
                "Fine",
                {"sigma": 0.1, "learning_rate": 0.03, "eval_every": 1, "generations": 30},
                "100 % of the centres' actions are at a bound, and nothing is gained: if better is possible, choose",
            ),
            (
                "Fleeing",
                {
                    "strategy": "cma_es",
                    "sigma": 1.0,
                    "population_size": 20,
                    "generations": 40,
                    "eval_every": 1,
                    "limit": 100,
                },
                (
                    "if nothing is done: each step costs more, but there are fewer. If such an end is a failure, make "
                    "it cost "
                ),
            ),
        ],
        4,
    ),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_advice_says_what_is_wrong(name, fields, sentence, run_of):
    run = run_of(name, **fields)
    found = advice(run.history)
    assert sentence in found
    changed = replace(run.config, **found.settings)  # raises where it could not be
    assert (changed == run.config) == (not found.settings)
    command = train_command(run.config, run.directory, trusted=True, **found.settings)
    for setting, value in found.settings.items():
        assert f"--{setting.replace('_', '-')}{'' if value is True else f' {value}'}" in command


@pytest.mark.parametrize(
    ("name", "fields"),
    first_fast(
        [
            ("Aim", {}),
            ("Aim", {"eval_every": 1, "generations": 12}),
            ("Aim", {"eval_every": 1, "generations": 110, "learning_rate": 0.01}),
            ("Seconds", {"eval_every": 1, "generations": 1, "observation_normalization": True}),
            ("Fine", {"action_squash": "tanh", "eval_every": 1, "generations": 30}),
            ("Wander", {}),
            ("Wander", {"strategy": "ga"}),
            ("Wander", {"strategy": "random_search"}),
            ("Wander", {"strategy": "cma_es"}),
            ("Wander", {"episode_cap": "twice_mean", "episode_cap_start": 20}),
            ("Endless", {"limit": 30}),  # whole episodes may well end at the limit
        ],
        3,
    ),
    ids=str,
)
def test_there_is_no_advice_where_all_is_well(name, fields, run_of):
    assert advice(run_of(name, **fields).history) == ""


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("Valley", {"initialization": "zeros", "eval_every": 1, "generations": 16}),
        ("Valley", {"output_scale": 50.0, "eval_every": 1, "generations": 27, "learning_rate": 0.01}),
    ],
    ids=["no-progress", "no-better-than-nothing"],
)
def test_no_such_advice_is_given_while_populations_improve(name, fields, run_of):
    run = run_of(name, **fields)
    assert advice(run.history)
    rising = [replace(each, fitness_mean=float(number)) for number, each in enumerate(run.history)]
    assert advice(rising) == ""


def test_equal_rewards_that_do_not_add_up_exactly_are_equal(run_of):
    """0.1 + 0.1 + ... is no multiple of 0.1, and the mean of equal sums may be another number."""
    run = run_of("Walk", fitness="small_envs:tenths", generations=25, eval_every=1, population_size=12)
    *lines, _ = run.history
    assert {(stats.fitness_mean, stats.fitness_std) for stats in lines} == {(lines[0].fitness_max, 0.0)}
    assert "had the same fitness" in advice(run.history)


def test_a_solved_run_is_advised_only_about_a_goal_that_is_too_easy(run_of):
    easy = run_of("Aim", eval_every=1, solved_at=-1e9)
    assert easy.history[-1].solved
    assert advice(easy.history).startswith("doing nothing scores -4 in 5 episodes, no less than the policy, -")
    learnt = run_of("Aim", eval_every=1, solved_at=-1.0, generations=300, learning_rate=0.05)
    assert learnt.history[-1].solved
    assert advice(learnt.history) == ""


def test_centres_alone_decide_a_plateau_if_no_episode_ends_in_a_generation(run_of):
    run = run_of("Aim", fitness="small_envs:constant", generations=PLATEAU, eval_every=1, eval_budget=None)
    history = [replace(stats, fitness_mean=None) for stats in run.history[:-1]]
    assert is_plateau(SearchHistory.of(history))
    rising = [replace(each, evaluation=replace(each.evaluation, mean=float(k))) for k, each in enumerate(history)]
    assert not is_plateau(SearchHistory.of(rising))
    learner = [replace(stats, fitness_std=None, tied_pairs=None, sigma=None) for stats in history]
    assert "try another learning_rate (strategy_options), or evolution (strategy='auto')" in advice(learner)
    first = replace(learner[0], evaluation=replace(learner[0].evaluation, mean=0.0), baselines={})
    said = "nothing was gained in 100 generations: if better is possible, start again with another seed, another learn"
    assert advice([first, *learner[1:], learner[-1]]).startswith(said)


def test_scores_that_are_too_rare_leave_a_plateau_to_the_populations(run_of):
    run = run_of("Aim", fitness="small_envs:constant", generations=PLATEAU, eval_every=50)
    history = run.history[:-1]
    assert is_plateau(SearchHistory.of(history))
    assert not is_plateau(SearchHistory.of([replace(each, fitness_mean=float(k)) for k, each in enumerate(history)]))


@pytest.mark.parametrize(
    ("name", "fields", "sentence"),
    [
        (
            "Valley",
            {"output_scale": 50.0, "eval_every": 1, "generations": 27, "learning_rate": 0.01},
            "no better than doin",
        ),
    ],
)
def test_advice_by_the_first_line_is_true_in_long_runs_too(name, fields, sentence, run_of):
    *history, last = run_of(name, **fields).history[:-1]
    assert sentence in advice([*history, *[last] * PLATEAU])


def test_advice_is_given_once_while_it_stays_true(run_of, capfd):
    run = run_of("Walk", fitness="small_envs:constant", generations=25, progress=True)
    assert capfd.readouterr().err.count("advice: in the last 10 generations all candidates had the same") == 1
    adviser = Adviser()
    said = [adviser.advise(run.history[:count]) for count in range(1, 26)]
    assert [bool(sentence) for sentence in said] == [count == 10 for count in range(1, 26)]


def test_advice_that_is_no_longer_true_can_be_given_anew(run_of):
    wrong = run_of("Walk", fitness="small_envs:constant").history[:-1]
    well = run_of("Walk").history[:-1]
    adviser, history, said = Adviser(), [], []
    for stats in [*wrong, *well, *wrong]:
        history.append(stats)
        said.append(adviser.advise(history))
    assert [number for number, sentence in enumerate(said, start=1) if "had the same fitness" in sentence] == [10, 30]


def test_an_early_end_that_is_the_goal_is_no_failure(register, tmp_path):
    goal = {"kwargs": {"goal": True}, "fitness": "episode_return", "max_episode_steps": 100}
    env_id = register("Goal-v0", "small_envs:Fleeing", **goal)
    fields = {"strategy": "cma_es", "sigma": 1.0, "population_size": 20, "generations": 40, "eval_every": 1}
    run = train(env_id, run_dir=tmp_path / "run", progress=False, **{**SETTINGS, **fields})
    lengths = [stats.evaluation.length for stats in run.history if stats.evaluation]
    assert lengths[-1] < run.history[0].baselines["doing nothing"].length / 2
    assert not any("each step costs" in advice(run.history[:end]) for end in range(1, 41))


def test_advice_from_just_before_the_end_is_given_at_the_end(run_of):
    run = run_of("Walk", fitness="small_envs:constant", eval_every=1)
    *history, last = run.history
    better = replace(history[-1].evaluation, mean=99.0)
    well = replace(history[-1], fitness_std=1.0, tied_pairs=None, evaluation=better)
    assert "had the same fitness" in advice([*history, last])
    assert "had the same fitness" in advice([*history, well, well, last])
    assert advice([*history, well, well]) == ""  # it goes on


def test_the_command_line_ends_with_advice(register, tmp_path, capsys):
    register("Walk-v0", "small_envs:Walk", fitness="small_envs:constant")
    arguments = ["--generations", "10", "--population-size", "4", "--hidden-sizes", "", "--eval-every", "0"]
    assert main(["train", "Walk-v0", "--run-dir", str(tmp_path / "r"), "--quiet", "--workers", "1", *arguments]) == 0
    assert "advice: in the last 10 generations all candidates had the same fitness" in capsys.readouterr().err


@pytest.mark.parametrize("pool", ["local", "vector"])
def test_scores_tell_which_share_of_the_actions_is_at_a_bound(pool, run_of):
    fields = {"eval_every": 1, "initialization": "zeros", "sigma": 0.1, "learning_rate": 0.03, "eval_budget": None}
    how = {"pool": pool, "workers": 1 if pool == "local" else None}
    shares = [stats.evaluation.at_bounds for stats in run_of("Fine", **fields, **how).history]
    assert (shares[0], shares[-1]) == (0, 1)
    assert [stats.evaluation.at_bounds for stats in run_of("Walk", generations=1, eval_every=1).history] == [0, 0]
    among_bounds = run_of("Fine", generations=1, eval_every=1, action_bins=2, **how).history
    assert [stats.evaluation.at_bounds for stats in among_bounds] == [None, None]
