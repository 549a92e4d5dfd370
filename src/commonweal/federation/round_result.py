"""What is known of a round: first what was measured, then the whole result with its decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from commonweal.records import Estimate, Event, Figures, PairedGain, RoundGains, RoundRecord, Rules
from commonweal.scenario.spec import FederationPlan


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
    actual_profit: Estimate | None = None  # where it is known that the client reported another one
    advantage_error: float | None = None  # standard error of the difference between both models' metrics
    measured_profit: Estimate | None = None  # had the figures been used as measured; None: they were, or it is private


@dataclass(frozen=True, slots=True)
class PastGains:
    """The gains of a round as measured, for the figures of later rounds."""

    table: Mapping[str, PairedGain]
    draws: Mapping[str, NDArray[np.float64]]  # by client, in each bootstrap draw


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
    effects: NDArray[np.float64] | None = None  # see RoundResult
    gains: RoundGains | None = None  # that the profits follow from; None: the profits are as measured
    gain_draws: NDArray[np.float64] | None = None  # gains as measured, one row per client of the table
    expected_draws: NDArray[np.float64] | None = None  # expected profits in the first draws; None: no forecast

    @property
    def past_gains(self) -> PastGains | None:
        """What later rounds need to know of its gains."""
        return _past(self.gains, self.gain_draws)

    @property
    def sample_counts(self) -> dict[str, int]:
        """New samples that each client declared."""
        return {client: measured.sample_count for client, measured in self.measured.items()}


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
    effects: NDArray[np.float64] | None = None
    gain_draws: NDArray[np.float64] | None = None  # this and the next: as in MeasuredRound
    expected_draws: NDArray[np.float64] | None = None

    @property
    def past_gains(self) -> PastGains | None:
        """What later rounds need to know of its gains."""
        return _past(self.record.gains, self.gain_draws)

    @classmethod
    def of(cls, measured: MeasuredRound, record: RoundRecord, absences: tuple[Event, ...] = ()) -> RoundResult:
        """The measured round with its decision; `absences` are the events that say why clients were absent."""
        return cls(
            record=record,
            measured=measured.measured,
            iteration_accuracies=measured.iteration_accuracies,
            coalition_values=measured.coalition_values,
            events=(*measured.events, *absences),
            signatures=measured.signatures,
            withdrawals={client: measured.withdrawals[client] for client in record.withdrawn},
            profit_draws=measured.profit_draws,
            contribution_draws=measured.contribution_draws,
            gain_draws=measured.gain_draws,
            expected_draws=measured.expected_draws,
            effects=measured.effects,
        )

    @property
    def sample_counts(self) -> dict[str, int]:
        """New samples that each client declared."""
        return {client: measured.sample_count for client, measured in self.measured.items()}


def _past(gains: RoundGains | None, draws: NDArray[np.float64] | None) -> PastGains | None:
    if gains is None or draws is None:
        return None
    return PastGains(gains.table, dict(zip(gains.table, draws, strict=True)))


def rules_in_force(plan: FederationPlan, completed: Sequence[RoundResult]) -> Rules:
    """The plan's rules; a federation that has begun keeps the version by which its first rounds were decided."""
    rules = plan.mechanism.rules
    return replace(rules, version=completed[0].record.decision.rules.version) if completed else rules
