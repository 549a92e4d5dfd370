"""Real tables with sites: federated models against scikit-learn on all rows together."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from commonweal.tables.task import TableTask
from tests.tables.small import agreed_members, context, federated

FOLDER = Path(os.environ.get("COMMONWEAL_DATA", "")) / "tables"
pytestmark = pytest.mark.skipif(
    "COMMONWEAL_DATA" not in os.environ or not FOLDER.is_dir(),
    reason="the real tables are read where COMMONWEAL_DATA is set",
)

AZPRO = {"table": "azpro.csv", "site": "hospital", "target": "procedure", "ignore": ["rownames"]}
RANDHIE = {"table": "randhie.csv", "site": "site", "target": "binexp", "ignore": ["meddol"]}
DIALYSIS = {"table": "dialysis.csv", "site": "center", "target": "died_in_12_months"}
ROUNDS, ITERATIONS = 8, 5


def mean_area(validation, predict):
    """The mean ROC AUC over the sites where both classes occur at least three times."""
    areas = [
        roc_auc_score(targets, predict(name, features))
        for name, (features, targets) in validation.items()
        if np.bincount(targets, minlength=2).min() >= 3
    ]
    return float(np.mean(areas))


def areas(settings, seed, iteration_count=ITERATIONS):
    """The mean ROC AUC of the federated model, of one on pooled rows, and of those that sites train alone."""
    task = TableTask(settings)
    clients = agreed_members(task, FOLDER, round_count=ROUNDS, seed=seed)
    model, training, validation = federated(task, clients, iteration_count=iteration_count)
    member = context(clients[0])

    def federated_prediction(_, features):
        return task.evaluate(model, (features, np.zeros(len(features), dtype=np.int64)), member).values

    everything = [np.concatenate(arrays) for arrays in zip(*training.values(), strict=True)]
    pooled = LogisticRegression(C=np.inf, max_iter=1000).fit(*everything)
    alone = {
        name: LogisticRegression(C=1.0, max_iter=1000).fit(*rows)
        for name, rows in training.items()
        if len(set(rows[1].tolist())) == 2
    }
    return (
        mean_area(validation, federated_prediction),
        mean_area(validation, lambda _, features: pooled.predict_proba(features)[:, 1]),
        mean_area(
            validation,
            lambda name, features: (
                alone[name].predict_proba(features)[:, 1] if name in alone else np.zeros(len(features))
            ),
        ),
    )


def test_azpro_federated_reaches_pooled_and_beats_alone():
    federation, pooled, alone = np.mean([areas(AZPRO, seed) for seed in (1, 2, 3)], axis=0)
    assert federation == pytest.approx(pooled, abs=0.005)
    assert federation > alone


def test_azpro_tells_of_the_hospital_in_which_nothing_can_be_measured():
    task = TableTask(AZPRO)
    sites = task.sites(FOLDER)
    assert (len(sites), sum(sites.values()), min(sites.values())) == (17, 3589, 17)
    smallest = min(sites, key=sites.get)
    notes = {client.name: task.notes(client) for client in agreed_members(task, FOLDER, round_count=ROUNDS)}
    assert "has only 17 rows, 16 of them with the same target" in notes.pop(smallest)[0]
    assert not any(notes.values())


def test_randhie_pooling_does_not_help():
    federation, pooled, alone = areas(RANDHIE, 1, iteration_count=1)
    assert federation == pytest.approx(pooled, abs=0.01)
    assert federation < alone


def test_randhie_tells_that_one_target_gives_the_other_away():
    task = TableTask({**RANDHIE, "ignore": []})
    client = agreed_members(task, FOLDER, round_count=ROUNDS)[0]
    assert [note for note in task.notes(client) if "Column 'meddol' alone tells the target" in note]


def test_dialysis_has_many_small_centres():
    task = TableTask(DIALYSIS)
    clients = agreed_members(task, FOLDER, round_count=ROUNDS)
    assert len(clients) == 67
    kinds = {block["column"]: block["kind"] for block in clients[0].agreed["features"]}
    assert kinds == {"age": "number", "begin": "number", "disease": "category"}
    federation, pooled, alone = areas(DIALYSIS, 1, iteration_count=1)
    assert federation == pytest.approx(pooled, abs=0.02)
    assert federation > alone
