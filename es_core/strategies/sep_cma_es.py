"""Separable CMA-ES (Ros and Hansen 2008, "A simple modification in CMA-ES achieving linear time and space complexity",
PPSN X): CMA-ES whose covariance is diagonal, and so is learnt faster and for any number of parameters.
"""  # noqa: D205

import math

import numpy as np
from numpy.typing import NDArray

from es_core.strategies.covariance import CovarianceStrategy, Rates
from es_core.strategies.population import Population, noise_moments
from es_core.strategies.shaping import by_rank
from es_core.strategies.strategy import Diagnostics


class SepCMAES(CovarianceStrategy):
    """Learns one variance for each parameter.

    Args:
        mean: initial mean ``(d,)``.
        population_size: candidates in a generation, at least 4 (default: 4 + 3 ln d).
        sigma: initial standard deviation of every parameter.
        seed: root seed; the noise of generation g is a function of the two.
        max_step_size: bound to which the step size may grow, if sigma is smaller (papers: none).

    Raises:
        ValueError: too few candidates.
    """

    state = (*CovarianceStrategy.state, "variances")

    def _begin(self) -> None:
        """Set the initial covariance, the identity."""
        self.variances = np.ones(self.mean.size)

    @property
    def sigma(self) -> float:
        """Root mean square of the candidates' standard deviations."""
        return self.step_size * math.sqrt(self.variances.mean())

    def draw(self) -> Population:
        """Draw candidates centre + step size * root of the variances * noise."""
        return self.independent((self.step_size * np.sqrt(self.variances)).astype(np.float32))

    def learn(
        self, population: Population, fitness: NDArray[np.float64], valid: NDArray[np.bool_]
    ) -> Diagnostics | None:
        """Learn as in section 3 of the paper."""
        rates = learning_rates(self.mean.size, int(valid.sum()))
        weights = by_rank(fitness[valid], rates.weights)
        if not weights.any():
            return None
        seeds = population.noise_seed[valid].tolist()
        whitened, squares = noise_moments(seeds, weights.tolist(), weights.tolist(), self.mean.size)
        more = self.move(rates, np.sqrt(self.variances) * whitened, whitened)
        keep = 1 + more - rates.c_1 - rates.c_mu
        self.variances = (
            keep * self.variances + rates.c_1 * np.square(self.path_c) + rates.c_mu * self.variances * squares
        )
        return None


def learning_rates(size: int, count: int) -> Rates:
    """Learning rates by table 1 and section 3 of the paper: the covariance's is (d + 2) / 3 times a full matrix's.

    It is divided between the path (1 / mu_cov of it, where mu_cov is mu_eff) and the candidates.
    """
    mu = count // 2
    weights = np.maximum(0.0, math.log(mu + 1) - np.log(np.arange(1, count + 1)))
    weights /= weights.sum()
    mu_eff = 1 / np.square(weights).sum()
    full = 2 / mu_eff / (size + math.sqrt(2)) ** 2
    full += (1 - 1 / mu_eff) * min(1.0, (2 * mu_eff - 1) / ((size + 2) ** 2 + mu_eff))
    c_cov = min(1.0, (size + 2) / 3 * full)
    c_sigma = (mu_eff + 2) / (size + mu_eff + 3)
    return Rates(
        weights=weights,
        mu_eff=mu_eff,
        c_sigma=c_sigma,
        d_sigma=1 + 2 * max(0, math.sqrt((mu_eff - 1) / (size + 1)) - 1) + c_sigma,
        c_c=4 / (size + 4),
        c_1=c_cov / mu_eff,
        c_mu=c_cov * (1 - 1 / mu_eff),
    )
