"""An entry: a balanced group of postings with everything that led to it, chained to its predecessor and signed.

content   = canonical JSON of {format, number, previous, at, kind, body, postings}
hash      = SHA-256(content), and `previous` is the hash of the entry before
signature = Ed25519 of "commonweal.entry/1 <hash>" by the operator
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from commonweal.ledger.canonical import Document, canonical, hash_of
from commonweal.ledger.keys import SigningKey

FORMAT = "commonweal.entry/1"
BEFORE_THE_FIRST = "0" * 64  # the `previous` of the first entry

EntryKind = Literal[
    "opening", "terms", "admission", "amendment", "round", "realisation", "reversal", "withdrawal", "key-rotation",
    "late-report", "charge", "exclusion",
]  # fmt: skip

INCOME = "model-income"  # income that the model has earned
POTENTIAL = "model-potential"  # the worth of accrued payoffs that nobody has paid yet
EXTERNAL = "external"  # what the outside received (+) or paid in (−), by a mechanism that deals with it

_MOST_CHARACTERS = 40  # of an amount: Python neither reads nor writes thousands of digits


@dataclass(frozen=True, slots=True)
class Posting:
    """An amount that an account receives (+) or pays (−), in minor units."""

    account: str
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEntry:
    """An entry as the store keeps it."""

    number: int  # 1, 2, ...
    content: str
    hash: str
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An entry before it has its place in the chain."""

    kind: EntryKind
    body: Document
    postings: tuple[Posting, ...] = ()


def client_account(client: str) -> str:
    """The account of what a client was paid (+) or has to pay (−)."""
    return f"clients/{client}"


def accrued_account(client: str) -> str:
    """The account of the payoffs that a client has accrued."""
    return f"accrued/{client}"


def seal(draft: Draft, *, number: int, previous: str, at: str, key: SigningKey) -> StoredEntry:
    """Give a draft its place in the chain, and sign it."""
    assert sum(posting.amount for posting in draft.postings) == 0, "the postings of an entry sum to zero"
    content = canonical(
        {
            "format": FORMAT,
            "number": number,
            "previous": previous,
            "at": at,
            "kind": draft.kind,
            "body": draft.body,
            "postings": [[posting.account, str(posting.amount)] for posting in draft.postings],
        }
    )
    digest = hash_of(content)
    return StoredEntry(number=number, content=content.decode(), hash=digest, signature=key.sign(signed_message(digest)))


def signed_message(digest: str) -> bytes:
    """The message that the operator signs for an entry."""
    return f"{FORMAT} {digest}".encode()


def postings_of(document: Mapping[str, Any]) -> tuple[Posting, ...]:
    """The postings that an entry's content states."""
    rows: Sequence[Sequence[str]] = document["postings"]
    return tuple(Posting(account, amount_in(amount)) for account, amount in rows)


def amount_in(text: str) -> int:
    """The minor units of a posting; ValueError for more digits than any balance can have."""
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"an amount has {len(text)} characters")
    return int(text)


def time_text(moment: datetime) -> str:
    """A moment as entries write it: UTC, to the microsecond."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def moment_of(text: Any) -> datetime | None:
    """The moment that `time_text` wrote; None for anything else."""
    try:
        moment = datetime.fromisoformat(text)
        return moment if time_text(moment) == text else None
    except (TypeError, ValueError, OverflowError):
        return None


def is_reference(text: str) -> bool:
    """Whether a text can be the reference of an income."""
    return bool(text) and text == text.strip() and len(text) <= 200 and text.isprintable()


def is_reason(text: str) -> bool:
    """Whether a text can be the reason of a reversal."""
    return bool(text.strip()) and len(text) <= 1000 and text.isprintable()
