"""A verification in progress: the ledger as replayed so far, what was found and what was counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from commonweal.ledger.canonical import first_difference
from commonweal.ledger.entries import Posting
from commonweal.ledger.printable import printable
from commonweal.ledger.reports import ReportBasis
from commonweal.ledger.settled_again import Settlement
from commonweal.ledger.state import LedgerState
from commonweal.records import Decision, Figures, Instructions, PairedGain, Rules

_LENGTH_LIMIT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedInputs:
    """What a settled round was decided from, and the mechanism's state before it."""

    round_number: int
    version: str  # of the rules
    figures: Figures
    rules: Rules
    grace: bool
    sample_counts: Mapping[str, int]
    active: tuple[str, ...] | None  # with whom the next round was planned; None: it was not
    state: Mapping[str, Any]
    harmful: tuple[str, ...] = ()  # eliminated whatever their profit
    finished: bool = False  # the federation ended, and nobody was eliminated for a loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """A settled round, decided again."""

    decision: Decision
    state: Mapping[str, Any]  # the mechanism's after it
    instructions: Instructions | None  # for the next round; None: the mechanism plans nothing


Recompute = Callable[[RecordedInputs], Recomputed]
"""Decides a round again. Raises for an unknown version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One rule that an entry breaks; as a note, something that is odd but allowed."""

    entry: int  # 0: rows that cannot belong to any entry
    rule: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"entry {self.entry}: {self.rule}: expected {self.expected}, found {self.found}"


class Findings:
    """Everything found so far. A verification reports all findings, not only the first."""

    def __init__(self) -> None:
        self._found: list[Finding] = []

    def add(self, entry: int, rule: str, expected: str, found: str) -> None:
        self._found.append(Finding(entry=entry, rule=_shown(rule), expected=_shown(expected), found=_shown(found)))

    def compare(self, entry: int, rule: str, expected: Any, found: Any) -> bool:
        """Whether both are the same; if not, the first difference is a finding."""
        difference = first_difference(expected, found)
        if difference is None:
            return True
        path, wanted, got = difference
        self.add(entry, rule, f"{path} {wanted}".strip(), got)
        return False

    def all(self) -> tuple[Finding, ...]:
        return tuple(self._found)


@dataclass(frozen=True, slots=True)
class PastEntry:
    """What a reversal needs to know about the entry it reverses."""

    kind: str
    postings: tuple[Posting, ...]


@dataclass(slots=True)
class DividedWithout:
    """Income that was divided while a round was reversed."""

    entry: int
    round_number: int
    settled_again: int | None = None  # the entry that settled the round afterwards


@dataclass(frozen=True, slots=True)
class NotAsked:
    """A member that had left when an amendment was entered, so that its signature was not needed."""

    entry: int
    client: str
    left_in: int  # the round


@dataclass(slots=True, kw_only=True)
class LedgerReplay:
    """What the checks of an entry read and update."""

    recompute: Recompute
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    state: LedgerState = field(default_factory=LedgerState)
    findings: Findings = field(default_factory=Findings)  # what is wrong
    notes: Findings = field(default_factory=Findings)  # what is odd but allowed
    past: dict[int, PastEntry] = field(default_factory=dict)  # by number
    operators: list[str] = field(default_factory=list)  # public keys, the first one first
    retired: dict[str, int] = field(default_factory=dict)  # earlier keys → the entry that changed the key
    mechanism_states: dict[tuple[str, int], Mapping[str, Any]] = field(default_factory=dict)  # by version and round
    plans: dict[int, Instructions] = field(default_factory=dict)  # by the round after which they were stated
    gain_tables: dict[int, Mapping[str, PairedGain]] = field(default_factory=dict)  # by round
    settlements: dict[int, list[Settlement]] = field(default_factory=dict)  # by round, reversed ones included
    divided_without: list[DividedWithout] = field(default_factory=list)
    not_asked: list[NotAsked] = field(default_factory=list)
    bases: dict[int, dict[str, list[ReportBasis]]] = field(default_factory=dict)  # by round and client
    models: dict[int, str] = field(default_factory=dict)  # by round, as last settled: the hash that its reports name
    round_count: int = 0  # decisions that were recomputed
    signed_reports: int = 0
    unsigned_reports: int = 0


def _shown(text: str) -> str:
    """Short, and without control characters: a tampered entry may contain anything."""
    return printable(text if len(text) <= _LENGTH_LIMIT else text[: _LENGTH_LIMIT - 1] + "…")
