"""Contenders: searches with other settings, which may overtake one that gains nothing."""

import itertools
import math
from dataclasses import replace

import pytest

from es_core import Run, TrainConfig, rebuild, train
from es_core.config.plan import Plan
from es_core.training.race import FIRST_CHECK, Race

SETTLED = {
    "strategy": "cma_es", "policy": "linear", "population_size": 16, "sigma": 1.0, "contenders": (),
    "observation_normalization": False, "action_squash": "clip", "episode_seeds": "common", "hidden_sizes": (),
    "steps_limit": None,
}  # fmt: skip
CONTENDERS = ({"sigma": 0.5, "hidden_sizes": (4,)}, {"observation_normalization": False})


def play(race, *courses, generations):
    """Who plays in each generation, if contender k is as good as ``courses[k]`` says after so many of its own."""
    turns, own = [], [iter(course) for course in courses]
    for _ in range(generations):
        turns.append(race.contender)
        race.add(next(own[race.contender]), 1)
    return turns


def level(value):
    return itertools.repeat(value)


def rising(start=0):
    return itertools.count(start)


def test_a_search_that_gains_is_challenged_once():
    turns = play(Race(2), rising(), level(-1), generations=500)
    assert turns == [0] * FIRST_CHECK + [1] * 5 + [0] * (500 - FIRST_CHECK - 5)


def test_a_run_without_contenders_has_no_race():
    assert set(play(Race(1), level(0), generations=100)) == {0}


def test_all_others_are_tried_briefly_and_the_leader_goes_on():
    turns = play(Race(3), level(1), level(0), level(0), generations=FIRST_CHECK + 20)
    assert turns[:FIRST_CHECK] == [0] * FIRST_CHECK
    assert turns[FIRST_CHECK:] == [1] * 5 + [2] * 5 + [0] * 10


def test_a_challenger_that_is_better_after_as_many_generations_takes_the_lead():
    race = Race(2)
    turns = play(race, level(1), rising(2), generations=2 * FIRST_CHECK + 10)
    assert turns == [0] * FIRST_CHECK + [1] * (FIRST_CHECK + 10)
    assert race.leader == 1


def test_a_challenger_that_is_only_as_good_is_dropped():
    turns = play(Race(2), level(1), level(1), generations=FIRST_CHECK + 10)
    assert turns == [0] * FIRST_CHECK + [1] * 5 + [0] * 5


def test_a_run_of_few_steps_tries_nothing_late():
    race = Race(2, horizon=100)
    for _ in range(FIRST_CHECK):
        race.add(1, 4)
    assert race.contender == 0
    plan = Plan.of(TrainConfig(env_id="Aim-v0", **SETTLED, steps_per_generation=1200))
    assert (Race.of(plan).horizon, Race.of(replace(plan, steps_per_generation=16_000)).horizon) == (120_000, math.inf)


def test_a_leader_that_gains_nothing_is_challenged_again_after_half_as_many_generations():
    turns = play(Race(2), level(1), level(0), level(0), generations=FIRST_CHECK + 5 + FIRST_CHECK // 2 + 5)
    assert turns == [0] * FIRST_CHECK + [1] * 5 + [0] * (FIRST_CHECK // 2) + [2] * 5


def test_a_search_that_a_rule_lets_begin_again_is_judged_anew():
    race = Race(2)
    turns = play(race, level(1), level(0), generations=FIRST_CHECK - 1)
    race.add(1, restarts=True)
    turns = play(race, level(1), level(0), generations=FIRST_CHECK + 1)
    assert turns == [0] * FIRST_CHECK + [1]


def test_generations_without_a_number_change_nothing():
    race = Race(2)
    for _ in range(2 * FIRST_CHECK):
        race.add(None)
    assert race.contender == 0


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    """A run in which three contenders have played, and another one in two parts."""
    config = TrainConfig(
        env_id="CartPoleSwingUp-v0", steps_per_generation=16_000, steps_limit=None, population_size=16, generations=50,
        max_episode_steps=20, contenders=CONTENDERS, eval_every=5,
    )  # fmt: skip
    return train(config, run_dir=tmp_path_factory.mktemp("race") / "run", workers=2, progress=False)


def test_contenders_with_other_policies_play_in_one_run(raced):
    played = [stats.contender for stats in raced.history]
    assert set(played[FIRST_CHECK:]) >= {1, 2}
    assert len({stats.search for stats in raced.history}) == len(set(played))


def test_a_resumed_race_is_the_same_for_any_number_of_workers_wherever_it_stopped(raced, tmp_path):
    config = TrainConfig.from_json({**raced.config.reopened().to_json(), "generations": 3})
    run = train(config, run_dir=tmp_path / "run", workers=1, progress=False)
    for generations in (FIRST_CHECK, FIRST_CHECK + 2, FIRST_CHECK + 7, 50):
        run = run.resume(generations=generations, workers=1, progress=False)
    assert [stats.next_hash for stats in run.history] == [stats.next_hash for stats in raced.history]
    assert [stats.evaluation for stats in run.history] == [stats.evaluation for stats in raced.history]


def test_each_generation_of_a_race_can_be_rebuilt_from_the_log(raced):
    for stats in raced.history[FIRST_CHECK - 2 : FIRST_CHECK + 12]:
        checkpoint = rebuild(raced, stats.generation)
        assert checkpoint.parameter_hash == stats.parameter_hash
        assert checkpoint.config.sigma == raced.plan.of_contender(stats.contender).sigma


def test_a_centre_of_any_contender_is_scored_with_its_own_policy(raced):
    for generation in (0, FIRST_CHECK, FIRST_CHECK + 6):
        checkpoint = rebuild(raced, generation)
        assert checkpoint.policy().size == checkpoint.mean.size
    assert raced.evaluate(episodes=2, workers=1).episodes == 2


def test_the_checkpoint_of_a_challenger_keeps_the_leader(raced):
    challenger = rebuild(raced, next(stats.generation for stats in raced.history if stats.contender == 1))
    assert challenger.leader is not None
    assert challenger.leader.progress["contender"] == 0
    assert challenger.leader.mean.size != challenger.mean.size


def test_a_challenger_that_overtakes_goes_on_alone(tmp_path):
    config = TrainConfig(
        env_id="CartPole-v1", strategy="cma_es", sigma=1e-6, contenders=({"sigma": 1.0},), population_size=16,
        steps_per_generation=None, generations=2 * FIRST_CHECK + 3, max_episode_steps=60,
    )  # fmt: skip
    run = train(config, run_dir=tmp_path / "run", workers=1, progress=False)
    assert [stats.contender for stats in run.history] == [0] * FIRST_CHECK + [1] * (FIRST_CHECK + 4)
    assert rebuild(run, 2 * FIRST_CHECK - 1).leader is not None
    assert rebuild(run, 2 * FIRST_CHECK + 1).leader is None
    assert run.best.progress["contender"] == 1
    assert run.best.config.sigma == 1.0


def test_a_stored_race_reads_as_it_was_written(raced):
    assert [stats.contender for stats in Run.open(raced.directory).history] == [s.contender for s in raced.history]


@pytest.mark.parametrize(
    ("contenders", "words"),
    [
        ([{"seed": 3}], "contender 1 of .* has seed; it may have"),
        ([{"sigma": 0.1}, {"sigma": -1}], "contender 2 of .*: sigma must be"),
        ([{"strategy": "sb3:ppo"}], "takes no turns"),
        ([{"strategy": "map_elites"}], "keep a repertoire"),
        ([3], "a list of dicts"),
    ],
)
def test_wrong_contenders_are_refused_before_anything_starts(contenders, words):
    with pytest.raises(ValueError, match=words):
        train("CartPole-v1", contenders=contenders, generations=1)


def test_the_same_settings_may_challenge_from_other_parameters(tmp_path):
    config = TrainConfig(
        env_id="CartPoleSwingUp-v0", steps_per_generation=16_000, steps_limit=None, population_size=16,
        generations=FIRST_CHECK + 12, max_episode_steps=5, contenders=({},), eval_every=0,
    )  # fmt: skip
    run = train(config, run_dir=tmp_path / "run", workers=1, progress=False)
    assert run.config.contenders == ({},)
    first = {stats.contender: stats.parameter_hash for stats in reversed(run.history)}
    assert len(first) > 1
    assert len(set(first.values())) == len(first)


def test_a_run_has_no_challengers_unless_they_are_given(tmp_path):
    run = train("CartPole-v1", run_dir=tmp_path / "run", generations=1, workers=1, progress=False)
    assert run.config.contenders == ()
