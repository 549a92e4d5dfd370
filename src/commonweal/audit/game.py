"""A round as a liar sees it: from what the clients report to who stays and who pays whom.

A game knows only reports. A liar's true profit does not depend on what it reports, so the difference between two
transfers is the difference between two true payoffs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

from commonweal.decision.mechanism import Mechanism, RoundView, State, decide_view, view_of
from commonweal.decision.returned import checked_state
from commonweal.records import Decision, Figures, Rates
from commonweal.valuation.profit import utility
from commonweal.valuation.rates import rated_cost, rated_profit

ROUNDING = 1e-9
"""Gains up to this share of the round's Σ|profit| count as none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedFigures:
    """What the profits of a round follow from where rates were agreed on, and what clients really made."""

    rates: Mapping[str, Rates]
    gains: Mapping[str, float]  # in the metric
    made: Mapping[str, float]  # by what each client alone knows, in units of utility
    expected_gains: Mapping[str, float] | None = None  # of the next round, where selection goes by it
    is_advantage: bool = False  # gains are over the model that a client trains alone


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRound:
    """The true figures of one round, and what else its decision depends on."""

    number: int
    figures: Figures
    spares_losses: bool = False  # nobody can be eliminated for a loss: a grace round, or the last one
    sample_counts: Mapping[str, int] = field(default_factory=dict)
    replication: int = 1
    rated: RatedFigures | None = None  # None: profits are reports

    @property
    def made(self) -> Mapping[str, float]:
        """The true profits."""
        return self.figures.profits if self.rated is None else self.rated.made


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The lowest and the highest profit that a client may report, in units of utility."""

    low: float
    high: float

    def around(self, profit: float) -> Bounds:
        """The same, wide enough for this profit."""
        return Bounds(low=min(self.low, profit), high=max(self.high, profit))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one client reports. Only what the figures have is there."""

    profit: float
    expected: float | None = None  # profit of the next round, where selection goes by it
    utility: float | None = None  # where the mechanism reads it; profit = utility − cost
    cost: float | None = None
    sample_count: int | None = None
    metric: float | None = None  # of the round's model at the client, where the mechanism reads it
    gain: float | None = None  # this and the next: in the metric, where profits follow from agreed rates
    expected_gain: float | None = None

    def with_profit(self, profit: float, expected: float | None = None) -> Report:
        """The report with another profit; of the next round `expected`, or the same. The utility is what fits."""
        return replace(
            self,
            profit=profit,
            expected=None if self.expected is None else profit if expected is None else expected,
            utility=None if self.utility is None else self.utility + profit - self.profit,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What a report does for the client that sends it."""

    stays: bool
    transfer: float  # in units of utility, with what an eliminated client is charged


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everybody's fate, by client."""

    fates: Mapping[str, Fate]

    @property
    def retained(self) -> tuple[str, ...]:
        return tuple(client for client, fate in self.fates.items() if fate.stays)

    @property
    def money_moved(self) -> float:
        """What clients pay, to one another or to the outside, or what they receive if that is more."""
        transfers = [fate.transfer for fate in self.fates.values()]
        paid = math.fsum(-one for one in transfers if one < 0)
        return max(paid, math.fsum(one for one in transfers if one > 0))


class Game(Protocol):
    """The decision on a round as a function of what clients report."""

    @property
    def clients(self) -> tuple[str, ...]: ...
    @property
    def scale(self) -> float:
        """Σ|profit|, in which rounding is measured."""
        ...

    def report_of(self, client: str) -> Report:
        """What the client reports now."""
        ...

    def outcome(self) -> Outcome:
        """Everybody's fate if all report as they do now."""
        ...

    def fate(self, client: str, report: Report) -> Fate:
        """The client's fate if it reports this, and the others as they do now."""
        ...

    def with_reports(self, reports: Mapping[str, Report]) -> Game:
        """The game in which these clients report otherwise."""
        ...

    def without(self, clients: Sequence[str]) -> Game:
        """The game without these clients, who do not report."""
        ...


@dataclass(frozen=True, kw_only=True)
class DecidedGame:
    """Any mechanism's game: each question decides the round."""

    mechanism: Mechanism
    round: AuditedRound
    state: State

    @property
    def clients(self) -> tuple[str, ...]:
        return self.round.figures.clients

    @cached_property
    def scale(self) -> float:
        return math.fsum(map(abs, self.round.figures.profits.values()))

    def report_of(self, client: str) -> Report:
        return report_in(self.round, client)

    def outcome(self) -> Outcome:
        return outcome_of(self.decision)

    @cached_property
    def _view(self) -> RoundView:
        return view_of(
            self.mechanism,
            self.round.figures,
            grace=self.round.spares_losses,
            sample_counts=self.round.sample_counts,
            round_number=self.round.number,
        )

    @cached_property
    def decision(self) -> Decision:
        return decide_view(self.mechanism, self.round.figures, self._view, self.state)

    @cached_property
    def state_after(self) -> State:
        """The mechanism's, after the decision."""
        return checked_state(self.mechanism.name, self.mechanism.advance(self._view, self.state, self.decision))

    def fate(self, client: str, report: Report) -> Fate:
        return fate_in(self.with_reports({client: report}).decision, client)

    def with_reports(self, reports: Mapping[str, Report]) -> DecidedGame:
        return replace(self, round=with_reports(self.round, reports))

    def without(self, clients: Sequence[str]) -> DecidedGame:
        return replace(self, round=without(self.round, clients))


def report_in(audited: AuditedRound, client: str) -> Report:
    """What a client reports in a round."""
    figures, rated = audited.figures, audited.rated
    return Report(
        profit=figures.profits[client],
        expected=None if figures.expected is None else figures.expected[client],
        utility=figures.further.get("utility", {}).get(client),
        cost=None if figures.costs is None else figures.costs[client],
        sample_count=audited.sample_counts.get(client),
        metric=figures.further.get("metric", {}).get(client),
        gain=None if rated is None else rated.gains[client],
        expected_gain=None if rated is None or rated.expected_gains is None else rated.expected_gains[client],
    )


def heard(audited: AuditedRound, client: str, told: Report) -> Report:
    """What a mechanism makes of a report. By agreed rates, only gains and counts are listened to."""
    rated = audited.rated
    if rated is None:
        return told
    assert told.gain is not None, "where rates were agreed on, gains are known"
    assert told.sample_count is not None, "and so are counts"
    rates, count = rated.rates[client], told.sample_count

    def profit_of(gain: float) -> float:
        return rated_profit(rates, gain, count, is_advantage=rated.is_advantage)

    return replace(
        told,
        profit=profit_of(told.gain),
        expected=None if told.expected_gain is None else profit_of(told.expected_gain),
        utility=None if told.utility is None else utility(rates.gain, told.gain, 0.0),
        cost=None if told.cost is None else rated_cost(rates, count),
    )


def with_reports(audited: AuditedRound, reports: Mapping[str, Report]) -> AuditedRound:
    """The round in which these clients report otherwise."""
    figures = audited.figures

    def changed(values: Mapping[str, float], name: str) -> dict[str, float]:
        told = {client: getattr(report, name) for client, report in reports.items()}
        return {**values, **{client: value for client, value in told.items() if value is not None}}

    counts = {client: report.sample_count for client, report in reports.items() if report.sample_count is not None}
    return replace(
        audited,
        figures=replace(
            figures,
            profits=changed(figures.profits, "profit"),
            expected=None if figures.expected is None else changed(figures.expected, "expected"),
            costs=None if figures.costs is None else changed(figures.costs, "cost"),
            further={
                name: changed(values, name) if name in ("utility", "metric") else values
                for name, values in figures.further.items()
            },
        ),
        sample_counts={**audited.sample_counts, **counts},
    )


def without(audited: AuditedRound, clients: Sequence[str]) -> AuditedRound:
    """The round without these clients."""
    counts = {client: count for client, count in audited.sample_counts.items() if client not in clients}
    return replace(audited, figures=audited.figures.without(clients), sample_counts=counts)


def fate_in(decision: Decision, client: str) -> Fate:
    """A client's fate by a decision."""
    if client in decision.payoffs:
        return Fate(stays=True, transfer=decision.transfers[client])
    return Fate(stays=False, transfer=decision.charges.get(client, 0.0))


def outcome_of(decision: Decision) -> Outcome:
    """Everybody's fate by a decision."""
    return Outcome(fates={client: fate_in(decision, client) for client in decision.figures.clients})
