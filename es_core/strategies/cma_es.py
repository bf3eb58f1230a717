"""CMA-ES, covariance matrix adaptation (Hansen 2016, "The CMA Evolution Strategy: A Tutorial", arXiv 1604.00772,
figure 6, with negative weights; equation numbers below are the tutorial's).
"""  # noqa: D205

import math

import numpy as np
from numpy.typing import NDArray

from es_core.machine import one_blas_thread
from es_core.policies.noise import noise
from es_core.strategies.covariance import CovarianceStrategy, Rates, Values
from es_core.strategies.population import Population
from es_core.strategies.shaping import by_rank
from es_core.strategies.strategy import Diagnostics

_LARGEST = 2000  # parameters: the matrix has d^2 numbers, and its decomposition takes d^3 operations
_TINY = 1e-8


class CMAES(CovarianceStrategy):
    """Learns the full covariance matrix of its candidates: for small policies.

    Args:
        mean: initial mean ``(d,)``, d at most 2000.
        population_size: candidates in a generation, at least 4 (default: 4 + 3 ln d).
        sigma: initial standard deviation of every parameter.
        seed: root seed; the noise of generation g is a function of the two.
        max_step_size: bound to which the step size may grow, if sigma is smaller (papers: none).

    Raises:
        ValueError: too many parameters or too few candidates.
    """

    state = (*CovarianceStrategy.state, "covariance", "axes", "lengths", "decomposed")

    def _begin(self) -> None:
        """Set the initial covariance, the identity."""
        size = self.mean.size
        if size > _LARGEST:
            raise ValueError(
                f"cma_es learns a matrix of d x d numbers, for policies of up to {_LARGEST} parameters; this one has "
                f"{size}: use strategy='sep_cma_es', which learns only the diagonal, or a smaller policy"
            )
        self.covariance = np.eye(size)
        self.axes, self.lengths = np.eye(size), np.ones(size)
        self.decomposed = 0  # generation in which axes and lengths were computed from the covariance

    @property
    def sigma(self) -> float:
        """Root mean square of the candidates' standard deviations."""
        return self.step_size * math.sqrt(self.covariance.trace() / self.mean.size)

    def draw(self) -> Population:
        """Draw candidates centre + step size * axes (lengths * noise), equations 38 to 40, as explicit vectors."""
        moves = self._moves(self.noise_seeds(self.population_size))
        return self.explicit(self.centre + self.step_size * moves)

    def _moves(self, seeds: list[int]) -> Values:
        drawn = np.array([noise(seed, np.empty(self.mean.size, np.float32)) for seed in seeds], np.float64)
        with one_blas_thread():
            return np.asarray((drawn * self.lengths) @ self.axes.T)

    def learn(
        self,
        population: Population,  # noqa: ARG002  (its candidates are rounded: their moves are drawn again)
        fitness: NDArray[np.float64],
        valid: NDArray[np.bool_],
    ) -> Diagnostics | None:
        """Learn by equations 41 to 47."""
        rates = _rates(self.mean.size, int(valid.sum()))
        weights = by_rank(fitness[valid], rates.weights)
        if not weights.any():
            return None
        moves = self._moves([seed for seed, ok in zip(self.noise_seeds(len(valid)), valid, strict=True) if ok])
        with one_blas_thread():
            step = np.maximum(weights, 0) @ moves
            whitened = (step @ self.axes / self.lengths) @ self.axes.T
            squares = np.square(moves @ self.axes / self.lengths).sum(1)
            more = self.move(rates, step, whitened)
            weights = np.where(weights >= 0, weights, weights * self.mean.size / (squares + _TINY))
            keep = 1 + more - rates.c_1 - rates.c_mu * rates.weights.sum()
            rank_one, rank_mu = np.outer(self.path_c, self.path_c), (moves.T * weights) @ moves
            self.covariance = keep * self.covariance + rates.c_1 * rank_one + rates.c_mu * rank_mu
            self._decompose(rates)
        return None

    def _decompose(self, rates: Rates) -> None:
        """Recompute axes and lengths when the covariance has changed noticeably (section B.2)."""
        if self.generation + 1 - self.decomposed < 1 / (10 * self.mean.size * (rates.c_1 + rates.c_mu)):
            return
        squares, self.axes = np.linalg.eigh((self.covariance + self.covariance.T) / 2)
        self.lengths = np.sqrt(np.where(squares < 0, _TINY, squares))
        self.covariance = (self.axes * self.lengths**2) @ self.axes.T
        self.decomposed = self.generation + 1


def _rates(size: int, count: int) -> Rates:
    """Learning rates by equations 49 to 58."""
    mu = count // 2
    weights = math.log((count + 1) / 2) - np.log(np.arange(1, count + 1))
    mu_eff = weights[:mu].sum() ** 2 / np.square(weights[:mu]).sum()
    mu_eff_minus = weights[mu:].sum() ** 2 / np.square(weights[mu:]).sum()
    c_1 = 2 / ((size + 1.3) ** 2 + mu_eff)
    c_mu = 2 * (mu_eff - 2 + 1 / mu_eff) / ((size + 2) ** 2 + mu_eff)
    c_mu = max(_TINY, min(1 - c_1 - _TINY, c_mu))  # it is divided by, and 0 for 2 or 3 candidates
    positive, negative = weights[weights > 0].sum(), -weights[weights < 0].sum()
    least = min(1 + c_1 / c_mu, 1 + 2 * mu_eff_minus / (mu_eff + 2), (1 - c_1 - c_mu) / (size * c_mu))
    c_sigma = (mu_eff + 2) / (size + mu_eff + 5)
    return Rates(
        weights=np.where(weights >= 0, weights / positive, weights * least / negative),
        mu_eff=mu_eff,
        c_sigma=c_sigma,
        d_sigma=1 + 2 * max(0, math.sqrt((mu_eff - 1) / (size + 1)) - 1) + c_sigma,
        c_c=(4 + mu_eff / size) / (size + 4 + 2 * mu_eff / size),
        c_1=c_1,
        c_mu=c_mu,
    )
