"""Canonical JSON (RFC 8785): a document can be written in only one way, so its hash and signature are unambiguous."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import rfc8785

Document = Mapping[str, Any]


def canonical(document: Document) -> bytes:
    """The document in canonical JSON. Amounts must be decimal strings; convert infinities with `number`.

    Raises ValueError if it has no such form, or is nested more deeply than Python can follow.
    """
    try:
        return rfc8785.dumps(document)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parse(content: str) -> dict[str, Any] | None:
    """The document in `content`; None if it has none, or is not a string: SQLite stores anything in any column."""
    if not isinstance(content, str):
        return None
    try:
        document = json.loads(content, parse_int=_whole_number)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def hash_of(content: bytes) -> str:
    """The SHA-256 hash in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def number(value: float) -> float | str:
    """A figure as JSON can express it: infinities become "inf" and "-inf"."""
    return value if math.isfinite(value) else str(float(value))


def _whole_number(digits: str) -> int | float:
    """Parse long integers as floats: canonical JSON writes 1e16 as an integer, but accepts no integers of that size."""
    return int(digits) if len(digits) <= 15 else float(digits)


def first_difference(before: Any, now: Any, path: str = "") -> tuple[str, str, str] | None:
    """The first field that differs, with both values as text; None if nothing differs.

    Rows of a list are named by their client if they have one.
    """
    if isinstance(before, dict) and isinstance(now, dict):
        for name in dict.fromkeys((*now, *before)):  # in the order of `now`, as people read it
            inner = f"{path}.{name}" if path else name
            if name not in before or name not in now:
                return inner, _text(before.get(name)), _text(now.get(name))
            found = first_difference(before[name], now[name], inner)
            if found is not None:
                return found
        return None
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for place, (one, other) in enumerate(zip(before, now, strict=True)):
            found = first_difference(one, other, f"{path}[{_row_name(one, place)}]")
            if found is not None:
                return found
        return None
    # An integer and a float that are equal look the same in canonical JSON.
    same = before == now and isinstance(before, bool) == isinstance(now, bool)
    return None if same else (path, _text(before), _text(now))


def _row_name(row: Any, place: int) -> str:
    return str(row["client"]) if isinstance(row, dict) and "client" in row else str(place)


def _text(value: Any) -> str:
    text = str(value) if value is not None else "missing"
    return text if len(text) <= 80 else text[:77] + "..."
