"""From decided rounds to entries in a book."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from commonweal.errors import CommonwealError, FederationError
from commonweal.federation.rule_versions import CURRENT
from commonweal.ledger.checks import check_names
from commonweal.ledger.entries import time_text
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.ledger import Clock, Ledger, Receipt, system_clock
from commonweal.ledger.member_documents import ClientReport
from commonweal.ledger.rounds import RoundToSettle, draft_round
from commonweal.ledger.sql.location import shown
from commonweal.ledger.sql.store import SqlStore, has_ledger, open_store
from commonweal.ledger.state import LedgerState
from commonweal.ledger.statements import signed_statement
from commonweal.ledger.terms import Terms
from commonweal.records import RoundRecord

Sign = Callable[[ClientReport], str | None]
"""The signature of a client under its report; None where the operator's word counts."""


class FederationLedger:
    """The book that a federation settles in; opened with the first round if it is not there yet.

    `members` are all clients with their public keys; a book that has members takes no others.
    """

    def __init__(
        self,
        location: str,
        keys: KeyDirectory,
        *,
        name: str,
        members: Mapping[str, str | None],
        sign: Sign = lambda report: None,
        clock: Clock = system_clock,
    ) -> None:
        self.location = location
        self._keys = keys
        self.terms = Terms(name=name)  # of the book, should there be none yet
        self.has_opened = False  # a new book, with terms that nobody stated
        self._members = members
        self._sign = sign
        self._clock = clock
        self._store: SqlStore | None = None
        self._book: Ledger | None = None

    def check(self) -> None:
        """Before anything is computed for it: whether the book could take the federation's rounds."""
        check_names(self._members)
        if not has_ledger(self.location):
            return
        store = open_store(self.location)
        try:
            book = Ledger(store, self._keys)
            self._keys.key_of(book.state.operator)
            self._check_members(book)
        finally:
            store.close()

    def open(self) -> str:
        """Open the book now rather than with the first round; returns its identity, which clients' reports name."""
        return self._opened().identity

    def settle(
        self,
        record: RoundRecord,
        sample_counts: Mapping[str, int] | None = None,
        signatures: Mapping[str, str] | None = None,
    ) -> Receipt:
        """Enter a round; one that is settled already stays as it is. Members of whom it knows nothing were absent.

        `signatures` are the clients' own; without them each report is signed here.
        """
        settled = RoundToSettle(record=record, rules_version=CURRENT, sample_counts=sample_counts or {})
        if self._book is None and not has_ledger(self.location):
            draft_round(settled, "", self.terms)  # a round that no book would take opens none
        book = self._opened()
        book.refresh()
        settled = replace(settled, record=replace(record, absent=_absent(record, book)))
        if signatures is None:
            reports = [settled.report(book.identity, client) for client in record.decision.figures.clients]
            signatures = {report.client: signed for report in reports if (signed := self._sign(report)) is not None}
        return book.settle(replace(settled, signatures=signatures))

    def check_round(self, record: RoundRecord, sample_counts: Mapping[str, int] | None = None) -> None:
        """Refuse a round that the book would refuse for what it says, before anything is kept of it."""
        book = self._opened()
        settled = RoundToSettle(record=record, rules_version=CURRENT, sample_counts=sample_counts or {})
        draft_round(settled, book.identity, book.terms)

    @property
    def book_terms(self) -> Terms:
        """What the opened book says of itself."""
        return self._opened().terms

    def withdraw(self, client: str, round_number: int, signature: str | None) -> Receipt:
        """Enter that a client leaves after this round, by its signed notice."""
        return self._opened().withdraw(client, round_number, signature)

    def statement(self, client: str) -> bytes:
        """The client's signed statement, as `commonweal ledger statement` writes it into a file."""
        self._opened()
        assert self._store is not None, "opened just now"
        return signed_statement(self._store, client, self._keys, at=time_text(self._clock()))

    @property
    def settled_rounds(self) -> frozenset[int]:
        """The rounds that are settled and not reversed; none where there is no book yet."""
        if self._book is None and not has_ledger(self.location):
            return frozenset()
        book = self._opened()
        book.refresh()
        return frozenset(book.state.rounds)

    @property
    def operator_key(self) -> str:
        """The public key that signs the book now."""
        book = self._opened()
        book.refresh()
        return book.state.operator

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def _opened(self) -> Ledger:
        if self._book is None:
            if self._store is None:
                self._store = open_store(self.location, create=True)
            book = self._started(self._store)
            self._check_members(book)
            if not book.state.members:
                book.admit(self._members)
            self._book = book
        return self._book

    def _started(self, store: SqlStore) -> Ledger:
        with store.reading() as reading:
            is_new = next(reading.entries(), None) is None
        if is_new:
            try:
                book = Ledger.start(store, self.terms, self._keys, clock=self._clock)
                self.has_opened = True
                return book
            except CommonwealError:  # another process was quicker
                with store.reading() as reading:
                    if next(reading.entries(), None) is None:
                        raise
        return Ledger(store, self._keys, clock=self._clock)

    def _check_members(self, book: Ledger) -> None:
        """Clients with other keys than they were admitted with are refused now rather than after a round."""
        admitted = book.state.members
        for client, key in self._members.items():
            if admitted and client not in admitted:
                raise FederationError(
                    f"rounds are settled among members of the book, got the unknown client {client!r}; the members of "
                    f"{shown(self.location)!r} are {', '.join(list(admitted)[:10])}: name another --ledger"
                )
            if admitted and key is None and admitted[client] is not None:
                raise FederationError(
                    f"{client!r} signs its own reports in {shown(self.location)!r}, got figures without its signature; "
                    "settle them from a federation whose clients sign, or in a book that admitted it without a key"
                )
            if admitted and admitted[client] != key:
                raise FederationError(
                    f"a client's reports are signed with the key it was admitted with, got another for {client!r} in "
                    f"{shown(self.location)!r}; name another --ledger"
                )


def _absent(record: RoundRecord, book: Ledger) -> tuple[str, ...]:
    """Every member of the book that is neither in the round nor gone before it.

    Of a settled round the book has said so: who was admitted or withdrew since changes nothing of it.
    """
    number, there, state = record.round_number, record.decision.figures.profits, book.state
    if number in state.rounds:
        return tuple(book.document(state.rounds[number])["body"]["absent"])
    return tuple(client for client in state.members if client not in there and not _is_gone(client, number, state))


def _is_gone(client: str, round_number: int, state: LedgerState) -> bool:
    return any(left.get(client, round_number) < round_number for left in (state.eliminated, state.withdrawn))


def default_ledger(directory: Path) -> Path:
    """Where a run's book is unless another is named."""
    return directory / "ledger.db"
