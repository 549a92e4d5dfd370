"""Check one entry after all entries before it, whether it is stored already or is to be written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from commonweal.ledger.canonical import parse
from commonweal.ledger.entries import StoredEntry, postings_of
from commonweal.ledger.readable import UNREADABLE
from commonweal.ledger.store import StoredPosting
from commonweal.ledger.verification.dates import check_date
from commonweal.ledger.verification.entries import check_chain, check_entry
from commonweal.ledger.verification.known_fields import check_fields
from commonweal.ledger.verification.replay import LedgerReplay
from commonweal.ledger.verification.texts import check_texts
from commonweal.ledger.verification.value_types import check_value_types

DAMAGED = (*UNREADABLE, AssertionError)  # an entry before may lack what an honest ledger has


def check_one(
    entry: StoredEntry, rows: Sequence[StoredPosting], replay: LedgerReplay
) -> tuple[Mapping[str, Any] | None, str | None]:
    """Check an entry and the rows of its postings; `replay` gets findings and notes, and does not remember the entry.

    Returns the entry's document, or None if it is too damaged to go on from, and the key that signed it, if one did.
    """
    number, findings = entry.number, replay.findings
    document = parse(entry.content)
    signer = check_chain(entry, document, replay.state, findings)
    if document is None:
        return None, signer
    check_fields(number, document, findings)
    check_texts(number, document, findings)
    check_date(number, document, replay)
    try:
        check_entry(number, document, postings_of(document), rows, replay)
        check_value_types(number, document, findings)
    except DAMAGED as error:
        incomplete(number, error, replay)
        return None, signer
    return document, signer


def incomplete(number: int, error: Exception, replay: LedgerReplay) -> None:
    """Report an entry that raised one of Python's own errors."""
    found = f"{type(error).__name__}: {error}"
    replay.findings.add(number, "the entry has everything that its kind needs", "a complete entry", found)
