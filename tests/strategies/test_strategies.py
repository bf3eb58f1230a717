import itertools
import math
import subprocess
import sys
import textwrap
from inspect import signature

import numpy as np
import pytest
from conftest import STRATEGIES, first_fast, options_for

import es_envs
from es_core.config.choices import SCHEDULES, SIGN_SHAPINGS
from es_core.config.strategy_defaults import STRATEGY_DEFAULTS, defaults_of
from es_core.config.train_config import TrainConfig
from es_core.policies.by_name import make_policy
from es_core.policies.noise import noise
from es_core.seeding import Purpose, derive, episode_seeds
from es_core.strategies import by_name, sep_cma_es
from es_core.strategies.by_name import make_strategy
from es_core.strategies.defaults import make_plan, plan_for
from es_core.strategies.optimizers import OPTIMIZERS
from es_core.strategies.pgpe import PGPE
from es_core.strategies.population import noise_moments
from es_core.strategies.schedules import schedule
from es_core.strategies.shaping import SHAPINGS

START = np.linspace(-2, 2, 10, dtype=np.float32)
MIRRORED = [name for name, strategy in STRATEGIES.items() if strategy.mirrored]
LEARNING = [name for name in STRATEGIES if name != "random_search"]
ONE_POLICY = [name for name, strategy in STRATEGIES.items() if not strategy.keeps_repertoire]
# With which a strategy climbs a function of few parameters that are about 1.
USUAL = {
    "openai_es": {"learning_rate": 0.1},
    "ars": {"learning_rate": 0.1},
    "pgpe": {"learning_rate": 0.1, "sigma": 0.3},
    "snes": {"sigma": 0.3},
    "cma_es": {"sigma": 0.3},
    "sep_cma_es": {"sigma": 0.3},
    "ga": {"sigma": 0.1},
    "erl": {"sigma": 0.3},
    "nsra_es": {"learning_rate": 0.1},
    "random_search": {"sigma": 1.0},
    "map_elites": {"sigma": 0.1},
    "cma_mae": {"sigma": 0.3, "emitters": 1, "threshold_rate": 1.0},
}


def sphere(candidate):
    return -float(np.square(candidate).sum())


def rosenbrock(candidate):
    x = candidate.astype(np.float64)
    return -float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


def score(population, fitness=sphere):
    return np.array([fitness(population.candidate(index)) for index in range(len(population))])


def evolve(strategy, generations, fitness=sphere):
    for _ in range(generations):
        strategy.tell(score(strategy.ask(), fitness))
    return strategy


def make(name="openai_es", start=START, **options):
    return STRATEGIES[name](start, **{"population_size": 32, "sigma": 0.1, "seed": 0, **USUAL.get(name, {}), **options})


def noise_of(population, sigma):
    return np.array([(population.candidate(i) - START) / sigma for i in range(len(population))])


@pytest.mark.parametrize("seed", first_fast(range(3)))
@pytest.mark.parametrize("name", LEARNING)
def test_a_sphere_is_climbed_to_its_top(name, seed):
    decreasing = {"sigma": schedule(0.1, 0.001, shape="exponential", generations=200)}
    if name in {"openai_es", "ars", "nsra_es"}:
        decreasing["learning_rate"] = schedule(0.1, 0.001, shape="exponential", generations=200)
    elif name == "pgpe":
        decreasing = {"learning_rate": schedule(0.1, 0.001, shape="exponential", generations=200)}
    elif name != "ga":
        decreasing = {}
    strategy = make(name, np.full(5, 1.5, np.float32), seed=seed, **decreasing)
    assert sphere(evolve(strategy, 200).mean) > -1e-2


def test_random_search_finds_something_better_and_learning_finds_more():
    found = {name: sphere(evolve(make(name), 60).mean) for name in STRATEGIES}
    baseline = found.pop("random_search")
    assert sphere(START) < baseline
    assert all(value > baseline for value in found.values()), found


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
    assert whole.state_dict().keys() == restored.state_dict().keys()
    for key, value in whole.state_dict().items():
        np.testing.assert_array_equal(value, restored.state_dict()[key], err_msg=key)
    assert whole.diagnostics == restored.diagnostics
    assert restored.generation == 9


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(name):
    strategy, other = make(name), evolve(make(name, np.ones(4, np.float32)), 2)
    with pytest.raises(ValueError, match="shape"):
        strategy.load_state_dict(other.state_dict())
    with pytest.raises(KeyError):
        strategy.load_state_dict({"mean": START})
    np.testing.assert_array_equal(strategy.mean, START)
    assert strategy.generation == 0


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_state_of_another_type_is_refused_by_name_and_changes_nothing(name):
    state = evolve(make(name), 2).state_dict()
    for part, value in state.items():
        if isinstance(value, np.ndarray):
            other = np.float64 if value.dtype == np.float32 else np.float32
            spoilt, message = value.astype(other), f"is of type {np.dtype(other)}, expected {value.dtype}"
        else:
            spoilt, message = (value + 0.5, "expected int") if isinstance(value, int) else ([value], "shape")
        strategy = make(name)
        with pytest.raises(ValueError, match=f"{part.removeprefix('optimizer.')} .*{message}"):
            strategy.load_state_dict({**state, part: spoilt})
        np.testing.assert_array_equal(strategy.mean, START)


@pytest.mark.parametrize("kind", [int, np.int32, np.uint8, np.float32, np.float64, np.longdouble])
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_number_of_any_type_gives_the_same_bits(name, kind):
    known = signature(STRATEGIES[name]).parameters
    options = {part: 1.0 for part in ("sigma", "learning_rate", "sigma_learning_rate", "weight_decay") if part in known}
    ways = []
    for number in (float, kind, lambda value: lambda _: kind(value)):
        given = {part: number(value) for part, value in options.items() if number in {float, kind} or part == "sigma"}
        ways.append(evolve(make(name, **{**options, **given}), 3).state_dict())
    for other in ways[1:]:
        for part, value in ways[0].items():
            assert type(value) is type(other[part])
            assert np.asarray(value).dtype == np.asarray(other[part]).dtype
            np.testing.assert_array_equal(value, other[part], err_msg=part)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_optimisers_numbers_of_any_type_give_the_same_bits(optimizer):
    own = {"adam": ["beta1", "beta2", "epsilon"], "sgd": ["momentum"], "clipup": ["momentum", "max_speed"]}
    options = dict.fromkeys(own[optimizer.removesuffix("w")], 0.5)
    gradients = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)
    ways = []
    for kind in (float, np.float32, np.float64):
        ours, here = (
            OPTIMIZERS[optimizer](6, weight_decay=kind(0.5), **{part: kind(value) for part, value in options.items()}),
            np.ones(6, np.float32),
        )
        ways.append([ours.step(gradient, here, kind(0.5)) for gradient in gradients])
    np.testing.assert_array_equal(ways[0], ways[1])
    np.testing.assert_array_equal(ways[0], ways[2])


@pytest.mark.parametrize("name", STRATEGIES)
def test_ask_is_repeatable_and_tell_requires_ask(name):
    strategy = make(name)
    with pytest.raises(RuntimeError, match="ask"):
        strategy.tell(np.zeros(32))
    first, second = strategy.ask(), strategy.ask()
    np.testing.assert_array_equal(first.candidate(3), second.candidate(3))
    strategy.tell(np.arange(32.0))
    with pytest.raises(RuntimeError, match="ask"):
        strategy.tell(np.zeros(32))


@pytest.mark.parametrize("name", ONE_POLICY)
def test_equal_fitness_does_not_move_the_mean(name):
    strategy = evolve(make(name), 3, fitness=lambda _: 5.0)
    np.testing.assert_array_equal(strategy.mean, START)
    assert strategy.diagnostics["step_norm"] == 0
    assert strategy.diagnostics["sigma"] == pytest.approx(make(name).sigma)


@pytest.mark.parametrize("name", STRATEGIES)
def test_an_asked_population_does_not_change_when_the_mean_moves(name):
    strategy = make(name)
    population = strategy.ask()
    before = [population.candidate(index) for index in range(32)]
    strategy.tell(np.arange(32.0))
    np.testing.assert_array_equal([population.candidate(index) for index in range(32)], before)


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_centre_of_a_population_is_the_mean(name):
    strategy = evolve(make(name), 3)
    population = strategy.ask()
    np.testing.assert_array_equal(population.candidate(len(population)), strategy.mean)


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "ars"])
def test_only_the_order_of_fitness_counts_where_it_is_ranked(name):
    plain = evolve(make(name), 3)
    bent = evolve(make(name), 3, fitness=lambda candidate: math.tanh(sphere(candidate) / 100) - 7)
    np.testing.assert_array_equal(plain.mean, bent.mean)


@pytest.mark.parametrize("name", MIRRORED)
def test_candidates_come_in_mirrored_pairs_around_the_mean(name):
    population = make(name, sigma=0.1).ask()
    first = 1 if name == "nsra_es" else 0  # before it the mean itself
    for pair in range(first, 16):
        plus, minus = population.candidate(2 * pair), population.candidate(2 * pair + 1)
        np.testing.assert_allclose((plus + minus) / 2, START, atol=1e-6)
        assert not np.allclose(plus, START)
    all_noise = np.array([population.candidate(i) - START for i in range(2 * first, 32, 2)])
    assert np.unique(all_noise[:, 0]).size == 16 - first
    assert all_noise.std() == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_candidate_written_into_a_buffer_is_the_same(name):
    population, buffer = make(name).ask(), np.empty(10, np.float32)
    np.testing.assert_array_equal(population.candidate(5), population.candidate(5, out=buffer))


@pytest.mark.parametrize("shaping", SHAPINGS)
def test_the_gradient_is_the_papers_equation(shaping):
    strategy = make(shaping=shaping, optimizer="sgd", learning_rate=0.5)
    fitness = np.random.default_rng(0).normal(size=32)
    noise = noise_of(strategy.ask(), 0.1)
    expected = SHAPINGS[shaping](fitness) @ noise / (32 * 0.1)
    strategy.tell(fitness)
    np.testing.assert_allclose(strategy.mean, START + 0.5 * expected, atol=1e-4)
    assert strategy.diagnostics["gradient_norm"] == pytest.approx(np.linalg.norm(expected), rel=1e-3)


def test_only_the_top_directions_make_the_gradient():
    strategy = make(top_directions=4, shaping="raw", optimizer="sgd", learning_rate=0.5)
    fitness = np.random.default_rng(0).normal(size=32)
    noise = noise_of(strategy.ask(), 0.1)
    best = np.sort(np.argsort(-fitness.reshape(16, 2).max(1))[:4])
    used = np.stack([2 * best, 2 * best + 1], 1).ravel()
    strategy.tell(fitness)
    np.testing.assert_allclose(strategy.mean, START + 0.5 * (fitness[used] @ noise[used]) / (8 * 0.1), atol=1e-4)


@pytest.mark.parametrize("top", [None, 5])
def test_ars_steps_as_its_algorithm_2_says(top):
    strategy = make("ars", learning_rate=0.3, sigma=0.1, top_directions=top)
    fitness = np.random.default_rng(1).normal(size=32)
    noise = noise_of(strategy.ask(), 0.1)[0::2]
    plus, minus = fitness[0::2], fitness[1::2]
    best = np.argsort(-np.maximum(plus, minus))[: top or 16]
    spread = np.std(np.concatenate([plus[best], minus[best]]))
    expected = 0.3 / (len(best) * spread) * ((plus - minus)[best] @ noise[best])
    strategy.tell(fitness)
    np.testing.assert_allclose(strategy.mean, START + expected, atol=1e-5)


def test_pgpe_follows_its_gradients_and_bounds_the_change_of_sigma():
    options = {"optimizer": "sgd", "learning_rate": 0.5, "shaping": "raw", "sigma": 0.2}
    fitness = np.random.default_rng(2).normal(size=32)
    noise = noise_of(make("pgpe", **options).ask(), 0.2)[0::2]
    plus, minus = fitness[0::2], fitness[1::2]
    middle = (plus + minus) / 2
    change = 0.1 * ((middle - middle.mean()) @ (noise**2 - 1)) / 16

    strategy = make("pgpe", **options)
    strategy.ask()
    strategy.tell(fitness)
    np.testing.assert_allclose(strategy.mean, START + 0.5 * ((plus - minus) / 2 @ (0.2 * noise)) / 16, atol=1e-5)
    np.testing.assert_allclose(strategy.sigmas, 0.2 * (1 + np.clip(change, -0.2, 0.2)), rtol=1e-5)

    wild = make("pgpe", sigma_learning_rate=1e3, **options)
    wild.ask()
    wild.tell(fitness)
    assert set(np.round(wild.sigmas / 0.2, 6)) == {0.8, 1.2}


@pytest.mark.parametrize("size", [1, 10, 10_000])
def test_pgpe_moves_by_clipups_rule_unless_a_learning_rate_is_given(size):
    """Toklu et al. 2020: max_speed is a fifteenth of the radius, the step size half of that."""
    start, given = np.zeros(size, np.float32), {"population_size": 8, "seed": 1}
    by_sigma, by_radius = PGPE(start, sigma=0.3, **given), PGPE(start, sigma=9, radius=0.3 * size**0.5, **given)
    for strategy in (by_sigma, by_radius):
        steps = []
        for _ in range(30):
            strategy.tell(score(strategy.ask(), np.sum))
            steps.append(strategy.diagnostics["step_norm"])
        assert steps[0] == pytest.approx(0.3 * size**0.5 / 30, rel=1e-3)
        assert max(steps) == pytest.approx(0.3 * size**0.5 / 15, rel=1e-3)
    assert by_radius.sigma == pytest.approx(0.3)
    moved = evolve(PGPE(np.ones(size, np.float32), sigma=0.3, learning_rate=0.07, **given), 1)
    assert moved.diagnostics["step_norm"] == pytest.approx(0.07, rel=1e-3)
    moved = evolve(PGPE(np.ones(size, np.float32), sigma=0.3, optimizer="adam", **given), 1)
    assert moved.diagnostics["step_norm"] == pytest.approx(0.1 * size**0.5, rel=1e-3)  # Adam's first step, at rate 0.1


def test_snes_follows_algorithm_6():
    strategy = make("snes", sigma=0.2)
    fitness = np.random.default_rng(3).normal(size=32)
    noise = noise_of(strategy.ask(), 0.2)
    order = np.argsort(-fitness)
    raw = np.maximum(0, np.log(17) - np.log(np.arange(1, 33)))
    utility = np.empty(32)
    utility[order] = raw / raw.sum() - 1 / 32
    strategy.tell(fitness)
    np.testing.assert_allclose(strategy.mean, START + 0.2 * utility @ noise, atol=1e-5)
    rate = (3 + np.log(10)) / (5 * np.sqrt(10))
    np.testing.assert_allclose(strategy.sigmas, 0.2 * np.exp(rate / 2 * utility @ (noise**2 - 1)), rtol=1e-4)


def papers_rates(size, mu_cov):
    """Of the rank-one and the rank-mu update (Ros and Hansen 2008, table 1 and section 3)."""
    full = 2 / mu_cov / (size + 2**0.5) ** 2
    full += (1 - 1 / mu_cov) * min(1, (2 * mu_cov - 1) / ((size + 2) ** 2 + mu_cov))
    return (size + 2) / 3 * full / mu_cov, (size + 2) / 3 * full * (1 - 1 / mu_cov)


@pytest.mark.parametrize("size", [4, 16, 257, 10**6])
@pytest.mark.parametrize("dimensions", [1, 2, 6, 10**6])
def test_sep_cma_es_has_the_papers_rates_and_never_forgets_more_than_all(dimensions, size):
    rates = sep_cma_es.learning_rates(dimensions, size)
    c_1, c_mu = papers_rates(dimensions, rates.mu_eff)
    assert (rates.c_1, rates.c_mu) == pytest.approx(np.array([c_1, c_mu]) * min(1, 1 / (c_1 + c_mu)))
    assert rates.c_1 + rates.c_mu <= 1 + 1e-12


def slope(candidate):
    return float(candidate.sum())


@pytest.mark.parametrize(
    ("function", "size", "count"), [(sphere, 6, 12), (rosenbrock, 6, 12), (sphere, 2, 40), (slope, 2, 12)]
)
@pytest.mark.parametrize(("name", "theirs"), [("cma_es", "CMA"), ("sep_cma_es", "SepCMA")])
def test_covariances_are_learnt_step_by_step_as_by_the_cmaes_package(name, theirs, function, size, count):
    start = np.full(size, 0.5, np.float32)
    ours = make(name, start, population_size=count, sigma=0.4)
    reference = getattr(pytest.importorskip("cmaes"), theirs)(
        mean=start.astype(float), sigma=0.4, population_size=count
    )
    if name == "sep_cma_es":  # the package leaves the paper's factor (d + 2) / 3 out of the rank-one update
        c_1, c_mu = papers_rates(size, reference._mu_eff)
        reference._c1, reference._cmu = np.array([c_1, c_mu]) * min(1, 1 / (c_1 + c_mu))
    for _ in range(60):
        population = ours.ask()
        fitness = score(population, function)
        ours.tell(fitness)
        reference.tell([(population.candidate(i).astype(float), -fitness[i]) for i in range(count)])
        np.testing.assert_allclose(ours.centre, reference.mean, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(ours.step_size, reference._sigma, rtol=1e-2)
        learnt = ours.covariance if name == "cma_es" else ours.variances
        np.testing.assert_allclose(learnt, reference._C, rtol=1e-2, atol=1e-2 * np.abs(reference._C).max())
    assert function(ours.mean) > function(start)


@pytest.mark.parametrize("name", ["cma_es", "sep_cma_es"])
def test_the_step_size_grows_to_its_bound_at_most(name):
    def farther(x):
        return float(x.sum())

    free = evolve(make(name, sigma=0.1), 30, farther)
    bounded = evolve(make(name, sigma=0.1, max_step_size=0.3), 30, farther)
    below = evolve(make(name, sigma=0.1, max_step_size=0.02), 30, farther)
    assert (free.step_size > 1, bounded.step_size, below.step_size) == (True, 0.3, 0.1)


def test_cma_es_finds_the_valley_of_rosenbrock():
    assert rosenbrock(evolve(make("cma_es", np.zeros(5, np.float32), sigma=0.3), 150, rosenbrock).mean) > -1e-6


def test_ga_keeps_its_elite_and_mutates_survivors_only():
    strategy = make("ga", parents=3)
    fitness = score(strategy.ask())
    best = [strategy.ask().candidate(i) for i in np.argsort(-fitness)[:3]]
    strategy.tell(fitness)
    np.testing.assert_array_equal(strategy.survivors, best)
    population = strategy.ask()
    np.testing.assert_array_equal(population.candidate(0), best[0])
    np.testing.assert_array_equal(strategy.mean, best[0])
    assert set(population.parent.tolist()) == {0, 1, 2}
    assert all(not np.array_equal(population.candidate(i), best[population.parent[i]]) for i in range(1, 32))


def test_ga_lets_its_elite_and_the_best_others_contend_if_asked_to():
    fitness = np.arange(32.0)
    fitness[[0, 31]] = -9, np.nan
    assert make("ga").contenders(fitness) == []
    assert make("ga", elite_candidates=4).contenders(fitness) == [0, 30, 29, 28]
    fitness[0] = np.nan
    assert make("ga", elite_candidates=2).contenders(fitness) == [30, 29]
    assert all(make(name).contenders(fitness) == [] for name in STRATEGIES)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_dropped_candidate_counts_for_nothing(name):
    fitness = np.random.default_rng(1).normal(size=32)
    valid = np.ones(32, bool)
    valid[5] = False
    ways = []
    for nothing in (np.nan, 1e9, -1e9):
        strategy = make(name)
        strategy.ask()
        strategy.tell(np.where(valid, fitness, nothing), valid)
        ways.append(strategy.mean)
    assert not np.array_equal(ways[0], START)
    np.testing.assert_array_equal(ways[0], ways[1])
    np.testing.assert_array_equal(ways[0], ways[2])


@pytest.mark.parametrize("left", [2, 3, 4])
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_generation_of_which_few_candidates_are_left_is_learnt_from(name, left):
    strategy = make(name)
    strategy.ask()
    with np.errstate(all="raise"):
        strategy.tell(np.arange(32.0), np.arange(32) >= 32 - left)
    assert strategy.generation == 1
    assert not np.array_equal(strategy.mean, START)


def test_a_dropped_candidate_takes_its_pair_along():
    fitness = np.random.default_rng(1).normal(size=32)
    valid = np.arange(32) != 5
    strategy = make(optimizer="sgd", learning_rate=0.5)
    noise = noise_of(strategy.ask(), 0.1)
    strategy.tell(np.where(valid, fitness, np.nan), valid)
    rest = np.delete(np.arange(32), [4, 5])
    expected = SHAPINGS["centered_ranks"](fitness[rest]) @ noise[rest] / (30 * 0.1)
    np.testing.assert_allclose(strategy.mean, START + 0.5 * expected, atol=1e-4)


@pytest.mark.parametrize("name", [name for name, strategy in STRATEGIES.items() if strategy.resizable])
def test_a_population_may_change_its_size_between_generations(name):
    strategy = evolve(make(name), 2)
    strategy.population_size = 8
    assert len(strategy.ask()) == 8
    state = evolve(strategy, 1).state_dict()
    restored = make(name)
    restored.load_state_dict(state)
    assert len(restored.ask()) == 8


@pytest.mark.parametrize("name", STRATEGIES)
def test_diagnostics_say_what_the_step_was_like(name):
    strategy = evolve(make(name), 2)
    before, sigma = strategy.mean, strategy.sigma
    last = strategy.last_step
    evolve(strategy, 1)
    step, found = strategy.mean - before, strategy.diagnostics
    assert found["step_norm"] == pytest.approx(np.linalg.norm(step), rel=1e-5)
    assert found["step_to_sigma"] == pytest.approx(np.linalg.norm(step) / np.sqrt(10) / sigma, rel=1e-5)
    assert found["parameter_norm"] == pytest.approx(np.linalg.norm(strategy.mean), rel=1e-5)
    assert found["sigma"] == sigma
    if np.any(step) and np.any(last):
        cosine = step @ last / np.linalg.norm(step) / np.linalg.norm(last)
        assert found["step_cosine"] == pytest.approx(cosine, abs=1e-5)
    else:
        assert found["step_cosine"] is None
    if name in {*MIRRORED, "snes"}:
        assert found["gradient_norm"] > 0
        assert -1 <= found["half_agreement"] <= 1


def test_the_two_halves_agree_where_there_is_a_slope_and_not_in_noise():
    slope = make(population_size=512)
    slope.ask()
    slope.tell(score(slope.ask(), lambda candidate: float(candidate.sum())))
    noise = make(population_size=512)
    noise.ask()
    noise.tell(np.random.default_rng(0).normal(size=512))
    assert slope.diagnostics["half_agreement"] > 0.8
    assert noise.diagnostics["half_agreement"] < 0.6


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


GROWING = {
    (name, setting): value
    for name, strategy in STRATEGIES.items()
    for setting, value in {
        "learning_rate": 1e300,
        "weight_decay": 1e50,
        "sigma": 1e300,
        "sigma_learning_rate": 1e300,
    }.items()
    if setting in signature(strategy).parameters and (name, setting) != ("pgpe", "sigma_learning_rate")
}
"""A setting with which a strategy diverges. (PGPE's sigmas change by a bounded share.)"""


@pytest.mark.parametrize(("name", "setting"), GROWING)
def test_a_strategy_stops_in_the_generation_that_is_not_finite(name, setting):
    strategy = make(name, **{setting: GROWING[name, setting]})
    kept = []

    def three_generations():
        for generation in range(3):
            kept.append(strategy.state_dict())
            strategy.ask()
            strategy.tell(np.random.default_rng(generation).normal(size=32))

    with pytest.raises(
        FloatingPointError, match=f"{type(strategy).__name__} has diverged in generation .*{setting}"
    ) as e:
        three_generations()
    assert f"generation {len(kept) - 1}:" in str(e.value)
    assert all(np.isfinite(part).all() for state in kept for part in state.values())
    before = kept[-1]
    strategy = make(name)
    strategy.load_state_dict(before)
    np.testing.assert_array_equal(strategy.mean, before["mean"])


def test_a_mean_that_is_not_finite_is_no_beginning():
    with pytest.raises(ValueError, match="mean must be finite, got nan"):
        make(start=np.array([1, np.nan], np.float32))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"population_size": 7}, "even"),
        ({"population_size": 0}, "at least 2"),
        ({"top_directions": 17}, "from 1 to 16"),
        ({"optimizer": "adamm"}, "optimizer"),
        ({"shaping": "ranks"}, "shaping"),
        ({"optimizer_options": {"beta": 1}}, "optimizer_options"),
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


@pytest.mark.parametrize("sigma", [0.02, 0.5])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_weight_decay_has_the_scale_of_the_papers_code(optimizer, sigma):
    """openai/evolution-strategies-starter: es.py, lines 239 to 257, and optimizers.py."""
    strategy = make(weight_decay=0.005, optimizer=optimizer, learning_rate=0.1, sigma=sigma)
    theta, m, v = START.astype(np.float64), np.zeros(10), np.zeros(10)
    for t in range(1, 21):
        drawn = [noise(seed, np.empty(10, np.float32)) for seed in strategy.noise_seeds(16)]
        fitness = np.random.default_rng(t).normal(size=32)
        strategy.ask()
        strategy.tell(fitness)
        ranks = np.argsort(np.argsort(fitness)) / 31 - 0.5
        g = (ranks[0::2] - ranks[1::2]) @ drawn / 32
        globalg = -g + 0.005 * theta
        if optimizer == "sgd":
            theta = theta - 0.1 / sigma * globalg  # the gradient of the paper's equation 1 is that of its code / sigma
        else:
            m, v = 0.9 * m + 0.1 * globalg, 0.999 * v + 0.001 * globalg**2
            theta = theta - 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-8)
        np.testing.assert_allclose(strategy.mean, theta, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_weight_decay_pulls_the_mean_to_zero_when_nothing_else_does(optimizer):
    strategy = evolve(make(weight_decay=0.01, optimizer=optimizer), 10, fitness=lambda _: 1.0)
    assert np.all(np.abs(strategy.mean) < np.abs(START))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Adam", {}),
        ("Adam", {"weight_decay": 0.1}),
        ("AdamW", {"weight_decay": 0.1}),
        ("SGD", {}),
        ("SGD", {"momentum": 0.9, "weight_decay": 0.1}),
        ("SGD", {"momentum": 0.9, "nesterov": True}),
    ],
)
def test_optimisers_follow_torchs_step_by_step(name, options):
    torch = pytest.importorskip("torch")
    theirs = torch.full((6,), 0.5, requires_grad=True)
    ours = OPTIMIZERS[name.lower()](6, **options)
    optimizer = getattr(torch.optim, name)([theirs], lr=0.02, maximize=True, **options)
    position = np.full(6, 0.5, np.float32)
    for gradient in np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32):
        position += ours.step(gradient, position, 0.02)
        theirs.grad = torch.from_numpy(gradient)
        optimizer.step()
        np.testing.assert_allclose(position, theirs.detach().numpy(), atol=2e-6)


def test_clipup_has_the_gradients_direction_momentum_and_a_speed_limit():
    clipup, velocity = OPTIMIZERS["clipup"](6), np.zeros(6)
    for gradient in np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32) * 100:
        velocity = 0.9 * velocity + 0.02 * gradient / np.linalg.norm(gradient)
        velocity *= min(1, 0.04 / np.linalg.norm(velocity))
        np.testing.assert_allclose(clipup.step(gradient, np.zeros(6, np.float32), 0.02), velocity, atol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_restored_optimiser_continues_bit_for_bit(name):
    gradients = np.random.default_rng(0).normal(size=(9, 6)).astype(np.float32)
    whole, restored, here = OPTIMIZERS[name](6), OPTIMIZERS[name](6), np.ones(6, np.float32)
    steps = [whole.step(gradient, here, 0.1) for gradient in gradients[:5]]
    restored.load_state_dict(whole.state_dict())
    for gradient in gradients[5:]:
        np.testing.assert_array_equal(whole.step(gradient, here, 0.1), restored.step(gradient, here, 0.1))
    assert len({step.tobytes() for step in steps}) == 5


RANKED = {
    "centered_ranks": [0, -0.5, 0, 0.5],
    "linear_ranks": [0.5, 0, 0.5, 1],
    "centered_sign": [0, -0.5, 0, 0.5],
}


@pytest.mark.parametrize(("name", "expected"), RANKED.items())
def test_ranks_average_ties(name, expected):
    np.testing.assert_allclose(SHAPINGS[name](np.array([3.0, 1.0, 3.0, 7.0])), expected, atol=1e-12)


def test_nes_utilities_average_ties_and_sum_to_zero():
    plain = SHAPINGS["nes"](np.array([9.0, 8.0, 7.0, 6.0]))
    tied = SHAPINGS["nes"](np.array([7.0, 7.0, 5.0, 5.0]))
    np.testing.assert_allclose(tied, [plain[:2].mean()] * 2 + [plain[2:].mean()] * 2)
    assert abs(plain.sum()) < 1e-12
    np.testing.assert_allclose(plain[0] + 1 / 4, np.log(3) / (np.log(3) + np.log(1.5)))


def test_z_scores_have_mean_zero_and_deviation_one():
    scores = SHAPINGS["z_score"](np.array([1.0, 2.0, 6.0]))
    assert scores.mean() == pytest.approx(0)
    assert scores.std() == pytest.approx(1)


@pytest.mark.parametrize("value", [0.0, 0.1, -3.3, 1e9])
@pytest.mark.parametrize("name", SHAPINGS)
def test_equal_fitness_has_no_utility(name, value):
    np.testing.assert_array_equal(SHAPINGS[name](np.full(7, value)), np.zeros(7))


@pytest.mark.parametrize("name", SHAPINGS)
def test_shaping_does_not_reorder_what_it_is_given(name):
    fitness = np.array([3.0, 1.0, 2.0])
    SHAPINGS[name](fitness)
    np.testing.assert_array_equal(fitness, [3, 1, 2])


def test_sign_shapings_are_among_the_others():
    assert set(SHAPINGS) >= SIGN_SHAPINGS


@pytest.mark.parametrize("shape", SCHEDULES)
def test_a_schedule_goes_from_start_to_final_and_stays_there(shape):
    value = schedule(0.4, 0.1, shape=shape, generations=10)
    values = [value(generation) for generation in range(13)]
    assert values[0] == pytest.approx(0.4)
    assert values[10] == values[12] == pytest.approx(0.1)
    assert all(later < earlier for earlier, later in itertools.pairwise(values[:11]))
    halfway = {"linear": 0.25, "cosine": 0.25, "exponential": 0.2}
    assert values[5] == pytest.approx(halfway[shape])
    assert schedule(0.4, None)(7) == 0.4


def test_sums_of_noise_and_its_squares_are_what_they_say():
    seeds, weights, squares = [3, 4, 5], [0.5, 0.0, -2.0], [1.0, 2.0, 0.0]
    size = 2**16 + 100  # more than a block
    noise = np.array([noise_moments([seed], [1.0], None, size)[0] for seed in seeds])
    first, second = noise_moments(seeds, weights, squares, size)
    np.testing.assert_allclose(first, weights @ noise, atol=1e-5)
    np.testing.assert_allclose(second, squares @ noise**2, atol=1e-5)


def config_for(strategy, **fields):
    return TrainConfig.for_env("CartPoleBullet-v0", strategy=strategy, **fields)


def strategy_of(config, size=20):
    return make_strategy(plan_for(config, size), np.zeros(size, np.float32))


def test_every_strategy_of_ours_has_an_entry_for_its_defaults():
    """Such a name is never looked up among those of plugins."""
    assert {*STRATEGY_DEFAULTS} == {*by_name.STRATEGIES}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategys_name_alone_makes_it_with_its_papers_settings(name):
    config = config_for(name, **options_for(name))
    assert type(strategy_of(config)) is STRATEGIES[name]
    for field, value in defaults_of(name).items():
        if field not in es_envs.definition("CartPoleBullet-v0").recommended_for.get(name, {}):
            assert getattr(config, field) == value, field


def test_recommendations_for_one_strategy_are_not_used_for_another(register):
    env_id = register(
        recommended={"strategy": "openai_es", "sigma": 0.7, "hidden_sizes": (5,), "population_size": 10},
        recommended_for={"pgpe": {"sigma": 0.3}},
    )
    usual, pgpe, snes = (TrainConfig.for_env(env_id, strategy=name) for name in ("openai_es", "pgpe", "snes"))
    own = TrainConfig.for_env(env_id, strategy="pgpe", sigma=0.9)
    assert (usual.sigma, usual.population_size, usual.hidden_sizes) == (0.7, 10, (5,))
    assert (pgpe.sigma, pgpe.population_size, pgpe.hidden_sizes) == (0.3, 10, (5,))
    assert (snes.sigma, own.sigma) == ("auto", 0.9)


@pytest.mark.parametrize("schedule_generations", [None, 4])
def test_learning_rate_and_sigma_follow_their_schedules(schedule_generations):
    config = config_for(
        "openai_es",
        sigma=0.4,
        sigma_final=0.1,
        learning_rate=0.2,
        learning_rate_final=0.02,
        generations=8,
        schedule_generations=schedule_generations,
        optimizer="sgd",
        shaping="raw",
    )
    strategy = strategy_of(config)
    lengths, sigmas = [], []
    for _ in range(9):
        strategy.ask()
        sigmas.append(strategy.sigma)
        strategy.tell(np.arange(float(config.population_size)))
        lengths.append(strategy.diagnostics["step_norm"] / strategy.diagnostics["gradient_norm"])
    end = schedule_generations or 8
    assert (sigmas[0], sigmas[end], sigmas[8]) == pytest.approx((0.4, 0.1, 0.1))
    assert sigmas[end // 2] == pytest.approx(0.25)
    assert (lengths[0], lengths[end // 2], lengths[8]) == pytest.approx((0.2, 0.11, 0.02), rel=1e-5)


@pytest.mark.parametrize(
    ("strategy", "fields", "message"),
    [
        ("opnai_es", {}, "did you mean 'openai_es'"),
        ("cma_es", {"optimizer": "sgd"}, "does not use optimizer='sgd'"),
        ("ga", {"shaping": "sign"}, "does not use shaping='sign'"),
        ("snes", {"top_directions": 3}, "does not use top_directions=3"),
        ("snes", {"shaping": "centered_sign"}, "mirrored"),
        ("pgpe", {"sigma_final": 0.01}, "adapts sigma itself"),
        ("ga", {"learning_rate_final": 0.01}, "has no learning rate"),
        ("openai_es", {"learning_rate": None}, "needs a learning_rate"),
        ("pgpe", {"learning_rate_final": 0.01}, "needs a learning_rate"),
        ("pgpe", {"strategy_options": {"radius": -1}}, "radius must be a finite number above 0, got -1"),
        (
            "ga",
            {"strategy_options": {"parent": 3}},
            "no option 'parent'; its options are parents, elite",
        ),
        ("ga", {"strategy_options": {"elite_candidates": 0}}, "elite_candidates must be a whole number of at least 1"),
        ("ga", {"strategy_options": {"elite_episodes": 1.5}}, "elite_episodes must be a whole number of at least 1"),
        ("cma_es", {"strategy_options": {"mu": 3}}, "no option 'mu'; its options are max_step_size"),
        ("ga", {"population_size": 8, "strategy_options": {"parents": 8}}, "from 1 to 7"),
        ("openai_es", {"population_size": 15}, "even"),
    ],
)
def test_settings_that_make_no_sense_for_a_strategy_are_refused(strategy, fields, message):
    with pytest.raises(ValueError, match=message):
        strategy_of(config_for(strategy, **fields))


def test_cma_es_refuses_a_million_parameters_and_says_what_to_use():
    with pytest.raises(ValueError, match="sep_cma_es"):
        strategy_of(config_for("cma_es"), 10**6)


def test_a_strategy_of_a_policys_size_starts_at_its_initial_mean():
    env = es_envs.make("CartPoleBullet-v0")
    config = config_for("ars")
    policy = make_policy(config, env.observation_space, env.action_space)
    env.close()
    assert make_strategy(make_plan(policy), policy.initial(0)).mean.shape == (policy.size,)


def test_strategies_need_no_torch():
    code = """
        import sys
        import numpy as np
        from es_core import STRATEGIES
        for strategy in STRATEGIES.values():
            if strategy.keeps_repertoire:
                continue  # ribs imports torch wherever it is installed
            own = strategy(np.ones(5, np.float32), population_size=8, sigma=0.1)
            own.ask()
            own.tell(np.arange(8.0))
        assert "torch" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_seeds_of_different_purposes_generations_and_indices_differ():
    seeds = {derive(root, purpose, g, i) for root in (0, 1) for purpose in Purpose for g in range(3) for i in range(3)}
    assert len(seeds) == 2 * len(Purpose) * 9
    assert derive(5, Purpose.NOISE, 2, 7) == derive(5, Purpose.NOISE, 2, 7)


def test_starts_that_score_a_policy_are_never_starts_that_trained_it():
    purposes = (Purpose.TRAINING, Purpose.EVALUATION, Purpose.CONFIRMATION, Purpose.FINAL, Purpose.TEST)
    ranges = [episode_seeds(0, purpose, 2000) for purpose in purposes]
    for earlier, later in itertools.pairwise(ranges):
        assert max(earlier) < min(later)
    assert max(ranges[0]) < 2**30 <= min(ranges[1])
    assert max(ranges[-1]) < 2**31
    assert all(type(seed) is int for seeds in ranges for seed in seeds)


def test_a_purpose_has_the_same_starts_in_every_version():
    starts = {
        "TRAINING": 232769649, "EVALUATION": 1474053336, "CONFIRMATION": 1691277082, "FINAL": 1785308486,
        "TEST": 2114166980, "REFERENCE_BATCH": 720216659, "ELITE": 868525858, "BASELINE": 182285764,
    }  # fmt: skip
    assert {name: episode_seeds(0, Purpose[name], 1)[0] for name in starts} == starts
