"""The checks of the mechanism's promises notice what breaks them."""

from __future__ import annotations

from dataclasses import replace

import pytest

import commonweal as cw
from commonweal.decision.promises import disproportion, imbalance, infeasible

DECISION = cw.decide(
    profits={"C1": -0.05, "C2": -0.05, "C3": 0.15}, contributions={"C1": 0.5, "C2": 0.1, "C3": 0.4}, mu=0.05
)


def test_money_out_of_nowhere_is_noticed():
    assert imbalance(DECISION) == pytest.approx(0, abs=1e-15)
    assert imbalance(replace(DECISION, transfers={"C1": 0.2, "C3": -0.1})) == pytest.approx(0.1)


def test_a_payoff_out_of_proportion_is_noticed():
    assert disproportion(DECISION) == pytest.approx(0, abs=1e-15)
    assert disproportion(replace(DECISION, payoffs={"C1": 0.05, "C3": 0.05})) == pytest.approx(0.1 * 5 / 9 - 0.05)


def test_missing_duplicate_and_wrongly_eliminated_clients_are_noticed():
    assert infeasible(DECISION) == ()
    assert infeasible(replace(DECISION, retained=("C1",))) == ("C3",)
    assert infeasible(replace(DECISION, retained=("C1", "C2", "C3"))) == ("C2",)
    assert infeasible(replace(DECISION, retained=("C1",), eliminated=("C2", "C3"))) == ("C3",)
    assert infeasible(replace(DECISION, retained=("C1", "C3", "zoe"))) == ("zoe",)
    assert infeasible(replace(DECISION, grace=True)) == ("C2",)


def test_irrationality_is_measured_in_units_of_utility():
    assert DECISION.irrational == {}
    assert replace(DECISION, payoffs={"C1": -0.25, "C3": 0.35}).irrational == {"C1": 0.25}
