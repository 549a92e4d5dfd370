"""Every fault of settings and tables: what is wrong, where, and what to do."""

from __future__ import annotations

import numpy as np
import pytest

from commonweal.errors import CommonwealError, InputError, ScenarioError
from commonweal.scenario.faults import Faults
from commonweal.scenario.lines import key_places
from commonweal.tables.settings import TableSettings, read_settings
from commonweal.tables.task import TableTask
from commonweal.task.records import TaskMember
from tests.tables.small import PATIENTS, agreed_members, made, members, patients, write_csv


def refusal(settings):
    with pytest.raises(ScenarioError) as error:
        TableTask({**PATIENTS, **settings})
    return str(error.value)


SETTINGS = {
    "unknown key": ({"targget": "x"}, "unknown key 'targget' in [task]. Did you mean 'target'?"),
    "another table's key": ({"mu": 0.1}, "Move it below [mechanism]"),
    "kind": ({"kind": "ranking"}, "kind must be one of classification, regression, got 'ranking'"),
    "model": ({"model": "forest"}, "model must be one of linear, mlp"),
    "hidden": ({"model": "mlp", "hidden": []}, "hidden must be an array of 1 to 10 whole numbers"),
    "hidden of a linear model": ({"hidden": [4]}, "hidden is for the mlp model only"),
    "learning_rate": ({"learning_rate": "fast"}, "learning_rate must be a number above 0"),
    "batch_size": ({"batch_size": 0}, "batch_size must be a whole number from 1"),
    "validation_share": ({"validation_share": 1}, "validation_share must be a number between 0 and 1"),
    "columns": ({"columns": "age"}, "columns must be an array of different names of columns"),
    "repeated": ({"ignore": ["a", "a"]}, "ignore must be an array of different names of columns"),
    "one class": ({"classes": ["no"]}, "classes must name at least two classes"),
    "classes of a number": ({"classes": ["1", "2"], "kind": "regression"}, "classes is for classification only"),
    "the same column": ({"site": "died"}, "target and site are the same column, 'died'"),
    "the target as a feature": ({"columns": ["died", "age"]}, "'died' is the target, so it cannot be in columns"),
    "both": ({"columns": ["age"], "ignore": ["age"]}, "'age' is in columns and in ignore"),
}


@pytest.mark.parametrize("fault", SETTINGS)
def test_settings_are_refused_in_plain_words(fault):
    settings, message = SETTINGS[fault]
    assert message in refusal(settings)


def test_all_faults_of_the_settings_are_told_at_once():
    text = refusal({"kind": 3, "l2": -1, "colour": "red"})
    assert all(part in text for part in ("3 errors", "kind must be", "l2 must be", "unknown key 'colour'"))


def test_settings_that_are_missing():
    with pytest.raises(ScenarioError, match="target is missing"):
        TableTask({"table": "patients.csv"})
    with pytest.raises(ScenarioError, match="site names a column, but table is missing"):
        TableTask({"site": "hospital", "target": "died"})


def test_faults_carry_the_line_of_a_scenario():
    text = 'name = "x"\n[task]\ntable = "p.csv"\ntarget = "died"\nmodel = "tree"\n'
    faults = Faults("my.toml", key_places(text))
    given = {"table": "p.csv", "target": "died", "model": "tree"}
    assert read_settings(given, faults, ("task",)) is None
    with pytest.raises(ScenarioError, match=r"my\.toml, line 5: model must be one of linear, mlp, got 'tree'"):
        faults.raise_if_any()


def test_defaults_are_those_of_the_record():
    assert TableTask(PATIENTS).settings == TableSettings(**PATIENTS)


def test_only_the_table_may_differ_between_clients(tmp_path):
    write_csv(tmp_path / "patients.csv", patients({"a": 20, "b": 20}))
    task = TableTask(PATIENTS)
    same = TaskMember(name="a", settings=PATIENTS, folder=tmp_path)
    assert task.summarise(same)["row_count"] == 14
    other = TaskMember(name="a", settings={**PATIENTS, "learning_rate": 9.0}, folder=tmp_path)
    with pytest.raises(InputError, match=r"\[task\] of client 'a' sets learning_rate, but only table may differ"):
        task.summarise(other)
    without = TaskMember(name="a", folder=tmp_path)
    with pytest.raises(InputError, match="There is no table"):
        TableTask({"target": "died"}).summarise(without)


def altered(change, counts=None):
    rows = patients(counts or {"a": 40, "b": 40})
    change(rows)
    return rows


def everywhere(**values):
    def change(rows):
        for row in rows:
            row.update(values)

    return change


def in_row(position, **values):
    return lambda rows: rows[position].update(values)


def unchanged(rows):
    """The settings are at fault."""


def numbered(rows):
    for row in rows:
        row["died"] = row["key"]


ROWS = {
    "no site column": (
        {"site": "hospitl"},
        unchanged,
        "patients.csv has no site column 'hospitl'. Did you mean 'hospital'? "
        "Its columns are 'hospital', 'key', 'age', 'ward', 'died'.",
    ),
    "no target column": ({"target": "Dead"}, unchanged, "patients.csv has no target column 'Dead'."),
    "no date column": ({"date": "admitted"}, unchanged, "patients.csv has no date column 'admitted'."),
    "no such feature": ({"columns": ["agee"]}, unchanged, "has no column 'agee'. Did you mean 'age'?"),
    "no such category": ({"categorical": ["wards"]}, unchanged, "has no column 'wards'. Did you mean 'ward'?"),
    "nothing to ignore": (
        {"ignore": ["kee"]},
        unchanged,
        "no column 'kee', which is listed in ignore. Did you mean 'key'?",
    ),
    "one site": (
        {},
        everywhere(hospital="a"),
        "patients.csv has 1 site with at least 2 rows in column 'hospital', but a federation needs at least two.",
    ),
    "no site": ({}, everywhere(hospital=""), "patients.csv has 0 sites with at least 2 rows"),
    "one class": ({}, everywhere(died="no"), "The target 'died' is 'no' in all training rows of the first round"),
    "one value": ({"kind": "regression"}, everywhere(died=3), "The target 'died' is 3 in all training rows"),
    "text in a regression": ({"kind": "regression"}, unchanged, "in column 'died' is not a number"),
    "no features": ({"ignore": ["key", "age", "ward"]}, unchanged, "no columns to learn from besides the target"),
    "constant features": ({"columns": ["age"]}, everywhere(age=1), "No column is left to learn from"),
    "no targets": ({}, everywhere(died=""), "has 0 sites with at least 2 rows"),
    "many classes": ({"kind": "classification"}, numbered, "the target 'died' has 140 classes in 140 rows"),
    "an unlisted class": ({"classes": ["no", "maybe"]}, unchanged, "has the class 'yes', which is not in classes"),
    "a date": ({"date": "ward"}, unchanged, "patients.csv, line 2: 'lung' in column 'ward' is not a date."),
    "a gap in dates": (
        {"date": "age"},
        in_row(7, age=""),
        "patients.csv, line 9: column 'age' is empty. Rows arrive by this column",
    ),
}


@pytest.mark.parametrize("fault", ROWS)
def test_tables_are_refused_in_plain_words(tmp_path, fault):
    settings, change, message = ROWS[fault]
    counts = {"a": 200, "b": 200} if fault == "many classes" else None
    with pytest.raises(CommonwealError) as error:
        made(tmp_path, altered(change, counts), settings)
    assert message in str(error.value)


def test_text_among_numbers_is_named_with_its_line_wherever_it_is(tmp_path):
    """Whether the row is for training or validation, and whether it arrives in the first round or later."""
    _, clients = made(tmp_path, patients({"a": 40, "b": 40}), round_count=2)

    def use(task):
        task.summarise(clients[0])
        task.load(1, clients[0])
        task.load(2, clients[0])

    for position in range(40):
        write_csv(tmp_path / "patients.csv", altered(in_row(position, age="4o")))
        with pytest.raises(InputError) as error:
            use(TableTask(PATIENTS))
        assert f"patients.csv, line {position + 2}: '4o' in column 'age' is not a number" in str(error.value)
        assert "Correct it, leave it empty if it is missing, or list the column in categorical." in str(error.value)


def test_a_number_far_from_all_others_is_named(tmp_path):
    _, clients = made(tmp_path, patients({"a": 40, "b": 40}))
    write_csv(tmp_path / "patients.csv", altered(in_row(3, age=1e12)))
    with pytest.raises(InputError, match=r"patients\.csv, line 5: 1000000000000\.0 in column 'age' is .* deviations"):
        TableTask(PATIENTS).load(1, clients[0])


def test_a_class_that_comes_later_is_named_with_a_way_out(tmp_path):
    _, clients = made(tmp_path, patients({"a": 40, "b": 40}))
    rows = altered(in_row(5, died="unknown"))
    write_csv(tmp_path / "patients.csv", rows)
    with pytest.raises(InputError, match=r'line 7: the target .* classes = \["no", "yes", "unknown"\]'):
        TableTask(PATIENTS).load(1, clients[0])
    task, clients = made(tmp_path, rows, {"classes": ["no", "yes", "unknown"]})
    news = task.load(1, clients[0])
    assert set(np.concatenate([news.training[1], news.validation[1]]).tolist()) == {0, 1, 2}


def test_a_client_without_rows_is_told_which_sites_there_are(tmp_path):
    write_csv(tmp_path / "patients.csv", patients({"a": 5, "b": 5}))
    task = TableTask(PATIENTS)
    (client,) = members(task, tmp_path, names=["c"])
    with pytest.raises(InputError, match=r"no row with 'c' in column 'hospital'\. Its values there are 'a', 'b'"):
        task.summarise(client)


def test_a_client_with_one_row_is_refused_and_as_a_site_left_out(tmp_path):
    write_csv(tmp_path / "patients.csv", [*patients({"a": 5, "b": 5, "c": 1}), {"hospital": "", "age": 50}])
    task = TableTask(PATIENTS)
    assert task.sites(tmp_path) == {"a": 5, "b": 5}
    notes = task.table_notes(tmp_path)
    assert notes == [
        "1 site left out, with fewer than 2 rows: 'c'.",
        "1 row left out, with nothing in column 'hospital'.",
    ]
    (client,) = members(task, tmp_path, names=["c"])
    with pytest.raises(InputError, match=r"'c' has 1 row\. Every client needs at least two"):
        task.summarise(client)


def test_one_summary_is_no_federation(tmp_path):
    write_csv(tmp_path / "patients.csv", patients({"a": 20, "b": 20}))
    task = TableTask(PATIENTS)
    client = members(task, tmp_path)[0]
    with pytest.raises(InputError, match="one site only, 'a'"):
        task.agree({"a": task.summarise(client)})
    with pytest.raises(InputError, match="no sites"):
        task.agree({})


def test_sites_are_ordered_by_number(tmp_path):
    write_csv(tmp_path / "patients.csv", patients({"10": 5, "9": 5, "2.5": 5, "b": 5, "a": 5}))
    assert list(TableTask(PATIENTS).sites(tmp_path)) == ["2.5", "9", "10", "a", "b"]


def test_a_changed_file_is_read_again(tmp_path):
    write_csv(tmp_path / "patients.csv", patients({"a": 5, "b": 5}))
    task = TableTask(PATIENTS)
    assert task.sites(tmp_path) == {"a": 5, "b": 5}
    write_csv(tmp_path / "patients.csv", patients({"a": 50, "b": 5}))
    assert task.sites(tmp_path) == {"a": 50, "b": 5}


def test_an_ignored_column_may_be_lacking_in_a_file_of_ones_own_unless_it_looks_misspelt(tmp_path):
    for name, extra in (("a", {"remark": "x"}), ("b", {})):
        own = [{**row, **extra} for row in patients({name: 20})]
        write_csv(tmp_path / f"{name}.csv", own)
    settings = {"target": "died", "ignore": ["remark", "hospital"]}
    assert len(agreed_members(TableTask(settings), tmp_path, names=["a", "b"], own_table=True)) == 2
    misspelt = TableTask({"target": "died", "ignore": ["remarks", "hospital"]})
    with pytest.raises(InputError, match=r"no column 'remarks', which is listed in ignore\. Did you mean 'remark'"):
        agreed_members(misspelt, tmp_path, names=["a", "b"], own_table=True)
