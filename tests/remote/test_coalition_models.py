"""Weights over local models are sent exactly if the models of the coalitions would have revealed as much."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from commonweal.learning.vectors import average_models as average
from commonweal.remote.coordinator.coalition_models import are_local_models_known
from tests.remote.toy import NAMES, make_toy

CLIENTS = ("a", "b", "c", "d")


def every_subset():
    return [frozenset(some) for size in range(1, 5) for some in combinations(CLIENTS, size)]


@pytest.mark.parametrize("seed", range(40))
def test_the_rule_is_whether_local_models_can_be_computed(seed):
    """By trying: from the averages and the sample counts, least squares finds the local models or it does not."""
    rng = np.random.default_rng(seed)
    subsets = every_subset()
    coalitions = [subsets[i] for i in rng.choice(len(subsets), size=rng.integers(1, 9), replace=False)]
    there = sorted(frozenset().union(*coalitions))
    local = {client: rng.standard_normal(6) for client in there}
    counts = {client: float(rng.integers(10, 200)) for client in there}
    rows, averages = [], []
    for coalition in coalitions:
        members = [client for client in there if client in coalition]
        weights = [counts[client] for client in members]
        averages.append(average([{"w": local[client]} for client in members], weights)["w"])
        rows.append([counts[c] / sum(weights) if c in coalition else 0.0 for c in there])
    found = np.linalg.lstsq(np.array(rows), np.array(averages), rcond=None)[0]
    can_be_computed = np.allclose(found, [local[client] for client in there], atol=1e-6)
    expected = can_be_computed and len(there) > 1
    assert are_local_models_known(coalitions) == expected


def test_marginal_contributions_reveal_local_models_and_the_model_of_all_does_not():
    everyone = frozenset(CLIENTS)
    assert not are_local_models_known([everyone])
    assert are_local_models_known([everyone, *(everyone - {client} for client in CLIENTS)])


def models_received(toy, client):
    """The hashes of the models that a client was sent in the first round, by question."""
    found = {}
    for sent in toy.transport.sent:
        if sent.to_member and sent.client == client and sent.message.fields["round"] == 1:
            models = [name for name in sent.message.groups if name.startswith("model/")]
            found.setdefault(sent.kind, []).append(len(models))
    return found


@pytest.mark.parametrize(
    ("mechanism", "evaluations"),
    [
        ('contribution = "quantity"', [1, 1]),  # the model of all, once per iteration
        ('contribution = "marginal"', [1, 1, 3]),  # and the local models of the three others
        ('contribution = "shapley"', [1, 1, 3]),  # sixteen coalitions, and no model more
    ],
)
def test_each_model_is_sent_once(tmp_path, mechanism, evaluations):
    toy = make_toy(
        tmp_path / "f", rounds=1, mechanism=f'mu = "inf"\n{mechanism}', learning="stop_below = 0.0\niteration_limit = 2"
    )
    toy.coordinate()
    for client in NAMES:
        assert models_received(toy, client) == {
            "query.open": [1],
            "train.iteration": [0, 0],  # it has the model already
            "evaluate.coalitions": evaluations,
            "query.report": [0],
            "query.receipt": [0],
            "query.close": [0],
        }
