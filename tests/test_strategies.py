import itertools

import numpy as np
import pytest
import torch

from es_core.optimizers import Adam
from es_core.seeding import Purpose, derive, episode_seeds
from es_core.shaping import SHAPINGS, centered_ranks
from es_core.strategies import STRATEGIES

START = np.linspace(-2, 2, 10, dtype=np.float32)


def sphere(candidate):
    return -float(np.square(candidate).sum())


def evolve(strategy, generations, fitness=sphere):
    for _ in range(generations):
        population = strategy.ask()
        strategy.tell(np.array([fitness(population.candidate(i)) for i in range(len(population))]))
    return strategy


def make(name="openai_es", **options):
    defaults = {"population_size": 32, "sigma": 0.1, "seed": 0, "learning_rate": 0.1}
    return STRATEGIES[name](START, **{**defaults, **options})


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_sphere_is_climbed(name):
    assert sphere(evolve(make(name), 100).mean) > 0.01 * sphere(START)


@pytest.mark.parametrize("name", STRATEGIES)
def test_equal_seeds_walk_equal_ways_and_others_do_not(name):
    np.testing.assert_array_equal(evolve(make(name), 5).mean, evolve(make(name), 5).mean)
    assert not np.array_equal(evolve(make(name), 5).mean, evolve(make(name, seed=1), 5).mean)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_restored_strategy_continues_bit_for_bit(name):
    whole = evolve(make(name), 9)
    state = evolve(make(name), 4).state_dict()
    restored = make(name)
    restored.load_state_dict(state)
    evolve(restored, 5)
    np.testing.assert_array_equal(whole.mean, restored.mean)
    assert restored.generation == 9


@pytest.mark.parametrize("name", STRATEGIES)
def test_asking_twice_gives_the_same_population_and_telling_needs_asking(name):
    strategy = make(name)
    with pytest.raises(RuntimeError, match="ask"):
        strategy.tell(np.zeros(32))
    first, second = strategy.ask(), strategy.ask()
    np.testing.assert_array_equal(first.candidate(3), second.candidate(3))
    strategy.tell(np.arange(32.0))
    with pytest.raises(RuntimeError, match="ask"):
        strategy.tell(np.zeros(32))


@pytest.mark.parametrize("name", STRATEGIES)
def test_equal_fitness_does_not_move_the_mean(name):
    np.testing.assert_array_equal(evolve(make(name), 3, fitness=lambda _: 5.0).mean, START)


@pytest.mark.parametrize("name", STRATEGIES)
def test_what_ask_returned_does_not_change_when_the_mean_moves(name):
    strategy = make(name)
    population = strategy.ask()
    before = population.candidate(0)
    strategy.tell(np.arange(32.0))
    np.testing.assert_array_equal(population.candidate(0), before)


def test_candidates_come_in_mirrored_pairs_around_the_mean():
    population = make().ask()
    for pair in range(16):
        plus, minus = population.candidate(2 * pair), population.candidate(2 * pair + 1)
        np.testing.assert_allclose((plus + minus) / 2, START, atol=1e-6)
        assert not np.allclose(plus, START)
    all_noise = np.array([population.candidate(i) - START for i in range(0, 32, 2)])
    assert np.unique(all_noise[:, 0]).size == 16
    assert all_noise.std() == pytest.approx(0.1, rel=0.2)


def test_a_candidate_written_into_a_buffer_is_the_same():
    population, buffer = make().ask(), np.empty(10, np.float32)
    np.testing.assert_array_equal(population.candidate(5), population.candidate(5, out=buffer))


def test_the_gradient_is_the_papers_equation():
    strategy = make(optimizer="adam")
    fitness = np.random.default_rng(0).normal(size=32)
    population = strategy.ask()
    noise = np.array([(population.candidate(i) - START) / 0.1 for i in range(32)])
    utilities = fitness.argsort().argsort() / 31 - 0.5
    expected = utilities @ noise / (32 * 0.1)
    reference = Adam(10, learning_rate=0.1)
    strategy.tell(fitness)
    np.testing.assert_allclose(strategy.mean, START + reference.step(expected.astype(np.float32)), atol=1e-4)
    np.testing.assert_allclose(strategy._optimizer._first, 0.1 * expected, rtol=1e-3, atol=1e-5)


def test_a_dropped_candidate_takes_its_pair_along_and_nothing_else():
    fitness = np.random.default_rng(1).normal(size=32)
    dropped, valid = fitness.copy(), np.ones(32, bool)
    dropped[5], valid[5] = np.nan, False
    strategy = make()
    strategy.ask()
    strategy.tell(dropped, valid)
    population = make().ask()
    rest = np.delete(np.arange(32), [4, 5])
    noise = np.array([(population.candidate(i) - START) / 0.1 for i in rest])
    expected = centered_ranks(fitness[rest]) @ noise / (30 * 0.1)
    np.testing.assert_allclose(strategy._optimizer._first, 0.1 * expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("fitness", "message"),
    [(np.zeros(31), "shape"), (np.full(32, np.nan), "finite"), (np.r_[np.zeros(31), np.inf], "finite")],
)
def test_fitness_that_cannot_be_used_is_refused_and_changes_nothing(fitness, message):
    strategy = make()
    strategy.ask()
    with pytest.raises(ValueError, match=message):
        strategy.tell(fitness)
    np.testing.assert_array_equal(strategy.mean, START)
    strategy.tell(np.arange(32.0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"population_size": 7}, "even"),
        ({"population_size": 0}, "even"),
        ({"optimizer": "adamm"}, "optimizer"),
        ({"shaping": "ranks"}, "shaping"),
        ({"options": {"beta": 1}}, "strategy_options"),
    ],
)
def test_impossible_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_no_valid_pair_is_an_error():
    strategy = make()
    strategy.ask()
    with pytest.raises(ValueError, match="no pair"):
        strategy.tell(np.zeros(32), np.arange(32) % 2 == 0)


def test_weight_decay_pulls_the_mean_to_zero_when_nothing_else_does():
    strategy = evolve(make(weight_decay=0.01), 10, fitness=lambda _: 1.0)
    assert np.all(np.abs(strategy.mean) < np.abs(START))


def test_adam_follows_torchs_step_by_step():
    ours, theirs = Adam(6, learning_rate=0.02), torch.zeros(6, requires_grad=True)
    optimizer = torch.optim.Adam([theirs], lr=0.02, maximize=True)
    position = np.zeros(6, np.float32)
    for gradient in np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32):
        position += ours.step(gradient)
        theirs.grad = torch.from_numpy(gradient)
        optimizer.step()
        np.testing.assert_allclose(position, theirs.detach().numpy(), atol=1e-6)


def test_centred_ranks_average_ties():
    np.testing.assert_allclose(centered_ranks(np.array([3.0, 1.0, 3.0, 7.0])), [0, -0.5, 0, 0.5])
    np.testing.assert_array_equal(centered_ranks(np.full(5, 2.0)), np.zeros(5))
    assert abs(centered_ranks(np.array([1.0, 5.0, 5.0, 5.0, 2.0, 9.0])).sum()) < 1e-12


@pytest.mark.parametrize("name", SHAPINGS)
def test_shaping_does_not_reorder_what_it_is_given(name):
    fitness = np.array([3.0, 1.0, 2.0])
    SHAPINGS[name](fitness)
    np.testing.assert_array_equal(fitness, [3, 1, 2])


def test_seeds_of_different_purposes_generations_and_indices_differ():
    seeds = {derive(root, purpose, g, i) for root in (0, 1) for purpose in Purpose for g in range(3) for i in range(3)}
    assert len(seeds) == 2 * len(Purpose) * 9
    assert derive(5, Purpose.NOISE, 2, 7) == derive(5, Purpose.NOISE, 2, 7)


def test_starts_that_score_a_policy_are_never_starts_that_trained_it():
    purposes = (Purpose.TRAINING, Purpose.EVALUATION, Purpose.CONFIRMATION, Purpose.TEST)
    ranges = [episode_seeds(0, purpose, 2000) for purpose in purposes]
    for earlier, later in itertools.pairwise(ranges):
        assert max(earlier) < min(later)
    assert max(ranges[0]) < 2**30 <= min(ranges[1])
    assert all(type(seed) is int for seeds in ranges for seed in seeds)
