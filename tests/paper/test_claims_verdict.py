"""The one rule of verdicts, and the intervals it judges by."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from commonweal.paper.claims.claim import ALL, FEWEST_REPLICATIONS, Effect, share_without_failure, verdict
from commonweal.records.study import Interval
from commonweal.study.intervals import LEVEL, mean_interval, mean_intervals, statistic_interval

numbers = st.floats(-1e6, 1e6)
intervals = st.tuples(numbers, numbers, numbers).map(sorted).map(lambda s: Interval(lower=s[0], value=s[1], upper=s[2]))
enough = st.integers(FEWEST_REPLICATIONS, 1000)


small = st.floats(0, 1 - LEVEL)


@given(interval=intervals, threshold=numbers, count=enough, p=small)
def test_the_rule(interval: Interval, threshold: float, count: int, p: float) -> None:
    judged = verdict(interval, threshold, p_value=p, replication_count=count)
    assert (judged == "held") == (interval.lower > threshold)
    assert (judged == "not held") == (interval.upper <= threshold)
    if judged == "held":
        assert verdict(interval, interval.upper, p_value=p, replication_count=count) == "not held"
    if interval.lower <= threshold < interval.upper:
        assert judged == "undecided"
    assert verdict(interval, threshold, p_value=0.0501, replication_count=count) == "undecided"


@given(interval=intervals, threshold=numbers, count=st.integers(1, FEWEST_REPLICATIONS - 1))
def test_few_replications_decide_nothing(interval: Interval, threshold: float, count: int) -> None:
    assert verdict(interval, threshold, p_value=0.0, replication_count=count) == "undecided"


@given(interval=intervals, threshold=numbers, more=st.floats(0, 1e6), count=enough)
def test_a_higher_threshold_is_never_easier(interval: Interval, threshold: float, more: float, count: int) -> None:
    ranks = {"not held": 0, "undecided": 1, "held": 2}
    low, high = (verdict(interval, t, p_value=0.0, replication_count=count) for t in (threshold, threshold + more))
    assert ranks[high] <= ranks[low]


def judged(effect: Effect, threshold: float = 0.0) -> str:
    found = effect.test(threshold)
    return verdict(found.interval, threshold, p_value=found.p_value, replication_count=len(effect.values))


@given(values=st.lists(st.floats(-100, 100), min_size=5, max_size=30), shift=st.floats(1, 100))
def test_samples_wholly_on_one_side_are_never_decided_for_the_other(values: list[float], shift: float) -> None:
    above = np.abs(values) + shift
    for sample, wrong in ((above, "not held"), (-above, "held")):
        assert judged(Effect(sample)) != wrong
    close = 100 + above / (1 + above.max())  # far from zero compared with its spread
    for sample, expected in ((close, "held"), (-close, "not held")):
        assert judged(Effect(sample)) == expected


def test_only_a_share_of_exactly_1_is_above_the_threshold_all() -> None:
    assert ALL < 1
    assert math.nextafter(ALL, 1) == 1
    every = Effect(np.array([[0.0, 7.0], [0.0, 3.0], [0.0, 1e9]] * 2), share_without_failure)
    assert every.test(ALL).interval == every.census() == Interval(value=1, lower=1, upper=1)
    one = Effect(np.array([[0.0, 7.0], [1.0, 1e9], [0.0, 3.0]] * 2), share_without_failure)
    assert one.census().value < ALL
    nothing = Effect(np.zeros((5, 2)), share_without_failure)
    assert nothing.census().value == 1


@given(rows=st.lists(st.tuples(numbers, numbers), min_size=2, max_size=12), seed=st.integers(0, 2**32))
def test_the_order_of_replications_does_not_matter(rows: list[tuple[float, float]], seed: int) -> None:
    values = np.array(rows)
    shuffled = np.random.default_rng(seed).permutation(values)
    for statistic in (lambda means: means[:, 0], lambda means: means.min(axis=1)):
        assert Effect(values, statistic).test(0.0) == Effect(shuffled, statistic).test(0.0)


@given(rows=st.lists(st.tuples(numbers, numbers, numbers), min_size=2, max_size=12))
def test_a_statistic_of_one_mean_is_that_mean(rows: list[tuple[float, float, float]]) -> None:
    values = np.array(rows)
    for column, interval in enumerate(mean_intervals(values)):
        same = statistic_interval(values, lambda means, c=column: means[:, c])  # type: ignore[misc]
        assert [same.lower, same.value, same.upper] == pytest.approx(
            [interval.lower, interval.value, interval.upper], rel=1e-9, abs=1e-6
        )


@given(value=numbers, count=st.integers(1, 100))
def test_equal_replications_have_no_spread(value: float, count: int) -> None:
    point = Interval(value=value, lower=value, upper=value)
    assert mean_interval(np.full(count, value)) == point
    assert statistic_interval(np.full((count, 2), value), lambda means: means[:, 0]) == point


@pytest.mark.parametrize("count", [10, 30, 100])
def test_intervals_are_those_of_scipy(count: int) -> None:
    values = np.random.default_rng(count).gamma(2.0, size=(count, 3))
    values[:, 1] -= 5
    for column, ours in zip(values.T, mean_intervals(values), strict=True):
        theirs = stats.bootstrap(
            (column,),
            np.mean,
            n_resamples=20_000,
            confidence_level=LEVEL,
            method="percentile",
            rng=np.random.default_rng(1),
        ).confidence_interval
        error = column.std() / math.sqrt(count)
        # Ours are wider: Student's t instead of the normal quantile, and the deviation of n − 1.
        wider = stats.t.ppf(0.975, count - 1) / stats.norm.ppf(0.975) * math.sqrt(count / (count - 1))
        assert ours.value - ours.lower == pytest.approx(wider * (column.mean() - theirs.low), abs=0.2 * error)
        assert ours.upper - ours.value == pytest.approx(wider * (theirs.high - column.mean()), abs=0.2 * error)
        assert ours.value == pytest.approx(column.mean())


@pytest.mark.parametrize("count", [5, 9, 20, 100])
def test_an_interval_holds_the_truth_as_often_as_it_says(count: int) -> None:
    """For two thousand samples: 95 %, give or take three standard errors and a little for the draws."""
    samples = np.random.default_rng(5).normal(3.0, 2.0, size=(count, 2000))
    holding = np.mean([interval.lower <= 3.0 <= interval.upper for interval in mean_intervals(samples)])
    assert 0.93 <= holding <= 0.97


def test_intervals_of_normal_figures_are_students() -> None:
    values = np.random.default_rng(7).normal(size=(8, 400))
    ours = mean_intervals(values)
    low, high = stats.t.interval(LEVEL, 7, values.mean(axis=0), stats.sem(values))
    widths = np.array([interval.upper - interval.lower for interval in ours])
    assert np.mean(widths / (high - low)) == pytest.approx(1, abs=0.02)
