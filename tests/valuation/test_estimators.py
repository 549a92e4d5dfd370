"""Promises that every Shapley estimator keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commonweal.errors import InputError
from commonweal.valuation import estimate_shapley, shapley
from commonweal.valuation.estimators import SHAPLEY_ESTIMATORS

CLIENTS = tuple("abcdef")
every_method = pytest.mark.parametrize("method", list(SHAPLEY_ESTIMATORS))


def random_game(seed: int, client_count: int):
    table = np.random.default_rng(seed).normal(size=1 << client_count)
    table[-1] += 1.0
    return lambda coalition: float(table[sum(1 << CLIENTS.index(name) for name in coalition)])


@every_method
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), client_count=st.integers(1, 6), data=st.data())
def test_efficiency_and_limit_hold_for_every_limit(method, seed: int, client_count: int, data) -> None:
    clients = CLIENTS[:client_count]
    value, calls = random_game(seed, client_count), []

    def counted(coalition: frozenset[str]) -> float:
        calls.append(coalition)
        return value(coalition)

    smallest = min(2 * client_count, 1 << client_count)
    limit = data.draw(st.integers(smallest, (1 << client_count) + 3))
    result = estimate_shapley(clients, counted, evaluation_limit=limit, seed=seed, method=method)
    gain = value(frozenset(clients)) - value(frozenset())
    if not (method == "gtg" and abs(gain) <= 0.01):
        assert sum(result.values.values()) == pytest.approx(gain, abs=1e-8)
    assert len(calls) == len(set(calls)) == result.evaluation_count <= limit
    assert list(result.values) == list(clients)


@every_method
def test_a_limit_that_covers_everything_gives_the_exact_values(method, oracle) -> None:
    limit = 2 ** len(oracle.clients)
    result = estimate_shapley(oracle.clients, oracle.value, evaluation_limit=limit, seed=0, method=method)
    assert result.values == pytest.approx(oracle.shapley, abs=1e-12)
    assert set(result.standard_errors.values()) == {0.0}


@every_method
def test_the_closed_form_lies_within_the_standard_errors(method, oracle) -> None:
    """One evaluation short of exact, over ten seeds."""
    limit = 2 ** len(oracle.clients) - 1
    actual, stated = [], []
    for seed in range(10):
        result = estimate_shapley(oracle.clients, oracle.value, evaluation_limit=limit, seed=seed, method=method)
        actual.extend(result.values[name] - truth for name, truth in oracle.shapley.items())
        stated.extend(result.standard_errors.values())
    assert np.sqrt(np.mean(np.square(actual))) < 2.0 * np.sqrt(np.mean(np.square(stated))) + 1e-6


@every_method
def test_the_same_seed_gives_the_same_bits(method, federation) -> None:
    def estimate(seed):
        return estimate_shapley(federation.clients, federation, evaluation_limit=40, seed=seed, method=method)

    assert estimate(7) == estimate(7) == estimate(np.random.default_rng(7))
    assert estimate(7).values != estimate(8).values


@pytest.mark.slow
@every_method
def test_standard_errors_match_the_real_errors(method, federation) -> None:
    """Over many seeds: root mean square of the stated errors against that of the actual errors."""
    exact = np.array(list(shapley(federation.clients, federation).values.values()))
    actual, stated = [], []
    for seed in range(60):
        result = estimate_shapley(federation.clients, federation, evaluation_limit=70, seed=seed, method=method)
        actual.append(np.array(list(result.values.values())) - exact)
        stated.append(list(result.standard_errors.values()))
    ratio = np.sqrt(np.mean(np.square(stated)) / np.mean(np.square(actual)))
    assert 0.6 < ratio < 2.2


@pytest.mark.slow
@every_method
def test_null_and_equal_clients_get_null_and_equal_values_on_average(method) -> None:
    clients = [f"c{i}" for i in range(8)]

    def value(s: frozenset[str]) -> float:
        return 1.0 - 0.6 ** len(s - {"c0"}) + 0.2 * ("c1" in s)

    estimates = np.array(
        [
            list(estimate_shapley(clients, value, evaluation_limit=60, seed=seed, method=method).values.values())
            for seed in range(60)
        ]
    )
    assert estimates.mean(axis=0)[0] == pytest.approx(0.0, abs=0.01)
    assert np.ptp(estimates.mean(axis=0)[2:]) < 0.02


@every_method
def test_too_small_a_limit_is_refused_before_anything_is_evaluated(method, federation) -> None:
    with pytest.raises(InputError, match=r"needs an evaluation_limit of at least .* for 9 clients, got 9"):
        estimate_shapley(federation.clients, federation, evaluation_limit=9, seed=0, method=method)
    assert federation.calls == []


@every_method
def test_a_bad_value_names_its_coalition(method) -> None:
    with pytest.raises(
        InputError,
        match=r"finite number of at most 1e\+100 in size, got nan for coalition \['a', 'b', 'c', 'd', 'e', 'f'\]",
    ):
        estimate_shapley(
            CLIENTS,
            lambda s: float("nan") if len(s) == 6 else 0.0,
            evaluation_limit=20,
            seed=0,
            method=method,
        )


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(InputError, match=r"method must be one of .* got 'magic'"):
        estimate_shapley(["a"], lambda s: 0.0, evaluation_limit=2, seed=0, method="magic")  # type: ignore[arg-type]


def test_the_default_is_adaptive(federation) -> None:
    result = estimate_shapley(federation.clients, federation, evaluation_limit=30, seed=0)
    assert result.measure == "shapley_adaptive"
