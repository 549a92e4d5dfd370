"""What a question brings that the operator signed: statement, trail, head and receipt are taken in before all else.

A question may be malformed or go back, and is refused then. What came with it is kept, logged, compared and adopted all
the same, or an operator could hand out evidence that leaves no trace.

incoming.json   what came with a question, until all of that is done; after a crash it is taken in again
failed/         what could not be taken in again either, as it came, and questions that could not be read at all
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from commonweal.atomic_write import make_directory, sync_directory, write_atomically
from commonweal.errors import CommonwealError
from commonweal.ledger.canonical import hash_of
from commonweal.ledger.member_documents import ROUND_LIMIT
from commonweal.ledger.node_keys import NodeKey
from commonweal.records.statement import StatementLine
from commonweal.remote.member.contradictions import Contradictions
from commonweal.remote.member.incoming import Incoming
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
from commonweal.remote.member.question_fields import SIGNED
from commonweal.remote.member.receipts import KeptReceipts
from commonweal.remote.member.settled_rounds import adopt_stated
from commonweal.remote.member.store import ERROR, MemberState, MemberStore
from commonweal.remote.member.told_rounds import contradicts
from commonweal.remote.messages.message import printable

LONGEST_OUTCOME = 1000  # characters of it in the log, and of a line of a statement
MOST_LINES = 10  # new lines of a statement in the log: the last ones
INCOMING, FAILED = "incoming.json", "failed"
MOST_FAILED = 20  # files
UNREAD = "unread-"  # how the names of questions that could not be read start
MOST_UNREAD_BYTES = 4 * MOST_BYTES  # of all of them
_BESIDE = ("book", "round", "outcome")  # what is read of a question with them


class Evidence:
    """The evidence in one question; the member's folder is locked. Only the names of client and ledger are checked."""

    def __init__(
        self,
        store: MemberStore,
        member: Member,
        state: MemberState,
        fields: Mapping[str, Any],
        *,
        is_again: bool = False,  # after a crash
    ) -> None:
        self._is_again = is_again
        self._store = store
        self._member = member
        self._state = state
        self._fields = fields
        self._given = {name: text for name in SIGNED if (text := _as_text(fields.get(name)))}
        self.incoming = Incoming(store, member, fields["book"])
        self._contradictions = Contradictions(store)
        self._kept: Kept | None = None

    def catch_up(self) -> None:
        """Finish what the program was killed in: adopt the statements that are kept, and take in again what came."""
        self._log(self._contradictions.unlogged())
        self._contradictions.mark_logged()
        count = count_statements(self._store)
        if (self._state.adopted_statements or 0) < count:
            renew_account(self._store, self._member, self._fields["book"])
            self._log(self.incoming.catch_up())
            self._adopt(kept_lines(self._store, self._member, self._fields["book"]))
            self.incoming = Incoming(self._store, self._member, self._fields["book"])  # what came before is not news
        self._state.adopted_statements = count
        if self._state.book is not None:
            self._take_again()

    def take(self, kind: str) -> Kept | None:
        """Take in all that came with a question of this kind; returns what became of its statement, if there is one."""
        self.remember(kind)
        self._take()
        self.forget()
        return self._kept

    def remember(self, kind: str) -> None:
        """Write what came to the disk: otherwise a crash between keeping and logging it would hide it."""
        signed = {name: text for name, text in self._given.items() if len(text) <= MOST_BYTES}
        if signed:
            beside = {name: self._fields[name] for name in _BESIDE if name in self._fields}
            content = json.dumps({"kind": kind, **beside, **signed}).encode()
            write_atomically(self._store.path / INCOMING, content, what="what came with a question")

    def forget(self) -> None:
        """All that came is kept, compared and logged."""
        self._contradictions.mark_logged()
        (self._store.path / INCOMING).unlink(missing_ok=True)

    def _take_again(self) -> None:
        given = None
        with suppress(OSError, ValueError):
            given = json.loads((self._store.path / INCOMING).read_bytes())
        if isinstance(given, dict) and given.get("book") == self._fields["book"]:
            self._store.log("what came with a question before was not all kept, compared and logged: done again")
            try:
                Evidence(self._store, self._member, self._state, given, is_again=True)._take()
            except Exception as error:  # not for ever: questions must be answered
                self._store.log(f"{ERROR} {_reason(error)}; what came is {self._set_aside()}")
                self._log(self._contradictions.unlogged())
            self.incoming = Incoming(self._store, self._member, self._fields["book"])
        self.forget()

    def _set_aside(self) -> str:
        """Keep what could not be taken in, as long as there is room; returns what became of it."""
        file = self._store.path / INCOMING
        digest = hash_of(file.read_bytes())
        aside = self._store.path / FAILED / f"{digest[:32]}.json"
        if len(list(aside.parent.glob("*.json"))) >= MOST_FAILED:
            return f"not kept, since there are {MOST_FAILED} files in {FAILED}; SHA-256 {digest}"
        make_directory(aside.parent)
        file.replace(aside)
        sync_directory(aside.parent)
        return f"kept as {FAILED}/{aside.name}"

    def _take(self) -> None:
        """Take in each document, even if one before it makes the program fail: none must hide another."""
        failures: list[Exception] = []
        for take in (self._take_statement, self._take_trail, self._adopt_kept, self._take_head, self._take_receipt):
            try:
                take()
            except Exception as error:
                failures.append(error)
        for failure in failures[1:]:
            self._store.log(f"{ERROR} {_reason(failure)}")
        if failures:
            raise failures[0]

    def _adopt(self, lines: Sequence[StatementLine]) -> None:
        said = (self._fields.get("settled_round"), self._fields.get("settled_attempt"))
        adopt_stated(self._store, self._state, lines, said)
        self._state.adopted_statements = count_statements(self._store)
        self._store.save(self._state)

    def _take_statement(self) -> None:
        """Keep the statement that closes a round."""
        if "statement" in self._given:
            self._kept = keep_statement(
                self._store,
                self._member,
                self._given["statement"],
                ledger=self._fields["book"],
                round_number=self._fields.get("round"),
            )
            self._log_kept(self._kept)

    def _take_trail(self) -> None:
        """Learn the entries that the statement and its trail name."""
        if "statement" in self._given or "trail" in self._given:
            self._log(self.incoming.learn(self._given.get("statement"), self._given.get("trail"), self._kept))
            self._log(PeerHeads(self._store, self._member).compare_waiting(self.incoming.seen))

    def _adopt_kept(self) -> None:
        """Adopt what the statement shows settled."""
        if self._kept is not None and self._kept.is_kept:
            self._adopt(self._kept.new_lines)  # those before them were adopted as they were kept
            self._log(KeptReceipts(self._store, self._member).give_up(before=self._state.told_round + 1))

    def _take_head(self) -> None:
        """Keep the operator's head of the ledger that a round is opened on: it proves what the question says of it."""
        if "ledger_head" in self._given:
            self._log(self.incoming.take_head(self._given["ledger_head"]))

    def _take_receipt(self) -> None:
        """Keep a receipt, and compare what it tells of the operator's key."""
        receipt, number = self._given.get("receipt"), self._fields.get("round")
        if receipt is None:
            return
        number = number if type(number) is int and 0 < number <= ROUND_LIMIT else 0
        kept = KeptReceipts(self._store, self._member).keep(receipt, ledger=self._fields["book"], round_number=number)
        self._log([f"round {number or '?'}: {kept}", *self.incoming.compare_receipt(receipt)])

    def latest_head(self, key: NodeKey) -> str:
        """The latest entry that the operator showed, signed for the operator, so that its ledger cannot lose it."""
        head = self.incoming.seen.latest(self._state.told_round)
        return "" if head is None else json.dumps(head.signed(key).to_document())

    def signed_head(self, key: NodeKey) -> str:
        """The last entry that the operator showed this member, signed for the others; empty if there is none."""
        head = self.incoming.seen.head(self._state.told_round)
        return "" if head is None else json.dumps(head.signed(key).to_document())

    def _log_kept(self, kept: Kept) -> None:
        """What the operator signed is logged, and beside it what it only says."""
        lines = kept.lines_again if self._is_again and not kept.new_lines else kept.new_lines
        for line in lines[-MOST_LINES:]:
            self._store.log(printable(f"the statement says of entry {line.entry}: {line.text}", limit=LONGEST_OUTCOME))
        outcome, number = self._fields.get("outcome"), self._fields.get("round")
        if not isinstance(outcome, str):
            self._store.log(kept.line)
            return
        told = printable(f"round {number if type(number) is int else '?'}: {outcome}", limit=LONGEST_OUTCOME)
        self._store.log(f"{told}; {kept.line}" if kept.is_kept else f"{kept.line}; told with it: {told}")
        if difference := contradicts(lines, number, outcome):
            self._store.log(f"{ERROR} {difference}. The statement counts")

    def _log(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._store.log(line)


def keep_failed(store: MemberStore, content: bytes) -> str:
    """Keep a question that nothing can be read of, as long as there is room; returns what became of it.

    These have a room of their own: they may be anything.
    """
    folder, digest = store.path / FAILED, hash_of(content)
    file, alike = folder / f"{UNREAD}{digest[:32]}.txt", list(folder.glob(f"{UNREAD}*.txt"))
    if not file.exists():
        if len(alike) >= MOST_FAILED or sum(each.stat().st_size for each in alike) + len(content) > MOST_UNREAD_BYTES:
            room = f"it has {len(content)} bytes, and there are {len(alike)} such files in {FAILED}"
            return f"not kept, since {room}; SHA-256 {digest}"
        make_directory(folder)
        write_atomically(file, content, what="a question that cannot be read")
    return f"kept as {FAILED}/{file.name}"


def _as_text(value: object) -> str:
    """What stands in the place of a signed text; if it is something else, it is doubted and kept as text, too."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, default=str)
    except (ValueError, RecursionError):
        return f"{type(value).__name__} that cannot be written down"


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, CommonwealError) else f"what came cannot be taken in ({error!r})"
