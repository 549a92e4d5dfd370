"""The nouns of a run report: a federation's history with all that a reader is shown. All frozen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from commonweal.records.rounds import DecisionMap, MuRange, RoundRecord, Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure with its standard error."""

    value: float
    standard_error: float | None  # None: not known; 0.0: exact, or no validation sample spoke against it


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something a reader of a round should know, such as a pool that ran dry."""

    kind: str  # e.g. "pool-dry"; kinds are listed in docs/reference/history-json.md
    client: str | None
    text: str  # one sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRound:
    """One client's round in figures. Amounts are in units of utility."""

    sample_count: int  # declared as new this round
    training_count: int  # held by now
    validation_count: int  # held by now
    step_count: int | None  # mini-batches it trained on in the round; None: kept private
    accuracy: Estimate  # of the round's model on its validation samples
    previous_accuracy: float  # the one its utility is measured from
    utility: Estimate | None  # None: kept private, as the cost
    cost: float | None
    profit: Estimate
    contribution: Estimate  # as measured, before any rule
    share: Estimate | None  # this and the next two: None if it was eliminated
    payoff: Estimate | None
    transfer: Estimate | None
    sentence: str  # why it stays or leaves, and for which μ it (would have) stayed
    stays_for_mu: tuple[MuRange, ...] | None  # None: a round of grace, or its μ path was too long to follow


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """One round with all that a reader is shown."""

    record: RoundRecord
    clients: Mapping[str, ClientRound]  # those that took part
    budget: Estimate
    iteration_accuracies: tuple[Mapping[str, float], ...]  # incoming model first, then after each iteration
    coalition_values: tuple[tuple[tuple[str, ...], Estimate], ...]  # v(S) of all coalitions that were evaluated
    events: tuple[Event, ...]
    decision_map: DecisionMap | None  # None as for stays_for_mu

    @property
    def number(self) -> int:
        return self.record.round_number


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """A federation's history with all that a reader is shown: what history.json and the report are made from."""

    name: str
    description: str
    sentence: str  # the outcome in one sentence
    settings: Mapping[str, str]  # what was run, for people: seed, model, algorithm, ...
    scenario: Mapping[str, object]  # the whole scenario, for programs
    rules: Rules
    clients: tuple[str, ...]  # all that ever were members
    client_facts: Mapping[str, Mapping[str, str]]  # for people: source, samples a round, costs, defect
    declared: tuple[str, ...]  # figures that are the clients' own word; all others were measured or follow
    round_count: int  # planned; fewer rounds were held if at most one client was left
    rounds: tuple[RoundReport, ...]
    tsw: tuple[Estimate, ...]  # after each round held
    tsfi: tuple[Estimate, ...]
    tsfi_final_set: tuple[Estimate, ...]
    durations: Mapping[str, int]
    eliminated_after: Mapping[str, int | None]  # the round; None: never
    withdrawn_after: Mapping[str, int]  # of those who left of their own accord
    total_payoffs: Mapping[str, Estimate]
    total_transfers: Mapping[str, Estimate]
    warnings: tuple[str, ...]  # sentences: rationality failed, node limit reached, ...

    @property
    def departed_after(self) -> dict[str, int]:
        """The last round of everybody who left, let go or withdrawn."""
        eliminated = {client: after for client, after in self.eliminated_after.items() if after is not None}
        return eliminated | dict(self.withdrawn_after)

    @property
    def payments(self) -> tuple[tuple[int, str, str, float], ...]:
        """Who paid whom how much: (round, payer, receiver, amount), each payer serving receivers in proportion."""
        flows: list[tuple[int, str, str, float]] = []
        for held in self.rounds:
            transfers = held.record.decision.transfers
            received = math.fsum(amount for amount in transfers.values() if amount > 0)
            for payer, paid in transfers.items():
                for receiver, amount in transfers.items():
                    if paid < 0 < amount:
                        flows.append((held.number, payer, receiver, -paid * amount / received))
        return tuple(flows)
