"""Mirrored pairs: common parts of the strategies whose candidates are mean + noise and mean - noise."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from es_core.strategies.population import Population
from es_core.strategies.strategy import Diagnostics, Strategy


@dataclass(frozen=True)
class Pairs:
    """The pairs of a generation that are used.

    Attributes:
        seeds: seeds of their noise.
        plus: ``(p,)`` utilities of mean + noise.
        minus: ``(p,)`` utilities of mean - noise.
    """

    seeds: list[int]
    plus: NDArray[np.float64]
    minus: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.seeds)

    def slopes(self) -> list[float]:
        """Weights of their noise: (plus - minus) / (2p).

        The sum, times 1/sigma, is the gradient of the expected fitness (Salimans et al. 2017, equation 1), from
        mirrored samples.
        """
        slopes: list[float] = ((self.plus - self.minus) / (2 * len(self))).tolist()
        return slopes


class MirroredStrategy(Strategy):
    """Draws mirrored pairs around the mean."""

    mirrored = True

    def draw(self) -> Population:
        """Candidates 2k and 2k + 1 are mean +- sigma * noise k (Salimans et al. 2017, section 2.1)."""
        pairs = self.population_size // 2
        return Population(
            generation=self.generation,
            base=self.mean[np.newaxis].copy(),
            parent=np.zeros(2 * pairs, np.int64),
            scale=self.scale(),
            noise_seed=np.repeat(np.array(self.noise_seeds(pairs), np.int64), 2),
            sign=np.tile(np.array([1, -1], np.int8), pairs),
        )

    def scale(self) -> float | NDArray[np.float32]:
        """Sigma, or one sigma for each parameter ``(d,)``."""
        return self.sigma

    def learn(
        self, population: Population, fitness: NDArray[np.float64], valid: NDArray[np.bool_]
    ) -> Diagnostics | None:
        """Weigh the pairs, and move the mean."""
        pairs = np.flatnonzero(valid[0::2])
        plus, minus = fitness[0::2][pairs], fitness[1::2][pairs]
        best = self._best(np.maximum(plus, minus))
        utilities = self.utilities(np.stack([plus[best], minus[best]], axis=1).ravel())
        seeds = population.noise_seed[0::2][pairs[best]].tolist()
        return self.climb(Pairs(seeds, utilities[0::2], utilities[1::2]))

    def _best(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Indices of the pairs to use, in ascending order."""
        return np.arange(len(scores))

    @abstractmethod
    def utilities(self, fitness: NDArray[np.float64]) -> NDArray[np.float64]:
        """Shaped fitness ``(n,)``."""

    @abstractmethod
    def climb(self, pairs: Pairs) -> Diagnostics | None:
        """Move the mean, and return ``gradient_norm`` and ``half_agreement``."""
