"""What a run decides itself: strategy, policy and their settings where nobody says them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from gymnasium import spaces

from es_core import Checkpoint, Run, TrainConfig, train
from es_core.cli import main
from es_core.config.commands import train_command
from es_core.config.plan import Plan
from es_core.policies.by_name import make_policy
from es_core.strategies.defaults import make_plan

VECTOR = spaces.Box(-np.inf, np.inf, (4,), np.float32)
IMAGE = spaces.Box(0, 255, (84, 84, 3), np.uint8)
SMALL = spaces.Box(0, 255, (3, 20, 35), np.uint8)
UNIT = spaces.Box(-1.0, 1.0, (2,), np.float32)
ONE = spaces.Box(-1.0, 1.0, (1,), np.float32)
SHORT = {"generations": 3, "eval_episodes": 2, "confirm_episodes": 2, "workers": 1, "progress": False}


def box(low, high):
    return spaces.Box(np.array(low, np.float32), np.array(high, np.float32))


def settled_for(observations=VECTOR, actions=UNIT, **fields):
    return make_plan(make_policy(TrainConfig(env_id="Walk-v0", **fields), observations, actions))


@pytest.mark.parametrize(
    ("size", "strategy"), [(4, "cma_es"), (90, "cma_es"), (2000, "sep_cma_es"), (20_000, "openai_es")]
)
def test_the_strategy_follows_from_the_number_of_parameters(size, strategy):
    observations = spaces.Box(-1, 1, (size,), np.float32)
    assert settled_for(observations).strategy == strategy


def test_the_population_begins_with_16_and_then_fills_16_000_steps_or_a_hundredth_of_the_runs():
    configs = [settled_for(max_steps=steps) for steps in (None, 10**8, 200_000, 10)]
    assert {config.population_size for config in configs} == {16}
    assert [config.steps_per_generation for config in configs] == [16_000, 16_000, 2000, 1]
    assert [config.steps_limit for config in configs] == [256_000, 256_000, 32_000, 16]


def test_a_population_that_is_given_stays_and_so_does_that_of_strategies_without_a_covariance():
    assert settled_for(population_size=24).steps_per_generation is None
    assert settled_for(strategy="cma_es", steps_per_generation=None).population_size == 16
    assert settled_for(max_episodes=500).steps_per_generation is None  # steps are not what this run is short of
    config = settled_for(strategy="openai_es")
    assert (config.population_size, config.steps_per_generation) == (64, None)
    given = settled_for(strategy="cma_es", steps_per_generation=1000)
    assert (given.steps_per_generation, given.steps_limit) == (1000, None)


def test_images_are_seen_by_convolutions_and_not_normalised():
    config = settled_for(IMAGE)
    assert (config.policy, config.observation_normalization, config.strategy) == ("cnn_nature", False, "openai_es")
    assert settled_for(VECTOR).observation_normalization
    assert settled_for(spaces.Dict({"camera": IMAGE, "map": SMALL})).policy == "cnn_small"


def test_a_picture_too_small_for_convolutions_is_whole_numbers_which_stay_as_they_are():
    tiles = spaces.Box(0, 255, (7, 7, 3), np.uint8)
    config = settled_for(spaces.Dict({"image": tiles, "direction": spaces.Discrete(4)}))
    assert (config.policy, config.hidden_sizes, config.observation_normalization) == ("mlp", (), False)


@pytest.mark.parametrize(
    ("actions", "squash"),
    [
        (UNIT, "clip"),
        (box([-0.4] * 3, [0.4] * 3), "clip"),
        (box([-2.0], [2.0]), "clip"),
        (box([-1000.0, -1], [1000.0, 1]), "tanh"),
        (box([0.0], [1.0]), "tanh"),
        (box([-0.01], [0.01]), "tanh"),
        (box([-np.inf], [np.inf]), "clip"),
        (spaces.Box(-3.4e38, 3.4e38, (1,), np.float32), "clip"),
        (spaces.Discrete(3), "clip"),
    ],
    ids=str,
)
def test_outputs_are_stretched_to_bounds_that_are_far_from_1(actions, squash):
    assert settled_for(actions=actions).action_squash == squash


def test_given_settings_win_and_are_not_recorded_as_decided():
    config = settled_for(strategy="snes", population_size=12, sigma=0.3, observation_normalization=False)
    assert (config.strategy, config.population_size, config.sigma) == ("snes", 12, 0.3)
    assert {"policy", "hidden_sizes", "action_squash", "episode_seeds", "steps_per_generation"} <= {*config.decided}
    assert not {"strategy", "population_size", "sigma", "observation_normalization"} & {*config.decided}


def test_few_inputs_go_through_a_hidden_layer_and_many_are_linear_with_a_bias():
    assert (settled_for(VECTOR).policy, settled_for(VECTOR).hidden_sizes) == ("mlp", (8,))
    assert settled_for(VECTOR).sigma == 1.0  # else such units begin as good as linear
    assert settled_for(VECTOR, hidden_sizes=(8,)).sigma == 0.1
    many = settled_for(spaces.Box(-1, 1, (17,), np.float32))
    assert (many.policy, many.hidden_sizes) == ("mlp", ())
    assert make_policy(many, spaces.Box(-1, 1, (17,), np.float32), UNIT).size == 2 * 18
    assert settled_for(VECTOR, policy="mlp").hidden_sizes == (32, 32)


@pytest.mark.parametrize(("strategy", "sigma"), [("cma_es", 1.0), ("sep_cma_es", 1.0), ("snes", 0.1), ("pgpe", 0.1)])
def test_naming_a_strategy_that_adapts_sigma_leaves_sigma_to_the_run(strategy, sigma, walk):
    config = make_plan(make_policy(TrainConfig.for_env(walk, strategy=strategy), VECTOR, UNIT))
    assert config.sigma == sigma
    assert "sigma" in config.decided


@pytest.mark.parametrize(
    ("fields", "strategy", "policy"),
    [
        ({"learning_rate": 0.03}, "openai_es", "auto"),  # which is its default, but was said
        ({"optimizer": "sgd"}, "openai_es", "auto"),
        ({"hidden_sizes": (32, 32)}, "auto", "mlp"),
        ({"activation": "relu"}, "auto", "mlp"),
        ({"learning_rate": 0.1, "strategy": "snes"}, "snes", "auto"),
        ({"sigma": 0.2}, "auto", "auto"),
    ],
    ids=str,
)
def test_a_setting_of_one_strategy_or_policy_says_which_is_meant(fields, strategy, policy, walk):
    config = TrainConfig.for_env(walk, **fields)
    assert (config.strategy, config.policy) == (strategy, policy)


def test_the_step_size_may_triple_where_the_rule_chose_the_strategy_and_nobody_its_options():
    few, many = settled_for(VECTOR), settled_for(spaces.Box(-1, 1, (17,), np.float32))
    assert [config.strategy_options for config in (few, many)] == [{"max_step_size": 3.0}, {"max_step_size": 0.3}]
    assert settled_for(sigma=0.02).strategy_options == {"max_step_size": 0.06}
    assert settled_for(strategy="cma_es").strategy_options == {}
    assert settled_for(strategy_options={"max_step_size": 0.5}).strategy_options == {"max_step_size": 0.5}
    assert settled_for(IMAGE).strategy_options == {}
    unbounded = TrainConfig(env_id="Walk-v0", strategy_options={"max_step_size": None})
    assert "step size" not in make_plan(make_policy(unbounded, VECTOR, UNIT)).why


def test_a_population_too_small_for_a_covariance_has_a_strategy_without():
    assert settled_for(population_size=2).strategy == "openai_es"
    assert settled_for(population_size=4).strategy == "cma_es"


def test_a_config_without_these_fields_means_what_it_meant_before():
    config = TrainConfig.from_json({"env_id": "Walk-v0"})
    old = {
        "strategy": "openai_es", "policy": "mlp", "hidden_sizes": (32, 32), "population_size": 64, "sigma": 0.05,
        "observation_normalization": False, "action_squash": "clip", "generations": 300, "observation_std_floor": 0.1,
        "episode_seeds": "common", "steps_per_generation": None, "steps_limit": None,
    }  # fmt: skip
    assert {name: getattr(config, name) for name in old} == old


def test_a_run_writes_what_it_decided_and_keeps_it(wander, tmp_path, capsys):
    run = train(wander, run_dir=tmp_path / "run", on_generation=lambda stats: False, **{**SHORT, "progress": True})
    written = json.loads((run.directory / "config.json").read_text(encoding="utf-8"))
    assert "auto" not in written.values()
    assert (written["strategy"], written["policy"], written["hidden_sizes"]) == ("cma_es", "mlp", [8])
    line = next(line for line in capsys.readouterr().err.splitlines() if line.startswith("chosen: "))
    assert "policy mlp with 8 hidden units, observations normalised, strategy cma_es, " in line
    finished = Run.open(run.directory).resume(progress=False, workers=2)
    assert finished.config == run.config
    whole = train(wander, run_dir=tmp_path / "whole", **SHORT)
    hashes = [[stats.parameter_hash for stats in each.history] for each in (finished, whole)]
    assert hashes[0] == hashes[1]


def test_an_episode_ends_where_nobody_set_a_step_limit(register, tmp_path, capsys):
    endless = register("Endless-v0", "small_envs:Endless", max_episode_steps=None)
    settings = {**SHORT, "run_dir": tmp_path / "run", "generations": 1}
    run = train(endless, **{**settings, "progress": True})
    assert run.history[0].episode_length == 1000
    assert "chosen: at most 1000 steps an episode, policy mlp with " in capsys.readouterr().err
    assert Run.open(run.directory).evaluate(episodes=1, workers=1).length == 1000
    assert "max-episode-steps" not in train_command(run.config, run.directory, trusted=True)
    given = {**settings, "generations": 2, "resume": True}
    assert train(endless, max_episode_steps=None, **given).config.max_episode_steps == 1000
    with pytest.raises(ValueError, match="max_episode_steps cannot change in a resumed run: it was 1000, now 20"):
        train(endless, max_episode_steps=20, **given)


def test_a_resumed_run_may_be_given_what_was_left_to_it(wander, tmp_path):
    given = {**SHORT, "run_dir": tmp_path / "run"}
    stopped = train(wander, on_generation=lambda stats: np.float64(stats.generation) < 0, **given)
    assert len(stopped.history) == 1
    assert train(wander, resume=True, strategy="auto", strategy_options={}, **given).finished
    with pytest.raises(ValueError, match="strategy cannot change in a resumed run: it was 'cma_es', now 'ga'"):
        train(wander, resume=True, strategy="ga", **given)


def test_a_run_keeps_the_network_of_its_initial_policy(wander, tmp_path):
    first = train(wander, run_dir=tmp_path / "first", hidden_sizes=(3,), action_squash="tanh", **SHORT)
    second = train(wander, run_dir=tmp_path / "second", initial=first.checkpoint, **SHORT)
    assert (second.config.policy, second.config.hidden_sizes, second.config.action_squash) == ("mlp", (3,), "tanh")
    assert np.array_equal(Checkpoint.load(second.checkpoint_path(0)).mean, first.checkpoint.mean)


def test_initial_policy_fills_unset_network_settings(wander, tmp_path):
    first = train(wander, run_dir=tmp_path / "first", hidden_sizes=(3,), activation="relu", **SHORT)
    second = train(wander, run_dir=tmp_path / "second", initial=first, hidden_sizes=(3,), **SHORT)
    assert second.config.activation == "relu"
    with pytest.raises(ValueError, match=r"initial has \d+ parameters .*action_bins"):
        train(wander, run_dir=tmp_path / "third", initial=first, strategy="openai_es", action_bins=2, **SHORT)


def test_show_tells_what_a_run_would_choose(wander, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["show", wander]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "policy mlp with 8 hidden units, observations normalised, strategy cma_es, 16 candidates at first" in said
    assert "at first, then as many as 16 000 steps allow, 16 to 64, sigma 1, step size at most 3" in said


def test_no_settings_are_listed_where_all_were_given():
    fields = {"policy": "linear", "strategy": "ars", "sigma": 0.1, "population_size": 4}
    fields |= {"observation_normalization": True, "action_squash": "clip"}
    assert make_plan(make_policy(TrainConfig(env_id="Walk-v0", **fields), VECTOR, UNIT)).why == ""


def test_the_first_line_scores_doing_nothing_and_random_actions(wander, tmp_path):
    runs = [train(wander, run_dir=tmp_path / str(count), **{**SHORT, "workers": count}) for count in (1, 2)]
    first, *others = Run.open(runs[0].directory).history
    assert [*first.baselines] == ["doing nothing", "random actions"]
    assert all(score.episodes == 2 for score in first.baselines.values())
    assert first.evaluation_steps >= sum(score.steps for score in first.baselines.values()) > 0
    assert not any(stats.baselines for stats in others)
    assert first.baselines == runs[1].history[0].baselines
    assert train(wander, run_dir=tmp_path / "none", **{**SHORT, "eval_every": 0}).history[0].baselines == {}


@pytest.mark.parametrize("name", ["strategy", "sigma", "hidden_sizes", "action_squash", "episode_seeds"])
def test_a_plan_has_no_open_setting(name):
    plan = settled_for()
    assert Plan.of(plan) == plan
    with pytest.raises(ValueError, match=f"open.*{name}"):
        replace(plan, **{name: "auto"})


def test_a_plan_says_what_was_chosen_and_why_and_without_its_choices_is_the_config_again():
    config = TrainConfig(env_id="Walk-v0", sigma=0.2)
    plan = make_plan(make_policy(config, VECTOR, UNIT))
    assert "strategy" in plan.decided
    assert "sigma" not in plan.decided
    assert "since 58 parameters are few enough for a full covariance matrix" in plan.why
    assert type(plan.reopened()) is TrainConfig
    assert plan.reopened() == replace(config, strategy_options={})


@pytest.mark.parametrize(
    ("space", "normalized"),
    [
        (spaces.Discrete(4), False),
        (spaces.MultiBinary(6), False),
        (spaces.Box(0, 255, (128,), np.uint8), False),
        (spaces.Box(-1, 1, (3,), np.float32), True),
        (spaces.Dict({"room": spaces.Discrete(4), "speed": spaces.Box(-1, 1, (2,), np.float32)}), True),
    ],
    ids=str,
)
def test_observations_are_normalised_if_some_of_them_are_measures(space, normalized):
    assert settled_for(space).observation_normalization is normalized
