"""Adapting: policies of a repertoire are tried in a changed world until one works; what is said where none can."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from conftest import registered

pytest.importorskip("ribs")

import es_core
from es_core import Run, adapt, evaluate, train
from es_core.cli import main
from es_core.runs.repertoire import Repertoire
from es_core.seeding import Purpose, episode_seeds

PITTED = {
    "env_id": "Pitted-v0",
    "entry_point": "small_envs:Pitted",
    "fitness": "episode_return",
    "behaviour": "small_envs:place_of_action",
    "behaviours": {"right": (0, 1), "up": (0, 1)},
}
PIT = {"pit": [0.6, 1.0]}


@pytest.fixture(scope="module")
def run(tiny, tmp_path_factory):
    """A run whose best policies are those that go far right."""
    settings = {**tiny, "strategy": "map_elites", "population_size": 64, "generations": 6}
    with registered(**PITTED) as pitted:
        folder = tmp_path_factory.mktemp("runs") / "run"
        return train(pitted.id, run_dir=folder, **settings, strategy_options={"grid": [10, 4], "first_sigma": 1.0})


@pytest.fixture(autouse=True)
def pitted(register):
    register(**PITTED)


def test_a_policy_that_still_works_is_found_within_a_few_trials(run):
    found = run.adapt(env_kwargs=PIT, workers=1)
    first, best = found.trials[0], found
    repertoire = run.repertoire
    assert first.intact == repertoire.fitness.max() == first.predicted > 1.9
    assert (first.fitness, best.fitness > 1.3) == (0.0, True)
    assert found.stopped
    assert len(found.trials) < 20
    assert best.fitness >= 0.9 * found.expected > 0
    for trial in found.trials:
        assert trial.fitness == 0 or trial.fitness == pytest.approx(trial.intact)
        assert repertoire.fitness[repertoire.index(trial.cell)] == trial.intact
    assert evaluate(run, cell=best.cell, env_kwargs=PIT, episodes=2, workers=1).mean == pytest.approx(best.fitness)


def test_equal_arguments_make_equal_trials_with_any_number_of_workers(run):
    how = {"env_kwargs": {**PIT, "luck": 0.3}, "episodes": 3}
    found = adapt(run.directory, workers=1, **how)
    assert found == adapt(Run.open(run.directory), workers=3, **how)
    assert found != adapt(run, workers=1, seed=1, **how)
    assert found.steps == 3 * len(found.trials)


def test_trials_have_starts_that_neither_training_nor_a_score_has():
    seeds = {purpose: set(episode_seeds(0, purpose, 200)) for purpose in (Purpose.TRAINING, Purpose.TEST)}
    trials = {seed for number in range(20) for seed in episode_seeds(0, Purpose.TRIAL, 5, number)}
    assert len(trials) == 100
    assert min(trials) > max(seeds[Purpose.TRAINING])
    assert max(trials) < min(seeds[Purpose.TEST])


def test_an_environment_that_is_as_it_was_needs_a_single_trial(run):
    found = adapt(run, env_kwargs={}, workers=1)
    assert [trial.fitness for trial in found.trials] == [pytest.approx(run.repertoire.fitness.max())]
    assert found.trials[0].uncertainty == pytest.approx(run.repertoire.fitness.std())


def test_trials_end_where_they_are_used_up_and_a_result_says_so(run):
    found = adapt(run, env_kwargs={"pit": [0.0, 1.0]}, trials=2, workers=1)
    assert (len(found.trials), found.stopped) == (2, False)
    assert "no trials are left" in str(found)


def test_a_trial_lowers_what_is_expected_of_policies_that_behave_alike(run):
    found = adapt(run, env_kwargs={"pit": [0.0, 1.0]}, trials=12, workers=1)
    repertoire = run.repertoire
    places = [repertoire.behaviours[repertoire.index(trial.cell)] for trial in found.trials]
    for number, trial in enumerate(found.trials[1:], 1):
        nearest = min(float(np.hypot(*(places[number] - other))) for other in places[:number])
        assert trial.predicted < trial.intact
        assert trial.uncertainty < found.trials[0].uncertainty
        if nearest < 0.05:
            assert trial.predicted < 0.5 * trial.intact


def test_the_command_prints_a_table_and_what_to_do_next(run, capsys, tmp_path):
    words = ["adapt", str(run.directory), "--env-kwargs", "pit=[0.6,1]", "--workers", "1"]
    assert main([*words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    found = adapt(run, env_kwargs=PIT, workers=1)
    assert [trial["fitness"] for trial in printed["trials"]] == [trial.fitness for trial in found.trials]
    assert printed["cell"] == list(found.cell)

    assert main(words) == 0
    out, err = capsys.readouterr()
    table, cell = out.splitlines()[:-1], ",".join(map(str, found.cell))
    assert table[0].split() == ["trial", "cell", "intact", "predicted", "fitness"]
    assert len(table) == len(found.trials) + 1
    assert max(map(len, table)) <= 80
    assert out.splitlines()[-1] == str(found)
    assert sum(line.endswith("best") for line in table) == 1
    commands = [line.split()[1] for line in err.partition("Next:")[2].splitlines() if line.strip()]
    assert commands == ["evaluate", "record", "export"]
    assert f"--cell {cell} --env-kwargs" in err
    changed = ["--cell", cell, "--env-kwargs", "pit=[0.6,1]", "--workers", "1", "--json"]
    assert main(["evaluate", str(run.directory), *changed, "--episodes", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["mean"] == pytest.approx(found.fitness)


def test_a_cell_is_filmed_in_the_changed_environment(tmp_path, tiny, register):
    pole = register(
        "Pole-v0",
        "gymnasium.envs.classic_control:CartPoleEnv",
        behaviour="small_envs:place_and_length",
        behaviours={"place": (-3, 3), "length": (0, 1)},
        max_episode_steps=30,
    )
    settings = {key: value for key, value in tiny.items() if key != "hidden_sizes"}
    trained = train(
        pole, run_dir=tmp_path / "run", **{**settings, "population_size": 8}, strategy="map_elites", policy="linear"
    )
    kwargs = {"sutton_barto_reward": True}
    found = trained.adapt(env_kwargs=kwargs, episodes=1, workers=1)
    (episode,) = trained.record(tmp_path / "cell.mp4", cell=found.cell, env_kwargs=kwargs, workers=1)
    assert episode.fitness == evaluate(trained, cell=found.cell, env_kwargs=kwargs, episodes=1, workers=1).mean


def test_a_notebook_shows_the_trials(run):
    found = adapt(run, env_kwargs=PIT, workers=1)
    html = found._repr_html_()
    assert html.count("<tr>") == len(found.trials) + 1
    assert str(found) in html


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"trials": 0}, "trials must be a whole number of at least 1, got 0"),
        ({"episodes": 0}, "episodes must be a whole number of at least 1, got 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"env_kwargs": 3}, "env_kwargs"),
        ({"env_kwargs": {"pitt": 1}}, "pitt"),
        ({"env_kwargs": {"wide": True}}, "has another observation_space now"),
    ],
)
def test_what_cannot_be_adapted_to_is_refused(run, how, message):
    with pytest.raises(ValueError, match=message):
        adapt(run, **{"env_kwargs": PIT, "workers": 1, **how})


def test_an_episode_that_fails_names_the_cell(run):
    with pytest.raises(es_core.RolloutError, match=r"an episode of cell \d,\d \(episode seed .*fell into the pit"):
        adapt(run, env_kwargs={**PIT, "breaks": True}, workers=1)


def test_a_run_without_a_repertoire_says_which_strategies_fill_one(walk, tiny, tmp_path):
    other = train(walk, run_dir=tmp_path / "run", **tiny)
    with pytest.raises(ValueError, match="has no repertoire with cells; map_elites and cma_mae fill one"):
        other.adapt(env_kwargs={})


def test_a_single_policy_leaves_no_choice(run):
    checkpoint = run.checkpoint
    rows = {name: checkpoint.strategy[name][:1] for name in ("cells", "elites", "fitness", "behaviours")}
    alone = replace(checkpoint, strategy={**checkpoint.strategy, **rows})
    assert len(Repertoire.of(alone)) == 1
    with pytest.raises(ValueError, match="to adapt is to choose, and 1 of its cells is filled: train it longer"):
        adapt(alone, env_kwargs=PIT)


def test_without_scikit_learn_the_error_says_what_brings_it(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.gaussian_process", None)
    with pytest.raises(ImportError, match=r"to adapt needs scikit-learn, which comes with ribs: pip install"):
        adapt(run, env_kwargs=PIT)


def test_the_command_asks_what_has_changed(run, capsys):
    assert main(["adapt", str(run.directory)]) == 2
    assert "say what has changed in the environment: --env-kwargs" in capsys.readouterr().err
