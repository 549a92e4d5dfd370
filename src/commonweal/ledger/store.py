"""What a ledger needs from a store. `store_contract` has the tests that every store must pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from commonweal.ledger.entries import Posting, StoredEntry

BEFORE_ALL = -(2**63)  # value of `after` that also returns rows inserted before the first entry


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPosting:
    """A posting as the store keeps it."""

    entry: int
    position: int  # in its entry, from 0
    posting: Posting


def stored_postings(entry: int, postings: Sequence[Posting]) -> list[StoredPosting]:
    """The postings of an entry as a store keeps them."""
    return [StoredPosting(entry=entry, position=position, posting=posting) for position, posting in enumerate(postings)]


class Reading(Protocol):
    """The content of the store at one moment."""

    def entries(self, *, after: int = 0) -> Iterator[StoredEntry]:
        """Entries with numbers greater than `after`, in order."""
        ...

    def postings(self, *, after: int = 0) -> Iterator[StoredPosting]:
        """Postings of entries with numbers greater than `after`, in order of entry and position."""
        ...

    def row_count(self) -> int:
        """How many entries and postings there are, including any that the other two methods would never reach."""
        ...

    def faults(self) -> Sequence[str]:
        """Why the store may not return what was added, each in a few words, such as "entries is a view"."""
        ...


class Writing(Reading, Protocol):
    """The content of the store, for its only current writer."""

    def add(self, entry: StoredEntry, postings: Sequence[Posting]) -> None:
        """Add an entry with its postings."""
        ...


class Store(Protocol):
    """Entries and their postings, which are only ever added."""

    def reading(self) -> AbstractContextManager[Reading]:
        """A snapshot of the store, unaffected by what others add in the meantime."""
        ...

    def writing(self) -> AbstractContextManager[Writing]:
        """One writer at a time. When the block ends, everything is added; if it fails, nothing is."""
        ...

    def close(self) -> None:
        """Release the database."""
        ...
