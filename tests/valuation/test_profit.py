from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.errors import InputError
from commonweal.valuation import cost, profit, utility

amounts = st.floats(min_value=-1e9, max_value=1e9)
costs = st.floats(min_value=0.0, max_value=1e9)


def test_utility_is_the_unit_value_of_the_gain_in_accuracy() -> None:
    assert utility(4.0, 0.75, 0.5) == 1.0
    assert utility(4.0, 0.5, 0.75) == -1.0


def test_utility_works_on_arrays() -> None:
    gained = utility(2.0, np.array([0.5, 0.25]), np.array([0.25, 0.5]))
    assert gained.tolist() == [0.5, -0.5]


def test_cost_adds_data_training_and_communication() -> None:
    spent = cost(cost_per_sample=2e-4, cost_per_step=0.5, cost_per_round=3.0, sample_count=100, step_count=4)
    assert spent == pytest.approx(0.02 + 2.0 + 3.0)


def test_cost_works_on_arrays() -> None:
    spent = cost(
        cost_per_sample=0.5,
        cost_per_step=0.25,
        cost_per_round=1.0,
        sample_count=np.array([10, 0]),
        step_count=np.array([4, 0]),
    )
    assert spent.tolist() == [7.0, 1.0]


def test_a_rounding_error_is_not_a_loss() -> None:
    earned = utility(1.0, 0.1 + 0.2, 0.0)
    assert earned != 0.3
    assert profit(earned, 0.3) == 0.0


def test_a_rounding_error_is_not_a_gain() -> None:
    assert 0.7 + 0.1 != 0.8
    assert utility(1.0, 0.7 + 0.1, 0.8) == 0.0
    assert utility(1.0, np.array([0.7 + 0.1, 0.8]), 0.8).tolist() == [0.0, 0.0]
    assert profit(utility(1.0, 0.7 + 0.1, 0.8), 0.0) == 0.0


@pytest.mark.parametrize(("ratio", "is_zero"), [(0.9e-12, True), (2e-12, False)])
def test_a_gain_counts_from_1e_12_of_the_larger_accuracy(ratio: float, is_zero: bool) -> None:
    for scale in (1e-9, 1.0, 1e9):
        assert (utility(3.0, scale * (1 - ratio), scale) == 0.0) == is_zero
        assert (utility(3.0, -scale, -scale * (1 - ratio)) == 0.0) == is_zero


def test_a_small_utility_has_the_rounding_error_of_the_amounts_it_comes_from() -> None:
    """0.90001 − 0.9 is 1e-5 on paper, and differs from it by 6e-17 in doubles."""
    earned = utility(1.0, 0.90001, 0.9)
    assert profit(earned, 1e-5) != 0.0
    assert profit(earned, 1e-5, size=0.90001) == 0.0


@pytest.mark.parametrize(("ratio", "is_zero"), [(0.9e-12, True), (2e-12, False)])
def test_a_difference_counts_from_1e_12_of_the_larger_value(ratio: float, is_zero: bool) -> None:
    for scale in (1e-9, 1.0, 1e9):
        assert (profit(scale * (1 - ratio), scale) == 0.0) == is_zero
        assert (profit(scale, scale * (1 - ratio)) == 0.0) == is_zero


def test_no_gain_and_no_cost_give_no_profit() -> None:
    assert profit(0.0, 0.0) == 0.0
    assert profit(-1e-300, 0.0) == -1e-300


@given(st.lists(st.tuples(amounts, costs), min_size=1))
def test_array_profit_is_scalar_profit_of_each_row(rows: list[tuple[float, float]]) -> None:
    earned, spent = np.array(rows).T
    assert profit(earned, spent).tolist() == [profit(u, c) for u, c in rows]


def test_a_million_rows_are_one_call() -> None:
    rows = profit(np.linspace(-1.0, 1.0, 1_000_000), np.zeros(1_000_000))
    assert rows.shape == (1_000_000,)
    assert rows[0] == -1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: profit(float("nan"), 1.0), "utility must be finite, got nan"),
        (lambda: profit(1.0, -2.5), r"cost must be finite and >= 0, got -2\.5"),
        (lambda: profit(np.array([1.0, 1.0]), np.array([0.0, -2.0])), r"got -2\.0 at index 1"),
        (lambda: utility(-1.0, 0.5, 0.5), "unit value must be finite and >= 0"),
        (lambda: utility(1.0, float("inf"), 0.5), "accuracy must be finite"),
        (lambda: utility(1e308, 100.0, 0.0), "utility must be finite, got inf; use a larger unit"),
        (lambda: profit(-1.7e308, 1.7e308), "profit must be finite, got -inf; use a larger unit"),
        (
            lambda: cost(cost_per_sample=1.0, cost_per_step=0.0, cost_per_round=0.0, sample_count=-1, step_count=0),
            "sample count must be finite and >= 0",
        ),
    ],
)
def test_bad_figures_are_refused_with_rule_and_evidence(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()  # type: ignore[operator]
