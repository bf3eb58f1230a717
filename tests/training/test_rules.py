"""Each rule by itself, with lists of numbers in place of a run."""

from dataclasses import replace

import numpy as np
import pytest

from es_core import TrainConfig
from es_core.runs.scores import Evaluation
from es_core.strategies.population import Population
from es_core.training.rules.rule import Evidence, SearchHistory
from es_core.training.rules.rules import RULES, Rules
from es_core.training.rules.sigma_shrinking import FAILING_EARLY, NOT_SHRUNK, OUT_OF_REACH
from es_envs import Episode

CONFIG = TrainConfig(
    env_id="Aim-v0", strategy="cma_es", policy="linear", population_size=16, sigma=1.0, decided=("sigma",),
    observation_normalization=False, action_squash="clip", episode_seeds="common", steps_per_generation=None,
    steps_limit=None,
)  # fmt: skip
LIMIT = 100
POPULATION = Population(
    generation=0, base=np.zeros((1, 2), np.float32), parent=np.zeros(4, np.int64), scale=1.0,
    noise_seed=np.arange(4), sign=np.zeros(4, np.int8),
)  # fmt: skip


def score(mean, *, length=LIMIT, success=None):
    told = {} if success is None else {"is_success": success}
    how = {"seed": 0, "terminated": True, "truncated": False, "final_info": told}
    return Evaluation.from_episodes([Episode(total_reward=mean, length=length, fitnesses={"f": mean}, **how)] * 2)


def history(fitness, scores=(), shares=(), last=None):
    """A search with these numbers, the rest filled up with what is not known."""
    count = len(fitness)
    return SearchHistory(
        fitness=fitness,
        scores=[*scores, *[None] * (count - len(scores))],
        range_shares=shares or [1.0] * count,
        last=count - 1 if last is None else last,
    )


def change(rules, **known):
    """What the rules change after a generation of which this is ``known``."""
    evidence = {
        "config": rules.search_config, "history": history([]), "fitness": np.zeros(4), "spread": 1.0,
        "lengths": np.full((4, 1), 10), "centre": None, "nothing": None, "step_limit": LIMIT,
        "population": rules.limit_population(POPULATION), "from_policy": False,
    }  # fmt: skip
    return rules.change(Evidence(**{**evidence, **known}))


def rules_of(**settings):
    return Rules.begin(replace(CONFIG, **settings), LIMIT)


def test_a_run_without_such_settings_has_no_rules():
    assert rules_of(decided=()).states == {}


# Settings with which a rule applies, and a state that it cannot have.
EXAMPLES = {
    "plateau": ({"restarts": 1}, 2),
    "sigma_shrinking": ({}, 3),
    "generation_steps": ({"steps_per_generation": 100}, 1),
    "episode_cap": ({"episode_cap": "growing"}, 0),
    "curriculum": ({"curriculum": 1.0, "randomize": {"x": [0, 1]}}, 1.1),
}


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_every_rule_has_a_name_and_a_first_state_that_it_accepts(rule):
    settings, wrong = EXAMPLES[rule.name]
    rules = rules_of(**settings)
    assert Rules.load(rules.config, rules.states) == rules
    with pytest.raises(ValueError, match=rf"it has no state of the rules \['{rule.name}'\]"):
        Rules.load(rules.config, {name: state for name, state in rules.states.items() if name != rule.name})
    with pytest.raises(ValueError, match=f"its {rule.name} must be"):
        rules.with_states({rule.name: wrong})


# Plateau


FLAT, RISING = [0.0] * 100, [float(k) for k in range(100)]


@pytest.mark.parametrize(
    ("recent", "begins"),
    [
        (history(FLAT), True),
        (history(FLAT[:99]), False),
        (history(RISING), False),
        (history([-value for value in RISING]), True),
        (history(FLAT, shares=[k / 100 for k in range(100)]), False),
        (history(FLAT, scores=[score(float(k)) for k in range(100)]), False),
        (history(FLAT, scores=[score(float(-k)) for k in range(100)]), True),
        (history([None] * 100), False),
        (history([None] * 100, scores=[score(0.0)] * 100), True),
        (history(FLAT, scores=[*[score(0.0)] * 4, score(9.0)]), True),
    ],
    ids=["flat", "too short", "rising", "falling", "harder", "centres rise", "centres fall", "unknown", "centres alone",
         "few scores"],
)  # fmt: skip
def test_a_search_that_gains_nothing_in_100_generations_begins_again(recent, begins):
    rules = rules_of(restarts=2)
    changes = change(rules, history=recent)
    assert (changes.search_from, changes.rules["plateau"]) == (("initial", 1) if begins else (None, 0))
    assert bool(changes.reason) == begins


def test_each_restart_doubles_candidates_and_steps_until_there_is_none_left():
    rules = rules_of(restarts=2, steps_per_generation=100, steps_limit=400)
    for count in (1, 2):
        changes = change(rules, history=history(FLAT))
        assert f"{16 << count} candidates (restart {count} of 2)" in changes.reason
        rules = rules.with_states(changes.rules)
        config = rules.search_config
        assert (config.population_size, config.steps_per_generation, config.steps_limit) == (
            16 << count, 100 << count, 400 << count,
        )  # fmt: skip
    assert change(rules, history=history(FLAT)).search_from is None


def test_a_plateau_ends_a_run_that_asks_for_it_after_the_last_restart():
    rules = rules_of(restarts=1, stop_when="plateau")
    assert rules.ending(history(FLAT)) is None
    last = rules.with_states({"plateau": 1})
    assert last.ending(history(FLAT)) == "plateau"
    assert last.ending(history(RISING)) is None
    assert replace(last, config=replace(last.config, stop_when=None)).ending(history(FLAT)) is None


def test_a_search_that_begins_again_begins_with_first_caps_worlds_and_sigma():
    settings = {"restarts": 1, "steps_per_generation": 100, "steps_limit": 800, "episode_cap": "growing",
                "curriculum": 1.0, "randomize": {"x": [0, 1]}}  # fmt: skip
    rules = rules_of(**settings).with_states(
        {"sigma_shrinking": OUT_OF_REACH, "generation_steps": 2, "episode_cap": None, "curriculum": 0.7}
    )
    changes = change(rules, history=history(FLAT))
    assert changes.rules == {**rules_of(**settings).states, "plateau": 1}
    assert changes.population_size is None


# Sigma


FAR = {"centre": score(100.0), "fitness": np.full(4, 1.0), "spread": 1.0}


def test_a_search_whose_first_candidates_all_fall_below_a_centre_that_lasts_begins_again_around_it():
    changes = change(rules_of(), **FAR)
    assert (changes.search_from, changes.rules["sigma_shrinking"]) == ("centre", OUT_OF_REACH)
    assert rules_of().with_states(changes.rules).search_config.sigma == pytest.approx(0.1)


@pytest.mark.parametrize(
    "known",
    [
        {"centre": None}, {"centre": score(100.0, length=LIMIT - 1)}, {"fitness": np.array([1.0, 98.0])},
        {"spread": 40.0}, {"spread": None}, {"history": history([0.0])},
        {"population": replace(POPULATION, max_episode_steps=5)}, {"fitness": np.array([])},
    ],
    ids=["no score", "it falls", "one comes near", "they differ as much", "unknown", "later", "a cap", "all fail"],
)  # fmt: skip
def test_sigma_stays_where_that_is_not_so(known):
    changes = change(rules_of(), **{**FAR, **known})
    assert (changes.search_from, changes.rules["sigma_shrinking"]) == (None, NOT_SHRUNK)


@pytest.mark.parametrize(
    "settings",
    [{"decided": ()}, {"strategy": "openai_es"}, {"strategy": "pgpe", "strategy_options": {"radius": 1.0}}],
    ids=["given", "not adapted", "radius"],
)
def test_sigma_is_shrunk_only_where_the_run_chose_it_and_the_strategy_adapts_it(settings):
    assert change(rules_of(**settings), **FAR).search_from is None


EARLY = history([-10.0] * 20, scores=[None] * 10 + [score(-10.0, length=20, success=False)] * 10)
NOTHING = score(-20.0, length=100)


def test_a_search_that_is_stuck_with_failing_early_begins_again_closer_to_its_beginning():
    changes = change(rules_of(), history=EARLY, nothing=NOTHING)
    assert (changes.search_from, changes.rules["sigma_shrinking"]) == ("initial", FAILING_EARLY)


@pytest.mark.parametrize(
    "known",
    [
        {"nothing": None}, {"nothing": score(-5.0)}, {"nothing": score(-12.0, length=30)},
        {"nothing": score(-100.0, length=100)}, {"from_policy": True},
        {"history": replace(EARLY, scores=[score(-10.0, length=20)] * 20)},
        {"history": replace(EARLY, scores=[score(-10.0, length=20, success=True)] * 20)},
        {"history": replace(EARLY, fitness=[float(k) for k in range(20)])},
        {"history": EARLY[1:]},
    ],
    ids=["unknown", "nothing is better", "no longer", "a step costs less", "a policy",
         "success unknown", "success", "it gains", "short"],
)  # fmt: skip
def test_an_early_end_that_may_be_right_changes_nothing(known):
    assert change(rules_of(), **{"history": EARLY, "nothing": NOTHING, **known}).search_from is None


def test_sigma_is_shrunk_once_in_a_search():
    shrunk = rules_of().with_states({"sigma_shrinking": OUT_OF_REACH})
    assert change(shrunk, **FAR).search_from is None
    assert change(shrunk, history=EARLY, nothing=NOTHING).search_from is None


# Steps of a generation


@pytest.mark.parametrize(
    ("length", "size"), [(10, 20), (13, 16), (1, 64), (1000, 16)], ids=["fits", "even", "at most", "at least"]
)
def test_as_many_candidates_play_as_the_steps_of_a_generation_allow(length, size):
    changes = change(rules_of(steps_per_generation=200), lengths=np.full((16, 1), length))
    assert changes.population_size == size


@pytest.mark.parametrize(
    ("recent", "doubles"),
    [
        (history([0.0] * 20), True),
        (history([0.0] * 20, last=20), False),
        (history([0.0] * 19, last=19), False),
        (history([float(k) for k in range(20)]), False),
        (history([0.0] * 20, shares=[k / 20 for k in range(20)]), False),
        (history([None] * 20), False),
    ],
    ids=["stalled", "in a block", "too short", "gains", "harder", "unknown"],
)
def test_the_steps_of_a_generation_double_after_20_that_gain_nothing(recent, doubles):
    changes = change(rules_of(steps_per_generation=100, steps_limit=400), history=recent)
    assert changes.rules["generation_steps"] == int(doubles)
    assert changes.population_size == (20 if doubles else 16)


def test_steps_double_up_to_their_limit():
    rules, doubled = rules_of(steps_per_generation=100, steps_limit=450), []
    for _ in range(4):
        rules = rules.with_states(change(rules, history=history([0.0] * 20)).rules)
        doubled.append(rules.states["generation_steps"])
    assert doubled == [1, 2, 2, 2]
    assert rules.has_stalled


# Cap and curriculum


@pytest.mark.parametrize(
    ("kind", "lengths", "caps"),
    [("growing", 100, [10, 20, 40, 80, None, None]), ("growing", 9, [10] * 3), ("twice_mean", 7, [10, 14, 14]),
     ("twice_mean", 50, [10, 20, 40, 80, None])],
)  # fmt: skip
def test_a_cap_follows_the_lengths_of_episodes(kind, lengths, caps):
    rules, seen = rules_of(episode_cap=kind, episode_cap_start=10), []
    for _ in caps:
        seen.append(rules.limit_population(POPULATION).max_episode_steps)
        rules = rules.with_states(change(rules, lengths=np.minimum(np.full((4, 1), lengths), seen[-1] or LIMIT)).rules)
    assert seen == caps


def test_a_cap_that_is_no_shorter_than_whole_episodes_is_none():
    assert rules_of(episode_cap="growing", episode_cap_start=LIMIT).states["episode_cap"] is None


def test_the_ranges_grow_by_a_tenth_with_each_population_that_succeeds():
    rules, shares = rules_of(curriculum=1.0, randomize={"x": [0, 1]}), []
    for fitness in (1.0, 0.9, *[1.0] * 11):
        shares.append(rules.limit_population(POPULATION).range_share)
        rules = rules.with_states(change(rules, fitness=np.full(4, fitness)).rules)
    assert shares == pytest.approx([0, 0.1, 0.1, *[k / 10 for k in range(2, 11)], 1.0])
