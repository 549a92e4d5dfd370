"""What a scenario says to people: only what applies to its task."""

from __future__ import annotations

import pytest

from commonweal.scenario.description import describe
from commonweal.scenario.shipped import load

TABLE = """
name = "clinics"
rounds = 2
[mechanism]
mu = 0.1
utility = "advantage"
[task]
table = "patients.csv"
site = "clinic"
target = "died"
metric = "roc-auc"
[[clients]]
name = "north"
cost_per_sample = 0.01
[[clients]]
name = "south"
"""


@pytest.fixture
def table(tmp_path):
    (tmp_path / "clinics.toml").write_text(TABLE, encoding="utf-8")
    return describe(load(str(tmp_path / "clinics.toml")))


def test_a_table_is_described_by_its_columns_and_metric(table):
    shown = table.settings
    assert (shown["table"], shown["site"], shown["target"]) == ("patients.csv", "clinic", "died")
    assert (shown["metric"], shown["utility"]) == ("ROC AUC", "the advantage over a model trained alone")
    assert "model" not in shown  # [learning] model is for images


def test_clients_of_a_table_have_no_source_of_images(table):
    assert table.client_facts["north"] == {"unit value": "1", "cost per sample": "0.01"}


def test_images_are_described_by_their_source_and_model():
    described = describe(load("quickstart"))
    assert described.settings["model"] == "compact"
    assert not {"metric", "utility", "table"} & set(described.settings)
    assert all({"source", "samples per round"} <= set(facts) for facts in described.client_facts.values())
