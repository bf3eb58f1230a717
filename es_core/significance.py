"""What a sample says: an interval of its mean, and whether two groups differ by more than chance.

Samples are the episodes of a policy, or the runs of a group. Intervals of fewer than 20 values are Student's t, whose
coverage is right for normal values however few there are; from 20 values on they come from the seeded bootstrap
(Efron 1979), which asks for no distribution, and is too narrow for fewer.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from es_core.seeding import Purpose, derive, generator

Values = Sequence[float] | NDArray[np.float64]

_RESAMPLES = 2000
_BOOTSTRAP_FROM = 20  # values
_AT_ONCE = 1_000_000  # numbers of resamples in memory
_MOST_EXACT = 50_000  # relabellings of a permutation test that are all tried; of more, so many are drawn


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number of a group of runs, and its 95 % interval, which neither one run nor equal ones have."""

    value: float
    interval: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How far two groups' means are apart, and what a two-sided permutation test says of it.

    Attributes:
        value: the second group's mean minus the first one's.
        p: probability of a difference as large as this, or larger, if it made no difference which group a run is in.
        least: the smallest p that so many runs can give.
        method: "paired" (the signs of the differences between runs of equal seed are flipped) or "unpaired" (the runs
            are dealt out to the groups anew).
        exact: all relabellings were tried, not a sample of them.
    """

    value: float
    p: float
    least: float
    method: str
    exact: bool


def mean(values: Values) -> Estimate:
    """The mean, with its 95 % interval."""
    return _estimate(values, lambda rows: rows.mean(axis=1))


def interquartile_mean(values: Values) -> Estimate:
    """The mean of the middle half, which single runs that fail or excel do not move (Agarwal et al. 2021, section 4.2).

    Its interval for fewer than 20 values is that of the jackknife (Tukey 1958), which covers about 90 %.
    """
    return _estimate(values, _middle_mean)


def lower_bound(values: Values, error: float) -> float:
    """What the mean is not below, but for a probability of ``error`` (Student's t); of equal values their value."""
    numbers = np.array(values, float)
    if numbers.min() == numbers.max():
        return float(numbers[0])
    return float(numbers.mean() - _t(1 - error, len(numbers)) * numbers.std(ddof=1) / math.sqrt(len(numbers)))


def mean_band(curves: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Means ``(t,)`` of curves ``(n, t)``, and the lower and upper ends of their 95 % intervals.

    The bootstrap resamples whole curves. NaN where a curve has no value, and in the ends for a single curve.
    """
    n, length = curves.shape
    means = curves.mean(axis=0)
    if n == 1:
        unknown = np.full(length, np.nan)
        return means, unknown, unknown
    if n < _BOOTSTRAP_FROM:
        half = _t(0.975, n) * curves.std(axis=0, ddof=1) / math.sqrt(n)
        return means, means - half, means + half
    # As weights of the curves, so that the memory is that of the resamples times the curves' length.
    weights = np.concatenate([np.stack([np.bincount(pick, minlength=n) for pick in block]) for block in _picks(n)]) / n
    low, high = np.quantile(weights @ curves, [0.025, 0.975], axis=0)
    return means, low, high


def compare_paired(first: Values, second: Values) -> Difference:
    """Test runs of the same seeds: ``first[k]`` and ``second[k]`` belong together."""
    differences = np.array(second, float) - np.array(first, float)
    n = len(differences)
    exact = 2**n <= _MOST_EXACT
    signs = 1.0 - 2.0 * (np.arange(2**n)[:, None] >> np.arange(n) & 1) if exact else _signs(n)
    return _test(signs @ differences / n, float(differences.mean()), 2 / 2**n, "paired", exact=exact)


def compare_unpaired(first: Values, second: Values) -> Difference:
    """Test runs of different seeds."""
    numbers = np.array([*first, *second], float)
    n, m = len(first), len(second)
    ways = math.comb(n + m, n)
    exact = ways <= _MOST_EXACT
    members = np.zeros((ways if exact else _MOST_EXACT, n + m), bool)
    chosen = np.array(list(itertools.combinations(range(n + m), n))) if exact else _deals(n + m, n)
    np.put_along_axis(members, chosen, values=True, axis=1)
    sums = members @ numbers
    observed = float(np.mean(second) - np.mean(first))
    least = (2 if n == m else 1) / ways
    return _test((numbers.sum() - sums) / m - sums / n, observed, least, "unpaired", exact=exact)


def _estimate(values: Values, measure: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Estimate:
    numbers = np.array(values, float)
    n, value = len(numbers), float(measure(numbers[None])[0])
    if numbers.min() == numbers.max():
        return Estimate(value=float(numbers[0]), interval=None)
    if n < _BOOTSTRAP_FROM:
        # Each of the values left out in turn; for the mean this is the standard error s / sqrt(n).
        without = measure(np.stack([np.delete(numbers, k) for k in range(n)]))
        half = _t(0.975, n) * math.sqrt((n - 1) * without.var())
        return Estimate(value=value, interval=(value - half, value + half))
    resampled = np.concatenate([measure(numbers[picks]) for picks in _picks(n)])
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Estimate(value=value, interval=(float(low), float(high)))


def _t(share: float, n: int) -> float:
    """The quantile of Student's distribution for the mean of ``n`` values."""
    from scipy.special import stdtrit  # scipy.stats would take a second to load

    return float(stdtrit(n - 1, share))


def _test(relabelled: NDArray[np.float64], observed: float, least: float, method: str, *, exact: bool) -> Difference:
    # A sum in another order may differ in its last bits: what is equal must count as equal.
    tolerance = 1e-9 * max(1.0, float(np.abs(relabelled).max()))
    extreme = int(np.sum(np.abs(relabelled) >= abs(observed) - tolerance))
    # What was observed is itself one of the relabellings (Phipson and Smyth 2010).
    p = extreme / len(relabelled) if exact else (extreme + 1) / (len(relabelled) + 1)
    return Difference(value=observed, p=p, least=least, method=method, exact=exact)


def _middle_mean(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means ``(r,)`` of each row's ``(r, n)`` values between the quartiles; those at the edges count in part."""
    n = rows.shape[1]
    edges = np.clip(np.arange(n + 1), n / 4, 3 * n / 4)
    middle: NDArray[np.float64] = np.sort(rows, axis=1) @ np.diff(edges) / (n / 2)
    return middle


def _picks(n: int) -> Iterator[NDArray[np.int64]]:
    """Resamples of ``n`` values, some at a time so that memory stays small; they depend on nothing but ``n``."""
    drawn, rows = _generator(n), max(1, _AT_ONCE // n)
    for start in range(0, _RESAMPLES, rows):
        yield drawn.integers(n, size=(min(rows, _RESAMPLES - start), n))


def _signs(n: int) -> NDArray[np.float64]:
    return _generator(n).choice((1.0, -1.0), size=(_MOST_EXACT, n))


def _deals(runs: int, n: int) -> NDArray[np.int64]:
    return _generator(runs).random((_MOST_EXACT, runs)).argsort(axis=1)[:, :n]


def _generator(n: int) -> np.random.Generator:
    return generator(derive(0, Purpose.COMPARISON, 0, n))
