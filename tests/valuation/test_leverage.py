from __future__ import annotations

import numpy as np
import pytest

from commonweal.valuation import shapley, shapley_leverage


def test_additive_games_need_two_evaluations_per_client() -> None:
    worth = {f"c{i}": float(i**2 - 7 * i) for i in range(15)}
    result = shapley_leverage(
        list(worth), lambda s: sum(worth[name] for name in sorted(s)), evaluation_limit=60, seed=0
    )
    assert result.values == pytest.approx(worth, abs=1e-8)


def test_games_of_pairs_are_found_exactly() -> None:
    """A coalition less its complement is additive when nobody interacts in threes (the quadratic game)."""
    size = {f"c{i}": 1.0 + i for i in range(10)}
    total = sum(size.values())
    result = shapley_leverage(list(size), lambda s: sum(size[name] for name in s) ** 2, evaluation_limit=60, seed=0)
    assert result.values == pytest.approx({name: amount * total for name, amount in size.items()}, rel=1e-8)


def test_it_is_linear_in_the_game(federation) -> None:
    def other(s: frozenset[str]) -> float:
        return float(len(s) ** 3 % 7)

    def estimate(value) -> np.ndarray:
        result = shapley_leverage(federation.clients, value, evaluation_limit=80, seed=5)
        return np.array(list(result.values.values()))

    mixed = estimate(lambda s: federation(s) - 2.5 * other(s))
    assert mixed == pytest.approx(estimate(federation) - 2.5 * estimate(other), abs=1e-9)


def test_all_coalitions_but_one_pair_are_nearly_exact(federation) -> None:
    exact = shapley(federation.clients, federation)
    result = shapley_leverage(federation.clients, federation, evaluation_limit=2**9 - 2, seed=0)
    assert result.values == pytest.approx(exact.values, abs=2e-3)
