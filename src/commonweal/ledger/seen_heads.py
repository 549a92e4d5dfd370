"""Which entries of a ledger a member has seen: heads that members sign for one another, and the operator's trail.

A member signs the last entry that its statement names. The others compare it with what they were shown themselves:
entries are chained, so one hash vouches for everything before it. So that every number can be compared, the operator
signs for each member the hashes of all entries since the last one that the member saw.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from commonweal.errors import LedgerError
from commonweal.ledger.canonical import Document, canonical
from commonweal.ledger.chain import keys_since
from commonweal.ledger.keys import Signer, is_signed
from commonweal.ledger.signed_files import ENTRY_LIMIT, SignedDocument

SEEN_HEAD_FORMAT = "commonweal.seen-head/1"
SEEN_IN_ROUND_FORMAT = "commonweal.seen-head/2"  # of members that sign which round they were told of last
TRAIL_FORMAT = "commonweal.trail/1"
LARGEST_TRAIL = 8_000_000  # bytes: more than 100,000 entries
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenHead:
    """A member's word that the operator showed it a ledger that ends with this entry."""

    ledger: str  # its identity: the hash of its first entry
    client: str
    number: int
    hash: str
    round_number: int | None = None  # the last one that its statements tell of; None: earlier versions did not sign it

    def message(self) -> bytes:
        """The message that is signed. Its field "book" is the ledger; names in signed messages never change."""
        head = {"number": self.number, "hash": self.hash}
        signed: Document = {"format": SEEN_HEAD_FORMAT, "book": self.ledger, "client": self.client, "head": head}
        if self.round_number is not None:
            signed = {**signed, "format": SEEN_IN_ROUND_FORMAT, "round": self.round_number}
        return canonical(signed)

    def signed(self, key: Signer) -> SignedSeenHead:
        return SignedSeenHead(head=self, signature=key.sign(self.message()))


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedSeenHead:
    """A seen head with its member's signature, whether or not that is valid."""

    head: SeenHead
    signature: str

    def is_signed(self, public: str) -> bool:
        return is_signed(self.head.message(), self.signature, public)

    def to_document(self) -> Document:
        """What is sent: everything that the reader does not know already."""
        told = {} if self.head.round_number is None else {"round": self.head.round_number}
        return {"number": self.head.number, "hash": self.head.hash, **told, "signature": self.signature}

    @classmethod
    def from_document(cls, document: Mapping[str, Any], *, ledger: str, client: str) -> SignedSeenHead:
        """Raises `LedgerError` if it is not as `to_document` writes it: others may have sent anything."""
        number, digest, signature = document.get("number"), document.get("hash"), document.get("signature")
        if type(number) is not int or not 1 <= number < 2**53:
            raise LedgerError("a signed head must name the number of an entry")
        if not isinstance(digest, str) or _HASH.fullmatch(digest) is None or not isinstance(signature, str):
            raise LedgerError("a signed head must name the hash of an entry, and have a signature")
        told = document.get("round")
        if told is not None and (type(told) is not int or not 0 <= told < 2**53):
            raise LedgerError("a signed head must name a round")
        head = SeenHead(ledger=ledger, client=client, number=number, hash=digest, round_number=told)
        return cls(head=head, signature=signature[:1000])


def trail_document(
    *, ledger: str, first: int, hashes: Sequence[str], at: str, key_rotations: Sequence[Document] = ()
) -> Document:
    """The hashes of the entries from number `first` on, to be signed by the operator."""
    return {
        "format": TRAIL_FORMAT,
        "book": ledger,
        "first": first,
        "hashes": list(hashes),
        "at": at,
        "key_rotations": list(key_rotations),
    }


TRAIL_FIELDS = frozenset({"format", "book", "first", "hashes", "at", "key_rotations"})


def hashes_in_trail(signed: SignedDocument, *, ledger: str, operator: str) -> dict[int, str]:
    """The hashes by number of entry; raises `LedgerError` if the operator did not sign them for this ledger."""
    given = signed.document
    first, hashes, rotations = given.get("first"), given.get("hashes"), given.get("key_rotations")
    if type(first) is not int or first < 1 or not isinstance(hashes, list) or not isinstance(rotations, list):
        raise LedgerError("it is incomplete or damaged")
    if first + len(hashes) > ENTRY_LIMIT:
        raise LedgerError(f"it starts with entry {first:.6g}")
    if not all(isinstance(digest, str) and _HASH.fullmatch(digest) for digest in hashes):
        raise LedgerError("it must list hashes of entries")
    if given.get("book") != ledger:
        raise LedgerError("it is about another ledger")
    if not signed.is_sound or signed.signer not in keys_since(operator, ledger, rotations):
        raise LedgerError("the operator did not sign it")
    return dict(enumerate(hashes, start=first))
