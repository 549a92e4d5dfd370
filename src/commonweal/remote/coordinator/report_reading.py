"""Read a client's report of a round: what must hold for it to count, and what follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from commonweal.federation.client_set import ProfitReport, ToldGains
from commonweal.ledger.member_documents import ClientReport, SignedTable
from commonweal.ledger.reports import ReportBasis, SignedReport
from commonweal.records import AgreedRates
from commonweal.records.rounds import GAIN
from commonweal.remote.coordinator.answer_rules import BrokenRuleError, measured_in, number_in, profit_in, text_in
from commonweal.remote.coordinator.attempts import (
    ReportQuestion,
    check_baseline,
    check_gain,
    check_metrics,
    check_settings_named,
)
from commonweal.remote.coordinator.federation_file import Federation
from commonweal.remote.coordinator.rated_reports import checked_account
from commonweal.remote.coordinator.settled_clients import SettledClients
from commonweal.remote.messages.message import Message
from commonweal.task.measured import Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportReading:
    """Reads the answers of one attempt; raises `BrokenRuleError` for a report that does not count."""

    federation: Federation
    settled: SettledClients
    question: ReportQuestion
    rates: AgreedRates | None
    told: ToldGains | None
    table: SignedTable | None  # of the gains that were told

    def report_in(self, answer: Message, client: str, *, sample_count: int, now: Measured) -> ProfitReport:
        """The client's report; `now` is what it measured of the adopted model."""
        key = self.federation.keys[client]
        bounds = self.federation.terms_of(client).profit_bounds
        is_forecast = self.table is not None and self.table.gains.expected is not None
        expected_profit = profit_in(answer, bounds, "expected_profit") if is_forecast else None
        basis = self.question.basis_in(answer, client, key)
        further = {GAIN: number_in(answer, GAIN)} if self._has_rates(client) and self.table is None else {}
        self._check_basis(client, basis, further.get(GAIN))
        report = ClientReport(
            ledger=self.question.ledger,
            round_number=self.question.round_number,
            client=client,
            profit=profit_in(answer, bounds),
            sample_count=sample_count,
            gain=None if self.table is None else self.table.gain_of(client, expected_profit),
            further=further,
            basis=basis,
        )
        signature = text_in(answer, "signature")
        if not report.is_signed(signature, key):
            raise BrokenRuleError("its report was not signed with the key of its SuperNode")
        alone = None
        if self.federation.mechanism.utility == "advantage":
            (alone,) = measured_in(answer, "alone", 1, self.federation.task.metric)
        elif self.table is None:  # where the coordinator missed the opening that the client measured first
            self.settled.baselines[client] = math.nan if basis.baseline is None else basis.baseline
        by_member = ProfitReport(
            profit=report.profit,
            expected_profit=expected_profit,
            previous_accuracy=self.settled.baselines[client],
            alone=alone,
            signature=signature,
            basis=basis,
            signed=SignedReport(document=report.document(), signature=signature),
        )
        return self._with_rates(client, report, by_member, now)

    def _has_rates(self, client: str) -> bool:
        return self.rates is not None and self.rates.of(client) is not None

    def _check_basis(self, client: str, basis: ReportBasis, signed_gain: float | None) -> None:
        """A report continues the one before, and its gain is the change of the metrics that it signs."""
        before, metric = self.settled.reports.get(client), self.federation.task.metric
        is_gain = self.federation.mechanism.utility == "gain"
        check_settings_named(basis, before)
        check_metrics(basis, metric)
        if self.table is None:
            check_baseline(basis, before, self._has_rates(client) and is_gain)
            gain = signed_gain
        else:
            gains = self.table.gains.table
            gain = gains[client].gain if client in gains else None
        if gain is not None:
            needs_metrics = (self.table is None or self._has_rates(client)) and is_gain
            check_gain(basis, gain, higher_is_better=metric.higher_is_better, needs_metrics=needs_metrics)

    def _with_rates(self, client: str, report: ClientReport, by_member: ProfitReport, now: Measured) -> ProfitReport:
        """With what follows from the agreed rates, if there are any."""
        rates = None if self.rates is None else self.rates.of(client)
        if rates is None:
            return by_member
        alone = by_member.alone
        own = checked_account(
            rates,
            report,
            self.federation.task.metric,
            now=now,
            reference=self.settled.baseline(client) if alone is None else alone,
            is_advantage=alone is not None,
            told=None if self.told is None else self.told.of(client),
        )
        return replace(
            by_member,
            profit_draws=own.profit_draws,
            gain=report.further.get(GAIN),
            expected_draws=own.expected_draws,
            measured_profit=own.measured_profit,
            measured_profit_draws=own.measured_profit_draws,
            utility=own.utility,
            cost=own.cost,
            alone_cost=own.alone_cost,
        )
