"""Rounds decided one after another: who is active or absent, which rows are ignored, and when the federation ends."""

from __future__ import annotations

import math

import numpy as np
import pytest

import commonweal as cw
from commonweal.errors import CommonwealError
from commonweal.records import Figures, Rules
from commonweal.valuation.pooled_utilities import with_pooled_utilities


def round_(**clients):
    """Figures from name=(profit, contribution)."""
    return Figures(
        profits={name: figures[0] for name, figures in clients.items()},
        contributions={name: figures[1] for name, figures in clients.items()},
    )


def test_each_round_is_decided_as_on_its_own():
    rounds = [(1, round_(a=(0.1, 1), b=(0.2, 2), c=(-0.1, 3))), (2, round_(a=(-0.5, 1), b=(0.2, 2), c=(0.1, 3)))]
    history = cw.replay(rounds, Rules(mu=0.5)).history
    for (_, figures), record in zip(rounds, history.rounds, strict=True):
        alone = cw.decide(profits=figures.profits, contributions=figures.contributions, mu=0.5)
        assert record.decision == alone


def test_utilities_are_pooled_over_the_clients_that_take_part():
    def figures(utilities):
        return Figures(
            profits={client: utility - 0.1 for client, utility in utilities.items()},
            contributions=dict.fromkeys(utilities, 1.0),
            costs=dict.fromkeys(utilities, 0.1),
            profit_errors=dict.fromkeys(utilities, 0.05),
        )

    first = figures({"a": -2.0, "b": 0.3, "c": 0.2, "d": 0.4})
    second = figures({"a": 9.0, "b": 0.1, "c": 0.3, "d": 0.2})
    result = cw.replay([(1, first), (2, second)], Rules(mu=0.0), figures_rule="pooled")
    assert result.history.rounds[0].decision.eliminated == ("a",)
    without = figures({"b": 0.1, "c": 0.3, "d": 0.2})
    assert result.history.rounds[1].decision.figures == with_pooled_utilities(without), (
        "a has left, so it is not pooled"
    )
    assert result.measured == {1: first, 2: without}
    with pytest.raises(CommonwealError, match="figures_rule must be measured or pooled, got 'forecast'"):
        cw.replay([(1, first)], Rules(mu=0.0), figures_rule="forecast")


def test_later_rows_of_eliminated_clients_are_ignored():
    result = cw.replay(
        [(1, round_(a=(-1, 0), b=(1, 1), c=(1, 1))), (2, round_(a=(5, 5), b=(1, 1), c=(1, 1)))], Rules(mu=1.0)
    )
    assert result.history.rounds[0].decision.eliminated == ("a",)
    assert result.ignored == {2: ("a",)}
    assert result.history.rounds[1].decision.figures.clients == ("b", "c")
    assert cw.metrics.durations(result.history) == {"a": 1, "b": 2, "c": 2}


def test_absent_clients_may_return_and_the_round_does_not_count_for_them():
    result = cw.replay(
        [(1, round_(a=(1, 1), b=(1, 1))), (2, round_(b=(1, 1))), (3, round_(a=(1, 1), b=(1, 1), c=(1, 1)))],
        Rules(mu=1.0),
    )
    assert [record.absent for record in result.history.rounds] == [("c",), ("a", "c"), ()]
    assert cw.metrics.durations(result.history) == {"a": 2, "b": 3, "c": 1}


def test_it_ends_when_eliminations_leave_fewer_than_two():
    rounds = [(t, round_(a=(-1, 0), b=(1, 1))) for t in (1, 2, 5)]
    result = cw.replay(rounds, Rules(mu=1.0))
    assert result.ended_after == 1
    assert len(result.history.rounds) == 1
    assert cw.metrics.durations(result.history) == {"a": 1, "b": 1}
    assert cw.metrics.tsw(result.history, round_count=3) == (1.0, 1.0, 1.0)


def test_it_may_dissolve_at_mu_zero():
    result = cw.replay([(1, round_(a=(-1, 1), b=(-1, 1))), (2, round_(a=(1, 1), b=(1, 1)))], Rules(mu=0.0))
    assert result.history.rounds[0].decision.retained == ()
    assert result.ended_after == 1


def test_a_single_client_takes_part_in_all_rounds():
    result = cw.replay([(1, round_(a=(1, 1))), (2, round_(a=(1, 1)))], Rules(mu=1.0))
    assert len(result.history.rounds) == 2
    assert result.ended_after is None


@pytest.mark.parametrize("grace_rounds", [0, 1, 2, 3])
def test_grace_protects_the_first_rounds_only(grace_rounds):
    rounds = [(t, round_(a=(-1, 0), b=(1, 1), c=(1, 1))) for t in (1, 2, 3)]
    history = cw.replay(rounds, Rules(mu=1.0), grace_rounds=grace_rounds).history
    assert cw.metrics.durations(history)["a"] == min(grace_rounds + 1, 3)
    assert [record.decision.grace for record in history.rounds] == [t < grace_rounds for t in range(3)]


def test_mu_infinity_never_eliminates():
    rounds = [(t, round_(a=(-1, 0), b=(-1, 1), c=(1, 1))) for t in (1, 2, 3)]
    history = cw.replay(rounds, Rules(mu=math.inf)).history
    assert all(record.decision.eliminated == () for record in history.rounds)


@pytest.mark.parametrize("grace_rounds", [-1, 1.5, True])
def test_bad_grace_is_refused(grace_rounds):
    with pytest.raises(cw.CommonwealError, match="grace_rounds must be a whole number of at least 0"):
        cw.replay([(1, round_(a=(1, 1)))], Rules(mu=1.0), grace_rounds=grace_rounds)


def _with_errors(utilities: dict[str, float], *, error: float = 0.1) -> Figures:
    return Figures(
        profits=utilities,
        contributions=dict.fromkeys(utilities, 1.0),
        costs=dict.fromkeys(utilities, 0.0),
        profit_errors=dict.fromkeys(utilities, error),
    )


def test_who_comes_later_stays_out_of_the_pool_in_its_first_round():
    first = _with_errors({"a": 0.1, "b": 0.3, "c": 0.2})
    second = _with_errors({"a": 0.1, "b": 0.3, "c": 0.2, "d": 9.0})
    decided = cw.replay(
        [(1, first), (2, second), (3, second)], Rules(mu=math.inf), figures_rule="pooled"
    ).history.rounds
    one, two, three = (dict(each.decision.figures.profits) for each in decided)
    assert two == {**one, "d": 9.0}
    assert three != two, "in its second round it belongs to the pool"


def test_each_draw_is_pooled_again():
    """With equal errors, τ² = max(0, s² − error²), s² the variance of what was measured: a second implementation."""
    utilities, error, costs = [0.05, 0.06, 0.04, 0.01], 0.02, [0.02, 0.02, 0.02, 0.024]
    names = ["a", "b", "c", "d"]
    figures = Figures(
        profits={name: u - cost for name, u, cost in zip(names, utilities, costs, strict=True)},
        contributions=dict.fromkeys(names, 1.0),
        costs=dict(zip(names, costs, strict=True)),
        profit_errors=dict.fromkeys(names, error),
    )
    (record,) = cw.replay([(1, figures)], Rules(mu=0.0), figures_rule="pooled").history.rounds
    random = np.random.default_rng(1)
    stays = 0
    for _ in range(20_000):
        drawn = np.array(utilities) + error * random.standard_normal(4)
        between = max(0.0, drawn.var(ddof=1) - error**2)
        pooled = drawn.mean() + between / (between + error**2) * (drawn - drawn.mean())
        stays += pooled[3] >= costs[3]
    expected = stays / 20_000 if "d" in record.decision.retained else 1 - stays / 20_000
    stability = record.evidence["d"].stability
    assert stability is not None
    assert abs(stability.share - expected) < 4 * math.sqrt(expected * (1 - expected) / stability.draw_count)
