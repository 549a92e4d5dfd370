"""CGSV from cosines alone, against the algorithm on the updates themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.decision.mechanisms.cgsv import alignments, model_shares, next_importances
from commonweal.records import Figures
from tests.decision.mechanisms.rounds import decided, mechanism


def by_updates(updates, importances, alpha):
    """One iteration of the authors' algorithm, with updates of length 0.5."""
    normalised = [0.5 * update / np.linalg.norm(update) for update in updates]
    total = sum(r * u for r, u in zip(importances, normalised, strict=True))
    cosines = [u @ total / (np.linalg.norm(u) * np.linalg.norm(total)) for u in normalised]
    moved = [max(alpha * r + (1 - alpha) * c, 0.001) for r, c in zip(importances, cosines, strict=True)]
    return cosines, np.array(moved) / sum(moved)


def cosines_of(updates):
    lengths = np.linalg.norm(updates, axis=1)
    return updates @ updates.T / np.outer(lengths, lengths)


@given(st.integers(0, 2**32), st.integers(1, 7), st.floats(0, 1))
def test_cosines_are_enough(seed, count, alpha):
    rng = np.random.default_rng(seed)
    updates, importances = rng.normal(size=(count, 5)) + 0.5, rng.dirichlet(np.ones(count))
    cosines, after = by_updates(updates, importances, alpha)
    assert alignments(cosines_of(updates), importances) == pytest.approx(cosines, abs=1e-9)
    assert next_importances(importances, cosines_of(updates), alpha) == pytest.approx(after, abs=1e-9)


def test_updates_that_cancel_have_no_direction():
    assert alignments(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([0.5, 0.5])).tolist() == [0.0, 0.0]


@given(st.lists(st.floats(0.001, 1.0), min_size=1, max_size=8), st.floats(0.1, 10))
def test_a_larger_importance_earns_a_larger_model(importances, beta):
    shares = model_shares(np.array(importances), beta)
    assert shares.max() == 1
    assert (shares > 0).all()
    assert (np.diff(shares[np.argsort(importances)]) >= 0).all()


def test_a_client_that_pulls_the_other_way_loses_importance_round_by_round():
    updates = np.array([[1.0, 0.1], [1.0, -0.1], [-1.0, 0.2]])
    columns = {
        f"similarity:{client}": dict(zip("abc", row.tolist(), strict=True))
        for client, row in zip("abc", cosines_of(updates), strict=True)
    }
    figures = Figures(profits=dict.fromkeys("abc", 0.1), contributions=dict.fromkeys("abc", 1.0), further=columns)
    results = decided(mechanism("cgsv"), [(figures, {})] * 5)
    importances = np.full(3, 1 / 3)
    for decision, asked, state in results:
        importances = by_updates(updates, importances, 0.95)[1]
        assert list(state.values()) == pytest.approx(importances)
        expected = np.tanh(importances) / np.tanh(importances).max()
        assert list(asked.model_shares.values()) == pytest.approx(expected)
        assert set(decision.transfers.values()) == {0.0}
    assert results[-1][2]["c"] < results[0][2]["c"] < 1 / 3
