from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from commonweal.errors import InputError
from commonweal.valuation import marginal, quantity, shapley

CLIENTS = ("a", "b", "c", "d", "e")
tables = arrays(np.float64, 32, elements=st.floats(min_value=-100, max_value=100))


def from_table(table: np.ndarray):
    return lambda coalition: float(table[sum(1 << CLIENTS.index(name) for name in coalition)])


def test_quantity_is_the_number_of_samples_in_client_order() -> None:
    result = quantity(["b", "a"], {"a": 3, "b": 5, "gone": 7})
    assert list(result.values.items()) == [("b", 5.0), ("a", 3.0)]
    assert result.standard_errors == {"b": 0.0, "a": 0.0}
    assert result.evaluation_count == 0


@pytest.mark.parametrize(("counts", "message"), [({"a": 1}, r"none for \['b'\]"), ({"a": 1, "b": -1}, "got -1")])
def test_quantity_refuses_missing_and_negative_counts(counts: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        quantity(["a", "b"], counts)


def test_marginal_is_what_is_lost_without_the_client(federation) -> None:
    result = marginal(federation.clients, federation)
    assert len(federation.calls) == result.evaluation_count == len(federation.clients) + 1
    everyone = frozenset(federation.clients)
    for name in federation.clients:
        assert result.values[name] == federation(everyone) - federation(everyone - {name})


def test_shapley_has_the_closed_form(oracle) -> None:
    result = shapley(oracle.clients, oracle.value)
    assert list(result.values) == list(oracle.clients)
    assert result.values == pytest.approx(oracle.shapley, abs=1e-12)
    assert set(result.standard_errors.values()) == {0.0}
    assert result.evaluation_count == 2 ** len(oracle.clients)


@settings(max_examples=25, deadline=None)
@given(tables)
def test_shapley_agrees_with_shapiq(table: np.ndarray) -> None:
    import shapiq  # takes seconds, which every test worker would spend

    value = from_table(table)
    computer = shapiq.ExactComputer(
        n_players=5,
        game=lambda rows: np.array([value(frozenset(CLIENTS[i] for i in np.flatnonzero(row))) for row in rows]),
    )
    theirs = computer("SV")
    ours = shapley(CLIENTS, value).values
    assert list(ours.values()) == pytest.approx([theirs[(i,)] for i in range(5)], abs=1e-9)


@given(tables)
def test_efficiency(table: np.ndarray) -> None:
    total = sum(shapley(CLIENTS, from_table(table)).values.values())
    assert total == pytest.approx(table[-1] - table[0], abs=1e-9)


@given(tables)
def test_symmetry(table: np.ndarray) -> None:
    """Renaming two clients exchanges their values and touches no other."""
    value, swap = from_table(table), {"a": "b", "b": "a"}
    there = shapley(CLIENTS, value).values
    back = shapley(CLIENTS, lambda s: value(frozenset(swap.get(name, name) for name in s))).values
    assert {swap.get(name, name): amount for name, amount in back.items()} == pytest.approx(there, abs=1e-9)


@given(tables)
def test_null_client(table: np.ndarray) -> None:
    value = from_table(table)
    assert shapley(CLIENTS, lambda s: value(s - {"c"})).values["c"] == pytest.approx(0.0, abs=1e-12)


@given(tables, tables, st.floats(min_value=-3, max_value=3))
def test_linearity(one: np.ndarray, other: np.ndarray, factor: float) -> None:
    first, second = (shapley(CLIENTS, from_table(table)).values for table in (one, other))
    mixed = shapley(CLIENTS, from_table(one + factor * other)).values
    assert mixed == pytest.approx({n: first[n] + factor * second[n] for n in CLIENTS}, abs=1e-9)


def test_the_order_of_clients_is_kept_and_does_not_matter(oracle) -> None:
    backwards = shapley(oracle.clients[::-1], oracle.value)
    assert list(backwards.values) == list(oracle.clients[::-1])
    assert backwards.values == pytest.approx(oracle.shapley, abs=1e-12)


def test_too_many_clients_are_referred_to_the_estimators() -> None:
    with pytest.raises(InputError, match="limited to 20 clients, got 21; use estimate_shapley"):
        shapley([f"c{i}" for i in range(21)], lambda s: 0.0)
