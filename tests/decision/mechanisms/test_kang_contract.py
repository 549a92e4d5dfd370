"""Kang's contract: the published setting, and incentive compatibility and rationality on any grid of types."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.decision.mechanism import decide_round
from commonweal.decision.mechanisms.kang_contract import (
    Contract,
    Setting,
    design,
    efforts_of,
    pay_weights,
    standard_contract,
)
from commonweal.errors import InputError
from commonweal.records import Figures
from tests.decision.mechanisms.rounds import mechanism

TYPES = np.linspace(0.2, 0.92, 10)
EQUAL = np.full(10, 0.1)
OWNERS = 100


def totals(contract, probabilities=EQUAL):
    """The server's profit and the owners' utility, of 100 owners."""
    own = [contract.utilities(effort)[m] for m, effort in enumerate(contract.efforts.tolist())]
    return OWNERS * float(probabilities @ contract.server_profits()), OWNERS * float(probabilities @ np.array(own))


def test_the_published_setting():
    """By an independent computation. The authors' 498,730, for types that they do not state, are 0.5 % above."""
    profit, owners = totals(design(efforts_of(TYPES), EQUAL, 10_000 / OWNERS, Setting()))
    assert profit == pytest.approx(496_355, abs=1)
    assert owners == pytest.approx(2417, abs=1)
    assert profit == pytest.approx(498_730, rel=0.005)


def test_types_are_pooled_where_frequencies_would_fall():
    """With natural logarithms. Without pooling the profit would be 477,375."""
    contract = design(efforts_of(TYPES, base=math.e), EQUAL, 10_000 / OWNERS, Setting())
    assert (np.diff(contract.frequencies) >= 0).all()
    assert (np.diff(contract.frequencies) == 0).any()
    assert EQUAL @ contract.rewards == pytest.approx(100.0)  # the limit binds
    assert 477_375 * 0.9999 < totals(contract)[0] < 477_375


@st.composite
def markets(draw):
    """Efforts and probabilities of types, and a limit that some menu meets."""
    accuracies = sorted(draw(st.lists(st.integers(5, 95), min_size=2, max_size=8, unique=True)))
    weights = np.array(draw(st.lists(st.integers(1, 9), min_size=len(accuracies), max_size=len(accuracies))), float)
    efforts, probabilities = efforts_of(np.array(accuracies) / 100), weights / weights.sum()
    slowest = max(100 / 600, efforts[0] * 100 / 590)
    cheapest = 20 + 200 * pay_weights(efforts, probabilities).sum() * slowest**2
    return efforts, probabilities, cheapest * draw(st.floats(1.02, 5.0))


@given(markets(), st.randoms(use_true_random=False))
def test_what_the_authors_prove(market, random):
    efforts, probabilities, limit = market
    contract = design(efforts, probabilities, limit, Setting())
    assert (np.diff(contract.frequencies) >= 0).all()
    assert probabilities @ contract.rewards <= limit * (1 + 1e-9)
    for m, effort in enumerate(efforts.tolist()):
        utilities = contract.utilities(effort)
        assert utilities[m] >= utilities.max() - 1e-9  # incentive compatible
        assert utilities[m] >= -1e-9  # individually rational
    assert contract.utilities(efforts[0])[0] == pytest.approx(0, abs=1e-9)  # no more than needed
    weighted = 20 + 200 * float(pay_weights(efforts, probabilities) @ contract.frequencies**2)
    assert probabilities @ contract.rewards == pytest.approx(weighted)
    best = totals(contract, probabilities)[0]
    for _ in range(20):  # no other menu with these properties earns the server more
        other = np.sort(contract.frequencies * np.array([random.uniform(0.9, 1.1) for _ in efforts]))
        rewards = 20 + (efforts * np.diff(200 * other**2, prepend=0.0)).cumsum()
        if probabilities @ rewards <= limit and (other >= 100 / 600).all() and (efforts * 100 / other < 590).all():
            menu = Contract(setting=Setting(), efforts=efforts, frequencies=other, rewards=rewards)
            assert totals(menu, probabilities)[0] <= best + 1e-6 * abs(best)


def test_clients_are_paid_by_the_item_for_their_accuracy():
    """A better model earns more; a client below the lowest type declines, and an unmeasurable one too."""
    accuracies = {"low": 0.05, "first": 0.2, "fifth": 0.52, "best": 0.99}
    figures = Figures(
        profits=dict.fromkeys([*accuracies, "none"], 0.5),
        contributions=dict.fromkeys([*accuracies, "none"], 1.0),
        further={"metric": accuracies},
    )
    decision, _ = decide_round(mechanism("kang-contract", worth=0.01), figures, {})
    rewards = standard_contract(100.0).rewards
    assert decision.transfers["low"] == decision.transfers["none"] == 0
    assert decision.transfers["first"] == pytest.approx(0.01 * rewards[0])
    assert rewards[0] * 0.01 < decision.transfers["fifth"] < decision.transfers["best"]
    assert decision.transfers["best"] == pytest.approx(0.01 * rewards[-1])
    assert decision.external == pytest.approx(-math.fsum(decision.transfers.values()))


def test_a_limit_that_no_contract_meets_is_refused():
    figures = Figures(profits={"a": 0.5}, contributions={"a": 1.0}, further={"metric": {"a": 0.5}})
    with pytest.raises(InputError, match=r"^reward_limit must be above 23\.88.*, got 20\.0\.$"):
        decide_round(mechanism("kang-contract", reward_limit=20.0), figures, {})
