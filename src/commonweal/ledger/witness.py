"""The head of a book, kept by somebody else: proof against an operator who rewrites history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commonweal.errors import LedgerError
from commonweal.ledger.canonical import Document
from commonweal.ledger.signed_file import SignedDocument, read_signed
from commonweal.ledger.state import LedgerState

HEAD_FORMAT = "commonweal.head/1"
STATEMENT_FORMAT = "commonweal.statement/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """At some time the book had this entry with this hash, and its operator signed that."""

    source: str  # for people: the file's name
    book: str
    number: int
    head: str
    signed: SignedDocument

    @property
    def key_rotations(self) -> list[Any]:
        """The changes of the operator's key up to then, by which who has an older key knows the signer."""
        rotations = self.signed.document.get("key_rotations", [])
        return rotations if isinstance(rotations, list) else []


def head_document(state: LedgerState, at: str, key_rotations: Sequence[Document] = ()) -> Document:
    """The head of a book, to be signed and given away."""
    assert state.terms is not None, "a book starts with its terms"
    return {
        "format": HEAD_FORMAT,
        "book": state.book,
        "name": state.terms.name,
        "at": at,
        "head": {"number": state.number, "hash": state.head},
        "key_rotations": list(key_rotations),
    }


def read_witness(path: Path) -> Witness:
    """A witness from a statement or an exported head."""
    signed = read_signed(path, (STATEMENT_FORMAT, HEAD_FORMAT))
    try:
        head = signed.document["head"]
        return Witness(
            source=path.name,
            book=str(signed.document["book"]),
            number=int(head["number"]),
            head=str(head["hash"]),
            signed=signed,
        )
    except (KeyError, TypeError, ValueError):
        raise LedgerError(
            f"a statement or a head names the book's last entry, got {str(path)!r} without it; name the file as the "
            "operator gave it to you"
        ) from None
