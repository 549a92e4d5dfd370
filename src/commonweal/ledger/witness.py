"""The head of a book, kept by somebody else: proof against an operator who rewrites history."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from commonweal.errors import InputError
from commonweal.ledger.canonical import Document
from commonweal.ledger.signed_file import SignedDocument, read_signed
from commonweal.ledger.state import BookState

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

    def is_signed_by(self, operator: str) -> bool:
        return self.signed.signer == operator and self.signed.is_sound


def head_document(state: BookState, at: str) -> Document:
    """The head of a book, to be signed and given away."""
    assert state.terms is not None, "a book starts with its terms"
    return {
        "format": HEAD_FORMAT,
        "book": state.book,
        "name": state.terms.name,
        "at": at,
        "head": {"number": state.number, "hash": state.head},
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
        raise InputError(
            f"a statement or a head names the book's last entry, got {str(path)!r} without it; name the file as the "
            "operator gave it to you"
        ) from None
