"""What a question brings that the operator signed: statement, trail, head and receipt are taken in before all else.

A question may be malformed or go back, and is refused then. What came with it is kept, logged, compared and adopted all
the same, or an operator could hand out evidence that leaves no trace.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from commonweal.ledger.member_documents import ROUND_LIMIT
from commonweal.ledger.node_keys import NodeKey
from commonweal.records.statement import StatementLine
from commonweal.remote.member.kept_statements import Kept, count_statements, keep_statement, kept_lines, renew_account
from commonweal.remote.member.member_file import Member
from commonweal.remote.member.peer_heads import PeerHeads
from commonweal.remote.member.receipts import KeptReceipts
from commonweal.remote.member.seen_entries import SeenEntries
from commonweal.remote.member.settled_rounds import adopt_stated
from commonweal.remote.member.store import ERROR, MemberState, MemberStore
from commonweal.remote.member.told_rounds import contradicts
from commonweal.remote.messages.message import printable

LONGEST_OUTCOME = 1000  # characters of it in the log, and of a line of a statement
MOST_LINES = 10  # new lines of a statement in the log: the last ones


class Evidence:
    """The evidence in one question; the member's folder is locked. Only the names of client and ledger are checked."""

    def __init__(self, store: MemberStore, member: Member, state: MemberState, fields: Mapping[str, Any]) -> None:
        self._store = store
        self._member = member
        self._state = state
        self._fields = fields
        self._seen = SeenEntries(store, member, fields["book"])

    def catch_up(self) -> None:
        """Compare and adopt what statements that are kept show: the program may have been killed before it could."""
        count = count_statements(self._store)
        if (self._state.adopted_statements or 0) < count:
            renew_account(self._store, self._member, self._fields["book"])
            self._log(self._seen.catch_up())
            self._adopt(kept_lines(self._store, self._member, self._fields["book"]))
        self._state.adopted_statements = count

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
