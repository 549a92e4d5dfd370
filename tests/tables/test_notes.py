"""What members are told about their rows, and the task in words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from commonweal.tables.notes import area_under_curve
from commonweal.tables.task import TableTask
from tests.tables.small import made, patients


def notes_of(tmp_path, rows, settings=None, **options):
    task, clients = made(tmp_path, rows, settings, **options)
    return {client.name: task.notes(client) for client in clients}


def test_a_site_with_hardly_any_rows_of_a_class(tmp_path):
    rows = patients({"14": 17, "15": 80})
    for row in rows[:17]:
        row["died"] = "yes" if row["key"] == 3 else "no"
    notes = notes_of(tmp_path, rows, {"ignore": ["key"]})
    assert notes == {
        "14": [
            "'14' has only 17 rows, 16 of them with the same target, 'no': what is measured there is mostly chance."
        ],
        "15": [],
    }


def test_a_site_with_one_class(tmp_path):
    rows = [{**row, "died": "no"} if row["hospital"] == "a" else row for row in patients({"a": 50, "b": 80})]
    (note,) = notes_of(tmp_path, rows, {"ignore": ["key"]})["a"]
    assert note == "All 50 rows of 'a' have the same target, 'no': no metric can be measured there."


def test_rows_without_a_target(tmp_path):
    rows = [{**row, "died": "" if row["key"] % 10 == 0 else row["died"]} for row in patients({"a": 50, "b": 80})]
    assert "'a': 5 rows without a target left out." in notes_of(tmp_path, rows)["a"]


def test_row_numbers_and_columns_that_tell_the_target(tmp_path):
    rows = [{**row, "days": 5 + (row["died"] == "yes")} for row in patients({"a": 80, "b": 80})]
    notes = notes_of(tmp_path, rows)
    for name in ("a", "b"):
        assert notes[name] == [
            "Column 'key' counts the rows. If it is a row number, list it in ignore.",
            "Column 'days' alone tells the target of nearly every row. If it is known only afterwards, list it in "
            "ignore.",
        ]


def test_gaps_that_come_later(tmp_path):
    rows = patients({"a": 60, "b": 60})
    task, clients = made(tmp_path, rows, {"ignore": ["key"]})
    assert task.notes(clients[0]) == []
    for row in rows:
        row["age"] = "" if row["key"] < 3 else row["age"]
    changed, _ = made(tmp_path, rows, {"ignore": ["key"]})
    (note,) = changed.notes(clients[0])
    assert "Column 'age' is missing in 3 rows of 'a'" in note


values = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30)


@given(values.filter(lambda rows: len({positive for _, positive in rows}) == 2))
def test_the_area_under_the_curve_is_that_of_scikit_learn(rows):
    numbers, is_positive = np.array([row[0] for row in rows], dtype=float), np.array([row[1] for row in rows])
    assert area_under_curve(numbers, is_positive) == pytest.approx(roc_auc_score(is_positive, numbers), abs=1e-12)


def test_the_task_in_words(tmp_path):
    task, clients = made(tmp_path, patients({"a": 60, "b": 60}), {"ignore": ["key"], "l2": 0.01, "learning_rate": 0.2})
    assert task.describe(clients[0].agreed) == {
        "table": "patients.csv, one client for each value of 'hospital'",
        "target": "'died', 2 classes: no, yes",
        "features": "age, ward (4 inputs of the model)",
        "model": "logistic regression",
<<<<<<< HEAD
        "training": ("gradient descent on batches of 32 rows, 1 pass over a client's rows per iteration, l2 0.01"),
=======
        "training": (
            "gradient descent with learning rate 0.2 on batches of 32 rows, 1 pass over a client's rows per iteration, "
            "l2 0.01"
        ),
>>>>>>> 4551e7a963520069c1ed67b33563bfa622cafa4a
        "arrival": "in random order, in equal parts; 30% of the rows are for validation",
    }
    rows = [{**row, "died": row["age"]} for row in patients({"a": 60, "b": 60})]
    task, clients = made(tmp_path, rows, {"model": "mlp", "hidden": [8, 4], "date": "key"})
    words = task.describe(clients[0].agreed)
    assert words["model"] == "multi-layer perceptron with hidden layers of 8, 4 units"
    assert words["arrival"].startswith("by 'key', in periods of equal length")
    assert words["target"].startswith("'died', a number (mean ")
    task = TableTask({"target": "died"})
    assert task.describe(clients[0].agreed)["table"] == "one file for each client"
