from __future__ import annotations

import numpy as np
import pytest

from commonweal.errors import InputError
from commonweal.valuation import shapley, shapley_gtg, shapley_tmc
from commonweal.valuation.permutations import _guided_orders


def recorded(value):
    calls: list[frozenset[str]] = []

    def wrapped(coalition: frozenset[str]) -> float:
        calls.append(coalition)
        return value(coalition)

    return wrapped, calls


def saturated_at(size: int, gap: float = 0.0):
    """The value is 1 from `size` members on, less `gap` until all have joined."""
    return lambda s: 0.0 if len(s) < size else (1.0 if len(s) == 6 else 1.0 - gap)


def test_tmc_never_looks_beyond_the_truncation() -> None:
    value, calls = recorded(saturated_at(2, gap=0.005))
    shapley_tmc(list("abcdef"), value, evaluation_limit=40, seed=0)
    assert {len(coalition) for coalition in calls} == {0, 1, 2, 6}


def test_tmc_without_tolerance_walks_to_the_end() -> None:
    value, calls = recorded(saturated_at(2, gap=0.005))
    shapley_tmc(list("abcdef"), value, evaluation_limit=40, seed=0, truncation_tolerance=0.0)
    assert {len(coalition) for coalition in calls} == {0, 1, 2, 3, 4, 5, 6}


def test_tmc_tolerance_is_relative_to_the_full_value() -> None:
    value, calls = recorded(lambda s: 1000.0 * saturated_at(2, gap=0.005)(s))
    shapley_tmc(list("abcdef"), value, evaluation_limit=40, seed=0)
    assert {len(coalition) for coalition in calls} == {0, 1, 2, 6}


def test_truncation_keeps_the_sum() -> None:
    for estimator in (shapley_tmc, shapley_gtg):
        result = estimator(list("abcdef"), saturated_at(2, gap=0.0009), evaluation_limit=30, seed=1)
        assert sum(result.values.values()) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("evaluation_limit", [7, 64])
def test_gtg_gives_nothing_in_a_round_without_gain(evaluation_limit: int) -> None:
    value, calls = recorded(lambda s: 0.5 + 0.01 * (len(s) == 6) + 0.3 * (0 < len(s) < 6))
    result = shapley_gtg(list("abcdef"), value, evaluation_limit=evaluation_limit, seed=0, round_tolerance=0.0101)
    assert result.values == dict.fromkeys("abcdef", 0.0)
    assert result.evaluation_count == len(calls) == 2


def test_gtg_measures_a_round_with_gain() -> None:
    result = shapley_gtg(list("abc"), lambda s: 0.5 + 0.02 * ("a" in s), evaluation_limit=7, seed=0)
    assert result.values == pytest.approx({"a": 0.02, "b": 0.0, "c": 0.0}, abs=1e-12)


def test_gtg_cuts_a_walk_within_the_tolerance_and_not_outside_it() -> None:
    near, near_calls = recorded(saturated_at(2, gap=0.0009))
    shapley_gtg(list("abcdef"), near, evaluation_limit=40, seed=0)
    assert {len(coalition) for coalition in near_calls} == {0, 1, 2, 6}
    far, far_calls = recorded(saturated_at(2, gap=0.0011))
    shapley_gtg(list("abcdef"), far, evaluation_limit=40, seed=0)
    assert {len(coalition) for coalition in far_calls} == {0, 1, 2, 3, 4, 5, 6}


def test_a_value_skipped_by_truncation_is_evaluated_when_it_is_needed() -> None:
    """After a and b the walk a, b, c is cut; the walk c, b, a must still see the true value of {b, c}."""

    def value(s: frozenset[str]) -> float:
        return 1.0 if {"a", "b"} <= s else 0.25 * len(s)

    result = shapley_gtg(
        list("abcd"), value, evaluation_limit=15, seed=3, walk_tolerance=0.01, convergence_tolerance=0.0
    )
    exact = shapley(list("abcd"), value).values
    assert result.values["c"] == pytest.approx(exact["c"], abs=0.1)
    assert result.values["c"] > 0.0


def test_in_a_pass_every_client_leads_once() -> None:
    orders = _guided_orders(5, np.random.default_rng(0))
    for _ in range(3):
        sweep = [next(orders) for _ in range(5)]
        assert sorted(int(order[0]) for order in sweep) == [0, 1, 2, 3, 4]
        assert all(sorted(order.tolist()) == [0, 1, 2, 3, 4] for order in sweep)


def test_gtg_stops_when_converged_and_only_then(federation) -> None:
    federation_calls = federation.calls
    shapley_gtg(federation.clients, federation, evaluation_limit=500, seed=0, convergence_tolerance=0.5)
    early = len(federation_calls)
    federation_calls.clear()
    shapley_gtg(federation.clients, federation, evaluation_limit=500, seed=0, convergence_tolerance=0.0)
    assert early < 300 < len(federation_calls)


@pytest.mark.parametrize(
    "estimate",
    [
        lambda f, seed: shapley_tmc(f.clients, f, evaluation_limit=60, seed=seed, truncation_tolerance=0.0),
        lambda f, seed: shapley_gtg(
            f.clients, f, evaluation_limit=60, seed=seed, walk_tolerance=0.0, convergence_tolerance=0.0
        ),
    ],
    ids=["tmc", "gtg"],
)
def test_without_truncation_permutations_are_right_on_average(estimate, federation) -> None:
    exact = np.array(list(shapley(federation.clients, federation).values.values()))
    estimates = np.array([list(estimate(federation, seed).values.values()) for seed in range(400)])
    standard_error = estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates))
    assert np.all(np.abs(estimates.mean(axis=0) - exact) < 4.5 * standard_error)


def test_one_permutation_has_an_unknown_error(federation) -> None:
    limit = len(federation.clients) + 1
    result = shapley_tmc(federation.clients, federation, evaluation_limit=limit, seed=0, truncation_tolerance=0)
    assert set(result.standard_errors.values()) == {np.inf}


@pytest.mark.parametrize("tolerance", [-0.1, float("nan"), float("inf")])
def test_bad_tolerances_are_refused(tolerance: float) -> None:
    for keyword in ("round_tolerance", "walk_tolerance", "convergence_tolerance"):
        with pytest.raises(InputError, match="tolerance must be finite and >= 0"):
            shapley_gtg(["a"], lambda s: 0.0, evaluation_limit=2, seed=0, **{keyword: tolerance})
    with pytest.raises(InputError, match="truncation tolerance must be finite and >= 0"):
        shapley_tmc(["a"], lambda s: 0.0, evaluation_limit=2, seed=0, truncation_tolerance=tolerance)


def test_gtg_has_no_sampling_error_from_the_choice_of_leaders() -> None:
    """The first to join earns everything: after whole sweeps nothing is left to chance, and the stated error is 0."""
    result = shapley_gtg(list("abcdef"), lambda s: float(len(s) > 0), evaluation_limit=20, seed=0)
    assert result.values == pytest.approx(dict.fromkeys("abcdef", 1 / 6), abs=0.01)
    assert max(result.standard_errors.values()) < 1e-12
