"""Tang and Wong: the closed form against the authors' algorithm, and what they prove."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.decision.mechanisms.tang_wong import (
    Precision,
    best_iterations,
    payoff_slopes,
    ring,
    unit_transfers,
)
from commonweal.records import Figures
from tests.decision.mechanisms.rounds import decided, mechanism

HALVES = np.array([4.0, 16.0] * 5)
COSTS = np.full(10, 0.02)


def test_the_closed_form_is_where_the_ring_ends():
    best = best_iterations(HALVES, COSTS, Precision(), 100.0)
    assert best == pytest.approx(30.485, abs=5e-4)
    closed = unit_transfers(payoff_slopes(HALVES, COSTS, best, Precision()))
    assert closed == pytest.approx([0.0120, -0.0120] * 5, abs=5e-5)
    rng = np.random.default_rng(3)
    proposals, transfers = ring(
        HALVES, COSTS, rng.uniform(25, 50, 10), rng.uniform(-1e-3, 1e-3, 10), Precision(), 100.0
    )
    assert proposals == pytest.approx(np.full(10, best), abs=0.01)
    assert transfers == pytest.approx(closed, abs=1e-4)


@pytest.mark.slow
def test_the_ring_ends_at_unequal_costs_too():
    values, costs = np.array([3.0, 8.0, 20.0]), np.array([0.01, 0.05, 0.03])
    proposals, transfers = ring(
        values, costs, np.full(3, 20.0), np.zeros(3), Precision(), 100.0, penalty=0.002, tolerance=1e-8
    )
    best = best_iterations(values, costs, Precision(), 100.0)
    assert proposals == pytest.approx(np.full(3, best), abs=1e-3)
    assert transfers == pytest.approx(unit_transfers(payoff_slopes(values, costs, best, Precision())), abs=1e-5)


organisations = st.lists(st.tuples(st.floats(0, 20), st.floats(0, 0.5)), min_size=3, max_size=10)


@given(organisations, st.floats(1, 200))
def test_welfare_is_largest_transfers_cancel_and_nobody_loses(given_pairs, limit):
    values, costs = np.array(given_pairs).T
    precision = Precision()
    best = best_iterations(values, costs, precision, limit)

    def payoffs(iterations):
        return values * precision.gain(iterations) - costs * iterations

    grid = np.linspace(0, limit, 500)
    assert payoffs(best).sum() >= max(payoffs(r).sum() for r in grid) - 1e-9
    transfers = unit_transfers(payoff_slopes(values, costs, best, precision)) * best
    assert math.fsum(transfers.tolist()) == pytest.approx(0, abs=1e-9)
    assert (payoffs(best) + transfers >= -1e-9).all()


def figures(utilities, costs):
    return Figures(
        profits={client: utilities[client] - costs[client] for client in utilities},
        contributions=dict.fromkeys(utilities, 1.0),
        costs=costs,
        further={"utility": utilities},
    )


def test_rounds_are_settled_at_their_own_iterations_and_the_next_one_gets_the_best():
    """Figures that the model itself gives for 4 iterations lead to the closed form."""
    precision, values, costs = Precision(), {"a": 4.0, "b": 16.0, "c": 10.0}, {"a": 1.0, "b": 1.0, "c": 1.0}

    def round_of(iterations):
        utilities = {client: value * precision.gain(iterations) for client, value in values.items()}
        return figures(utilities, {client: cost * iterations for client, cost in costs.items()}), {}

    best = best_iterations(np.array([4.0, 16.0, 10.0]), np.ones(3), precision, 100.0)
    assert best == pytest.approx((math.sqrt(10 * 9.82 * 5) - 4.26) / 5)
    one = mechanism("tang-wong", iteration_limit=4)
    (first, instructions, _), (second, _, _) = decided(one, [round_of(4), round_of(4)])
    assert instructions.iteration_limit == round(best) == 4
    slopes = {client: value * 9.82 * 5 / (4.26 + 20) ** 2 - 1 for client, value in values.items()}
    mean = sum(slopes.values()) / 3
    expected = {client: 4 * (mean - slope) for client, slope in slopes.items()}
    assert first.transfers == pytest.approx(expected, abs=1e-12)
    assert second.transfers == pytest.approx(expected, abs=1e-12)
    assert expected["a"] > 0 > expected["b"]  # who values the model more pays


def test_a_federation_that_gains_nothing_gets_one_iteration():
    loss = figures({"a": -1.0, "b": 0.5}, {"a": 0.1, "b": 0.1})
    assert decided(mechanism("tang-wong"), [(loss, {})])[0][1].iteration_limit == 1
    free = figures({"a": 1.0, "b": 0.5}, {"a": 0.0, "b": 0.0})
    assert decided(mechanism("tang-wong", iteration_limit=7), [(free, {})])[0][1].iteration_limit == 7
