from __future__ import annotations

import math

import numpy as np
import pytest

from commonweal.errors import InputError
from commonweal.valuation import Game, marginal, shapley


def test_each_coalition_is_evaluated_once() -> None:
    calls: list[frozenset[str]] = []

    def value(coalition: frozenset[str]) -> float:
        calls.append(coalition)
        return float(len(coalition))

    game = Game(["a", "b", "c"], value)
    assert [game(frozenset("ab")), game(frozenset("ba")), game(frozenset())] == [2.0, 2.0, 0.0]
    assert calls == [frozenset("ab"), frozenset()]
    assert game.evaluation_count == 2


def test_rows_of_members_name_coalitions_in_the_order_of_the_clients() -> None:
    game = Game(["z", "a"], lambda s: 1.0 * ("z" in s) + 10.0 * ("a" in s))
    assert game.values(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])).tolist() == [0, 1, 10, 11]


def test_the_limit_is_strict_but_known_values_are_free() -> None:
    calls: list[frozenset[str]] = []

    def value(coalition: frozenset[str]) -> float:
        calls.append(coalition)
        return 1.0

    game = Game(["a", "b"], value, evaluation_limit=1)
    game(frozenset("a"))
    assert game.is_affordable(frozenset("a"))
    assert not game.is_affordable(frozenset("b"))
    assert game(frozenset("a")) == 1.0
    with pytest.raises(InputError, match="at most 1 coalitions may be evaluated"):
        game(frozenset("b"))
    assert calls == [frozenset("a")]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_is_refused_by_name(bad: float) -> None:
    game = Game(["b", "a", "c"], lambda s: bad if len(s) == 2 else 0.0)
    with pytest.raises(
        InputError, match=r"finite number of at most 1e\+100 in size, got .*(nan|inf) for coalition \['b', 'a'\]"
    ):
        game(frozenset({"a", "b"}))
    assert game.evaluation_count == 0


def test_one_game_serves_several_measures(federation) -> None:
    game = Game(federation.clients, federation)
    marginal(game.clients, game)
    shapley(game.clients, game)
    assert len(federation.calls) == 2 ** len(game.clients)


@pytest.mark.parametrize(
    ("clients", "message"),
    [([], "at least one client"), (["a", "b", "a"], r"distinct, got \['a'\]"), ("ab", "single text 'ab'")],
)
def test_bad_clients_are_refused(clients: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Game(clients, lambda s: 0.0)


def test_a_client_that_is_not_listed_is_refused() -> None:
    with pytest.raises(InputError, match=r"only clients of the game, got \['x'\]"):
        Game(["a"], lambda s: 0.0)(frozenset({"a", "x"}))


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(InputError, match="evaluation limit must be >= 0, got -1"):
        Game(["a"], lambda s: 0.0, evaluation_limit=-1)
