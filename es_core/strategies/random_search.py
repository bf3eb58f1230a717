"""Random search (Rastrigin 1963), the baseline that every other strategy has to beat."""

import numpy as np
from numpy.typing import NDArray

from es_core.strategies.population import Population
from es_core.strategies.schedules import Schedule
from es_core.strategies.strategy import Diagnostics, Strategy


class RandomSearch(Strategy):
    """Draws all candidates around the initial mean, and keeps the best so far.

    The best so far is a candidate of each generation, scored again on that generation's episodes: a lucky score does
    not last.

    Args:
        mean: initial mean ``(d,)``.
        population_size: candidates in a generation.
        sigma: standard deviation of the noise, or a function of the generation.
        seed: root seed; the noise of generation g is a function of the two.
    """

    state = ("origin",)

    def __init__(
        self, mean: NDArray[np.float32], *, population_size: int, sigma: float | Schedule, seed: int = 0
    ) -> None:
        super().__init__(mean, population_size=population_size, sigma=sigma, seed=seed)
        self.origin = self.mean.copy()

    def draw(self) -> Population:
        """Draw origin + sigma * noise, in addition to the best so far."""
        count = self.population_size
        parent, sign = np.ones(count, np.int64), np.ones(count, np.int8)
        parent[0] = sign[0] = 0
        return self.independent(self.sigma, base=np.stack([self.mean, self.origin]), parent=parent, sign=sign)

    def learn(
        self, population: Population, fitness: NDArray[np.float64], valid: NDArray[np.bool_]
    ) -> Diagnostics | None:
        """Keep the best candidate; ties go to the earlier."""
        best = int(np.argmax(np.where(valid, fitness, -np.inf)))
        self.mean = population.candidate(best)
        return None
