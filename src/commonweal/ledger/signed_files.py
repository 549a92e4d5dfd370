"""Signed documents in files"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commonweal.errors import LedgerError
from commonweal.ledger.canonical import Document, canonical, hash_of, parse
from commonweal.ledger.keys import SigningKey, is_signed_by_operator
from commonweal.ledger.state import LedgerState


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedDocument:
    """What a signed file says, whether or not its signature is right."""

    document: dict[str, Any]
    signer: str
    signature: str

    @property
    def is_sound(self) -> bool:
        """Whether the signer it names signed it."""
        try:
            return is_signed_by_operator(_message(self.document), self.signature, self.signer)
        except ValueError:  # what has no canonical form was not signed
            return False


def signed_content(document: Document, key: SigningKey) -> bytes:
    """The content of a signed file, laid out for people."""
    whole = {"document": document, "signer": key.public, "signature": key.sign(_message(document))}
    return (json.dumps(whole, indent=1, ensure_ascii=False) + "\n").encode()


def read_signed(path: Path, formats: tuple[str, ...]) -> SignedDocument:
    """The document in a file, of one of the formats."""
    try:
        whole = parse(path.read_bytes().decode())
    except OSError as error:
        raise LedgerError(
            f"a signed file must be readable, got {error.strerror} for {str(path)!r}; name another file"
        ) from None
    except UnicodeDecodeError:
        whole = None
    document = whole.get("document") if whole is not None else None
    if whole is None or not isinstance(document, dict) or document.get("format") not in formats:
        raise LedgerError(
            f"a signed file must be of the format {' or '.join(formats)}, got {str(path)!r}; name the file as the "
            "operator gave it to you"
        )
    return SignedDocument(
        document=document, signer=str(whole.get("signer", "")), signature=str(whole.get("signature", ""))
    )


def _message(document: Document) -> bytes:
    return f"{document['format']} {hash_of(canonical(document))}".encode()


HEAD_FORMAT = "commonweal.head/1"
STATEMENT_FORMAT = "commonweal.statement/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHead:
    """At some time the ledger had this entry with this hash, and its operator signed that."""

    source: str  # for people: the file's name
    ledger: str
    number: int
    head: str
    signed: SignedDocument

    @property
    def key_rotations(self) -> list[Any]:
        """The changes of the operator's key up to then, by which who has an older key knows the signer."""
        rotations = self.signed.document.get("key_rotations", [])
        return rotations if isinstance(rotations, list) else []


def head_document(state: LedgerState, at: str, key_rotations: Sequence[Document] = ()) -> Document:
    """The head of a ledger, to be signed and given away."""
    assert state.terms is not None, "a ledger starts with its terms"
    return {
        "format": HEAD_FORMAT,
        "book": state.identity,
        "name": state.terms.name,
        "at": at,
        "head": {"number": state.number, "hash": state.head},
        "key_rotations": list(key_rotations),
    }


def read_known_head(path: Path) -> KnownHead:
    """A witness from a statement or an exported head."""
    signed = read_signed(path, (STATEMENT_FORMAT, HEAD_FORMAT))
    try:
        head = signed.document["head"]
        return KnownHead(
            source=path.name,
            ledger=str(signed.document["book"]),
            number=int(head["number"]),
            head=str(head["hash"]),
            signed=signed,
        )
    except (KeyError, TypeError, ValueError):
        raise LedgerError(
            f"a statement or a head names the ledger's last entry, got {str(path)!r} without it; name the file as the "
            "operator gave it to you"
        ) from None
