"""Cells of a table are texts; here they become numbers, labels, dates, or missing values."""

from __future__ import annotations

import re
from datetime import UTC, datetime

MISSING = frozenset({"", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null"})

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?", re.ASCII)
_LEADING_ZERO = re.compile(r"[+-]?0\d")
_LARGEST = 1e100  # the square of a larger number could be infinite
_DAY_SECONDS = 86_400


def number_of(text: str, *, decimal_comma: bool = False) -> float | None:
    """The number that the text is, or None; those beyond ±1e100 count as none."""
    if decimal_comma and _DECIMAL_COMMA.fullmatch(text):
        text = text.replace(",", ".")
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if abs(value) <= _LARGEST else None


def label_of(text: str, *, decimal_comma: bool = False) -> str:
    """The label of a category or class: 1, 1.0 and 1e0 are the same one, but codes such as 007 stay as they are."""
    value = None if _LEADING_ZERO.match(text) else number_of(text, decimal_comma=decimal_comma)
    return text if value is None else number_label(value)


def number_label(value: float) -> str:
    """Whole numbers without a decimal point."""
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def label_order(label: str) -> tuple[bool, float, str]:
    """A key for sorting labels: numbers by size, then texts by the alphabet."""
    value = number_of(label)
    return (value is None, 0.0 if value is None else value, label)


def day_of(text: str) -> float | None:
    """Days since 1970-01-01 of an ISO date or time (UTC unless it names a zone), or None if the text is neither."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if not re.match(r"\d{4}-\d\d-\d\d", text):  # Python also reads 20200131 and 2020-W05
        return None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / _DAY_SECONDS
