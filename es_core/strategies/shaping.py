"""Fitness shaping: from raw fitness to the utilities that weigh the gradient.

Each function takes finite fitness ``(n,)``, higher is better, and returns utilities ``(n,)``: equal ones for equal
fitness, and all zeros if all fitness is equal, since then nothing has been learnt.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from es_envs.arguments import require_one_of

Values = NDArray[np.float64]


def by_rank(fitness: Values, utilities: Values) -> Values:
    """Give the best candidate the first of ``utilities`` ``(n,)``, and so on; tied candidates share the average.

    Averaging matters at a score cap: candidates that all reach it must not be ranked by their order of arrival.
    """
    values, place, sizes = np.unique(fitness, return_inverse=True, return_counts=True)
    if len(values) < 2:
        return np.zeros(len(fitness))
    ascending = np.sort(place)
    shared = np.bincount(ascending, weights=utilities[::-1]) / sizes
    return np.asarray(shared[place])


def centered_ranks(fitness: Values) -> Values:
    """Ranks scaled to [-0.5, 0.5] (Salimans et al. 2017, arXiv 1703.03864, section 2)."""
    return by_rank(fitness, np.linspace(0.5, -0.5, len(fitness)))


def linear_ranks(fitness: Values) -> Values:
    """Ranks scaled to [0, 1]: in mirrored pairs the same as centred ones."""
    return by_rank(fitness, np.linspace(1.0, 0.0, len(fitness)))


def nes_utilities(fitness: Values) -> Values:
    """max(0, ln(n/2 + 1) - ln k) for rank k = 1, 2, ..., scaled to sum 1, minus 1/n.

    Wierstra et al. 2014, "Natural Evolution Strategies", JMLR 15, section 3.1.
    """
    count = len(fitness)
    weights = np.maximum(0.0, math.log(count / 2 + 1) - np.log(np.arange(1, count + 1)))
    return by_rank(fitness, weights / weights.sum() - 1 / count)


def z_scores(fitness: Values) -> Values:
    """Deviations from the mean in standard deviations. In mirrored pairs: ARS's differences (Mania et al. 2018)."""
    if fitness.min() == fitness.max():
        return np.zeros(len(fitness))
    return np.asarray((fitness - fitness.mean()) / fitness.std())


def raw(fitness: Values) -> Values:
    """The fitness itself."""
    return np.zeros(len(fitness)) if fitness.min() == fitness.max() else fitness


SHAPINGS: Mapping[str, Callable[[Values], Values]] = {
    "centered_ranks": centered_ranks,
    "linear_ranks": linear_ranks,
    "nes": nes_utilities,
    "z_score": z_scores,
    "raw": raw,
    "sign": raw,
    "centered_sign": centered_ranks,
}


def find_shaping(name: str) -> Callable[[Values], Values]:
    """Return the shaping of this name.

    Raises:
        ValueError: there is none; the message lists the names.
    """
    require_one_of("shaping", name, SHAPINGS)
    return SHAPINGS[name]
