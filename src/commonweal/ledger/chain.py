"""Read a ledger's entries along its chain, and follow the operator's keys, each announced by its predecessor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from commonweal.errors import LedgerError
from commonweal.ledger.canonical import Document, hash_of, parse
from commonweal.ledger.entries import BEFORE_THE_FIRST, StoredEntry, signed_message
from commonweal.ledger.keys import is_signed_by_operator
from commonweal.ledger.readable import check_readable, readable
from commonweal.ledger.state import LedgerState
from commonweal.ledger.store import Store

_PUBLIC = re.compile("[0-9a-f]{64}")


def documents(
    store: Store, made: str, *, after: LedgerState | None = None
) -> Iterator[tuple[dict[str, Any], StoredEntry]]:
    """All entries in order, with their contents; `made` names the purpose in errors, such as "a statement".

    With `after`, only those that follow this state of the ledger.
    """
    number, head, operator = (0, BEFORE_THE_FIRST, "") if after is None else (after.number, after.head, after.operator)
    with store.reading() as reading:
        for entry in reading.entries(after=number):
            document = parse(entry.content)
            if document is None or hash_of(entry.content.encode()) != entry.hash:
                raise _unsound(made, f"entry {entry.number} was changed")
            if type(entry.number) is not int or document.get("number") != entry.number:  # SQLite keeps anything
                raise _unsound(made, "the number of an entry was changed")
            if document.get("previous") != head:
                raise _unsound(made, f"entry {entry.number} does not follow the one before it")
            operator = operator or first_operator(document)
            if not is_signed_by_operator(signed_message(entry.hash), entry.signature, operator):
                raise _unsound(made, f"the operator did not sign entry {entry.number}")
            head = entry.hash
            with readable(entry.number, made):
                check_readable(document)
            yield document, entry
            if document["kind"] == "key-rotation":
                operator = document["body"]["operator"]


def first_operator(document: Mapping[str, Any]) -> str:
    """The key that a ledger's first entry names and is signed with."""
    body = document.get("body")
    return str(body.get("operator", "")) if document.get("kind") == "opening" and isinstance(body, dict) else ""


def _unsound(made: str, fault: str) -> LedgerError:
    return LedgerError(
        f"Cannot make {made}: the ledger is not sound ({fault}). Find out more with: commonweal ledger verify"
    )


def key_rotations(store: Store, made: str) -> Sequence[Document]:
    """The entries that changed the operator's key, for readers with an older key; `made` as for `documents`."""
    return [
        {"content": entry.content, "signature": entry.signature}
        for document, entry in documents(store, made)
        if document["kind"] == "key-rotation"
    ]


def keys_since(first: str, ledger: str, rotations: Iterable[Any]) -> list[str]:
    """The key and its successors according to `rotations`, which come from a file and are not trusted."""
    return [first, *(change.key for change in key_changes(first, ledger, rotations))]


def rotation_entries(first: str, ledger: str, rotations: Iterable[Any]) -> dict[int, str]:
    """The entries that replaced the key and its successors, with their hashes: the ledger must have them."""
    return {change.document["number"]: change.hash for change in key_changes(first, ledger, rotations)}


def retired_by(public: str, ledger: str, rotations: Iterable[Any]) -> int | None:
    """The number of the entry that retired a key, if `rotations` have it: both keys signed it, whoever keeps it."""
    retirement = retirement_of(public, ledger, rotations)
    return None if retirement is None else retirement["number"]


def retirement_of(public: str, ledger: str, rotations: Iterable[Any]) -> Mapping[str, Any] | None:
    """The entry that retired a key; it has a number."""
    return next((change.document for change in key_changes(public, ledger, rotations)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """An entry that replaced the operator's key, signed with both keys."""

    before: str  # the key that it replaced
    key: str
    document: Mapping[str, Any]  # it has a number
    hash: str
    rotation: Mapping[str, Any]  # as files state it, with the signature


def key_changes(first: str, ledger: str, rotations: Iterable[Any]) -> Iterator[KeyChange]:
    """The changes of a key and of its successors, in order.

    Whoever signs a file can put anything into its rotations: what is not a key or a number is passed over.
    """
    key = first
    for rotation in rotations:
        content = rotation.get("content") if isinstance(rotation, dict) else None
        document = parse(content) if isinstance(content, str) else None
        body = document.get("body") if document is not None else None
        if content is None or document is None or document.get("kind") != "key-rotation" or not isinstance(body, dict):
            continue
        digest = hash_of(content.encode(errors="surrogatepass"))
        announcement = signed_message(digest)
        public, proof, number = body.get("operator", ""), body.get("proof", ""), document.get("number")
        if (
            type(number) is int
            and number > 1  # the first entry opens the ledger
            and isinstance(public, str)
            and _PUBLIC.fullmatch(public)
            and is_signed_by_operator(announcement, rotation.get("signature"), key)
            and is_signed_by_operator(rotation_message(ledger, public), proof, public)
        ):
            yield KeyChange(before=key, key=public, document=document, hash=digest, rotation=rotation)
            key = public


def rotation_message(ledger: str, public: str) -> bytes:
    """The message that a new key signs to prove that the operator has its private half."""
    return f"commonweal.key-rotation/1 {ledger} {public}".encode(errors="surrogatepass")
