"""Rows are split and arrive by rules that a site can apply alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonweal.tables.arrival import rounds_by_date, rounds_by_row, validation_rows
from commonweal.tables.task import TableTask
from tests.tables.small import PATIENTS, agreed_members, keys, made, members, patients, write_csv

counts = st.integers(2, 200)
shares = st.floats(0.01, 0.99)


@given(counts, shares, st.integers(0, 5))
def test_the_first_two_rows_are_one_of_each_and_the_share_is_kept(row_count, share, seed):
    is_validation = validation_rows(row_count, share, seed, "north")
    assert sorted(is_validation[:2]) == [False, True]
    for count in range(10, row_count, 10):
        # One row more or less where the share alone would leave one kind without a row.
        assert abs(is_validation[:count].sum() - share * count) <= 1.5


@given(counts, st.integers(1, 30))
def test_rounds_get_nearly_equal_parts_and_the_first_two_rows_at_least(row_count, round_count):
    rounds = rounds_by_row(row_count, round_count)
    sizes = [int(np.sum(rounds == number)) for number in range(1, round_count + 1)]
    assert sum(sizes) == row_count
    assert np.all(np.diff(rounds) >= 0)
    assert sizes[0] >= 2
    assert max(sizes[1:], default=0) - min(sizes[1:], default=0) <= 1
    if row_count >= 2 * round_count:
        assert max(sizes) - min(sizes) <= 1


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=50), st.integers(1, 12))
def test_periods_have_equal_length(days, round_count):
    days = np.sort(np.array(days, dtype=float))
    rounds = rounds_by_date(days, 0.0, 1000.0, round_count)
    for day, number in list(zip(days, rounds, strict=True))[2:]:
        assert (number - 1) * 1000 <= day * round_count + 1e-6
        assert day * round_count <= number * 1000 + 1e-6
    assert set(rounds[:2]) == {1}


def test_one_day_only_is_one_round():
    assert rounds_by_date(np.array([5.0, 5.0, 5.0]), 5.0, 5.0, 4).tolist() == [1, 1, 1]


@pytest.mark.parametrize("count", [2, 3, 5, 17, 40])
def test_every_row_arrives_once_whatever_the_number_of_rounds(tmp_path, count):
    for round_count in (1, 3, 8):
        task, clients = made(tmp_path, patients({"a": count, "b": 30}), round_count=round_count)
        news = [task.load(number, clients[0]) for number in range(1, round_count + 1)]
        arrived = [keys(part[0], clients[0].agreed) for new in news for part in (new.training, new.validation)]
        assert sorted(np.concatenate(arrived).tolist()) == list(range(count))
        assert len(news[0].training[0]) >= 1
        assert len(news[0].validation[0]) >= 1
        beyond = task.load(round_count + 1, clients[0])  # rounds that were not planned bring nothing
        assert beyond.declared_count == 0


def test_another_seed_gives_another_split_and_the_same_seed_the_same(tmp_path):
    rows = patients({"a": 60, "b": 60})

    def validation_keys(seed, site):
        task, clients = made(tmp_path, rows, seed=seed)
        return set(keys(task.load(1, clients[site]).validation[0], clients[site].agreed).tolist())

    assert validation_keys(1, 0) == validation_keys(1, 0)
    assert validation_keys(1, 0) != validation_keys(2, 0)
    assert validation_keys(1, 0) != validation_keys(1, 1)  # sites draw independently


def test_a_split_does_not_depend_on_the_other_sites(tmp_path):
    rows = patients({"a": 40, "b": 30, "c": 50})
    task, clients = made(tmp_path, rows, round_count=3)
    agreed = clients[1].agreed
    before, summary = [task.load(number, clients[1]) for number in (1, 2, 3)], task.summarise(clients[1])
    others = patients({"a": 7, "d": 90}, seed=5)
    shuffled = [*others[::-1], *(row for row in rows if row["hospital"] == "b")]
    write_csv(tmp_path / "patients.csv", shuffled)
    after = TableTask(PATIENTS)
    (client,) = members(after, tmp_path, names=["b"], round_count=3)
    assert after.summarise(client) == summary
    client = clients[1]
    for number, expected in enumerate(before, start=1):
        found = after.load(number, client)
        for part in ("training", "validation"):
            for one, other in zip(getattr(found, part), getattr(expected, part), strict=True):
                assert np.array_equal(one, other)
    assert agreed == client.agreed


DATES = {
    "a": ["2020-01-01", "2020-01-15", "2020-02-10", "2020-04-05"],
    "b": ["2020-02-01T12:00:00", "2020-03-01", "2020-04-30", "2020-03-05T00:00:00Z"],
}


def dated(dates):
    rows = patients({site: len(days) for site, days in dates.items()})
    flat = [day for days in dates.values() for day in days]
    return [
        {**row, "admitted": day, "died": "yes" if row["key"] % 2 else "no"} for row, day in zip(rows, flat, strict=True)
    ]


def rounds_of(task, client):
    found = {}
    for number in range(1, client.round_count + 1):
        new = task.load(number, client)
        for part in (new.training, new.validation):
            found |= dict.fromkeys(keys(part[0], client.agreed).tolist(), number)
    return [found[key] for key in sorted(found)]


def test_rows_arrive_by_date_in_periods_common_to_all_sites(tmp_path):
    task, (a, b) = made(tmp_path, dated(DATES), {"date": "admitted", "classes": ["no", "yes"]}, round_count=4)
    # 120 days from January 1 to April 30: periods of 30 days. The first two rows of b come early, so that it can start.
    assert rounds_of(task, a) == [1, 1, 2, 4]
    assert rounds_of(task, b) == [1, 1, 4, 3]
    assert [note for note in task.notes(b) if "first of 4 periods" in note]
    assert not [note for note in task.notes(a) if "first of 4 periods" in note]


def test_years_and_other_numbers_serve_as_dates(tmp_path):
    years = {"a": [1, 2, 3, 4, 5, 1], "b": [1, 1, 2, 2, 5, 5]}
    task, (a, b) = made(tmp_path, dated(years), {"date": "admitted", "classes": ["no", "yes"]}, round_count=5)
    assert rounds_of(task, a) == [1, 2, 3, 4, 5, 1]
    assert rounds_of(task, b) == [1, 1, 2, 2, 5, 5]


def test_only_the_first_and_the_last_date_decide_the_periods(tmp_path):
    settings = {"date": "admitted", "classes": ["no", "yes"]}
    _, clients = made(tmp_path, dated(DATES), settings, round_count=4)
    moved = {**DATES, "a": ["2020-01-01", "2020-01-15", "2020-03-20", "2020-04-05"]}
    _, others = made(tmp_path, dated(moved), settings, round_count=4)
    assert clients[0].agreed["dates"] == others[0].agreed["dates"]


def test_one_file_for_each_client(tmp_path):
    rows = patients({"north": 20, "south": 25})
    for site in ("north", "south"):
        own = [{key: row[key] for key in row if key != "hospital"} for row in rows if row["hospital"] == site]
        write_csv(tmp_path / f"{site}.csv", own)
    task = TableTask({"target": "died"})
    clients = agreed_members(task, tmp_path, names=["north", "south"], own_table=True)
    both, pooled = made(tmp_path, rows)
    for one, other in zip(clients, pooled, strict=True):
        assert one.agreed == other.agreed
        assert np.array_equal(task.load(1, one).training[0], both.load(1, other).training[0])
