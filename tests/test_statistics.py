"""Intervals, bounds and tests, against textbook values and by simulation."""

import math

import numpy as np
import pytest

from es_core.formatting import figures
from es_core.runs.scores import Evaluation
from es_core.statistics import interquartile_mean, lower_bound, mean, mean_band
from es_envs import Episode


def scored(*fitnesses, final_infos=()):
    """The evaluation of episodes of such fitness."""
    infos = final_infos or [{}] * len(fitnesses)
    return Evaluation.from_episodes([
        Episode(
            seed=k, total_reward=value, length=10, terminated=True, truncated=False, final_info=info,
            fitnesses={"episode_return": float(value)},
        )
        for k, (value, info) in enumerate(zip(fitnesses, infos, strict=True))
    ])  # fmt: skip


def coverage(n, draw, estimate=mean, repeats=1000):
    """How often the interval of ``n`` values holds the mean that they are drawn around, which is 0."""
    generator = np.random.default_rng(n)
    intervals = [estimate(draw(generator, n)).interval for _ in range(repeats)]
    return np.mean([low <= 0 <= high for low, high in intervals])


def normal(generator, n):
    return generator.normal(size=n)


@pytest.mark.parametrize(("n", "share"), [(2, 0.5), (3, 0.75), (4, 0.88), (5, 0.92), (6, 0.94), (8, 0.95), (19, 0.95)])
def test_the_interval_of_a_few_normal_values_covers_as_it_says(n, share):
    assert coverage(n, normal, repeats=4000) == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("estimate", [mean, interquartile_mean])
@pytest.mark.parametrize("values", [(500, 500, 458), (-77, 12, 9, 722), (0, 0, 0, 0, 0, 0, 0, 1), range(30)])
def test_an_interval_stays_between_the_lowest_and_the_highest_value(values, estimate):
    low, high = estimate(values).interval
    assert min(values) <= low <= high <= max(values)
    curves = np.array([values], float).T
    _, lows, highs = mean_band(curves)
    assert min(values) <= lows[0] < highs[0] <= max(values)


def test_the_interval_of_many_values_covers_as_it_says():
    assert 0.9 < coverage(20, normal, repeats=400) < 0.97
    assert 0.9 < coverage(60, normal, repeats=400) < 0.98


@pytest.mark.parametrize("n", [6, 8, 20])
def test_the_interval_of_an_interquartile_mean_covers_nearly_as_it_says(n):
    assert 0.87 < coverage(n, normal, interquartile_mean, repeats=400) < 0.98


def test_the_interval_of_a_few_values_is_that_of_the_textbook():
    # Student's t for 4 degrees of freedom: 2.7764
    half = 2.7764 * math.sqrt(2.5) / math.sqrt(5)
    assert mean([1, 2, 3, 4, 5]).interval == pytest.approx((3 - half, 3 + half), abs=1e-4)
    curves = np.array([[1.0, 2.0, 3.0, 4.0, 5.0]]).T
    assert [float(end[0]) for end in mean_band(curves)] == pytest.approx([3, 3 - half, 3 + half], abs=1e-4)


def test_the_interval_of_many_values_has_95_percent_between_its_ends():
    values = np.random.default_rng(1).normal(size=400)
    low, high = mean(values).interval
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.06)


@pytest.mark.parametrize("n", [1, 2, 19, 20, 100])
def test_equal_scores_have_no_interval(n):
    for estimate in (mean, interquartile_mean):
        assert estimate([0.1] * n).interval is None
    score = scored(*[0.1] * n)
    assert score.interval is None
    assert ("a single episode" if n == 1 else f"all {n} alike") in str(score)
    assert Evaluation.from_json(score.to_json()) == score


def test_a_lower_bound_is_missed_as_often_as_it_says():
    generator = np.random.default_rng(3)
    for n, error in ((5, 0.05), (100, 0.025)):
        above = [lower_bound(generator.normal(size=n), error) > 0 for _ in range(4000)]
        assert np.mean(above) == pytest.approx(error, abs=0.01)
    assert lower_bound([500.0] * 100, 0.001) == 500
    assert lower_bound([499.0, *[500.0] * 99], 0.025) < 500


@pytest.mark.parametrize(("successes", "low", "high"), [(0, 0.0, 0.2775), (5, 0.2366, 0.7634), (10, 0.7225, 1.0)])
def test_the_interval_of_a_success_rate_is_wilsons(successes, low, high):
    infos = [{"is_success": k < successes} for k in range(10)]
    score = scored(*range(10), final_infos=infos)
    assert score.success_rate == successes / 10
    assert score.success_interval == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(("telling", "rate"), [(0, None), (1, 0.1), (9, 0.9)])
def test_an_episode_that_says_nothing_of_success_had_none_where_others_do(telling, rate):
    score = scored(*range(10), final_infos=[{"is_success": True}] * telling + [{}] * (10 - telling))
    assert score.success_rate == rate


@pytest.mark.parametrize("value", [0.3, 0.7, 0.9, 1.1, 2.3])
@pytest.mark.parametrize("episodes", [10, 20, 100])
def test_the_mean_of_equal_scores_is_their_value(value, episodes):
    score = scored(*[value] * episodes)
    assert (score.mean, score.std) == (value, 0.0)


@pytest.mark.parametrize(
    ("value", "interval", "text"),
    [
        (-0.0212, (-0.0217, -0.0207), "-0.0212"),
        (480.34, (474.0, 487.0), "480"),
        (15.657, (15.654, 15.66), "15.6570"),
        (-0.3, (-6.0, 5.0), "0"),
        (12345.6, (12000.0, 12600.0), "12\u202f346"),
        (1.25e-12, (1.1e-12, 1.4e-12), "1.25e-12"),
        (500.0, (500.0, np.nextafter(500.0, 501.0)), "500.0000000000000"),
        (500.0, None, "500.00"),
        (0.123456, None, "0.123"),
        (1234567, None, "1\u202f234\u202f567"),
        (None, None, "-"),
    ],
)
def test_a_number_has_as_many_digits_as_its_interval_allows(value, interval, text):
    assert figures(value, interval) == text


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3])
def test_the_ends_of_an_interval_differ_at_any_scale(scale):
    low, mid, high = (figures(each * scale, (0.9 * scale, 1.1 * scale)) for each in (0.9, 1.0, 1.1))
    assert len({low, mid, high}) == 3
    text = str(scored(*(scale * np.linspace(-1.001, -0.999, 30))))
    assert len({text.split()[i] for i in (0, 4, 6)}) == 3, text
