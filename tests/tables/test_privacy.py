"""What leaves a site: sums and counts of the training rows of its first round, and nothing else."""

from __future__ import annotations

import json

import pytest

from commonweal.errors import InputError
from commonweal.tables.task import TableTask
from tests.tables.small import PATIENTS, keys, made, members, patients, write_csv


def summary_after(tmp_path, rows, settings, round_count):
    write_csv(tmp_path / "patients.csv", rows)
    task = TableTask({**PATIENTS, **settings})
    return task.summarise(members(task, tmp_path, round_count=round_count)[0])


@pytest.mark.parametrize("settings", [{}, {"date": "day"}], ids=["by rows", "by date"])
def test_nothing_of_validation_rows_and_later_rounds_reaches_the_summary(tmp_path, settings):
    rows = [{**row, "day": row["key"] % 1000} for row in patients({"a": 60, "b": 60})]
    task, clients = made(tmp_path, rows, settings, round_count=3)
    before = summary_after(tmp_path, rows, settings, 3)
    first = task.load(1, clients[0])
    used = set(keys(first.training[0], clients[0].agreed).tolist())
    assert before["row_count"] == len(used)
    changed = [
        {**row, "age": "77777", "ward": "elsewhere", "died": "maybe"} if row["key"] not in used else row for row in rows
    ]
    assert changed != rows
    assert summary_after(tmp_path, changed, settings, 3) == before
    one = min(used)
    touched = [{**row, "age": row["age"] + 1} if row["key"] == one else row for row in rows]
    assert summary_after(tmp_path, touched, settings, 3) != before


def test_a_summary_holds_sums_counts_and_labels_only(tmp_path):
    rows = [{**row, "note": None, "day": row["key"]} for row in patients({"a": 60, "b": 60})]
    summary = json.loads(json.dumps(summary_after(tmp_path, rows, {"date": "day"}, 2)))
    assert set(summary) == {"row_count", "columns", "target", "dates"}
    allowed = {
        "number": {"name", "kind", "count", "sum", "squares", "missing"},
        "category": {"name", "kind", "labels", "other", "missing"},
        "empty": {"name", "kind", "missing"},
    }
    for column in summary["columns"]:
        assert set(column) == allowed[column["kind"]]
    assert {column["kind"] for column in summary["columns"]} == set(allowed)
    assert set(summary["target"]) == {"labels", "moments"}
    assert set(summary["dates"]) == {"first", "last", "kind"}


def test_sums_are_those_of_the_training_rows(tmp_path):
    rows = patients({"a": 50, "b": 50})
    task, clients = made(tmp_path, rows)
    summary = task.summarise(clients[0])
    used = keys(task.load(1, clients[0]).training[0], clients[0].agreed)
    ages = [rows[key]["age"] for key in used]
    (column,) = (column for column in summary["columns"] if column["name"] == "age")
    mean = sum(ages) / len(ages)
    assert column["count"] == len(ages)
    assert column["sum"] == pytest.approx(sum(ages))
    assert column["squares"] == pytest.approx(sum((age - mean) ** 2 for age in ages))
    died = [rows[key]["died"] for key in used]
    assert summary["target"] == {"labels": {"no": died.count("no"), "yes": died.count("yes")}, "moments": None}


def test_values_of_a_quantity_are_not_sent(tmp_path):
    rows = [{**row, "died": row["key"] / 7} for row in patients({"a": 50, "b": 50})]
    for settings in ({}, {"kind": "regression"}):
        assert summary_after(tmp_path, rows, settings, 1)["target"]["labels"] is None


def test_a_column_of_names_is_refused_before_it_is_sent(tmp_path):
    rows = [{**row, "name": f"patient {row['key']}"} for row in patients({"a": 50, "b": 50})]
    with pytest.raises(InputError, match=r"column 'name' has .* different texts .* ignore, or in categorical"):
        summary_after(tmp_path, rows, {}, 1)
    assert "patient" not in json.dumps(summary_after(tmp_path, rows, {"ignore": ["name"]}, 1))
    assert "patient" in json.dumps(summary_after(tmp_path, rows, {"categorical": ["name"]}, 1))
