"""Normalisation of observations and hidden layers: its statistics are fixed within a generation."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Normalization:
    """Map from observations ``(..., n)`` to a policy's inputs: ``(observations - center) * scale``, then clipped.

    Attributes:
        center: ``(n,)`` float32.
        scale: ``(n,)`` float32.
        clip: bound of the inputs on either side; None: no bound.
    """

    center: NDArray[np.float32]
    scale: NDArray[np.float32]
    clip: float | None


@dataclass(frozen=True, eq=False)
class ObservationStatistics:
    """Sums over flattened observations, or over generations' means; they are added up in candidate order.

    Attributes:
        count: number of observations, or of generations.
        total: ``(n,)`` float64, the sum of the observations, or of their means.
        squares: ``(n,)`` float64, the sum of their squares, or of these squares' means.
    """

    count: int
    total: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def empty(cls, size: int) -> "ObservationStatistics":
        """Statistics of no observation of ``size`` entries."""
        return cls(0, np.zeros(size), np.zeros(size))

    def merged(self, increments: Iterable["ObservationStatistics"]) -> "ObservationStatistics":
        """These statistics with ``increments`` added one after the other."""
        count, total, squares = self.count, self.total.copy(), self.squares.copy()
        for increment in increments:
            count += increment.count
            total += increment.total
            squares += increment.squares
        return ObservationStatistics(count, total, squares)

    def after(self, increments: Iterable["ObservationStatistics"]) -> "ObservationStatistics":
        """These statistics of generations after one more, with its candidates' observations.

        Each generation counts alike, however long its episodes were: where policies suddenly last ten times as long,
        the inputs of all of them would otherwise change at once, and what was learnt with the old ones be lost.
        """
        new = ObservationStatistics.empty(len(self.total)).merged(increments)
        if new.count == 0:
            return self
        return ObservationStatistics(
            self.count + 1, self.total + new.total / new.count, self.squares + new.squares / new.count
        )

    def normalization(self, *, std_floor: float, clip: float | None) -> Normalization:
        """Normalisation by mean and standard deviation; by 0 and 1 before the first observation.

        Args:
            std_floor: least standard deviation, so that an input that hardly changes is not magnified.
            clip: see ``Normalization``.
        """
        if self.count == 0:
            return Normalization(np.zeros(len(self.total), np.float32), np.ones(len(self.total), np.float32), clip)
        mean = self.total / self.count
        variance = np.maximum(self.squares / self.count - mean**2, std_floor**2)
        return Normalization(mean.astype(np.float32), (1 / np.sqrt(variance)).astype(np.float32), clip)


@dataclass(frozen=True, eq=False)
class ReferenceBatch:
    """Observations that normalise the hidden layers, the same for a whole run.

    Virtual batch normalisation: Salimans et al. 2016 (arXiv 1606.03498), section 3.5.

    Attributes:
        observations: ``(REFERENCE_SIZE, n)`` float32, flattened.
    """

    observations: NDArray[np.float32]


REFERENCE_SIZE = 128  # of OpenAI-ES on Atari (Salimans et al. 2017)

Statistics = ObservationStatistics | ReferenceBatch
