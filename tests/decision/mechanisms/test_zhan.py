"""Zhan: the published table, closed forms, and best replies."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from commonweal.decision.mechanisms.zhan import best_reward, equilibrium
from commonweal.records import Figures
from tests.decision.mechanisms.rounds import decided, mechanism

PLENTY = 1e3


def best_reply(reward, others, unit_cost, limit):
    """The authors' formula, for others > 0."""
    return limit if unit_cost == 0 else min(max(math.sqrt(reward * others / unit_cost) - others, 0.0), limit)


@pytest.mark.parametrize(
    ("first_cost", "reward", "amounts", "server"),
    [(1.5, 4.5, (0.595, 0.223), 1.478), (3.5, 2.5, (0.178, 0.156), 0.377)],
)
def test_the_published_table(first_cost, reward, amounts, server):
    costs, limits = np.array([first_cost, 4.0]), np.full(2, PLENTY)
    best = best_reward(costs, limits, 10.0)
    assert best == pytest.approx(reward, abs=1e-6)
    given_amounts = equilibrium(best, costs, limits)
    assert given_amounts == pytest.approx(amounts, abs=5e-4)
    assert 10 * math.log1p(given_amounts.sum()) - best == pytest.approx(server, abs=5e-4)


unit_costs = st.lists(st.floats(0.1, 4.0), min_size=2, max_size=6).map(np.array)


def participants(costs):
    """The M lowest costs: the next one takes part while it is below (the sum with it) / (their number − 1)."""
    order = np.sort(costs).tolist()
    taking = order[:2]
    for cost in order[2:]:
        if cost < (sum(taking) + cost) / len(taking):
            taking.append(cost)
    return taking


@given(unit_costs, st.floats(0.1, 20.0))
def test_the_closed_form_without_limits(costs, reward):
    taking = participants(costs)
    total = (len(taking) - 1) * reward / sum(taking)
    amounts = equilibrium(reward, costs, np.full(len(costs), PLENTY))
    assert amounts.sum() == pytest.approx(total, rel=1e-6)
    for amount, cost in zip(amounts, costs, strict=True):
        expected = total * max(1 - (len(taking) - 1) * cost / sum(taking), 0.0)
        assert amount == pytest.approx(expected, rel=1e-6, abs=1e-6 * total)


@given(unit_costs, st.floats(2.0, 20.0))
def test_the_best_reward_without_limits(costs, value):
    taking = participants(costs)
    closed = max(value - sum(taking) / (len(taking) - 1), 0.0)
    assert best_reward(costs, np.full(len(costs), PLENTY), value) == pytest.approx(closed, abs=1e-5 * value)


nodes = st.lists(
    st.tuples(st.just(0.0) | st.floats(0.01, 4.0), st.floats(0.05, 2.0)), min_size=2, max_size=6
)  # costs and limits


@given(nodes, st.floats(0.1, 20.0))
def test_everybody_replies_best_and_nobody_loses(costs_and_limits, reward):
    costs, limits = np.array(costs_and_limits).T
    amounts = equilibrium(reward, costs, limits)
    total = amounts.sum()
    assert (amounts >= 0).all()
    assert (amounts <= limits * (1 + 1e-9)).all()
    for amount, cost, limit in zip(amounts.tolist(), costs.tolist(), limits.tolist(), strict=True):
        if total - amount > 1e-9:
            assert amount == pytest.approx(best_reply(reward, total - amount, cost, limit), rel=1e-5, abs=1e-7)
        assert reward * amount / total - cost * amount >= -1e-9


@example([(0.0, 1.0), (0.0, 1.5), (0.25, 0.375)], 9.0)  # the third node joins late: a second maximum
@given(nodes, st.floats(0.5, 20.0))
def test_no_other_reward_is_better_for_the_server(costs_and_limits, value):
    costs, limits = np.array(costs_and_limits).T

    rewards = np.append(np.linspace(1e-6, value * 3, 100), best_reward(costs, limits, value))
    utilities = value * np.log1p(equilibrium(rewards, costs, limits).sum(axis=1)) - rewards
    assert utilities[-1] >= utilities.max() - 1e-5 * value


def round_of(costs, counts):
    figures = Figures(profits=dict.fromkeys(costs, 0.0), contributions=dict.fromkeys(costs, 1.0), costs=costs)
    return figures, counts


def test_rounds_pay_the_announced_reward_by_data_and_shares_follow_the_equilibrium():
    """Costs of 1.5 and 4 per hundred samples, and 300 samples each: the published table, in shares of the data."""
    one = mechanism("zhan", value=10.0)
    first = round_of({"a": 4.5, "b": 12.0}, {"a": 300, "b": 300})
    (settled, asked, _), (second, _, _) = decided(one, [first, round_of({"a": 0.9, "b": 0.88}, {"a": 60, "b": 22})])
    assert -settled.external == pytest.approx(4.5, abs=1e-6)
    assert settled.transfers == pytest.approx({"a": 2.25, "b": 2.25}, abs=1e-6)
    assert asked.data_shares == pytest.approx({"a": 0.595 / 3, "b": 0.223 / 3}, abs=2e-4)
    assert asked.participants == ("a", "b")
    assert second.transfers == pytest.approx({"a": 4.5 * 60 / 82, "b": 4.5 * 22 / 82}, abs=1e-6)


def test_who_costs_too_much_rests_and_may_return():
    one = mechanism("zhan", value=1.0)
    costs, counts = {"a": 0.1, "b": 0.1, "c": 9.0}, {"a": 100, "b": 100, "c": 100}
    (_, asked, _), (_, later, state) = decided(
        one, [round_of(costs, counts), round_of({"a": 0.1, "b": 0.1}, {"a": 100, "b": 100})]
    )
    assert asked.participants == ("a", "b")
    assert asked.data_shares["c"] == 0
    assert "c" in state["nodes"]  # its costs are remembered while it rests
    assert later.participants == ("a", "b")


def test_a_single_client_is_paid_nothing():
    settled, asked, _ = decided(mechanism("zhan"), [round_of({"a": 0.1}, {"a": 100})])[0]
    assert settled.transfers == {"a": 0.0}
    assert asked.data_shares == {"a": 1.0}
