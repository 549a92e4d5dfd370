"""Active FL and Power-of-Choice: who is asked to take part, against the pseudo-code and its probabilities."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.decision.lots import drawn, place_count
from commonweal.decision.mechanism import decide_round, view_of
from commonweal.decision.mechanisms.active_fl import draw_participants
from commonweal.decision.mechanisms.power_of_choice import choose_participants
from commonweal.records import Figures
from tests.decision.mechanisms.rounds import decided, mechanism, rounds

DRAWS = 4000


def rngs():
    return (np.random.default_rng(seed) for seed in range(DRAWS))


def test_draws_without_replacement_have_the_probabilities_of_successive_draws():
    weights = [1.0, 2.0, 3.0, 0.0]
    counted = Counter(tuple(drawn(np.log(np.maximum(weights, 1e-300)), 2, rng)) for rng in rngs())
    for first, second in permutations(range(3), 2):
        probability = weights[first] / 6 * weights[second] / (6 - weights[first])
        error = math.sqrt(probability * (1 - probability) / DRAWS)
        assert counted[first, second] / DRAWS == pytest.approx(probability, abs=5 * error)
    assert drawn(np.array([-math.inf, 0.0]), 2, np.random.default_rng(1)) == [1]


def test_places():
    assert [place_count(0.6, 5), place_count(0.7, 10), place_count(0.01, 5), place_count(1.0, 3)] == [3, 7, 1, 3]


def active(valuations, places, rng, **settings):
    defaults = {"left_out": 0.75, "temper": 0.01, "uniform": 0.1}
    return draw_participants(np.array(valuations, float), places, rng, **{**defaults, **settings})


def test_active_fl_with_the_authors_constants():
    """Of 8 clients the 6 with the smallest valuation are left out; 2 of 3 places are drawn, 1 goes to anybody."""
    chosen = Counter(n for rng in rngs() for n in active(range(8), 3, rng))
    assert chosen[6] == chosen[7] == DRAWS
    for n in range(6):
        assert chosen[n] / DRAWS == pytest.approx(1 / 6, abs=5 * math.sqrt(5 / 36 / DRAWS))


def test_active_fl_draws_by_the_exponential_of_valuations():
    chosen = Counter(active([0.0, 1.0], 1, rng, left_out=0.0, temper=1.0, uniform=0.0)[0] for rng in rngs())
    probability = math.e / (1 + math.e)
    assert chosen[1] / DRAWS == pytest.approx(probability, abs=5 * math.sqrt(0.25 / DRAWS))


def test_power_of_choice_keeps_the_largest_losses_of_its_candidates():
    losses = np.array([1.0, 5.0, 3.0, math.inf])
    rng = np.random.default_rng(2)
    assert choose_participants(losses, np.ones(4), 4, 2, rng) == [1, 3]
    ties = Counter(choose_participants(np.zeros(2), np.ones(2), 2, 1, rng)[0] for rng in rngs())
    assert ties[0] / DRAWS == pytest.approx(0.5, abs=5 * math.sqrt(0.25 / DRAWS))


def test_power_of_choice_with_as_many_candidates_as_places_draws_by_data():
    data = np.array([1.0, 3.0])
    chosen = Counter(choose_participants(np.array([9.0, 0.0]), data, 1, 1, rng)[0] for rng in rngs())
    assert chosen[1] / DRAWS == pytest.approx(0.75, abs=5 * math.sqrt(0.1875 / DRAWS))


def test_power_of_choice_fills_places_from_clients_without_data():
    assert choose_participants(np.zeros(3), np.array([0.0, 1.0, 0.0]), 3, 3, np.random.default_rng(0)) == [0, 1, 2]


@pytest.mark.parametrize("name", ["active-fl", "power-of-choice"])
@given(st.lists(rounds(least=2), min_size=1, max_size=3), st.integers(0, 99))
def test_as_many_take_part_as_asked_and_nobody_pays(name, given_rounds, seed):
    for decision, asked, _ in decided(mechanism(name, seed=seed, fraction=0.5), given_rounds):
        assert len(asked.participants) == place_count(0.5, len(decision.retained))
        assert set(decision.transfers.values()) == {0.0}
        assert decision.external == 0
        assert decision.eliminated == ()


def test_valuations_are_of_the_last_round_in_which_a_client_trained():
    """v = sqrt(samples) · mean loss; a loss that is not a number changes nothing."""
    one = mechanism("active-fl", seed=1)

    def figures(**losses):
        return Figures(
            profits=dict.fromkeys(["a", "b"], 0.0),
            contributions=dict.fromkeys(["a", "b"], 1.0),
            further={"loss": losses},
        )

    _, state = decide_round(one, figures(a=2.0, b=3.0), {}, sample_counts={"a": 4, "b": 9})
    assert state == {"a": 4.0, "b": 9.0}
    _, state = decide_round(one, figures(b=1.0), state, sample_counts={"a": 100, "b": 25})
    assert state == {"a": 4.0, "b": 5.0}


@pytest.mark.parametrize("name", ["active-fl", "power-of-choice"])
def test_another_round_or_seed_is_another_draw(name):
    figures = Figures(
        profits={f"c{n}": 0.0 for n in range(20)},
        contributions={f"c{n}": 1.0 for n in range(20)},
        further={"loss": {f"c{n}": 1.0 for n in range(20)}},
    )
    counts = dict.fromkeys(figures.clients, 10)

    def asked(seed, number):
        one = mechanism(name, seed=seed, fraction=0.4)
        _, state = decide_round(one, figures, {}, sample_counts=counts)
        return one.plan(
            view_of(one, figures, sample_counts=counts, round_number=number), state, figures.clients
        ).participants

    assert asked(1, 1) == asked(1, 1)
    assert len({asked(1, 1), asked(1, 2), asked(2, 1)}) == 3
