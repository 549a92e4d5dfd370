"""Equal split and split by quantity."""

from __future__ import annotations

import math

import pytest
from hypothesis import given

from tests.decision.mechanisms.rounds import decided, mechanism, rounds


@given(rounds())
def test_equal_payoffs(one_round):
    decision = decided(mechanism("equal"), [one_round])[0][0]
    assert decision.eliminated == ()
    equal = math.fsum(decision.figures.profits.values()) / len(decision.payoffs)
    assert decision.payoffs == pytest.approx(dict.fromkeys(decision.payoffs, equal), abs=1e-12)
    assert math.fsum(decision.transfers.values()) == pytest.approx(0, abs=1e-12)


@given(rounds())
def test_payoffs_follow_new_samples(one_round):
    figures, counts = one_round
    decision = decided(mechanism("quantity"), [one_round])[0][0]
    assert decision.eliminated == ()
    budget, total = math.fsum(figures.profits.values()), sum(counts.values())
    for client, payoff in decision.payoffs.items():
        share = counts[client] / total if total else 1 / len(counts)
        assert payoff == pytest.approx(share * budget, abs=1e-12)
