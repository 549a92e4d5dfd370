"""FMore, by the theory of Che (1993): the closed form of a known auction, and that the bids are an equilibrium."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.decision.mechanism import decide_round
from commonweal.decision.mechanisms.fmore import rents, win_probability
from commonweal.errors import InputError
from commonweal.records import Figures
from tests.decision.mechanisms.rounds import decided, mechanism, rounds


@pytest.mark.parametrize("bidders", [2, 3, 7])
def test_one_unit_and_one_winner_is_a_first_price_auction(bidders):
    """Uniform costs on [0, 1]: everybody asks t + (1 − t)/N."""
    types = np.linspace(0, 0.99, 34)
    assert rents(types, 0.0, 1.0, bidders, 1) == pytest.approx((1 - types) / bidders, abs=1e-4)


@pytest.mark.parametrize(("bidders", "winners"), [(3, 1), (4, 2), (5, 3), (3, 3)])
def test_the_probability_to_win_by_counting(bidders, winners):
    """Each of the others is better with probability 0.3."""
    chance = 0.0
    for better in product([True, False], repeat=bidders - 1):
        if sum(better) < winners:
            chance += math.prod(0.3 if one else 0.7 for one in better)
    assert win_probability(np.array([0.3]), bidders, winners) == pytest.approx([chance])


@given(st.integers(2, 8), st.integers(1, 3), st.floats(0.0, 0.95))
def test_asking_as_another_type_does_not_gain(bidders, winners, own):
    """The expected gain P(y) · (ask(y) − own cost) is largest at y = own cost, if all others ask by the formula."""
    types = np.append(np.linspace(0.0, 0.99, 100), own)
    asks = types + rents(types, 0.0, 1.0, bidders, winners)
    gains = win_probability(types, bidders, winners) * (asks - own)
    assert gains[-1] >= gains.max() - 1e-6


@given(rounds())
def test_nobody_is_paid_less_than_its_cost(one_round):
    figures, _ = one_round
    decision = decided(mechanism("fmore"), [one_round])[0][0]
    assert all(decision.transfers[client] >= figures.costs[client] for client in figures.clients)


def round_of(costs, counts):
    figures = Figures(profits=dict.fromkeys(costs, 0.0), contributions=dict.fromkeys(costs, 1.0), costs=costs)
    return figures, counts


def test_the_cheapest_of_equal_bids_take_part_in_the_next_round():
    costs, counts = {"a": 0.03, "b": 0.02, "c": 0.01}, {"a": 100, "b": 100, "c": 100}
    asked = decided(mechanism("fmore", winners=2), [round_of(costs, counts)])[0][1]
    assert asked.participants == ("b", "c")


def test_a_client_that_rests_keeps_its_bid():
    one = mechanism("fmore", winners=2)
    costs, counts = {"a": 0.01, "b": 0.02, "c": 0.03}, {"a": 100, "b": 100, "c": 100}
    figures, counts = round_of(costs, counts)
    _, state = decide_round(one, figures, {}, sample_counts=counts)
    dear, fewer = round_of({"a": 0.01, "b": 0.09}, {"a": 100, "b": 100})
    _, state = decide_round(one, dear, state, sample_counts=fewer)
    assert one.plan(None, state, ("a", "b", "c", "new")).participants == ("a", "c", "new")


def test_a_range_of_costs_must_be_one():
    figures, counts = round_of({"a": 0.01}, {"a": 100})
    with pytest.raises(InputError, match=r"^lowest must be below highest, got 0\.5 and 0\.1\.$"):
        decide_round(mechanism("fmore", lowest=0.5, highest=0.1), figures, {}, sample_counts=counts)
