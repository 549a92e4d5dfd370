"""A book's entries as what is derived from them reads them: each as it was sealed, or none at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from commonweal.errors import LedgerError
from commonweal.ledger.canonical import hash_of, parse
from commonweal.ledger.entries import BEFORE_THE_FIRST, StoredEntry, signed_message
from commonweal.ledger.keys import is_signed_by_operator
from commonweal.ledger.store import Store


def documents(store: Store, made: str) -> Iterator[tuple[dict[str, Any], StoredEntry]]:
    """All entries in order, with their contents. `made` is what they are read for: "a statement"."""
    head, operator = BEFORE_THE_FIRST, ""
    with store.reading() as reading:
        for entry in reading.entries():
            document = parse(entry.content)
            if document is None or hash_of(entry.content.encode()) != entry.hash:
                raise _unsound(made, entry.number, "was changed")
            if document.get("previous") != head:
                raise _unsound(made, entry.number, "does not follow the one before it")
            operator = operator or first_operator(document)
            if not is_signed_by_operator(signed_message(entry.hash), entry.signature, operator):
                raise _unsound(made, entry.number, "the operator did not sign")
            head = entry.hash
            yield document, entry
            if document.get("kind") == "key-rotation":
                operator = str(document["body"]["operator"])


def first_operator(document: Mapping[str, Any]) -> str:
    """The key that a book's first entry names, and is signed with."""
    body = document.get("body")
    return str(body.get("operator", "")) if document.get("kind") == "opening" and isinstance(body, dict) else ""


def _unsound(made: str, number: int, fault: str) -> LedgerError:
    return LedgerError(
        f"{made} is made from a sound book, got entry {number}, which {fault}; type commonweal ledger verify"
    )
