"""A client's own account of a round: what is only rounding is neither a gain nor a loss."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.client.reporting import Alone, Curve, account
from commonweal.task.measured import Measured
from commonweal.task.metrics import METRICS, own_metric

ACCURACY = METRICS["accuracy"]


@dataclass(frozen=True, kw_only=True)
class Terms:
    unit_value: float = 1.0
    cost_per_sample: float = 0.0
    cost_per_step: float = 0.0
    cost_per_round: float = 0.0
    worth_curve: Curve | None = None


def measured(value: float) -> Measured:
    return Measured(value=value, draws=np.full(2, value))


def profit_of(now: float, before: float, terms: Terms | None = None, metric=ACCURACY):
    own = account(terms or Terms(), metric, now=measured(now), before=measured(before), sample_count=10, step_count=3)
    return own.utility, own.profit


def test_equal_accuracies_that_were_added_up_differently_are_no_loss():
    now, before = 0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1
    assert now != before
    assert profit_of(now, before) == (0.0, 0.0)
    assert profit_of(before, now) == (0.0, 0.0)


def test_a_steep_worth_curve_does_not_turn_rounding_into_worth():
    steep = Terms(worth_curve=((0.8, 0.0), (0.8000001, 1e9)))
    assert profit_of(0.7 + 0.1, 0.8, steep) == (0.0, 0.0)
    utility, _ = profit_of(0.80000005, 0.8, steep)
    assert utility == pytest.approx(5e8)


def test_a_large_worth_is_rounded_relative_to_itself():
    curve = Terms(worth_curve=((0.0, 1e6), (1.0, 1e6 + 1e-7)))
    assert profit_of(1.0, 0.0, curve) == (0.0, 0.0)


@pytest.mark.parametrize(("name", "is_zero"), [("r2", True), ("accuracy", True), ("mean-absolute-error", False)])
def test_a_bounded_metric_near_zero_is_rounded_relative_to_its_bounds(name, is_zero):
    utility, _ = profit_of(1e-16, 2e-16, metric=METRICS[name])
    assert (utility == 0.0) == is_zero


def test_a_metric_of_ones_own_has_no_bounds():
    metric = own_metric("tiny", lambda targets, predictions, weights: 0.0)
    assert profit_of(2e-16, 1e-16, metric=metric) == (1e-16, 1e-16)


def test_an_advantage_that_equals_the_cost_that_it_saves_is_no_profit():
    """0.02 less than alone, two steps of 0.01 saved: 0 on paper, and 3e-18 in doubles."""
    assert 0.01 - 0.03 + 0.01 * 2 != 0
    own = account(
        Terms(cost_per_step=0.01),
        ACCURACY,
        now=measured(0.01),
        before=measured(0.0),
        sample_count=10,
        step_count=0,
        alone=Alone(measured=measured(0.03), step_count=2),
    )
    assert own.profit == 0.0


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(1, 1000), st.integers(0, 10**6))
def test_a_profit_is_zero_if_and_only_if_it_is_on_paper(now, before, count, millionths):
    """Accuracies are counts of hits, the cost is a decimal fraction; the oracle computes with fractions."""
    now, before = min(now, count), min(before, count)
    on_paper = Fraction(now - before, count) - Fraction(millionths, 10**6)
    _, profit = profit_of(now / count, before / count, Terms(cost_per_round=millionths / 10**6))
    assert (profit == 0) == (on_paper == 0)
    assert profit == pytest.approx(float(on_paper), abs=1e-15)
