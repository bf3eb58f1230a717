"""SNES, separable natural evolution strategies (Schaul, Glasmachers and Schmidhuber 2011, "High dimensions and heavy
tails for natural evolution strategies"; Wierstra et al. 2014, "Natural Evolution Strategies", JMLR 15, algorithm 6).
"""  # noqa: D205

import math

import numpy as np
from numpy.typing import NDArray

from es_core.strategies.optimizers import norm
from es_core.strategies.population import Population, gradient
from es_core.strategies.schedules import Schedule, as_schedule
from es_core.strategies.shaping import find_shaping
from es_core.strategies.strategy import Diagnostics, Strategy


class SNES(Strategy):
    """Follows the natural gradient of the expected fitness: a mean and one sigma for each parameter.

    Args:
        mean: initial mean ``(d,)``.
        population_size: candidates in a generation (paper: 4 + 3 ln d).
        sigma: initial standard deviation of every parameter.
        seed: root seed; the noise of generation g is a function of the two.
        learning_rate: learning rate of the mean, in sigmas (paper: 1), or a function of the generation.
        shaping: a name from ``SHAPINGS`` (paper: "nes").
        sigma_learning_rate: learning rate of the sigmas; None: (3 + ln d) / (5 sqrt(d)), as in the paper.

    Raises:
        ValueError: a name does not exist, or a number is out of range.
    """

    adapts_sigma = True
    state = ("sigmas",)

    def __init__(
        self,
        mean: NDArray[np.float32],
        *,
        population_size: int,
        sigma: float | Schedule,
        seed: int = 0,
        learning_rate: float | Schedule = 1.0,
        shaping: str = "nes",
        sigma_learning_rate: float | None = None,
    ) -> None:
        super().__init__(mean, population_size=population_size, sigma=sigma, seed=seed)
        size = self.mean.size
        self._shape = find_shaping(shaping)
        self._learning_rate = as_schedule(learning_rate)
        default = (3 + math.log(size)) / (5 * math.sqrt(size))
        self.sigma_learning_rate = default if sigma_learning_rate is None else float(sigma_learning_rate)
        self.sigmas = np.full(size, self._sigma(0))

    @property
    def sigma(self) -> float:
        """Root mean square of the sigmas."""
        return float(np.sqrt(np.square(self.sigmas).mean()))

    def draw(self) -> Population:
        """Draw candidates mean + sigmas * noise."""
        return self.independent(self.sigmas.astype(np.float32))

    def learn(
        self, population: Population, fitness: NDArray[np.float64], valid: NDArray[np.bool_]
    ) -> Diagnostics | None:
        """Learn by mean += rate * sigmas * sum(u noise); sigmas *= exp(sigma rate / 2 * sum(u (noise^2 - 1)))."""
        utilities = self._shape(fitness[valid])
        weights = utilities.tolist()
        slope, squares, agreement = gradient(population.noise_seed[valid].tolist(), weights, weights, self.mean.size)
        rate = self._learning_rate(self.generation)
        self.mean = (self.mean + rate * self.sigmas * slope).astype(np.float32)
        self.sigmas = self.sigmas * np.exp(self.sigma_learning_rate / 2 * (squares - utilities.sum()))
        return {"gradient_norm": norm(slope), "half_agreement": agreement}
