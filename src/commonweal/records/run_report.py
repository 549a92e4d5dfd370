"""The records of a run report: a federation's history with everything that a reader is shown. All frozen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from commonweal.records.advice import Advice
from commonweal.records.rates import ProfitsRule
from commonweal.records.rounds import DecisionMap, MuRange, RoundRecord, Rules

Outcome = Literal["all-rounds", "too-few-clients", "finished"]


OUTSIDE = "the outside"
"""Who pays or receives money that is not a client's, where a mechanism deals with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure with its standard error."""

    value: float
    standard_error: float | None  # None: unknown; 0.0: exact, or all bootstrap draws agree


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricName:
    """What models are measured by, in words."""

    name: str = "accuracy"  # as scenarios write it
    label: str = "accuracy"  # for readers, in running text and on axes
    higher_is_better: bool = True
    is_share: bool = True  # shown as a percentage


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something a reader of a round should know, such as a pool that ran dry."""

    kind: str  # e.g. "pool-dry"; kinds are listed in docs/reference/history-json.md
    client: str | None
    text: str  # one sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedFigures:
    """What a client's profit follows from where it is not used as measured, beside what was measured."""

    measured_gain: Estimate | None  # in the metric, over the model that opened the round; None: cannot be measured
    used_gain: float  # pooled over clients
    measured_profit: Estimate | None  # had the profit been used as measured; None: private
    expected_gain: float | None = None  # this and the next: of the next round; None: not forecast
    expected_profit: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRound:
    """One client's round in figures. Amounts are in units of utility."""

    sample_count: int  # declared as new this round
    training_count: int  # in total so far
    validation_count: int  # in total so far
    step_count: int | None  # mini-batches trained in the round; None: private
    accuracy: Estimate  # the metric of the round's model on its validation samples; NaN if it cannot be measured
    previous_accuracy: float  # the metric of the model before, from which a gain is measured; NaN as above
    utility: Estimate | None  # None: private, like the cost
    cost: float | None
    profit: Estimate  # as reported
    contribution: Estimate  # as measured, before any rule
    share: Estimate | None  # this and the next two: None if it was eliminated
    payoff: Estimate | None
    transfer: Estimate | None
    sentence: str  # why it is retained or eliminated, and the μ at which it is (or would be) retained
    stays_for_mu: tuple[MuRange, ...] | None  # None: a grace round, no mu, or too many breakpoints
    alone: Estimate | None = None  # the metric of the model that it trains alone; None: it trains none
    alone_cost: float | None = None  # what it would have spent alone; None: it trains none, or this is private
    advantage: Estimate | None = None  # accuracy − alone, with the error of the difference
    used: UsedFigures | None = None  # None: the profit is used as measured
    actual_profit: Estimate | None = None  # what it made, where it is known and the profit is another one


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismFacts:
    """What readers are told of the mechanism."""

    description: str  # its label with the fidelity, mu and parameters
    fidelity: str | None  # how much of its source it implements; None: it has no source
    reads: tuple[str, ...]  # which figures of a round
    decides: tuple[str, ...]  # about the next round, apart from who stays
    not_carried_out: tuple[str, ...]  # of these
    takes_mu: bool
    honours: tuple[str, ...]  # which of the common rules


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """One round with everything that a reader is shown."""

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
    """A federation's history with everything that a reader is shown: the content of history.json and the HTML page."""

    name: str
    description: str
    sentence: str  # the outcome in a few sentences
    settings: Mapping[str, str]  # what was run, for people: seed, model, algorithm, ...
    scenario: Mapping[str, object]  # the whole scenario, for programs
    rules: Rules
    clients: tuple[str, ...]  # all clients that were ever in the federation
    client_facts: Mapping[str, Mapping[str, str]]  # for people: source, samples per round, costs, defect
    declared: tuple[str, ...]  # figures that clients state themselves; all others are measured or derived
    round_count: int  # planned; fewer are run if at most one client is left
    rounds: tuple[RoundReport, ...]
    tsw: tuple[Estimate, ...]  # after each completed round
    tsfi: tuple[Estimate, ...]
    tsfi_final_set: tuple[Estimate, ...]
    durations: Mapping[str, int]
    eliminated_after: Mapping[str, int | None]  # the round; None: never
    withdrawn_after: Mapping[str, int]  # of those who left of their own accord
    total_payoffs: Mapping[str, Estimate]
    total_transfers: Mapping[str, Estimate]
    warnings: tuple[str, ...]  # sentences: rationality failed, node limit reached, ...
    metric: MetricName = MetricName()
    utility: str = "gain"  # what utility is measured from: gain over the last round, or advantage over training alone
    figures: str = "measured"  # which gains profits follow from
    profits: ProfitsRule = "private"  # what they follow from: what each client alone knows, or agreed rates
    mechanism: MechanismFacts | None = None  # None: written by an earlier version
    advice: Advice | None = None  # who gains by federating; None: nobody trains alone

    @property
    def welfare_of_all(self) -> float:
        """Σ profit of all who took part, over all rounds: TSW with the losses of clients in the round they left in."""
        return math.fsum(profit for each in self.rounds for profit in each.record.decision.figures.profits.values())

    @property
    def outcome(self) -> Outcome:
        """How the federation ended."""
        if self.rounds and self.rounds[-1].record.decision.finished:
            return "finished"
        is_short = len(self.rounds) < self.round_count
        return "too-few-clients" if is_short and len(self.clients) - len(self.left_after) < 2 else "all-rounds"

    @property
    def harmful_after(self) -> dict[str, int]:
        """The last round of each client that was eliminated as harmful."""
        return {client: each.number for each in self.rounds for client in each.record.decision.harmful}

    def fate_of(self, client: str) -> str:
        """ "stayed", or how and after which round it left."""
        if client in self.withdrawn_after:
            return f"withdrew after round {self.withdrawn_after[client]}"
        after = self.eliminated_after[client]
        how = "eliminated as harmful" if client in self.harmful_after else "eliminated"
        return "stayed" if after is None else f"{how} after round {after}"

    @property
    def left_after(self) -> dict[str, int]:
        """The last round of each client that was eliminated or withdrew."""
        eliminated = {client: after for client, after in self.eliminated_after.items() if after is not None}
        return eliminated | dict(self.withdrawn_after)

    @property
    def actual_payoffs(self) -> dict[str, float]:
        """What each client made by its own figures over all its rounds, with its transfers, where that is known."""
        payoffs: dict[str, list[float]] = {}
        unknown = set()
        for each in self.rounds:
            transfers = each.record.decision.all_transfers
            for client, figures in each.clients.items():
                if figures.actual_profit is None:
                    unknown.add(client)
                else:
                    payoffs.setdefault(client, []).append(figures.actual_profit.value + transfers.get(client, 0.0))
        return {client: math.fsum(amounts) for client, amounts in payoffs.items() if client not in unknown}

    @property
    def payments(self) -> tuple[tuple[int, str, str, float], ...]:
        """Who paid whom how much, as (round, payer, receiver, amount); each payer pays all receivers in proportion."""
        flows: list[tuple[int, str, str, float]] = []
        for held in self.rounds:
            decision = held.record.decision
            transfers = decision.all_transfers | ({OUTSIDE: decision.external} if decision.external else {})
            received = math.fsum(amount for amount in transfers.values() if amount > 0)
            for payer, paid in transfers.items():
                for receiver, amount in transfers.items():
                    if paid < 0 < amount:
                        flows.append((held.number, payer, receiver, -paid * amount / received))
        return tuple(flows)
