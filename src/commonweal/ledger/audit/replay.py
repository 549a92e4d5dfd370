"""An audit under way: the book as it stands so far, and what was found and counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from commonweal.ledger.audit.findings import Findings
from commonweal.ledger.entries import Posting
from commonweal.ledger.state import LedgerState
from commonweal.records import Decision, Figures, Rules

Recompute = Callable[[str, Figures, Rules, bool], Decision]
"""The mechanism of a version of the rules: (version, figures, rules, grace) → decision; raises for an unknown one."""


@dataclass(frozen=True, slots=True)
class PastEntry:
    """What a reversal has to know of an entry."""

    kind: str
    postings: tuple[Posting, ...]


@dataclass(slots=True, kw_only=True)
class Replay:
    """What the checks of an entry read, and add to."""

    recompute: Recompute
    state: LedgerState = field(default_factory=LedgerState)
    findings: Findings = field(default_factory=Findings)
    past: dict[int, PastEntry] = field(default_factory=dict)  # by number
    operators: list[str] = field(default_factory=list)  # public keys, the first one first
    round_count: int = 0  # decisions that were made again
    signed_reports: int = 0
    unsigned_reports: int = 0
