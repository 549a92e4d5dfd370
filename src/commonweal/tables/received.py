"""Summaries come from other machines: one that is damaged is refused before anything is computed from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commonweal.errors import FederationError
from commonweal.tables.settings import TableSettings
from commonweal.tables.summary import CATEGORY_LIMIT, CLASS_LIMIT

_LARGEST_COUNT = 2**53
_LARGEST_SUM, _LARGEST_SQUARES = 1e120, 1e220  # of as many numbers up to 1e100


def refuse_damaged(site: str, summary: Any, settings: TableSettings) -> None:
    """Raise a FederationError unless the summary is one that `summarise` could have made."""
    reason = _damage(summary, settings)
    if reason:
        raise FederationError(
            f"The summary of {site!r} cannot be used: {reason}. Its version of commonweal may be another one; all "
            "members need the same."
        )


def _damage(summary: Any, settings: TableSettings) -> str:
    if not isinstance(summary, Mapping) or not {"row_count", "columns", "target"} <= summary.keys():
        return "it is not a summary of a table"
    if not isinstance(summary["columns"], list) or not all(map(_is_column, summary["columns"])):
        return "a column has no valid counts and sums"
    names = [column["name"] for column in summary["columns"]]
    if len(set(names)) < len(names):
        return "a column occurs twice"
    target = summary["target"]
    if not isinstance(target, Mapping) or not {"labels", "moments"} <= target.keys():
        return "it has no target"
    labels, moments = target["labels"], target["moments"]
    if labels is not None and not _are_labels(labels, CLASS_LIMIT):
        return "the classes of its target have no valid counts"
    if moments is not None and not _are_moments(moments):
        return "its target has no valid sums"
    needed = {"classification": labels, "regression": moments, None: labels or moments}[settings.kind]
    if not needed:
        return f"it does not have what {settings.kind or 'learning'} needs of the target"
    dates = summary.get("dates")
    if (settings.date is None) != (dates is None) or not (dates is None or _are_dates(dates)):
        return "its dates are not those that the settings ask for"
    return ""


def _is_column(column: Any) -> bool:
    if not (isinstance(column, Mapping) and isinstance(column.get("name"), str) and _is_count(column.get("missing"))):
        return False
    match column.get("kind"):
        case "empty":
            return True
        case "number":
            return _are_moments(column)
        case "category":
            return _are_labels(column.get("labels"), CATEGORY_LIMIT) and _is_count(column.get("other"))
    return False


def _are_labels(labels: Any, limit: int) -> bool:
    return (
        isinstance(labels, Mapping)
        and 1 <= len(labels) <= limit
        and all(isinstance(label, str) and _is_count(count) for label, count in labels.items())
    )


def _are_moments(moments: Any) -> bool:
    return (
        isinstance(moments, Mapping)
        and _is_count(moments.get("count"))
        and moments["count"] > 0
        and _is_number(moments.get("sum"), _LARGEST_SUM)
        and _is_number(moments.get("squares"), _LARGEST_SQUARES)
        and moments["squares"] >= 0
    )


def _are_dates(dates: Any) -> bool:
    return (
        isinstance(dates, Mapping)
        and dates.get("kind") in ("date", "number")
        and _is_number(dates.get("first"), _LARGEST_SUM)
        and _is_number(dates.get("last"), _LARGEST_SUM)
        and dates["first"] <= dates["last"]
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_COUNT


def _is_number(value: Any, largest: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= largest  # nan is not
