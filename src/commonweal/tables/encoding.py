"""Rows of a table as numbers, by the agreed encoding."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import InputError
from commonweal.tables.arrival import Positions
from commonweal.tables.columns import Column
from commonweal.tables.site_rows import SiteRows

_FARTHEST = 1e6  # standard deviations from the mean

Agreed = Mapping[str, Any]


def feature_count(agreed: Agreed) -> int:
    """Columns of the model's input."""
    return sum(_width(block) for block in agreed["features"])


def feature_names(agreed: Agreed) -> list[str]:
    """What each column of the model's input is, e.g. "age", "sex = f", "age is missing"."""
    names = []
    for block in agreed["features"]:
        match block["kind"]:
            case "number":
                names.append(block["column"])
            case "missing":
                names.append(f"{block['column']} is missing")
            case _:
                names += [f"{block['column']} = {label}" for label in block["labels"]]
                names += [f"{block['column']} = other"] * block["other"]
    return names


def encode(site: SiteRows, rows: Positions, agreed: Agreed) -> NDArray[np.float32]:
    """The model's input: one row per row of the table, one column per feature."""
    blocks = [_encode_block(site, rows, block) for block in agreed["features"]]
    return np.concatenate(blocks, axis=1).astype(np.float32)


def encode_target(site: SiteRows, rows: Positions, agreed: Agreed) -> NDArray[Any]:
    """Classes counted from 0 (int64), or numbers in the target's own unit (float64)."""
    name = site.settings.target
    if agreed["kind"] == "regression":
        return site.numbers(name, rows)
    column = site.table.column(name, "target column")
    classes = _positions(column, agreed["classes"])[column.codes[rows]]
    unknown = np.flatnonzero(classes < 0)
    if len(unknown):
        row = int(rows[unknown[0]])
        label = column.labels[column.codes[row]]
        raise InputError(
            f"{site.table.place(row)}: the target {name!r} is {label!r}, a class that no site had in its training rows "
            "of the first round. Name all classes in the common [task], e.g. classes = "
            f"[{', '.join(map(json.dumps, [*agreed['classes'][:3], label]))}]."
        )
    return classes


def _width(block: Mapping[str, Any]) -> int:
    return len(block["labels"]) + block["other"] if block["kind"] == "category" else 1


def _encode_block(site: SiteRows, rows: Positions, block: Mapping[str, Any]) -> NDArray[np.float64]:
    column = site.table.column(block["column"])
    match block["kind"]:
        case "number":
            deviations: NDArray[np.float64] = (site.numbers(block["column"], rows) - block["mean"]) / block["scale"]
            _refuse_far(site, block["column"], rows, deviations)
            return np.where(np.isnan(deviations), 0.0, deviations)[:, None]
        case "missing":
            return column.is_missing[rows].astype(np.float64)[:, None]
    positions = _positions(column, block["labels"], other=len(block["labels"]) if block["other"] else -1)
    chosen = np.where(column.codes[rows] < 0, -1, positions[column.codes[rows]])
    encoded = np.zeros((len(rows), _width(block)))
    encoded[chosen >= 0, chosen[chosen >= 0]] = 1.0
    return encoded


def _positions(column: Column, labels: Sequence[str], other: int = -1) -> NDArray[np.int64]:
    """For each label of the column its position among `labels`, or `other` if it is not among them.

    There is one entry more, for the column without any label.
    """
    positions = {label: position for position, label in enumerate(labels)}
    return np.array([*(positions.get(label, other) for label in column.labels), -1], dtype=np.int64)


def _refuse_far(site: SiteRows, column: str, rows: Positions, deviations: NDArray[np.float64]) -> None:
    far = np.flatnonzero(np.abs(deviations) > _FARTHEST)
    if len(far):
        row = int(rows[far[0]])
        raise InputError(
            f"{site.table.place(row)}: {site.table.columns[column].cells[row]} in column {column!r} is "
            f"{abs(deviations[far[0]]):.0e} standard deviations from the mean of all sites. Correct it, or list the "
            "column in ignore."
        )
