"""Verify a ledger without trusting anybody: replay the chain, the signatures, the balances and every decision.

All findings are returned, each with the entry, the rule, what was expected and what was found; so are notes, on what is
odd but allowed. Everything is recomputed from each entry's own inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

from commonweal.ledger.entries import StoredEntry, postings_of
from commonweal.ledger.settled_again import Settlement
from commonweal.ledger.signed_files import KnownHead
from commonweal.ledger.state import LedgerState
from commonweal.ledger.store import BEFORE_ALL, Reading, Store, StoredPosting
from commonweal.ledger.verification.baselines import note_untraced
from commonweal.ledger.verification.members import check_known_head, check_not_retired
from commonweal.ledger.verification.one_entry import DAMAGED, check_one, incomplete
from commonweal.ledger.verification.plans import note_planned_with_the_gone
from commonweal.ledger.verification.replay import Finding, LedgerReplay, PastEntry, Recompute
from commonweal.ledger.verification.reversals import (
    conclude_divided_otherwise,
    conclude_divided_without,
    note_income_taken_back,
    note_never_settled_again,
)
from commonweal.ledger.verification.silence import note_open_silences, note_withdrawn_at_the_limit
from commonweal.ledger.verification.terms import (
    note_back_since,
    note_missing_terms,
    note_unknown_names,
    note_votes_of_the_gone,
)

_GAP_LIMIT = 100  # missing entries that are reported one by one

Row = TypeVar("Row", StoredEntry, StoredPosting)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of verifying a ledger."""

    findings: tuple[Finding, ...]  # what is wrong; the ledger is sound if there is nothing
    notes: tuple[Finding, ...]  # what is odd but allowed
    state: LedgerState  # after the last entry, by the contents of the entries
    round_count: int  # decisions that were recomputed
    operators: tuple[str, ...]  # the public keys that signed it, the first one first
    signed_reports: int
    unsigned_reports: int  # by clients admitted without a key: the operator vouches for them


def verify_ledger(
    store: Store,
    recompute: Recompute,
    *,
    operator: str | None = None,
    known_heads: Sequence[KnownHead] = (),
    progress: Callable[[int], None] | None = None,
) -> Verification:
    """Verify the whole ledger.

    `operator` is a public key that must have signed the first entry or a later one. `known_heads` are heads that
    members kept: they show whether the operator has rewritten the ledger since.
    """
    verifier = _Verifier(recompute, known_heads)
    with store.reading() as reading:
        verifier.walk(reading, progress)
    verifier.conclude(operator)
    replay = verifier.replay
    return Verification(
        findings=replay.findings.all(),
        notes=replay.notes.all(),
        state=replay.state,
        round_count=replay.round_count,
        operators=tuple(replay.operators),
        signed_reports=replay.signed_reports,
        unsigned_reports=replay.unsigned_reports,
    )


class _Verifier:
    """Reads a ledger once, from its first entry to its last."""

    def __init__(self, recompute: Recompute, known_heads: Sequence[KnownHead]) -> None:
        self.replay = LedgerReplay(recompute=recompute)
        self._findings = self.replay.findings
        self._known_heads = known_heads
        self._seen: dict[int, str] = {}  # hashes of all entries, if there are known heads
        self._rows_by_account: Counter[str] = Counter()
        self._row_count = 0

    def walk(self, reading: Reading, progress: Callable[[int], None] | None) -> None:
        """Check all rows of both tables, entry by entry."""
        for fault in reading.faults():
            self._findings.add(0, "the tables are ordinary ones", "tables that return what was put into them", fault)
        entries = self._numbered(reading.entries(after=BEFORE_ALL), attrgetter("number"))
        postings = self._numbered(reading.postings(after=BEFORE_ALL), attrgetter("entry"))
        for number, entry, rows in _joined(entries, postings):
            for row in rows:
                if isinstance(row.posting.account, str) and isinstance(row.posting.amount, int):
                    self._rows_by_account[row.posting.account] += row.posting.amount
            if entry is None:
                found = f"{len(rows)} posting{'s' * (len(rows) != 1)} without an entry"
                self._findings.add(number, "postings belong to an entry", f"entry {number}", found)
                continue
            self._check(entry, rows)
            if progress is not None:
                progress(number)
        if reading.row_count() != self._row_count:
            expected, found = str(self._row_count), str(reading.row_count())
            self._findings.add(0, "every row belongs to an entry: number of rows", expected, found)

    def conclude(self, operator: str | None) -> None:
        """Check what is known only after the last entry."""
        state, operators = self.replay.state, self.replay.operators
        if not state.number:
            self._findings.add(1, "the first entry states the terms", "an opening entry", "no entry")
        if operator is not None and operator not in operators:
            found = ", ".join(f"{key[:16]}…" for key in operators) or "no key"
            self._findings.add(1, "the operator signed the ledger", f"the key {operator[:16]}…", found)
        self._conclude(note_missing_terms)
        self._conclude(note_unknown_names)
        self._conclude(note_back_since)
        self._conclude(note_votes_of_the_gone)
        self._conclude(note_planned_with_the_gone)
        self._conclude(note_untraced)
        for account in sorted({*self._rows_by_account, *state.balances}, key=str):
            self._findings.compare(
                state.number,
                f"the balance of {account} follows from the entries",
                state.balances[account],
                self._rows_by_account[account],
            )
        self._findings.compare(state.number, "the ledger sums to zero", 0, state.balances.total())
        self._conclude(conclude_divided_without)
        self._conclude(conclude_divided_otherwise)
        self._conclude(note_never_settled_again)
        self._conclude(note_income_taken_back)
        self._conclude(note_open_silences)
        self._conclude(note_withdrawn_at_the_limit)
        for known in self._known_heads:
            check_known_head(
                known, ledger=state.identity, operators=operators, seen=self._seen, findings=self._findings
            )
            check_not_retired(known, self._known_heads, self.replay.retired, self._findings)

    def _conclude(self, check: Callable[[LedgerReplay], None]) -> None:
        """A damaged ledger is reported, whatever state it leads to."""
        try:
            check(self.replay)
        except DAMAGED as error:
            found = f"{type(error).__name__}: {error}"
            self._findings.add(self.replay.state.number, "the entries lead to a sound state", "a sound state", found)

    def _check(self, entry: StoredEntry, rows: Sequence[StoredPosting]) -> None:
        """Check one entry, after all entries before it."""
        replay, state, number = self.replay, self.replay.state, entry.number
        rule = "entries are numbered without gaps"
        if number <= state.number:
            self._findings.add(number, rule, f"entry {state.number + 1}", f"entry {number}")
            return
        for missing in range(state.number + 1, min(number, state.number + 1 + _GAP_LIMIT)):
            self._findings.add(missing, rule, "an entry", f"none before entry {number}")
        digest = entry.hash if isinstance(entry.hash, str) else repr(entry.hash)  # SQLite stores anything
        if self._known_heads:
            self._seen[number] = digest
        document, signer = check_one(entry, rows, replay)
        if document is not None:
            try:
                self._remember(document, digest)
                if signer is not None and document["kind"] in ("opening", "key-rotation"):
                    replay.operators.append(state.operator)
                if signer is not None and document["kind"] == "key-rotation":
                    replay.retired.setdefault(signer, number)
            except DAMAGED as error:
                incomplete(number, error, replay)
        state.number, state.head = number, digest

    def _remember(self, document: Mapping[str, Any], digest: str) -> None:
        replay, number, kind, body = self.replay, document["number"], document["kind"], document["body"]
        replay.past[number] = PastEntry(kind, postings_of(document))
        if kind == "round":
            replay.settlements.setdefault(body["round"], []).append(Settlement.of(number, body, replay.state))
        replay.remember(document, digest)

    def _numbered(self, rows: Iterable[Row], number_of: Callable[[Row], object]) -> Iterator[Row]:
        """The rows with integer numbers; any others, which SQLite also accepts, are findings."""
        for row in rows:
            self._row_count += 1
            if isinstance(number_of(row), int):
                yield row
            else:
                self._findings.add(0, "every row belongs to an entry", "an entry's number", repr(number_of(row)))


def _joined(
    entries: Iterable[StoredEntry], postings: Iterable[StoredPosting]
) -> Iterator[tuple[int, StoredEntry | None, list[StoredPosting]]]:
    """Numbers in order, each with its entry (None if there is none) and the rows of its postings."""
    groups = groupby(postings, key=attrgetter("entry"))
    waiting = next(groups, None)
    for entry in entries:
        while waiting is not None and waiting[0] < entry.number:
            yield waiting[0], None, list(waiting[1])
            waiting = next(groups, None)
        rows: list[StoredPosting] = []
        if waiting is not None and waiting[0] == entry.number:
            rows = list(waiting[1])
            waiting = next(groups, None)
        yield entry.number, entry, rows
    while waiting is not None:
        yield waiting[0], None, list(waiting[1])
        waiting = next(groups, None)
