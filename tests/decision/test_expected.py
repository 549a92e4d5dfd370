"""Expected profits decide who stays; this round's profits decide who pays whom."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.decision.decide import decide, decision_with, mu_path
from commonweal.decision.explain import explain
from commonweal.decision.promises import infeasible
from commonweal.errors import InputError
from commonweal.records import Figures, Rules
from tests.decision.oracles import exhaustive

amounts = st.floats(-1, 1).filter(lambda amount: amount == 0 or abs(amount) > 1e-6)


@st.composite
def rounds(draw):
    count = draw(st.integers(1, 7))
    clients = [f"c{number}" for number in range(count)]

    def figures(values):
        return dict(zip(clients, draw(st.lists(values, min_size=count, max_size=count)), strict=True))

    return figures(amounts), figures(amounts), figures(st.floats(0, 1).filter(lambda q: q == 0 or q > 1e-6))


@given(rounds(), st.sampled_from([0.0, 0.01, 0.3, math.inf]))
def test_selection_goes_by_expected_profits_and_money_by_profits(given_round, mu):
    profits, expected, contributions = given_round
    decision = decide(profits=profits, contributions=contributions, mu=mu, expected=expected)
    as_if_now = decide(profits=expected, contributions=contributions, mu=mu)
    assert decision.retained == as_if_now.retained
    assert decision.objective == as_if_now.objective
    if mu < math.inf:
        gone = exhaustive(list(expected.values()), list(contributions.values()), mu)
        assert decision.eliminated == tuple(list(profits)[place] for place in sorted(gone))
    budget = math.fsum(profits[client] for client in decision.retained)
    assert decision.budget == budget
    assert math.fsum(decision.transfers.values()) == pytest.approx(0, abs=1e-12)
    for client in decision.retained:
        assert decision.payoffs[client] == pytest.approx(decision.shares[client] * budget, abs=1e-12)
        assert decision.transfers[client] == pytest.approx(decision.payoffs[client] - profits[client], abs=1e-12)
    assert decision.candidates == tuple(client for client in profits if expected[client] < 0)
    assert infeasible(decision) == ()
    if decision.retained:
        again = decision_with(decision.figures, Rules(mu=mu), decision.retained)
        assert (again.transfers, again.objective) == (decision.transfers, decision.objective)


@given(rounds())
def test_the_mu_path_is_that_of_the_expected_profits(given_round):
    profits, expected, contributions = given_round
    path = mu_path(profits=profits, contributions=contributions, expected=expected)
    as_if_now = mu_path(profits=expected, contributions=contributions)
    assert path.exact_breakpoints == as_if_now.exact_breakpoints
    assert path.pieces() == as_if_now.pieces()
    for mu in (0.0, *path.breakpoints, math.inf):
        alone = decide(profits=profits, contributions=contributions, expected=expected, mu=mu)
        assert replace(path.at(mu), node_count=0) == replace(alone, node_count=0)


def test_a_loss_now_is_no_reason_to_leave_if_the_next_round_pays():
    decision = decide(
        profits={"ann": -0.2, "bob": 0.1, "cleo": 0.3},
        contributions={"ann": 0.3, "bob": 0.3, "cleo": 0.3},
        expected={"ann": 0.1, "bob": -0.05, "cleo": 0.1},
        mu=0.0,
    )
    assert decision.eliminated == ("bob",), "who earned, but is expected to lose"
    assert decision.budget == pytest.approx(0.1)
    assert "no loss is expected of it in the next round" in explain(decision, "ann").sentence
    assert not explain(decision, "ann").may_go
    assert explain(decision, "bob").may_go


def test_expected_profits_must_be_those_of_the_same_clients():
    with pytest.raises(
        InputError, match="profits and expected profits must name the same clients, got no entry for 'b'"
    ):
        decide(profits={"a": 1.0, "b": 2.0}, contributions={"a": 1.0, "b": 1.0}, expected={"a": 1.0}, mu=0)
    with pytest.raises(InputError, match="expected profit must be a finite number"):
        decide(profits={"a": 1.0}, contributions={"a": 1.0}, expected={"a": math.nan}, mu=0)


def test_figures_without_expected_profits_select_by_profits():
    figures = Figures(profits={"a": -1.0}, contributions={"a": 1.0})
    assert figures.selecting is figures.profits
