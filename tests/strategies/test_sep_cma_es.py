"""Separable CMA-ES needs as many generations as its paper's equations, and not many more than the package ``cma``."""

import math
import warnings

import numpy as np
import pytest

from es_core.strategies.sep_cma_es import SepCMAES

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it misses matplotlib
    cma = pytest.importorskip("cma")

STEP = 0.5  # initial sigma


def sphere(x):
    return np.square(x).sum(1)


def ellipsoid(x):
    return np.square(x) @ 10.0 ** (6 * np.linspace(0, 1, x.shape[1]))


def cigar(x):
    return x[:, 0] ** 2 + 1e6 * np.square(x[:, 1:]).sum(1)


def rosenbrock(x):
    return (100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(1)


def start_and_target(function, size):
    """A part of the way along the valley of Rosenbrock's function is enough, where all of it would take an hour."""
    target = 0.6 * size if function is rosenbrock and size > 5 else 1e-6
    return (np.zeros(size) if function is rosenbrock else np.ones(size)), target


def papers(function, size, count, seed):
    """Ros and Hansen 2008, equations 1 to 8 and table 1, with the covariance's rate of section 3: generations."""
    mean, target = start_and_target(function, size)
    chance = np.random.default_rng(seed)
    mu = count // 2
    weights = np.log(mu + 1) - np.log(np.arange(1, mu + 1))
    weights /= weights.sum()
    mu_eff = mu_cov = 1 / np.square(weights).sum()
    c_sigma = (mu_eff + 2) / (size + mu_eff + 3)
    d_sigma = 1 + 2 * max(0, math.sqrt((mu_eff - 1) / (size + 1)) - 1) + c_sigma
    c_c = 4 / (size + 4)
    c_cov = 2 / mu_cov / (size + math.sqrt(2)) ** 2
    c_cov += (1 - 1 / mu_cov) * min(1, (2 * mu_cov - 1) / ((size + 2) ** 2 + mu_eff))
    c_cov *= (size + 2) / 3
    usual = math.sqrt(size) * (1 - 1 / (4 * size) + 1 / (21 * size**2))
    sigma, variances, path_sigma, path_c = STEP, np.ones(size), np.zeros(size), np.zeros(size)
    for generation in range(1, 10_000):
        noise = chance.standard_normal((count, size))
        moves = np.sqrt(variances) * noise
        values = function(mean + sigma * moves)
        if values.min() < target:
            return generation
        best = np.argsort(values)[:mu]
        step, whitened = weights @ moves[best], weights @ noise[best]
        mean = mean + sigma * step
        path_sigma = (1 - c_sigma) * path_sigma + math.sqrt(c_sigma * (2 - c_sigma) * mu_eff) * whitened
        length = np.linalg.norm(path_sigma)
        moving = length / math.sqrt(1 - (1 - c_sigma) ** (2 * generation)) < (1.4 + 2 / (size + 1)) * usual
        path_c = (1 - c_c) * path_c + moving * math.sqrt(c_c * (2 - c_c) * mu_eff) * step
        rank_mu = weights @ np.square(moves[best])
        variances = (1 - c_cov) * variances + c_cov / mu_cov * path_c**2 + c_cov * (1 - 1 / mu_cov) * rank_mu
        sigma *= math.exp(c_sigma / d_sigma * (length / usual - 1))
    return math.inf


def ours(function, size, count, seed):
    mean, target = start_and_target(function, size)
    strategy = SepCMAES(mean.astype(np.float32), population_size=count, sigma=STEP, seed=seed)
    for generation in range(1, 10_000):
        population = strategy.ask()
        values = function(np.array([population.candidate(index) for index in range(count)], np.float64))
        if values.min() < target:
            return generation
        strategy.tell(-values)
    return math.inf


def pycmas(function, size, count, seed):
    mean, target = start_and_target(function, size)
    never = dict.fromkeys(("tolfun", "tolfunhist", "tolfunrel", "tolx"), 0)
    options = {"CMA_diagonal": True, "popsize": count, "seed": seed + 1, "verbose": -9, **never}
    search = cma.CMAEvolutionStrategy(mean, STEP, options)
    for generation in range(1, 10_000):
        candidates = search.ask()
        values = function(np.array(candidates))
        if values.min() < target:
            return generation
        search.tell(candidates, values.tolist())
    return math.inf


FAST = {(5, sphere), (5, cigar)}
CASES = [
    pytest.param(
        size,
        function,
        marks=[]
        if (size, function) in FAST
        else pytest.mark.long
        if size == 40 or function is rosenbrock
        else pytest.mark.slow,
        id=f"{function.__name__}-{size}",
    )
    for size in (5, 10, 40)
    for function in (sphere, ellipsoid, cigar, rosenbrock)
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:elements of z2")  # of the package, about a number far out
@pytest.mark.parametrize(("size", "function"), CASES)
def test_sep_cma_es_needs_as_many_generations_as_its_papers_equations(size, function):
    count = 4 + int(3 * math.log(size))
    seeds = {(10, rosenbrock): 25, (5, cigar): 15}.get((size, function), 5)  # these are a matter of luck
    found, papers_own, packages = (
        np.median([search(function, size, count, seed) for seed in range(seeds)]) for search in (ours, papers, pycmas)
    )
    assert found == pytest.approx(papers_own, rel=0.1)
    # The package learns from the worst candidates, too (active CMA-ES, Jastrebski and Arnold 2006); the paper does not.
    # That counts most in few dimensions: on the ellipsoid in 5 the package needs 112 generations with it, 170 without.
    assert found <= packages * (1.4 if (size, function) == (5, ellipsoid) else 1.3)
