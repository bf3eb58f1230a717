"""Observation normalisation: statistics that are frozen within a generation and travel with the policy."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CLIP = 5.0  # normalised observations are clipped to +-5 (Salimans et al. 2017, their released settings)
STD_FLOOR = 0.1  # the same source: an input that hardly moves is not blown up


@dataclass(frozen=True, eq=False)
class ObservationStatistics:
    """Sums over flattened observations; sums merge in any grouping, and are merged in candidate order.

    Attributes:
        count: number of observations.
        total: ``(n,)`` float64, their sum.
        squares: ``(n,)`` float64, the sum of their squares.
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

    def mean_and_scale(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Mean and reciprocal standard deviation, each ``(n,)`` float32; 0 and 1 before the first observation."""
        if self.count == 0:
            return np.zeros(len(self.total), np.float32), np.ones(len(self.total), np.float32)
        mean = self.total / self.count
        variance = np.maximum(self.squares / self.count - mean**2, STD_FLOOR**2)
        return mean.astype(np.float32), (1 / np.sqrt(variance)).astype(np.float32)
