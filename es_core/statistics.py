"""Statistics of a sample: intervals of its mean, and tests of differences between two groups.

Samples are the episodes of a policy, or the runs of a group. Intervals of fewer than 20 values are Student's t, whose
coverage is right for normal values however few there are; from 20 values on they come from the seeded bootstrap
(Efron 1979), which assumes no distribution, but is too narrow for fewer values. No interval leaves the range of its
values: a score of 518 would be nonsense where 500 is the most. Of two to five normal values it therefore covers the
mean less often than 95 %: in 50, 75, 88 and 92 % of cases.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

import numpy as np
from numpy.typing import NDArray

from es_core.seeding import Purpose, derive, generator

Values = Sequence[float] | NDArray[np.float64]

_RESAMPLES = 2000
_BOOTSTRAP_FROM = 20  # values
_AT_ONCE = 1_000_000  # numbers of resamples in memory
_Z = 1.959963984540054  # 97.5 % quantile of the normal distribution
_MOST_EXACT = 50_000  # maximum of relabellings to try all of; of more, so many are drawn


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number of a group of runs, and its 95 % interval, which a single run or equal ones do not have."""

    value: float
    interval: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Difference between two groups' means, and the result of a two-sided test of it.

    Attributes:
        value: the second group's mean minus the first one's.
        p: probability of a difference at least as large between groups that do not differ; None if the runs cannot
            tell: a group of one run, or two groups without any scatter.
        method: "Welch's t" (which allows different scatter of the groups), "paired, exact" or "paired, sampled" (all
            signs of the differences within pairs are tried, or a sample of them).
        least: the smallest p that the test can give: with all signs of n pairs 2 / 2**n, with a sample of m of them
            1 / (m + 1); None for Welch's t.
        correlation: correlation between the two runs of a pair; None if unpaired, or if a group's runs are all alike.
    """

    value: float
    p: float | None
    method: str
    least: float | None = None
    correlation: float | None = None

    @property
    def test(self) -> str:
        """The test in words, with what a reader must know about it."""
        least = "" if self.least is None else f"; p is at least {self.least:.2g}"
        shared = "" if self.correlation is None else f"; correlation of the pairs {self.correlation:.2f}"
        return f"{self.method}{least}{shared}"


def mean(values: Values) -> Estimate:
    """The mean, with its 95 % interval."""
    return _estimate(values, lambda rows: rows.mean(axis=1))


def interquartile_mean(values: Values) -> Estimate:
    """The mean of the middle half, which single failures or successes do not move (Agarwal et al. 2021, section 4.2).

    Its interval for fewer than 20 values is the jackknife's (Tukey 1958), which covers about 90 %.
    """
    return _estimate(values, _middle_mean)


def lower_bound(values: Values, error: float) -> float:
    """Lower bound of the mean, wrong with probability ``error`` (Student's t); of equal values their value."""
    numbers = np.array(values, float)
    if numbers.min() == numbers.max():
        return float(numbers[0])
    return float(numbers.mean() - _t(1 - error, len(numbers)) * numbers.std(ddof=1) / math.sqrt(len(numbers)))


def share_interval(successes: int, trials: int) -> tuple[float, float]:
    """95 % interval of a share of successes (Wilson 1927)."""
    rate, squared = successes / trials, _Z**2 / trials
    centre = (rate + squared / 2) / (1 + squared)
    half = _Z / (1 + squared) * math.sqrt(rate * (1 - rate) / trials + squared / (4 * trials))
    return max(0.0, centre - half), min(1.0, centre + half)


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
        return means, np.maximum(means - half, curves.min(axis=0)), np.minimum(means + half, curves.max(axis=0))
    # As weights of the curves, so that the memory is that of the resamples times the curves' length.
    weights = np.concatenate([np.stack([np.bincount(pick, minlength=n) for pick in block]) for block in _picks(n)]) / n
    low, high = np.quantile(weights @ curves, [0.025, 0.975], axis=0)
    return means, low, high


def compare_paired(first: Values, second: Values) -> Difference:
    """Test runs that share their starts, by permutation: ``first[k]`` and ``second[k]`` belong together."""
    one, other = np.array(first, float), np.array(second, float)
    differences = other - one
    n = len(differences)
    exact = 2**n <= _MOST_EXACT
    signs = 1.0 - 2.0 * (np.arange(2**n)[:, None] >> np.arange(n) & 1) if exact else _signs(n)
    relabelled, value = np.abs(signs @ differences) / n, float(differences.mean())
    # A sum in another order may differ in its last bits: equal sums must count as equal.
    rounding = 1e-9 * float(max(np.abs(one).max(), np.abs(other).max()))
    extreme = int(np.sum(relabelled >= abs(value) - rounding))
    # Beside a sample, what was observed is itself one of the relabellings (Phipson and Smyth 2010).
    p = extreme / len(relabelled) if exact else (extreme + 1) / (len(relabelled) + 1)
    least = 2 / len(relabelled) if exact else 1 / (len(relabelled) + 1)
    spreads = one.std() * other.std()
    shared = float(np.mean((one - one.mean()) * (other - other.mean())) / spreads) if spreads > 0 else None
    method = f"paired, {'exact' if exact else 'sampled'}"
    return Difference(value=value, p=p, method=method, least=least, correlation=shared)


def compare_unpaired(first: Values, second: Values) -> Difference:
    """Test runs that have nothing in common, by the t test of Welch (1947)."""
    groups = [np.array(values, float) for values in (first, second)]
    value, p = float(groups[1].mean() - groups[0].mean()), None
    if min(map(len, groups)) > 1 and any(np.ptp(group) > 0 for group in groups):
        from scipy.special import stdtr

        squares = [group.var(ddof=1) / len(group) for group in groups]
        freedom = sum(squares) ** 2 / sum(
            square**2 / (len(group) - 1) for square, group in zip(squares, groups, strict=True)
        )
        p = float(2 * stdtr(freedom, -abs(value) / math.sqrt(sum(squares))))
    return Difference(value=value, p=p, method="Welch's t")


def is_gain(before: Sequence[float], after: Sequence[float], *, errors: float) -> bool:
    """Return True if the mean of some values is higher than that of earlier ones by so many standard errors."""
    try:
        error = math.sqrt(sum(variance(part) / len(part) for part in (before, after)))
        return fmean(after) - fmean(before) > errors * error
    except OverflowError:  # near the largest number there is
        return False


def _estimate(values: Values, measure: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Estimate:
    numbers = np.array(values, float)
    n, value = len(numbers), float(measure(numbers[None])[0])
    if numbers.min() == numbers.max():
        return Estimate(value=float(numbers[0]), interval=None)
    if n < _BOOTSTRAP_FROM:
        # Each of the values left out in turn; for the mean this is the standard error s / sqrt(n).
        without = measure(np.stack([np.delete(numbers, k) for k in range(n)]))
        half = _t(0.975, n) * math.sqrt((n - 1) * without.var())
        return Estimate(
            value=value, interval=(float(max(value - half, numbers.min())), float(min(value + half, numbers.max())))
        )
    resampled = np.concatenate([measure(numbers[picks]) for picks in _picks(n)])
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Estimate(value=value, interval=(float(low), float(high)))


def _t(share: float, n: int) -> float:
    """Quantile of Student's distribution for the mean of ``n`` values."""
    from scipy.special import stdtrit  # scipy.stats would take a second to load

    return float(stdtrit(n - 1, share))


def _middle_mean(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means ``(r,)`` of each row's ``(r, n)`` values between the quartiles; those at the edges count in part."""
    n = rows.shape[1]
    edges = np.clip(np.arange(n + 1), n / 4, 3 * n / 4)
    middle: NDArray[np.float64] = np.sort(rows, axis=1) @ np.diff(edges) / (n / 2)
    return middle


def _picks(n: int) -> Iterator[NDArray[np.int64]]:
    """Resamples of ``n`` values, some at a time so that memory stays small; they depend only on ``n``."""
    drawn, rows = _generator(n), max(1, _AT_ONCE // n)
    for start in range(0, _RESAMPLES, rows):
        yield drawn.integers(n, size=(min(rows, _RESAMPLES - start), n))


def _signs(n: int) -> NDArray[np.float64]:
    return _generator(n).choice((1.0, -1.0), size=(_MOST_EXACT, n))


def _generator(n: int) -> np.random.Generator:
    return generator(derive(0, Purpose.COMPARISON, 0, n))
