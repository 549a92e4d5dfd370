"""What a ledger asks of a store. `store_contract` holds the tests that every store must pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from commonweal.ledger.entries import Posting, StoredEntry

BEFORE_ALL = -(2**63)  # as `after`: rows that somebody put before the first entry are read too


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPosting:
    """A posting as the store keeps it."""

    entry: int
    position: int  # in its entry, from 0
    posting: Posting


class Reading(Protocol):
    """What is in the store at one moment."""

    def entries(self, *, after: int = 0) -> Iterator[StoredEntry]:
        """Entries with greater numbers, in their order."""
        ...

    def postings(self, *, after: int = 0) -> Iterator[StoredPosting]:
        """Postings of entries with greater numbers, by entry and position."""
        ...

    def row_count(self) -> int:
        """Entries and postings, also such as the other two would never come to; an audit reads them all."""
        ...


class Writing(Reading, Protocol):
    """The same, for the one who may add."""

    def add(self, entry: StoredEntry, postings: Sequence[Posting]) -> None:
        """Add an entry with its postings."""
        ...


class Store(Protocol):
    """Entries and their postings, only ever added."""

    def reading(self) -> AbstractContextManager[Reading]:
        """Look at the store as it is now, whatever others add meanwhile."""
        ...

    def writing(self) -> AbstractContextManager[Writing]:
        """One writer at a time. What is added is there whole once the block ends, or, if it fails, not at all."""
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...
