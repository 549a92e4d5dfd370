"""What a member would want to know about its own rows: sentences that stay at its site.

Those that are about a column and not about this member do not name it, so that a simulation of all can say them once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from commonweal.tables.site_rows import SiteRows

_FEW_ROWS = 30
_FEW_OF_A_CLASS = 5
_TELLING = 0.995  # an area under the ROC curve from which a single column gives the target away


def notes_on(site: SiteRows, name: str, round_count: int, agreed: Mapping[str, Any]) -> list[str]:
    """Notes on the rows of the client `name`; those on the encoding need what was agreed on."""
    notes = _notes_on_targets(site, name)
    if site.without_target_count:
        notes.append(f"{name!r}: {_rows(site.without_target_count)} without a target left out.")
    notes += [
        f"Column {column!r} counts the rows. If it is a row number, list it in ignore."
        for column in site.features()
        if _counts_rows(site, column)
    ]
    if agreed:
        notes += _notes_on_encoding(site, name, agreed)
        notes += _notes_on_periods(site, name, round_count, agreed)
        notes += _notes_on_leaks(site, agreed)
    return notes


def _notes_on_targets(site: SiteRows, name: str) -> list[str]:
    row_count = len(site.rows)
    labels = site.table.column(site.settings.target).label_counts(site.rows)
    label = max(labels, key=lambda label: labels[label])
    count = labels[label]
    if len(labels) == 1:
        return [f"All {_rows(row_count)} of {name!r} have the same target, {label!r}: no metric can be measured there."]
    if row_count - count < _FEW_OF_A_CLASS:
        return [
            f"{name!r} has {'only ' if row_count < _FEW_ROWS else ''}{_rows(row_count)}, {count} of them with the same "
            f"target, {label!r}: what is measured there is mostly chance."
        ]
    if row_count < _FEW_ROWS:
        return [f"{name!r} has only {_rows(row_count)}: what is measured there is mostly chance."]
    return []


def _counts_rows(site: SiteRows, column: str) -> bool:
    """Whether the column rises from row to row of the file in whole numbers, as row numbers do."""
    if len(site.rows) < _FEW_ROWS or column in site.settings.categorical:
        return False
    numbers = site.table.column(column).numbers[np.sort(site.rows)]
    return bool(np.all(numbers == np.floor(numbers)) and np.all(np.diff(numbers) > 0))  # nan is never equal


def _notes_on_encoding(site: SiteRows, name: str, agreed: Mapping[str, Any]) -> list[str]:
    notes = []
    with_indicator = {block["column"] for block in agreed["features"] if block["kind"] == "missing"}
    for block in agreed["features"]:
        column = site.table.column(block["column"])
        if block["kind"] == "category" and not block["other"]:
            labels = column.label_counts(site.rows)
            count = sum(labels[label] for label in labels if label not in block["labels"])
            if count:
                notes.append(
                    f"Column {block['column']!r} has a category in {_rows(count)} of {name!r} that no site had in its "
                    "training rows of the first round: it counts as none of the known ones."
                )
        count = int(np.sum(column.is_missing[site.rows]))
        if count and block["column"] not in with_indicator:
            value = "the mean of all sites" if block["kind"] == "number" else "none of the known categories"
            notes.append(
                f"Column {block['column']!r} is missing in {_rows(count)} of {name!r}, but in no training row of the "
                f"first round: {value} takes its place."
            )
    return notes


def _notes_on_periods(site: SiteRows, name: str, round_count: int, agreed: Mapping[str, Any]) -> list[str]:
    dates = agreed["dates"]
    if site.days is None or dates is None:
        return []
    notes = []
    length = (dates["last"] - dates["first"]) / round_count
    early_count = int(np.sum(site.days[:2] >= dates["first"] + length)) if length else 0
    if early_count:
        notes.append(
            f"{name!r} has {'no row' if early_count == 2 else 'one row only'} in the first of {round_count} periods: "
            f"{'its first two rows' if early_count == 2 else 'its second row'} count as arrived in round 1, so that it "
            "can start."
        )
    rounds = site.rounds(round_count, dates["first"], dates["last"])
    empty_count = round_count - len(set(rounds.tolist()))
    if empty_count:
        notes.append(f"{name!r} has no new rows in {empty_count} of {round_count} rounds.")
    return notes


def _notes_on_leaks(site: SiteRows, agreed: Mapping[str, Any]) -> list[str]:
    """Columns that give the target of two classes away, by the area under the ROC curve of the column alone."""
    if agreed["kind"] != "classification" or len(agreed["classes"]) != 2:
        return []
    target = site.table.column(site.settings.target)
    is_positive = np.array([target.labels[code] == agreed["classes"][1] for code in target.codes[site.rows]])
    if min(is_positive.sum(), (~is_positive).sum()) < 2 * _FEW_OF_A_CLASS:
        return []
    notes = []
    for block in agreed["features"]:
        if block["kind"] == "number":
            numbers = site.numbers(block["column"], site.rows)
            known = ~np.isnan(numbers)
            area = area_under_curve(numbers[known], is_positive[known])
            if max(area, 1 - area) >= _TELLING:
                notes.append(
                    f"Column {block['column']!r} alone tells the target of nearly every row. If it is known only "
                    "afterwards, list it in ignore."
                )
    return notes


def area_under_curve(values: NDArray[np.float64], is_positive: NDArray[np.bool_]) -> float:
    """The chance that a positive row has a larger value than a negative one, ties counting half; 0.5 without either."""
    negatives = np.sort(values[~is_positive])
    positives = values[is_positive]
    if not len(negatives) or not len(positives):
        return 0.5
    below = np.searchsorted(negatives, positives, side="left") + np.searchsorted(negatives, positives, side="right")
    return float(below.mean() / (2 * len(negatives)))


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"
