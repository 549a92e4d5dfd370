"""The encoding agreed from sums and counts is what scikit-learn computes from all rows together."""

from __future__ import annotations

import json
import random as python_random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from commonweal.errors import FederationError, InputError
from commonweal.tables.encoding import feature_names
from commonweal.tables.task import TableTask
from tests.tables.small import PATIENTS, agreed_members, keys, made, members, patients, write_csv

cells = st.one_of(st.none(), st.floats(-300, 300).map(lambda value: round(value, 2)))
labels = st.sampled_from([None, "a", "b", "c", "d é", "007"])
a_row = st.tuples(cells, st.floats(0, 1).map(lambda value: 1e9 + round(value, 4)), labels)


def pooled_rows(task, clients, rows, part="training", round_number=1):
    """The rows of the file that arrived, site by site, and all encoded rows in the same order."""
    raw, encoded = [], []
    for number, client in enumerate(clients):
        features = getattr(task.load(round_number, client), part)[0]
        encoded.append(features)
        raw += [next(row for row in rows if row["key"] == 1000 * number + key) for key in keys(features, client.agreed)]
    return raw, np.concatenate(encoded)


@given(st.lists(a_row, min_size=12, max_size=40), st.integers(1, 3))
def test_encoding_equals_that_of_pooled_rows(tmp_path_factory, content, round_count):
    folder = tmp_path_factory.mktemp("table")
    half = len(content) // 2
    rows = patients({"a": half, "b": len(content) - half})
    for row, (number, large, label) in zip(rows, content, strict=True):
        row.update(x=number, large=large, label=label)
    task, clients = made(folder, rows, {"categorical": ["label"], "classes": ["no", "yes"]}, round_count=round_count)
    agreed = clients[0].agreed
    raw, encoded = pooled_rows(task, clients, rows)
    named = dict(zip(feature_names(agreed), encoded.T, strict=True))
    for column in ("x", "large", "age"):
        values = np.array([[np.nan if row[column] is None else float(row[column])] for row in raw])
        if np.isnan(values).all():
            assert column not in named
            continue
        scaler = StandardScaler().fit(values)  # ignores nan
        if column in named and scaler.var_[0] > 1e-6:
            expected = np.nan_to_num(scaler.transform(values)[:, 0], nan=0.0)
            # StandardScaler itself has only about 7 digits of variance where the mean is 1e9.
            assert named[column] == pytest.approx(expected, abs=1e-6 if column != "large" else 1e-3, rel=1e-6)
        has_missing = bool(np.isnan(values).any())
        assert (f"{column} is missing" in named) == has_missing
        if has_missing:
            assert named[f"{column} is missing"].tolist() == np.isnan(values)[:, 0].tolist()
    texts = np.array([[row["label"]] for row in raw], dtype=object)
    present = sorted({row["label"] for row in raw} - {None})
    if len(present) > 1:
        encoder = OneHotEncoder(categories=[present], handle_unknown="ignore", sparse_output=False).fit(
            np.array([[label] for label in present], dtype=object)
        )
        found = np.stack([named[f"label = {label}"] for label in present], axis=1)
        assert np.array_equal(found, encoder.transform(texts))


def test_large_means_lose_no_digits(tmp_path):
    rows = patients({"a": 30, "b": 30})
    for row in rows:
        row["large"] = 1e9 + row["key"] % 7
    task, clients = made(tmp_path, rows)
    raw, encoded = pooled_rows(task, clients, rows)
    exact = np.array([row["large"] - 1e9 for row in raw])
    column = dict(zip(feature_names(clients[0].agreed), encoded.T, strict=True))["large"]
    assert column == pytest.approx((exact - exact.mean()) / exact.std(), abs=1e-6)


def test_any_order_of_arrival_gives_the_same_bits(tmp_path):
    write_csv(tmp_path / "patients.csv", patients(dict.fromkeys("abcdefg", 20)))
    task = TableTask(PATIENTS)
    summaries = [(client.name, task.summarise(client)) for client in members(task, tmp_path)]
    expected = json.dumps(task.agree(dict(summaries)))
    for seed in range(5):
        shuffled = python_random.Random(seed).sample(summaries, len(summaries))
        assert json.dumps(task.agree(dict(shuffled))) == expected


def test_json_with_sorted_keys_changes_nothing(tmp_path):
    """Messages between machines are canonical JSON."""
    write_csv(tmp_path / "patients.csv", patients({"b": 20, "a": 20}))
    task = TableTask(PATIENTS)
    summaries = {client.name: task.summarise(client) for client in members(task, tmp_path)}
    sent = json.loads(json.dumps(summaries, sort_keys=True))
    assert task.agree(sent) == task.agree(summaries)
    agreed = task.agree(summaries)
    assert json.loads(json.dumps(agreed, sort_keys=True)) == agreed


def test_categories_of_one_site_and_of_later_rows(tmp_path):
    rows = patients({"a": 40, "b": 40})
    for row in rows:
        row["ward"] = "north" if row["hospital"] == "a" and row["key"] % 2 else "south"
    task, clients = made(tmp_path, rows, round_count=2)
    assert clients[0].agreed["notes"] == ["Column 'ward' has 1 of 2 categories that occur at one site only."]
    later = keys(task.load(2, clients[1]).training[0], clients[1].agreed)[0]
    rows[40 + later]["ward"] = "new"
    write_csv(tmp_path / "patients.csv", rows)
    features = task.load(2, clients[1]).training[0]
    names = feature_names(clients[1].agreed)
    row = features[keys(features, clients[1].agreed).tolist().index(later)]
    assert [row[names.index(name)] for name in ("ward = north", "ward = south")] == [0.0, 0.0]
    assert any("a category in 1 row of 'b' that no site had" in note for note in task.notes(clients[1]))


def test_rare_categories_are_grouped_and_told(tmp_path):
    rows = patients({"a": 400, "b": 400})
    for row in rows:
        number = row["key"] % 1000
        row["code"] = f"c{number % 150 if number < 300 else number % 10}"
    task, clients = made(tmp_path, rows, {"categorical": ["code"]})
    (block,) = (block for block in clients[0].agreed["features"] if block["column"] == "code")
    assert len(block["labels"]) == 100
    assert {f"c{number}" for number in range(10)} <= set(block["labels"])
    assert block["other"] is True
    assert any("more than 100 categories" in note for note in clients[0].agreed["notes"])
    raw, encoded = pooled_rows(task, clients, rows)
    named = dict(zip(feature_names(clients[0].agreed), encoded.T, strict=True))
    assert named["code = other"].tolist() == [float(row["code"] not in block["labels"]) for row in raw]


def test_constant_and_empty_columns_are_left_out_and_told(tmp_path):
    rows = [{**row, "same": 0.1, "word": "x", "nothing": None} for row in patients({"a": 30, "b": 30})]
    _, clients = made(tmp_path, rows)
    assert not {block["column"] for block in clients[0].agreed["features"]} & {"same", "word", "nothing"}
    notes = " ".join(clients[0].agreed["notes"])
    assert all(f"Column {name!r} is left out" in notes for name in ("same", "word", "nothing"))


def test_a_constant_column_with_gaps_keeps_the_indicator(tmp_path):
    rows = [{**row, "flag": 1 if row["key"] % 2 else None} for row in patients({"a": 30, "b": 30})]
    _, clients = made(tmp_path, rows)
    assert [block["kind"] for block in clients[0].agreed["features"] if block["column"] == "flag"] == ["missing"]


@pytest.mark.parametrize(
    ("targets", "kind", "classes"),
    [
        (["0", "1"], "classification", ["0", "1"]),
        (["1.0", "0", "2"], "classification", ["0", "1", "2"]),
        (["10", "9"], "classification", ["9", "10"]),
        (["true", "false"], "classification", ["false", "true"]),
        (["dead", "alive"], "classification", ["alive", "dead"]),
        ([str(number) for number in range(20)], "classification", [str(number) for number in range(20)]),
        ([str(number) for number in range(21)], "regression", None),
        (["0.5", "1"], "regression", None),
    ],
)
def test_the_kind_of_the_target_is_agreed(tmp_path, targets, kind, classes):
    rows = patients({"a": 210, "b": 210})
    for row in rows:
        row["died"] = targets[row["key"] % len(targets)]
    _, clients = made(tmp_path, rows)
    assert (clients[0].agreed["kind"], clients[0].agreed["classes"]) == (kind, classes)
    _, clients = made(tmp_path, rows, {"kind": "classification"})
    assert clients[0].agreed["kind"] == "classification"


def test_sites_that_see_different_targets_agree_on_one_kind(tmp_path):
    rows = patients({"a": 60, "b": 60})
    for row in rows:
        row["died"] = row["key"] % 15 + (15 if row["hospital"] == "b" else 0)  # 15 values at each site, 30 in all
    _, clients = made(tmp_path, rows)
    assert clients[0].agreed["kind"] == "regression"


def test_targets_of_a_regression_keep_their_unit(tmp_path):
    rows = [{**row, "died": row["age"] * 1000.5} for row in patients({"a": 30, "b": 30})]
    task, clients = made(tmp_path, rows)
    raw, _ = pooled_rows(task, clients, rows)
    found = np.concatenate([task.load(1, client).training[1] for client in clients])
    assert found.tolist() == [row["died"] for row in raw]
    assert clients[0].agreed["target"]["mean"] == pytest.approx(np.mean(found))
    assert clients[0].agreed["target"]["scale"] == pytest.approx(np.std(found))


DAMAGES = {
    "not a summary": lambda summary: summary.clear(),
    "negative squares": lambda summary: summary["columns"][1].update(squares=-1.0),
    "nan": lambda summary: summary["columns"][1].update(sum=float("nan")),
    "a huge number": lambda summary: summary["columns"][1].update(sum=10**400),
    "text for a count": lambda summary: summary["columns"][1].update(count="3"),
    "no count": lambda summary: summary["columns"][1].update(count=0),
    "twice": lambda summary: summary["columns"].append(summary["columns"][0]),
    "labels": lambda summary: summary["target"].update(labels={"yes": -3}),
    "no target": lambda summary: summary["target"].update(labels=None),
    "dates": lambda summary: summary.update(dates={"first": 1, "last": 0, "kind": "number"}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_summary_is_refused_with_its_sender(tmp_path, damage):
    write_csv(tmp_path / "patients.csv", patients({"a": 20, "b": 20}))
    task = TableTask(PATIENTS)
    summaries = {client.name: task.summarise(client) for client in members(task, tmp_path)}
    DAMAGES[damage](summaries["b"])
    with pytest.raises(FederationError, match="The summary of 'b' cannot be used"):
        task.agree(summaries)


def test_sites_with_other_columns_are_refused(tmp_path):
    for name, extra in (("a", {"bmi": 22}), ("b", {})):
        own = [{**row, **extra} for row in patients({name: 20})]
        write_csv(tmp_path / f"{name}.csv", own)
    task = TableTask({"target": "died", "ignore": ["hospital"]})
    with pytest.raises(InputError, match="'b' has no column 'bmi', but 'a' has"):
        agreed_members(task, tmp_path, names=["a", "b"], own_table=True)


def test_numbers_here_and_text_there_are_refused(tmp_path):
    rows = patients({"a": 20, "b": 20})
    for row in rows:
        row["age"] = row["age"] if row["hospital"] == "a" else "old"
    with pytest.raises(InputError, match="Column 'age' holds numbers at 'a', but text at 'b', such as 'old'"):
        made(tmp_path, rows)
