"""What a question brings that the operator signed: statement, trail, head and receipt are taken in before all else.

A question may be malformed or go back, and is refused then. What came with it is kept, logged, compared and adopted all
the same, or an operator could hand out evidence that leaves no trace.

incoming.json   what came with a question, until all of that is done; after a crash it is taken in again
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from commonweal.atomic_write import write_atomically
from commonweal.ledger.member_documents import ROUND_LIMIT
from commonweal.ledger.node_keys import NodeKey
from commonweal.records.statement import StatementLine
from commonweal.remote.member.kept_statements import (
    MOST_BYTES,
    Kept,
    count_statements,
    keep_statement,
    kept_lines,
    renew_account,
)
from commonweal.remote.member.member_file import Member
from commonweal.remote.member.peer_heads import PeerHeads
from commonweal.remote.member.receipts import KeptReceipts
from commonweal.remote.member.seen_entries import SeenEntries
from commonweal.remote.member.settled_rounds import adopt_stated
from commonweal.remote.member.store import ERROR, MemberState, MemberStore
from commonweal.remote.member.told_rounds import contradicts
from commonweal.remote.messages.message import CLOSE, printable

LONGEST_OUTCOME = 1000  # characters of it in the log, and of a line of a statement
MOST_LINES = 10  # new lines of a statement in the log: the last ones
INCOMING = "incoming.json"
_SIGNED = ("statement", "trail", "ledger_head", "receipt")
_BESIDE = ("book", "round", "outcome")  # what is read of a question with them


class Evidence:
    """The evidence in one question; the member's folder is locked. Only the names of client and ledger are checked."""

    def __init__(self, store: MemberStore, member: Member, state: MemberState, fields: Mapping[str, Any]) -> None:
        self._store = store
        self._member = member
        self._state = state
        self._fields = fields
        self._seen = SeenEntries(store, member, fields["book"])

    def catch_up(self) -> None:
        """Finish what the program was killed in: adopt the statements that are kept, and take in again what came."""
        count = count_statements(self._store)
        if (self._state.adopted_statements or 0) < count:
            renew_account(self._store, self._member, self._fields["book"])
            self._log(self._seen.catch_up())
            self._adopt(kept_lines(self._store, self._member, self._fields["book"]))
        self._state.adopted_statements = count
        if self._state.book is not None:
            self._take_again()

    def take(self, kind: str) -> Kept | None:
        """Take in all that came with a question of this kind; returns what became of its statement, if there is one."""
        self.remember(kind)
        kept = self._take(kind)
        self.forget()
        return kept

    def remember(self, kind: str) -> None:
        """Write what came to the disk: otherwise a crash between keeping and logging it would hide it."""
        given = {name: self._fields.get(name) for name in _SIGNED}
        signed = {name: text for name, text in given.items() if isinstance(text, str) and 0 < len(text) <= MOST_BYTES}
        if signed:
            beside = {name: self._fields[name] for name in _BESIDE if name in self._fields}
            content = json.dumps({"kind": kind, **beside, **signed}).encode()
            write_atomically(self._store.path / INCOMING, content, what="what came with a question")

    def forget(self) -> None:
        """All that came is kept, compared and logged."""
        (self._store.path / INCOMING).unlink(missing_ok=True)

    def _take_again(self) -> None:
        given = None
        with suppress(OSError, ValueError):
            given = json.loads((self._store.path / INCOMING).read_bytes())
        if isinstance(given, dict) and given.get("book") == self._fields["book"]:
            self._store.log("what came with a question before was not all kept, compared and logged: done again")
            try:
                Evidence(self._store, self._member, self._state, given)._take(str(given.get("kind")))
            except Exception as error:  # not for ever: questions must be answered
                self._store.log(f"{ERROR} {error or type(error).__name__}")
            self._seen = SeenEntries(self._store, self._member, self._fields["book"])
        self.forget()

    def _take(self, kind: str) -> Kept | None:
        is_statement = kind == CLOSE or "statement" in self._fields or "trail" in self._fields
        kept = self.take_statement() if is_statement else None
        self.take_head()
        self.take_receipt()
        return kept

    def _adopt(self, lines: Sequence[StatementLine]) -> None:
        adopt_stated(self._store, self._state, lines)
        self._state.adopted_statements = count_statements(self._store)
        self._store.save(self._state)

    def take_statement(self) -> Kept | None:
        """Keep the statement and the trail that close a round, and adopt what the statement shows settled.

        None if there is no statement.
        """
        statement = self._fields.get("statement")
        kept = None
        if isinstance(statement, str):
            kept = keep_statement(
                self._store,
                self._member,
                statement,
                ledger=self._fields["book"],
                round_number=self._fields.get("round"),
            )
            self._log_kept(kept)
        self._log(self._seen.learn(statement, self._fields.get("trail"), kept))
        self._log(PeerHeads(self._store, self._member).compare_waiting(self._seen))
        if kept is not None and kept.is_kept:
            self._adopt(kept.new_lines)  # those before them were adopted as they were kept
            self._log(KeptReceipts(self._store, self._member).give_up(before=self._state.told_round + 1))
        return kept

    def take_head(self) -> None:
        """Keep the operator's head of the ledger that a round is opened on: it proves what the question says of it."""
        self._log(self._seen.take_head(self._fields.get("ledger_head")))

    def take_receipt(self) -> None:
        """Keep a receipt, and compare what it tells of the operator's key."""
        receipt, number = self._fields.get("receipt"), self._fields.get("round")
        if not isinstance(receipt, str):
            return
        number = number if type(number) is int and 0 < number <= ROUND_LIMIT else 0
        kept = KeptReceipts(self._store, self._member).keep(receipt, ledger=self._fields["book"], round_number=number)
        self._log([f"round {number or '?'}: {kept}", *self._seen.compare_receipt(receipt)])

    @property
    def went_back(self) -> str:
        """Why the head that came shows an older ledger than this member was shown before; empty if it does not."""
        return self._seen.went_back

    def latest_head(self, key: NodeKey) -> str:
        """The latest entry that the operator showed, signed for the operator, so that its ledger cannot lose it."""
        head = self._seen.latest(self._state.told_round)
        return "" if head is None else json.dumps(head.signed(key).to_document())

    def signed_head(self, key: NodeKey) -> str:
        """The last entry that the operator showed this member, signed for the others; empty if there is none."""
        head = self._seen.head(self._state.told_round)
        return "" if head is None else json.dumps(head.signed(key).to_document())

    def _log_kept(self, kept: Kept) -> None:
        """What the operator signed is logged, and beside it what it only says."""
        for line in kept.new_lines[-MOST_LINES:]:
            self._store.log(printable(f"the statement says of entry {line.entry}: {line.text}", limit=LONGEST_OUTCOME))
        outcome, number = self._fields.get("outcome"), self._fields.get("round")
        if not isinstance(outcome, str):
            self._store.log(kept.line)
            return
        told = printable(f"round {number if type(number) is int else '?'}: {outcome}", limit=LONGEST_OUTCOME)
        self._store.log(f"{told}; {kept.line}" if kept.is_kept else f"{kept.line}; told with it: {told}")
        if difference := contradicts(kept.new_lines, number, outcome):
            self._store.log(f"{ERROR} {difference}. The statement counts")

    def _log(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._store.log(line)
