"""Mirrored pairs: what the strategies have in common whose candidates are mean + noise and mean - noise."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from es_core.optimizers import norm
from es_core.strategies.population import Population, weighted_noise
from es_core.strategies.strategy import Diagnostics, Strategy, cosine


@dataclass(frozen=True)
class Pairs:
    """The pairs of a generation that count.

    Attributes:
        seeds: of their noise.
        plus: ``(p,)`` utilities of mean + noise.
        minus: ``(p,)`` utilities of mean - noise.
    """

    seeds: list[int]
    plus: NDArray[np.float64]
    minus: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.seeds)


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
        """Weigh the pairs, and climb."""
        pairs = np.flatnonzero(valid[0::2])
        plus, minus = fitness[0::2][pairs], fitness[1::2][pairs]
        best = self._best(np.maximum(plus, minus))
        utilities = self.utilities(np.stack([plus[best], minus[best]], axis=1).ravel())
        seeds = population.noise_seed[0::2][pairs[best]].tolist()
        return self.climb(Pairs(seeds, utilities[0::2], utilities[1::2]))

    def _best(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Places of the pairs that count, in ascending order."""
        return np.arange(len(scores))

    @abstractmethod
    def utilities(self, fitness: NDArray[np.float64]) -> NDArray[np.float64]:
        """Shaped fitness ``(n,)``."""

    @abstractmethod
    def climb(self, pairs: Pairs) -> Diagnostics | None:
        """Move the mean; returns ``gradient_norm`` and ``half_agreement``."""


def gradient(pairs: Pairs, size: int) -> tuple[NDArray[np.float64], float, float | None]:
    """1/(2p) sum over p pairs of (plus - minus) noise, ``(d,)``; its length, and how well its halves agree.

    Times 1/sigma it is the gradient of the expected fitness (Salimans et al. 2017, equation 1), from mirrored samples.
    The halves are the pairs of even and of odd number.
    """
    weights = (pairs.plus - pairs.minus) / (2 * len(pairs))
    first, second = (weighted_noise(pairs.seeds[half::2], weights[half::2].tolist(), size) for half in (0, 1))
    agreement = cosine(first, second)
    first += second
    return first, norm(first), agreement
