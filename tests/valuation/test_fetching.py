"""Estimators ask for coalitions in as few questions as their method allows: in a federation each takes seconds."""

from __future__ import annotations

import pytest

from commonweal.valuation import estimate_shapley

CLIENTS = [f"client {number}" for number in range(8)]


class Asked:
    """v(S) = Σ over S of the client's number, noting every question."""

    def __init__(self):
        self.known = {}
        self.questions = 0

    def fetch(self, coalitions):
        missing = [coalition for coalition in coalitions if coalition not in self.known]
        self.questions += bool(missing)
        self.known |= {coalition: float(sum(map(CLIENTS.index, coalition))) for coalition in missing}

    def __call__(self, coalition):
        self.fetch([coalition])
        return self.known[coalition]


@pytest.mark.parametrize(("method", "most"), [("adaptive", 7), ("leverage", 3)])
def test_batches_of_coalitions_are_asked_for_together(method, most):
    """Adaptive batches are half as large as all before: 2, 10, 6, 9, 13, 20 and the last 4 of 64."""
    value = Asked()
    estimated = estimate_shapley(CLIENTS, value, evaluation_limit=64, seed=1, method=method)
    assert value.questions <= most
    assert len(value.known) <= 64
    alone = estimate_shapley(CLIENTS, lambda coalition: value(coalition), evaluation_limit=64, seed=1, method=method)
    assert alone == estimated


def test_all_coalitions_at_once_when_the_limit_allows():
    value = Asked()
    estimate_shapley(CLIENTS, value, evaluation_limit=256, seed=1, method="adaptive")
    assert (value.questions, len(value.known)) == (1, 256)
