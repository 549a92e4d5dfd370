"""One way to write a document, so that its hash and its signatures mean one thing: RFC 8785."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import rfc8785

Document = Mapping[str, Any]


def canonical(document: Document) -> bytes:
    """The document in canonical JSON. Amounts must be decimal strings, infinities `number`s."""
    return rfc8785.dumps(document)


def parse(content: str) -> dict[str, Any] | None:
    """A canonical document back; None if it is no document, or no text: SQLite keeps anything in any column."""
    if not isinstance(content, str):
        return None
    try:
        document = json.loads(content, parse_int=_whole_number)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def hash_of(content: bytes) -> str:
    """SHA-256, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def number(value: float) -> float | str:
    """A figure as JSON can hold it: infinities are "inf" and "-inf"."""
    return value if math.isfinite(value) else str(float(value))


def _whole_number(digits: str) -> int | float:
    """Canonical JSON writes 1e16 as a whole number, and refuses whole numbers of that size: such are doubles."""
    return int(digits) if len(digits) <= 15 else float(digits)
