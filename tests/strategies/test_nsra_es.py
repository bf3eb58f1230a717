"""Novelty beside fitness: what is new, how much it weighs, and what goes on in the next generation."""

import numpy as np
import pytest

from es_core.policies.noise import noise
from es_core.strategies.nsra_es import NSRAES
from es_core.strategies.openai_es import OpenAIES
from es_core.strategies.shaping import centered_ranks

START = np.linspace(-1, 1, 6, dtype=np.float32)


def make(**options):
    usual = {"population_size": 8, "sigma": 0.1, "optimizer": "sgd", "learning_rate": 0.5}
    return NSRAES(START, **{**usual, **options})


def step(strategy, fitness, behaviours, valid=None):
    strategy.ask()
    strategy.observe_behaviours(np.asarray(behaviours, float))
    strategy.tell(fitness, valid)
    return strategy


def drawn(generation=0):
    """Fitness ``(8,)`` and behaviours ``(8, 2)``; the first pair is alike, as it is one policy."""
    chance = np.random.default_rng(generation)
    fitness, behaviours = chance.normal(size=8), chance.normal(size=(8, 2))
    fitness[1], behaviours[1] = fitness[0], behaviours[0]
    return fitness, behaviours


def test_the_first_pair_is_the_mean_and_its_behaviour_enters_the_archive():
    strategy, expected = make(), []
    for generation in range(3):
        population = strategy.ask()
        assert population.describes
        np.testing.assert_array_equal(population.candidate(0), strategy.mean)
        np.testing.assert_array_equal(population.candidate(1), strategy.mean)
        fitness, behaviours = drawn(generation)
        step(strategy, fitness, behaviours)
        expected.append(behaviours[0])
        np.testing.assert_array_equal(strategy.archive, expected)


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_the_gradient_is_the_weighted_sum_of_ranks(weight):
    """Conti et al. 2018, section 3.3, with ranks for fitness and novelty each."""
    strategy = make(weight=weight, weight_step=0.0, neighbours=2)
    fitness, behaviours = drawn()
    distances = np.linalg.norm(behaviours - behaviours[0], axis=1)  # the archive holds the mean alone
    utilities = weight * centered_ranks(fitness) + (1 - weight) * centered_ranks(distances)
    directions = [noise(seed, np.empty(6, np.float32)) for seed in strategy.ask().noise_seed[2::2].tolist()]
    expected = (utilities[2::2] - utilities[3::2]) @ np.array(directions) / (8 * 0.1)
    step(strategy, fitness, behaviours)
    np.testing.assert_allclose(strategy.mean, START + 0.5 * expected, atol=1e-5)


def test_novelty_is_the_mean_distance_from_the_nearest_behaviours():
    strategy = make(neighbours=2)
    strategy.archive = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0], [100.0, 0.0]])
    assert strategy._novelty(np.array([0.0, 0.0])) == 0.5
    assert strategy._novelty(np.array([100.0, 1.0])) == pytest.approx((1 + np.hypot(97, 3)) / 2)


def test_the_weight_falls_while_nothing_gets_better_and_rises_when_it_does():
    strategy, weights = make(patience=2, weight_step=0.25), []
    _, behaviours = drawn()
    for best in (1, 0, 0, 0, 0, 1, 1, 2, 3, 3):
        step(strategy, np.full(8, float(best)), behaviours)
        weights.append(strategy.weight)
    assert weights == [1, 1, 0.75, 0.75, 0.5, 0.5, 0.25, 0.5, 0.75, 0.75]


def test_without_behaviours_it_climbs_as_openai_es_does():
    ours, theirs = make(), OpenAIES(START, population_size=8, sigma=0.1, optimizer="sgd", learning_rate=0.5)
    fitness = drawn()[0]
    fitness[:2] = 0
    ours.ask(), theirs.ask()
    ours.tell(fitness)
    theirs.tell(np.concatenate([[np.nan] * 2, fitness[2:]]), np.arange(8) > 1)
    moved, other = (each.mean - START for each in (ours, theirs))
    assert moved @ other / np.linalg.norm(moved) / np.linalg.norm(other) > 0.9


def test_a_restored_archive_continues_bit_for_bit():
    whole, stopped = make(optimizer="adam", patience=1), make(optimizer="adam", patience=1)
    for generation in range(6):
        step(whole, *drawn(generation))
        if generation < 3:
            step(stopped, *drawn(generation))
    restored = make(optimizer="adam", patience=1)
    restored.load_state_dict(stopped.state_dict())
    for generation in range(3, 6):
        step(restored, *drawn(generation))
    for name, value in whole.state_dict().items():
        np.testing.assert_array_equal(value, restored.state_dict()[name], err_msg=name)
    assert whole.archive.shape == (6, 2)
    assert whole.weight < 1


def test_a_candidate_without_behaviour_is_the_least_novel():
    fitness, behaviours = drawn()
    behaviours[5] = np.nan
    strategy = step(make(weight=0.0, weight_step=0.0), fitness, behaviours)
    behaviours[5] = behaviours[0]
    np.testing.assert_array_equal(strategy.mean, step(make(weight=0.0, weight_step=0.0), fitness, behaviours).mean)


def test_a_mean_that_failed_enters_no_archive_and_changes_no_weight():
    fitness, behaviours = drawn()
    strategy = step(make(patience=1), np.where(np.arange(8) == 1, np.nan, fitness), behaviours, np.arange(8) != 1)
    assert len(strategy.archive) == strategy.waited == 0
    assert strategy.weight == 1
    assert not np.array_equal(strategy.mean, START)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"population_size": 2}, "at least 4, the mean and a pair; got 2"),
        ({"neighbours": 0}, "neighbours must be a whole number of at least 1"),
        ({"patience": 0}, "patience must be a whole number of at least 1"),
        ({"weight": 1.5}, r"weight must be from 0 to 1, got 1\.5"),
        ({"weight_step": -0.1}, r"weight_step must be from 0 to 1, got -0\.1"),
    ],
)
def test_impossible_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_behaviours_of_another_length_are_refused():
    fitness, behaviours = drawn()
    strategy = step(make(), fitness, behaviours)
    with pytest.raises(ValueError, match="a behaviour has 1 numbers, those before had 2"):
        step(strategy, fitness, behaviours[:, :1])
    state = strategy.state_dict()
    with pytest.raises(ValueError, match=r"archive has shape \(2,\), expected \(n, b\)"):
        make().load_state_dict({**state, "archive": state["archive"][0]})
