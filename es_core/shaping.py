"""Fitness shaping: from raw fitness to the utilities that weigh the gradient."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray


def centered_ranks(fitness: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks scaled to [-0.5, 0.5] (Salimans et al. 2017, arXiv 1703.03864, section 2), ties averaged.

    Averaging matters at a score cap: candidates that all reach it must not be told apart by their order of arrival.

    Args:
        fitness: ``(n,)``, higher is better, finite.

    Returns:
        ``(n,)``; all zeros if all fitness is equal.
    """
    count = len(fitness)
    if count < 2:
        return np.zeros(count)
    values, inverse, sizes = np.unique(fitness, return_inverse=True, return_counts=True)
    if len(values) == 1:
        return np.zeros(count)
    last = np.cumsum(sizes) - 1
    mean_rank = last - (sizes - 1) / 2
    return np.asarray(mean_rank[inverse] / (count - 1) - 0.5)


SHAPINGS: Mapping[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {"centered_ranks": centered_ranks}
