"""Signed documents in files that anybody can check offline, and the ledger heads that members keep.

{"document": {...}, "signer": <public key>, "signature": <Ed25519 of "<format> <hash of the canonical document>">}
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commonweal.bounded_read import LARGEST_DOCUMENT, read_bounded
from commonweal.errors import LedgerError, StorageError, os_reason
from commonweal.ledger.canonical import Document, canonical, hash_of, parse
from commonweal.ledger.keys import SigningKey, is_signed_by_operator
from commonweal.ledger.printable import printable_json
from commonweal.ledger.state import LedgerState


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedDocument:
    """The content of a signed file, whether or not its signature is valid."""

    document: dict[str, Any]
    signer: str
    signature: str

    @property
    def is_sound(self) -> bool:
        """Whether the named signer signed it."""
        try:
            return is_signed_by_operator(_message(self.document), self.signature, self.signer)
        except ValueError:  # a document without a canonical form cannot have been signed
            return False


def signed_content(document: Document, key: SigningKey) -> bytes:
    """The content of a signed file, indented for people."""
    try:
        message = _message(document)
    except ValueError as error:  # such as an infinite figure in an entry
        raise LedgerError(f"Cannot sign this document: {error}. Find out more with: commonweal ledger verify") from None
    whole = {"document": document, "signer": key.public, "signature": key.sign(message)}
    return (printable_json(whole, indent=1) + "\n").encode()


def read_signed(path: Path, formats: tuple[str, ...]) -> SignedDocument:
    """The document in a file, in one of these formats."""
    try:
        content = read_bounded(path, LARGEST_DOCUMENT)
    except OSError as error:
        raise StorageError(f"Cannot read {path}: {os_reason(error)}.") from None
    return signed_in(content, path, formats)


def signed_in(content: bytes, source: Path | str, formats: tuple[str, ...]) -> SignedDocument:
    """The document in the content of a file, in one of these formats; `source` names it in errors."""
    try:
        whole = parse(content.decode())
    except UnicodeDecodeError:
        whole = None
    document = whole.get("document") if whole is not None else None
    if whole is None or not isinstance(document, dict) or document.get("format") not in formats:
        raise LedgerError(
            f"{source} is not a signed file in the format {' or '.join(formats)}. Use the file exactly as the operator "
            "sent it."
        )
    return SignedDocument(
        document=document, signer=str(whole.get("signer", "")), signature=str(whole.get("signature", ""))
    )


def _message(document: Document) -> bytes:
    return f"{document['format']} {hash_of(canonical(document))}".encode()


HEAD_FORMAT = "commonweal.head/1"
STATEMENT_FORMAT = "commonweal.statement/1"
STATEMENT_PART_FORMAT = "commonweal.statement-part/1"
ENTRY_LIMIT = 10**15  # numbers of entries are below it
_HASH = re.compile("[0-9a-f]{64}")
WITH_HEAD = (STATEMENT_FORMAT, STATEMENT_PART_FORMAT, HEAD_FORMAT)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHead:
    """Proof that the ledger once ended with this entry, signed by its operator.

    A member who keeps it can tell whether the ledger has been rewritten since.
    """

    source: str  # the name of its file
    ledger: str
    number: int
    head: str
    signed: SignedDocument

    @property
    def key_rotations(self) -> list[Any]:
        """The changes of the operator's key up to then, which lead from an older key to the signer."""
        rotations = self.signed.document.get("key_rotations", [])
        return rotations if isinstance(rotations, list) else []


def head_document(state: LedgerState, at: str, key_rotations: Sequence[Document] = ()) -> Document:
    """The head of a ledger, to be signed and handed out. Its field "book" is the ledger: files keep their names."""
    assert state.terms is not None, "the first entry states the terms"
    return {
        "format": HEAD_FORMAT,
        "book": state.identity,
        "name": state.terms.name,
        "at": at,
        "head": {"number": state.number, "hash": state.head},
        "key_rotations": list(key_rotations),
    }


HEAD_FIELDS = frozenset({"format", "book", "name", "at", "head", "key_rotations"})


def read_known_head(path: Path) -> KnownHead:
    """The head that a statement, a part of one or an exported head states."""
    return _known_head(read_signed(path, WITH_HEAD), path.name, str(path))


def known_head_in(content: bytes, source: str) -> KnownHead:
    """The head that the content of such a file states."""
    return _known_head(signed_in(content, source, WITH_HEAD), source, source)


def _known_head(signed: SignedDocument, source: str, path: str) -> KnownHead:
    try:
        number, digest = last_entry_in(signed.document)
        return KnownHead(source=source, ledger=str(signed.document["book"]), number=number, head=digest, signed=signed)
    except (KeyError, TypeError, ValueError):
        raise LedgerError(
            f"{source} does not name the ledger's last entry. Use the file exactly as the operator sent it."
        ) from None


def last_entry_in(document: Mapping[str, Any]) -> tuple[int, str]:
    """Number and hash of the entry that a signed document names as the ledger's last one.

    Raises KeyError, TypeError or ValueError if it names none. There is one way to write each, or two readers of the
    same file could remember two different entries.
    """
    number, digest = document["head"]["number"], document["head"]["hash"]
    if type(number) is not int or not 0 < number < ENTRY_LIMIT:
        raise ValueError("the number of an entry")
    if not isinstance(digest, str) or _HASH.fullmatch(digest) is None:
        raise ValueError("the hash of an entry")
    return number, digest
