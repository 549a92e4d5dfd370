"""A verification in progress: the ledger as replayed so far, what was found and what was counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from commonweal.ledger.amendments import quorum_of, signing_members
from commonweal.ledger.canonical import first_difference
from commonweal.ledger.directions import by_direction, gains_in, is_gain_if_it_rises, metric_of
from commonweal.ledger.entries import Posting
from commonweal.ledger.printable import printable
from commonweal.ledger.reports import bases_in
from commonweal.ledger.settled_again import Settlement
from commonweal.ledger.state import LedgerState
from commonweal.records import Decision, Figures, Instructions, PairedGain, Rules
from commonweal.records.gains import table_of

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
    active: tuple[str, ...] | None  # with whom the next round is planned, if the mechanism plans; None: it was not
    state: Mapping[str, Any]
    harmful: tuple[str, ...] = ()  # eliminated whatever their profit
    finished: bool = False  # the federation ended, and nobody was eliminated for a loss


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """A settled round, decided again."""

    decision: Decision
    state: Mapping[str, Any]  # the mechanism's after it
    instructions: Instructions | None  # for the next round; None: the mechanism plans nothing


MechanismState = tuple[str, Mapping[str, Any]]
"""The version of the rules of a round, and what the mechanism remembers after it."""

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
        """Short: a tampered entry may contain anything."""
        rule, expected, found = map(_cut, (self.rule, self.expected, self.found))
        return f"entry {self.entry}: {rule}: expected {expected}, found {found}"


class Findings:
    """Everything found so far. A verification reports all findings, not only the first."""

    def __init__(self) -> None:
        self._found: list[Finding] = []

    def add(self, entry: int, rule: str, expected: str, found: str) -> None:
        texts = {"rule": rule, "expected": expected, "found": found}
        self._found.append(Finding(entry=entry, **{name: printable(text) for name, text in texts.items()}))

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """Who had to sign an amendment, and who had left before it by a round or by silence, which can be reversed."""

    entry: int
    first_round: int  # that it is in force for
    quorum: float | None  # by the terms before
    asked: frozenset[str]
    signed: set[str]  # this amendment or, if it had left, a later one
    left: Mapping[str, int]  # client → the round that it left in


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
    mechanism_states: MutableMapping[int, MechanismState] = field(default_factory=dict)  # by round as last settled
    plans: dict[int, Instructions] = field(default_factory=dict)  # by the round after which they were stated
    planned_with: dict[int, tuple[str, ...]] = field(default_factory=dict)  # by the same round
    planned_from: dict[int, RecordedInputs] = field(default_factory=dict)  # by the same round; only notes read it
    gain_tables: dict[int, Mapping[str, PairedGain]] = field(default_factory=dict)  # by round
    settlements: dict[int, list[Settlement]] = field(default_factory=dict)  # by round, reversed ones included
    late_reports: dict[tuple[str, int], dict[int, Mapping[str, Any]]] = field(default_factory=dict)
    """By client and round: entry → document of each late report, also of settlements that were reversed."""
    divided_without: list[DividedWithout] = field(default_factory=list)
    divided_by_rounds: dict[int, frozenset[int]] = field(default_factory=dict)  # by income: the rounds settled then
    votes: list[Vote] = field(default_factory=list)
    measured: dict[int, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    """By round and client: what its report rests on, in the last settlement with one, be it reversed."""
    named_settings: dict[str, int] = field(default_factory=dict)  # client → the first round with a hash of its settings
    untraced: dict[int, str] = field(default_factory=dict)
    """By round, as last settled: a client with a gain that its profit follows from, and no word of what it rests on."""
    rising_is_gain: dict[str, bool] = field(default_factory=dict)  # by metric: whether it is a gain if that rises
    models: dict[int, str] = field(default_factory=dict)  # by round, as last settled: the hash that its reports name
    round_count: int = 0  # decisions that were recomputed
    signed_reports: int = 0
    unsigned_reports: int = 0

    def remember(self, document: Mapping[str, Any], digest: str) -> None:
        """Take in an entry that was checked: later ones are checked against it. Python's own errors if damaged."""
        number, kind, body = document["number"], document["kind"], document["body"]
        if kind == "round":
            self._remember_round(number, body)
        elif kind == "realisation":
            self.divided_by_rounds[number] = frozenset(self.state.rounds)
            self.divided_without += [DividedWithout(number, round_number) for round_number in self.state.undone]
        elif kind == "amendment":
            self._remember_vote(number, body)
        elif kind == "late-report":
            self.late_reports.setdefault((body["client"], body["round"]), {})[number] = body["report"]
        self.state.apply(document, digest)

    def _remember_round(self, number: int, body: Mapping[str, Any]) -> None:
        round_number = body["round"]
        for by_round in (self.plans, self.planned_with, self.gain_tables, self.untraced):
            by_round.pop(round_number, None)  # of an earlier settlement
        if "plan" in body:
            self.plans[round_number] = Instructions.from_document(body["plan"]["instructions"])
            self.planned_with[round_number] = tuple(body["plan"]["active"])
        if "gains" in body:
            self.gain_tables[round_number] = table_of(body["gains"]["table"])
        bases = bases_in(body)
        for client, basis in bases.items():
            rests_on = {"baseline": basis.baseline, "measured": basis.measured, "settings": basis.settings}
            self.measured.setdefault(round_number, {})[client] = rests_on
            self.models[round_number] = basis.model
            if basis.settings is not None:
                self.named_settings[client] = min(round_number, self.named_settings.get(client, round_number))
        if "gains" not in body and self.state.gains_count(round_number):
            for client, gain in gains_in(body).items():
                if gain and self.state.members.get(client) and client not in bases:
                    self.untraced[round_number] = client
        rising = is_gain_if_it_rises(by_direction(gains_in(body), bases))
        if (metric := metric_of(body)) is not None and rising is not None:
            self.rising_is_gain.setdefault(metric, rising)
        for divided in self.divided_without:
            if divided.round_number == round_number and divided.settled_again is None:
                divided.settled_again = number

    def _remember_vote(self, number: int, body: Mapping[str, Any]) -> None:
        state = self.state
        signed = {row["client"] for row in body["signatures"]}
        for earlier in self.votes:
            earlier.signed.update(signed & earlier.left.keys())
        self.votes.append(
            Vote(
                entry=number,
                first_round=body["first_round"],
                quorum=quorum_of(state),
                asked=frozenset(signing_members(state)),
                signed=signed,
                left={c: left for c, left in {**state.excluded, **state.eliminated}.items() if state.members.get(c)},
            )
        )


def _cut(text: str) -> str:
    return text if len(text) <= _LENGTH_LIMIT else text[: _LENGTH_LIMIT - 1] + "…"
