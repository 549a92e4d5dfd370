"""Tests against thresholds: as SciPy's where those exist, and wrong as rarely as they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from commonweal.study.significance import holm, significance_of

draws = pytest.mark.parametrize("draws", [200, pytest.param(2000, marks=pytest.mark.soak)])


def first(means):
    return means[:, 0]


def each(means):
    return means


def correlated(rng, count, columns, correlation):
    """Replications (rows) of figures that move together, as those of neighbouring μ do."""
    common = rng.normal(size=(count, 1))
    own = rng.normal(size=(count, columns))
    return np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own


@pytest.mark.parametrize("count", [5, 20])
def test_the_test_of_a_mean_is_students(count):
    values = np.random.default_rng(count).normal(0.3, size=(count, 1))
    ours, theirs = significance_of(values, first, 0.0), stats.ttest_1samp(values[:, 0], 0.0)
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=0.1), "the error comes from bootstrap draws"


@pytest.mark.parametrize("count", [5, 20])
@pytest.mark.parametrize("over", ["some", "all"])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.95])
@draws
def test_several_figures_at_the_threshold_are_rarely_decided(count, over, correlation, draws):
    """At most 5 % of the result sets, give or take three standard errors; the interval excludes as rarely."""
    rng = np.random.default_rng([count, int(100 * correlation)])
    decided = excluded = 0
    for _ in range(draws):
        found = significance_of(correlated(rng, count, 6, correlation), each, 0.0, over)
        decided += found.p_value <= 0.05
        excluded += found.interval.lower > 0 or found.interval.upper <= 0
    limit = 0.05 + 3 * np.sqrt(0.05 * 0.95 / draws)
    assert decided / draws <= limit
    assert excluded / draws <= limit


@pytest.mark.parametrize("statistic", [first, lambda means: 1 - means[:, 0] / means[:, 1]])
@pytest.mark.parametrize("count", [5, 20])
@draws
def test_one_figure_at_the_threshold_is_rarely_decided(statistic, count, draws):
    """Means of durations, whole numbers from a skewed distribution, and leads relative to others."""
    rng = np.random.default_rng(count)
    decided = 0
    for _ in range(draws):
        values = 1 + rng.poisson(4.0, size=(count, 2)).astype(float)
        values[:, 1] = (values[:, 1] + 1 + rng.poisson(4.0, size=(3, count)).sum(axis=0) + 2) / 4  # of four others
        threshold = 5.0 if statistic is first else 0.0
        decided += significance_of(values, statistic, threshold).p_value <= 0.05
    assert decided / draws <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / draws)


def test_power_is_how_often_an_effect_of_that_size_is_found():
    rng = np.random.default_rng(3)
    found = [significance_of(rng.normal(0.6, size=(20, 1)), first, 0.0) for _ in range(1000)]
    detected = np.mean([one.p_value <= 0.05 for one in found])
    exact = stats.nct.sf(stats.t.ppf(0.975, 19), 19, 0.6 * np.sqrt(20))
    assert detected == pytest.approx(exact, abs=0.04)
    values = np.resize([0.6 - np.sqrt(19 / 20), 0.6 + np.sqrt(19 / 20)], 20)[:, None]  # mean 0.6, deviation 1
    assert significance_of(values, first, 0.0).power == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize(("over", "means"), [("some", (0.7, -2.0)), ("some", (-0.7, -2.0)), ("all", (0.7, 2.0))])
def test_power_over_several_is_how_often_the_claim_is_decided_on_that_side(over, means):
    """A figure that lies far on the other side decides nothing."""
    rng = np.random.default_rng(4)
    noise = rng.normal(size=(300, 12, 2))
    detected = np.mean([significance_of(one + means, each, 0.0, over).p_value <= 0.05 for one in noise])
    exactly = (noise[0] - noise[0].mean(axis=0)) / noise[0].std(axis=0, ddof=1) + means  # means and deviations as given
    assert significance_of(exactly, each, 0.0, over).power == pytest.approx(detected, abs=0.09)


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_steps_down(p_values):
    adjusted = holm(p_values)
    for level in (0.01, 0.05, 0.3):
        rejected = set()
        for place, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
            if p_values[index] * (len(p_values) - place) > level:
                break
            rejected.add(index)
        assert {index for index, p in enumerate(adjusted) if p <= level} == rejected


def test_equal_replications_are_certain():
    above = significance_of(np.full((5, 1), 0.1), first, 0.0)
    below = significance_of(np.full((5, 1), -0.1), first, 0.0)
    assert (above.p_value, below.p_value, above.power) == (0, 0, 1)
    assert above.interval.lower == above.interval.upper == 0.1
