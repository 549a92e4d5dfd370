"""Zhang, as reconstructed: the three groups, the grim trigger, and a search that finds the largest sustained total."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.decision.mechanisms.zhang import StageGame, equilibrium, incentives, sustained
from commonweal.records import Figures
from tests.decision.mechanisms.rounds import decided, mechanism

players = st.tuples(st.floats(0, 1), st.floats(1e-4, 0.02), st.floats(10, 200))


def game_of(rows):
    values, unit_costs, limits = np.array(rows).T
    return StageGame(values=values, unit_costs=unit_costs, limits=limits, sample_unit=100.0)


@given(st.lists(players, min_size=1, max_size=8))
def test_free_riders_at_most_one_partial_contributor_and_contributors(rows):
    game = game_of(rows)
    amounts = equilibrium(game)
    partial = (amounts > 1e-9) & (amounts < game.limits - 1e-9)
    assert partial.sum() <= 1
    # Nobody gains by deviating: every amount on a fine grid is no better.
    for n in range(len(rows)):
        others = amounts.sum() - amounts[n]
        own = np.linspace(0, game.limits[n], 201)
        deviations = game.values[n] * game.benefit(others + own) - game.unit_costs[n] * own
        assert game.payoffs(amounts)[n] >= deviations.max() - 1e-12


@given(st.lists(players, min_size=2, max_size=5), st.floats(0, 1))
def test_a_grim_trigger_sustains_the_profile(rows, discount):
    game = game_of(rows)
    amounts, alone = sustained(game, discount), equilibrium(game)
    assert (amounts >= 0).all()
    assert (amounts <= game.limits * (1 + 1e-12)).all()
    assert amounts.sum() >= alone.sum() - 1e-9
    assert (incentives(game, amounts, discount) >= -1e-6).all()
    assert (game.payoffs(amounts) >= game.payoffs(alone) - 1e-6).all() or discount < 1e-3
    assert (amounts > 0).sum() >= (alone > 1e-6).sum() or discount == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_no_profile_on_a_grid_has_more_data(seed):
    rng = np.random.default_rng(seed)
    game = game_of(np.c_[rng.uniform(0.2, 1, 2), rng.uniform(0, 0.01, 2), rng.uniform(10, 200, 2)])
    discount = rng.uniform(0, 1)
    found = sustained(game, discount).sum()
    for levels in product(np.linspace(0, 1, 31), repeat=2):
        amounts = np.array(levels) * game.limits
        if amounts.sum() > found + 0.01 * game.limits.sum():
            assert (incentives(game, amounts, discount) < 0).any()


def test_patience_turns_free_riders_into_contributors():
    """Two alike: alone, one provides v/c − 100 = 25 samples for both; together, both gain from 100."""
    game = game_of([(1.0, 0.008, 100.0), (1.0, 0.008, 100.0)])
    assert equilibrium(game) == pytest.approx([25.0, 0.0])
    assert sustained(game, 0.0).sum() == pytest.approx(25.0)
    patient = sustained(game, 0.9)
    assert (patient > 25).all()
    assert sustained(game, 0.5).sum() <= patient.sum()


def round_of(utilities, costs, counts):
    figures = Figures(
        profits={client: utilities[client] - costs[client] for client in utilities},
        contributions=dict.fromkeys(utilities, 1.0),
        costs=costs,
        further={"utility": utilities},
    )
    return figures, counts


def test_rounds_agree_on_data_and_a_deviation_ends_it():
    """The two clients of the test above: v = utility / ln(1 + 200/100) = 1."""
    utility = float(np.log(3.0))
    together = round_of({"a": utility, "b": utility}, {"a": 0.8, "b": 0.8}, {"a": 100, "b": 100})
    game = game_of([(1.0, 0.008, 100.0), (1.0, 0.008, 100.0)])
    decision, asked, state = decided(mechanism("zhang"), [together])[0]
    assert decision.transfers == {"a": 0.0, "b": 0.0}
    agreed = sustained(game, 0.9)
    assert list(asked.data_shares.values()) == pytest.approx(agreed / 100, abs=0.01)
    assert not state["is_punished"]
    counts = {"a": round(agreed[0]), "b": 0}  # b uses nothing, although it is asked for more
    reached = float(np.log1p(counts["a"] / 100))
    cheated = round_of({"a": reached, "b": reached}, {"a": counts["a"] * 0.008, "b": 0.0}, counts)
    (_, _, _), (_, alone, state) = decided(mechanism("zhang"), [together, cheated])
    assert state["is_punished"]
    assert alone.data_shares == pytest.approx({"a": 0.25, "b": 0.0}, abs=0.02)
