"""What is known of a round: first what was measured, then the whole result with its decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from commonweal.records import Estimate, Event, Figures, RoundGains, RoundRecord, Rules
from commonweal.scenario.spec import FederationPlan
from commonweal.valuation.harm import ScoredRound

if TYPE_CHECKING:  # it needs the packages of the ledger
    from commonweal.ledger.reports import ReportBasis, SignedReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMeasurement:
    """What was measured of one client in a round, apart from the figures of the decision."""

    sample_count: int
    training_count: int
    validation_count: int
    step_count: int | None  # None: kept private
    accuracy: Estimate  # the metric of the round's model; not a number if it cannot be measured
    previous_accuracy: float
    utility: Estimate | None  # None: kept private, like the cost
    cost: float | None
    profit_error: float | None  # standard errors of the decision's figures; None: not known
    contribution_error: float
    alone: Estimate | None = None  # the metric of the model that it trains alone; None: it trains none
    alone_cost: float | None = None  # what it would have spent alone; None: it trains none, or this is private
    actual_profit: Estimate | None = None  # what it made, where it is known and the decision's profit is another one
    advantage_error: float | None = None  # standard error of the difference between both models' metrics
    measured_profit: Estimate | None = None  # had the figures been used as measured; None: they were, or it is private


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRound:
    """A round before its decision. The draws are the figures in each bootstrap draw, one row per client."""

    round_number: int
    figures: Figures
    absent: tuple[str, ...]  # active, but did not answer
    measured: Mapping[str, ClientMeasurement]
    iteration_accuracies: tuple[Mapping[str, float], ...]  # of the incoming model, then after each iteration
    coalition_values: tuple[tuple[tuple[str, ...], Estimate], ...]
    events: tuple[Event, ...]
    signatures: Mapping[str, str]  # of the client reports, where clients sign for themselves
    withdrawals: Mapping[str, str]  # signed notices of clients that want to leave after this round
    profit_draws: NDArray[np.float64]
    contribution_draws: NDArray[np.float64]
    expected_draws: NDArray[np.float64] | None = None  # of the profits that selection goes by, if they are forecast
    effects: NDArray[np.float64] | None = None  # see RoundResult
    gains: RoundGains | None = None  # that the profits follow from; None: the profits are as measured
    bases: Mapping[str, ReportBasis] = field(default_factory=dict)  # of the client reports, where clients sign them
    silent: tuple[str, ...] = ()  # of the absent: they had the round's model, and did not report
    unused_reports: Mapping[str, tuple[SignedReport, ...]] = field(default_factory=dict)  # see RoundToSettle

    @property
    def sample_counts(self) -> dict[str, int]:
        """New samples that each client declared."""
        return {client: measured.sample_count for client, measured in self.measured.items()}

    @property
    def scored(self) -> ScoredRound | None:
        """What the clients' samples say of one another; None where contributions are not computed scorer by scorer."""
        return _scored(self.round_number, self.figures, self.effects)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """A completed round. The draws are the decision's figures in each bootstrap draw, one row per client.

    `effects[k, n]` is what client n contributed by the validation samples of client k, in the order of the decision's
    figures (see `valuation.scorers`); None where contributions are not computed scorer by scorer.
    """

    record: RoundRecord
    measured: Mapping[str, ClientMeasurement]
    iteration_accuracies: tuple[Mapping[str, float], ...]
    coalition_values: tuple[tuple[tuple[str, ...], Estimate], ...]
    events: tuple[Event, ...]
    signatures: Mapping[str, str]
    withdrawals: Mapping[str, str]  # signed notices of clients that leave after this round
    profit_draws: NDArray[np.float64]
    contribution_draws: NDArray[np.float64]
    expected_draws: NDArray[np.float64] | None = None
    effects: NDArray[np.float64] | None = None
    bases: Mapping[str, ReportBasis] = field(default_factory=dict)  # of the client reports, where clients sign them
    unused_reports: Mapping[str, tuple[SignedReport, ...]] = field(default_factory=dict)  # see RoundToSettle
    settled_at: str | None = None  # the time of its entry, chosen before it is settled: settling again gives the same

    @classmethod
    def of(cls, measured: MeasuredRound, record: RoundRecord, events: tuple[Event, ...] = ()) -> RoundResult:
        """The measured round with its decision; `events` are those that were not known when it was measured."""
        return cls(
            record=record,
            measured=measured.measured,
            iteration_accuracies=measured.iteration_accuracies,
            coalition_values=measured.coalition_values,
            events=(*measured.events, *events),
            signatures=measured.signatures,
            withdrawals={client: measured.withdrawals[client] for client in record.withdrawn},
            profit_draws=measured.profit_draws,
            contribution_draws=measured.contribution_draws,
            expected_draws=measured.expected_draws,
            effects=measured.effects,
            bases=measured.bases,
            unused_reports=measured.unused_reports,
        )

    @property
    def sample_counts(self) -> dict[str, int]:
        """New samples that each client declared."""
        return {client: measured.sample_count for client, measured in self.measured.items()}

    @property
    def scored(self) -> ScoredRound | None:
        """As in `MeasuredRound`."""
        return _scored(self.record.round_number, self.record.decision.figures, self.effects)


def _scored(number: int, figures: Figures, effects: NDArray[np.float64] | None) -> ScoredRound | None:
    return None if effects is None else ScoredRound(number=number, clients=figures.clients, effects=effects)


def rules_in_force(plan: FederationPlan, completed: Sequence[RoundResult]) -> Rules:
    """The plan's rules; a federation that has begun keeps the version by which its first rounds were decided."""
    rules = plan.mechanism.rules
    return replace(rules, version=completed[0].record.decision.rules.version) if completed else rules
