"""Check that no text of an entry has control characters: shown on a terminal, they could make it say anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from commonweal.ledger.verification.replay import Findings


def check_texts(number: int, document: Mapping[str, Any], findings: Findings) -> None:
    odd = [text for text in texts_in(document) if not text.isprintable()]
    if odd:
        more = f", and {len(odd) - 1} more" if len(odd) > 1 else ""
        expected = "letters, digits, signs and spaces"
        findings.add(number, "texts have only printable characters", expected, ascii(odd[0])[:120] + more)


def texts_in(document: Any) -> Iterator[str]:
    """All texts in the document, names of fields included."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list):
            waiting += value
