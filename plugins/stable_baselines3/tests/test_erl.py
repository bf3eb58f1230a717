"""A learner beside an evolving population: what it is fed with, what it lends, and runs that resume to the last bit."""

import numpy as np
import pytest

pytest.importorskip("es_stable_baselines3")

from es_stable_baselines3.erl import ERL
from written import require_equal

import es_envs
from es_core import CheckpointError, TrainConfig, rebuild, train
from es_core.evaluation.scoring import find_policy
from es_core.pools.local import LocalPool
from es_core.pools.options import PoolOptions
from es_core.strategies.ga import GA
from es_core.strategies.openai_es import OpenAIES
from es_envs import hookimpl

LENGTH, CANDIDATES, GENERATIONS = 20, 6, 4
SETTINGS = {
    "strategy": "erl",
    "population_size": CANDIDATES,
    "generations": GENERATIONS,
    "max_episode_steps": LENGTH,
    "hidden_sizes": (8,),
    "eval_episodes": 1,
    "confirm_episodes": 2,
    "checkpoint_every": 1,
    "strategy_options": {
        "learning_starts": LENGTH * CANDIDATES + 1,
        "gradient_steps": 0.05,
        "inject_every": 2,
        "learner_options": {"batch_size": 16},
    },
    "progress": False,
}


class Fitness(list):
    """The populations' fitness, generation by generation."""

    @hookimpl
    def generation_finished(self, fitness):
        self.append(fitness)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A run with one worker, each of whose generations has a checkpoint, and its fitness."""
    folder, fitness = tmp_path_factory.mktemp("erl") / "run", Fitness()
    return train("Pendulum-v1", run_dir=folder, workers=1, loggers=[fitness], **SETTINGS), fitness


@pytest.fixture(scope="module")
def run(played):
    return played[0]


def state(run, generation):
    return run.checkpoint_at(generation).strategy


def test_two_workers_and_an_interruption_change_no_bit(run, tmp_path):
    stopped = train("Pendulum-v1", run_dir=tmp_path, workers=2, **SETTINGS, on_generation=lambda s: s.generation < 2)
    assert len(stopped.history) == 3
    require_equal(stopped.resume(workers=1, progress=False), run)


def test_all_transitions_come_to_the_learner_once_and_in_order(played):
    run, fitness = played
    for generation in range(GENERATIONS + 1):
        rewards = state(run, generation)["learner/replay_buffer/rewards"]
        assert len(rewards) == LENGTH * CANDIDATES * generation
        np.testing.assert_allclose(rewards.reshape(-1, LENGTH).sum(1), np.ravel(fitness[:generation]), rtol=1e-5)


def test_the_learners_actor_replaces_the_worst_every_few_generations(run):
    lent = [state(run, generation)["lent"] for generation in range(GENERATIONS + 1)]
    np.testing.assert_array_equal(lent[1], lent[0])  # too few steps for it to begin
    for generation in range(2, GENERATIONS + 1):
        assert not np.array_equal(lent[generation], lent[generation - 1])
        is_lent = (state(run, generation)["survivors"] == lent[generation]).all(axis=1)
        assert is_lent.tolist() == [False] * (CANDIDATES - 2) + [generation % 2 == 0]


def test_the_champion_survives_unchanged_and_is_the_centre(played):
    run, fitness = played
    for generation in range(GENERATIONS):
        before, after = state(run, generation), state(run, generation + 1)
        champion = before["survivors"][fitness[generation][:-1].argmax()]
        np.testing.assert_array_equal(after["survivors"][0], champion)
        np.testing.assert_array_equal(after["mean"], champion)


def test_a_generation_missing_in_the_log_is_not_rebuilt(run):
    run.checkpoint_path(2).rename(run.directory / "aside")
    with pytest.raises(CheckpointError, match="no checkpoint of generation 2, and what erl learns from is in no log"):
        rebuild(run.directory, 2)
    (run.directory / "aside").rename(run.checkpoint_path(2))


@pytest.mark.parametrize("seed", range(3))
def test_a_generation_in_which_all_win_a_tournament_is_followed_by_another(seed):
    """Of three actors, one an elite, both others win in two generations of a hundred, and nobody is replaced."""
    strategy = ERL(np.zeros(6, np.float32), population_size=4, sigma=0.1, seed=seed)
    for fitness in np.random.default_rng(seed).normal(size=(200, 4)):
        strategy.ask()
        strategy.tell(fitness)
    assert np.isfinite(strategy.survivors).all()


def test_a_resumed_run_keeps_its_best_policy_though_the_last_was_better(register, tmp_path, monkeypatch):
    """What gradients teach is in no log, from which the best policy could be rebuilt."""
    monkeypatch.setattr(OpenAIES, "rebuildable", False)
    aim = register("Aim-v0", "small_envs:Aim", fitness="episode_return", max_episode_steps=1)
    how = {"strategy": "openai_es", "sigma": 0.1, "learning_rate": 0.05, "population_size": 20, "hidden_sizes": (),
           "observation_normalization": False, "action_squash": "clip", "eval_every": 2, "eval_budget": None,
           "workers": 1, "progress": False}  # fmt: skip
    run = train(aim, run_dir=tmp_path / "run", generations=3, **how)
    assert run.best_score[0] == 3
    again = train(aim, run_dir=tmp_path / "run", generations=9, **how, resume=True, on_generation=lambda _: False)
    assert (again.best_score[0], again.best.generation) == (2, 2)


def test_candidates_are_drawn_from_a_kept_generation_and_not_from_the_best_policy(run):
    with pytest.raises(ValueError, match="this policy comes without the state of its strategy, 'erl'"):
        find_policy(run, generation=None, candidate=0, trust=False)
    candidate, _ = find_policy(run, generation=2, candidate=1, trust=False)
    np.testing.assert_array_equal(candidate.mean, state(run, 2)["survivors"][1])


def test_other_strategies_are_sent_no_transitions():
    config = TrainConfig.for_env("Pendulum-v1", policy="linear", max_episode_steps=5).resolved()
    strategy = GA(np.zeros(3, np.float32), population_size=4, sigma=0.1)
    with LocalPool(es_envs.definition("Pendulum-v1"), config, PoolOptions(workers=1), most=4) as pool:
        assert pool.evaluate(strategy.ask(), np.zeros((4, 1), np.int64)).transitions == []


@pytest.mark.parametrize("algorithm", ["td3", "ddpg", "tqc"])
def test_other_algorithms_learn_with_a_population(algorithm, tmp_path):
    options = {**SETTINGS["strategy_options"], "algorithm": algorithm}
    settings = {**SETTINGS, "generations": 2, "strategy_options": options}
    run = train("Pendulum-v1", run_dir=tmp_path / "run", workers=1, **settings)
    assert not np.array_equal(state(run, 2)["lent"], state(run, 0)["lent"])


@pytest.mark.parametrize(
    ("env", "fields", "options", "message"),
    [
        ("Pendulum-v1", {"observation_normalization": True}, {}, "cannot take observation_normalization=True"),
        ("Pendulum-v1", {"sample_actions": True, "action_noise": 0.0}, {}, "cannot take sample_actions=True"),
        ("Pendulum-v1", {"policy": "lstm"}, {}, "since it remembers"),
        ("Pendulum-v1", {"action_bins": 3, "action_noise": 0.0}, {}, "Box actions with bounds and without action_bins"),
        ("Pendulum-v1", {"pool": "vector", "workers": None}, {}, "this pool returns none: use pool='local'"),
        ("Pendulum-v1", {"population_size": 3}, {}, "at least 4, three actors and the learner's; got 3"),
        ("Pendulum-v1", {"steps_per_generation": 99}, {}, "strategy 'erl' keeps its population_size"),
        ("Pendulum-v1", {}, {"algorithm": "dqn"}, "'dqn' is not for actions .*: choose among sac, td3, ddpg, tqc"),
        ("CartPole-v1", {}, {"algorithm": "sac"}, "'sac' is not for actions .*: choose among dqn"),
        ("CartPole-v1", {}, {"learner_options": {"gama": 1}}, "dqn has no option 'gama' here; it has learning_rate, "),
        ("CartPole-v1", {}, {"learner_options": 5}, "learner_options must be a dict of its algorithm's arguments"),
        ("CartPole-v1", {}, {"learner_options": {"learning_rate": "a"}}, "learner_options: dqn refuses "),
        ("CartPole-v1", {}, {"learner_options": {"batch_size": 0}}, "learner_options: batch_size must be"),
        ("CartPole-v1", {}, {"learner_options": {"buffer_size": 999}}, "learning_starts=1000: the learner keeps its"),
        ("CartPole-v1", {}, {"inject_every": 0}, "inject_every must be"),
        ("CartPole-v1", {}, {"elites": "a"}, "elites must be a whole number of at least 1, got 'a'"),
        ("CartPole-v1", {}, {"elites": 10}, "elites must be from 1 to 9, fewer than the actors; got 10"),
    ],
)
def test_settings_that_do_not_fit_a_learner_are_refused_in_a_sentence(env, fields, options, message, tmp_path):
    how = {"workers": 1, "progress": False, "strategy": "erl", "strategy_options": options, **fields}
    with pytest.raises(ValueError, match=message):
        train(env, run_dir=tmp_path / "run", **how)
    assert not (tmp_path / "run").exists()
