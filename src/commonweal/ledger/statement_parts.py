"""A part of a client's statement: the lines that are new, and a running hash over all lines up to them.

hash of no lines = 64 zeros
hash of n lines  = SHA-256 of the canonical JSON of {"previous": <hash of the first n − 1>, "line": <line n>}

A line is hashed without its `text`, which is for people: versions may word it differently. Whole statements do not have
`kind` and `round`, so they are not hashed either. What they tell is in the entries, which the head covers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commonweal.ledger.canonical import Document, canonical, hash_of
from commonweal.ledger.chain import documents
from commonweal.ledger.entries import BEFORE_THE_FIRST
from commonweal.ledger.keys import SigningKey
from commonweal.ledger.readable import readable
from commonweal.ledger.signed_files import (
    STATEMENT_FORMAT,
    STATEMENT_PART_FORMAT,
    SignedDocument,
    read_signed,
    signed_content,
    signed_in,
)
from commonweal.ledger.state import LedgerState
from commonweal.ledger.statements import (
    EntryFacts,
    complete,
    faults_of,
    faults_of_signature,
    faults_of_sums,
    heading_and_lines,
    line_of,
    statement_in,
    statement_of,
    whole_statement_in,
)
from commonweal.ledger.store import Store
from commonweal.records.statement import Statement, StatementLine

STATEMENT_FORMATS = (STATEMENT_FORMAT, STATEMENT_PART_FORMAT)
_FACTS = ("entry", "at", "profit", "contribution", "share", "payoff", "transfer")
_AMOUNTS = ("amount", "accrued", "balance", "accrued_balance")  # as decimal strings, as everywhere in signed documents
_GAINS = ("measured_gain", "used_gain", "expected_gain")  # where there are any


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesSoFar:
    """What a client's first lines come to."""

    count: int = 0
    hash: str = BEFORE_THE_FIRST  # over all of them
    balance: int = 0  # after the last one, like `accrued`
    accrued: int = 0

    def then(self, lines: Iterable[StatementLine]) -> LinesSoFar:
        """With these lines after them; the balances are those that the lines state."""
        so_far = self
        for line in lines:
            so_far = LinesSoFar(
                count=so_far.count + 1,
                hash=hash_of(canonical({"previous": so_far.hash, "line": _hashed(line)})),
                balance=line.balance,
                accrued=line.accrued_balance,
            )
        return so_far

    def to_document(self) -> Document:
        return {"count": self.count, "hash": self.hash, "balance": str(self.balance), "accrued": str(self.accrued)}

    @classmethod
    def from_document(cls, given: Mapping[str, Any]) -> LinesSoFar:
        """Raises KeyError, TypeError or ValueError if it is none."""
        count, digest = given["count"], given["hash"]
        if type(count) is not int or count < 0 or re.fullmatch("[0-9a-f]{64}", digest) is None:
            raise ValueError("a number of lines and their hash")
        return cls(count=count, hash=digest, balance=int(given["balance"]), accrued=int(given["accrued"]))


def _hashed(line: StatementLine) -> Document:
    facts = {name: getattr(line, name) for name in _FACTS} | {name: str(getattr(line, name)) for name in _AMOUNTS}
    return facts | {name: gain for name in _GAINS if (gain := getattr(line, name)) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementPart:
    """Lines of a statement, and what the lines before them and all lines up to the last one come to.

    A whole statement is the part that starts with the first line.
    """

    statement: Statement  # with the lines of this part
    before: LinesSoFar
    after: LinesSoFar

    @classmethod
    def whole(cls, statement: Statement) -> StatementPart:
        return cls(statement=statement, before=LinesSoFar(), after=LinesSoFar().then(statement.lines))


def part_document(part: StatementPart, key_rotations: Iterable[Document]) -> Document:
    """The part as it is signed."""
    return {
        "format": STATEMENT_PART_FORMAT,
        **heading_and_lines(part.statement, is_whole=False),
        "before": part.before.to_document(),
        "after": part.after.to_document(),
        "key_rotations": list(key_rotations),
    }


def read_part(path: Path) -> tuple[StatementPart, SignedDocument]:
    """The statement or the part of one in a file, whether or not it is valid."""
    signed = read_signed(path, STATEMENT_FORMATS)
    return _part_in(signed.document, path), signed


def part_in(content: bytes, source: str) -> tuple[StatementPart, SignedDocument]:
    """As `read_part`, from the content of a file; `source` names it in errors."""
    signed = signed_in(content, source, STATEMENT_FORMATS)
    return _part_in(signed.document, source), signed


def _part_in(given: Mapping[str, Any], source: Path | str) -> StatementPart:
    with complete(source):
        if given["format"] == STATEMENT_FORMAT:
            return StatementPart.whole(whole_statement_in(given))
        before, after = LinesSoFar.from_document(given["before"]), LinesSoFar.from_document(given["after"])
        totals = (given["after"]["balance"], given["after"]["accrued"])
        return StatementPart(statement=statement_in(given, totals=totals), before=before, after=after)


def faults_of_part(part: StatementPart, signed: SignedDocument, key: str) -> list[str]:
    """What is wrong with a statement or a part of one, given the operator's public key; empty if nothing is."""
    statement, before = part.statement, part.before
    if signed.document["format"] == STATEMENT_FORMAT:
        return faults_of(statement, signed, key)
    found = faults_of_signature(statement, signed, key)
    found += faults_of_sums(statement.lines, balance=before.balance, accrued=before.accrued)
    if before.then(statement.lines) != part.after or (not before.count and before != LinesSoFar()):
        found.append("its number of lines, running hash or balance does not follow from its lines")
    return found


class MemberLines:
    """The lines of all members of a ledger, or of these. They keep up with the ledger: every entry is read once."""

    def __init__(self, store: Store, clients: Collection[str] | None = None) -> None:
        self._store = store
        self._clients = clients
        self.state = LedgerState()
        self._key_rotations: list[Document] = []
        self._lines: dict[str, list[StatementLine]] = {}
        self._so_far: dict[str, list[LinesSoFar]] = {}  # after 0, 1, 2, ... lines

    def catch_up(self, *, last: int | None = None) -> None:
        """Read the entries that were added since the last time, up to entry `last` or the ledger's last one."""
        for document, entry in documents(self._store, "a statement", after=self.state):
            if last is not None and entry.number > last:
                break
            with readable(entry.number, "a statement"):
                self.state.apply(document, entry.hash)
            if document["kind"] == "key-rotation":
                self._key_rotations.append({"content": entry.content, "signature": entry.signature})
            facts = EntryFacts(document)
            for client in self.state.members:
                if self._clients is not None and client not in self._clients:
                    continue
                lines = self._lines.setdefault(client, [])
                with readable(entry.number, "a statement"):
                    line = line_of(document, client, self.state, lines, facts)
                if line is not None:
                    lines.append(line)
                    so_far = self._so_far.setdefault(client, [LinesSoFar()])
                    so_far.append(so_far[-1].then([line]))

    def part(self, client: str, *, since: int, at: str) -> StatementPart:
        """The client's lines after its first `since`; all of them if there are not as many."""
        lines, so_far = self._lines.get(client, []), self._so_far.get(client, [LinesSoFar()])
        first = since if 0 <= since <= len(lines) else 0
        statement = statement_of(self.state, client, lines[first:], at=at)
        return StatementPart(statement=statement, before=so_far[first], after=so_far[-1])

    def signed_part(self, client: str, key: SigningKey, *, since: int, at: str) -> bytes:
        """The content of a file with this part; the key is the operator's in this state of the ledger."""
        return signed_content(part_document(self.part(client, since=since, at=at), self._key_rotations), key)
