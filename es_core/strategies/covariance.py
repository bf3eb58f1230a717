"""Common parts of CMA-ES and separable CMA-ES: evolution paths and step-size control.

Equation numbers are those of Hansen 2016, "The CMA Evolution Strategy: A Tutorial", arXiv 1604.00772.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from es_core.config.checks import number, require_real
from es_core.strategies.optimizers import norm
from es_core.strategies.schedules import Schedule
from es_core.strategies.strategy import Strategy

Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Rates and weights that follow from the numbers of parameters and candidates.

    Attributes:
        weights: the candidates' weights, the best first; only positive ones move the mean.
        mu_eff: variance-effective number of positively weighted candidates (equation 8).
        c_sigma: rate of the step size's path.
        d_sigma: damping of the step size.
        c_c: rate of the covariance's path.
        c_1: rate of the rank-one update.
        c_mu: rate of the rank-mu update.
    """

    weights: Values
    mu_eff: float
    c_sigma: float
    d_sigma: float
    c_c: float
    c_1: float
    c_mu: float


class CovarianceStrategy(Strategy):
    """Base class with a centre in double precision, a step size, and evolution paths for it and the covariance.

    Args:
        mean: initial mean ``(d,)``.
        population_size: candidates in a generation, at least 4.
        sigma: initial standard deviation of every parameter.
        seed: root seed; the noise of generation g is a function of the two.
        max_step_size: bound to which the step size may grow, if sigma is smaller (papers: none).
    """

    adapts_sigma = True
    state: ClassVar[tuple[str, ...]] = ("centre", "step_size", "path_sigma", "path_c")

    def __init__(
        self,
        mean: NDArray[np.float32],
        *,
        population_size: int,
        sigma: float | Schedule,
        seed: int = 0,
        max_step_size: float | None = None,
    ) -> None:
        super().__init__(mean, population_size=population_size, sigma=sigma, seed=seed)
        if population_size < 4:
            raise ValueError(f"population_size must be at least 4 to learn a covariance, got {population_size}")
        self.centre = self.mean.astype(np.float64)
        self.step_size = float(self._sigma(0))
        self._max_step_size = math.inf
        if max_step_size is not None:
            bound = require_real("max_step_size", max_step_size, number(0, above=True))
            self._max_step_size = max(bound, self.step_size)
        self.path_sigma, self.path_c = np.zeros(self.mean.size), np.zeros(self.mean.size)
        self._begin()

    @abstractmethod
    def _begin(self) -> None:
        """Set the initial covariance, the identity."""

    def move(self, rates: Rates, step: Values, whitened: Values) -> float:
        """Move centre, paths and step size (equations 42 to 45).

        Args:
            rates: this generation's rates.
            step: ``(d,)``, weighted mean of the candidates' moves, in step sizes.
            whitened: ``step`` transformed as if the covariance were the identity.

        Returns:
            Additional share of the covariance that is kept when the path was stalled.
        """
        self.centre = self.centre + self.step_size * step
        self.mean = self.centre.astype(np.float32)
        size = self.mean.size
        expected = math.sqrt(size) * (1 - 1 / (4 * size) + 1 / (21 * size**2))  # length of a standard normal vector
        gain = math.sqrt(rates.c_sigma * (2 - rates.c_sigma) * rates.mu_eff)
        self.path_sigma = (1 - rates.c_sigma) * self.path_sigma + gain * whitened
        length = norm(self.path_sigma)
        growth = math.exp(rates.c_sigma / rates.d_sigma * (length / expected - 1))
        self.step_size = min(self.step_size * growth, self._max_step_size)
        started = math.sqrt(1 - (1 - rates.c_sigma) ** (2 * (self.generation + 2)))
        halted = length / started >= (1.4 + 2 / (size + 1)) * expected
        gain = 0.0 if halted else math.sqrt(rates.c_c * (2 - rates.c_c) * rates.mu_eff)
        self.path_c = (1 - rates.c_c) * self.path_c + gain * step
        return rates.c_1 * rates.c_c * (2 - rates.c_c) if halted else 0.0
