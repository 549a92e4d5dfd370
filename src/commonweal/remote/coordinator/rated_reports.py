"""A member's report by agreed rates, which the coordinator computes again from what the member measured and signed."""

from __future__ import annotations

import math

from commonweal.client.reporting import ClientAccount, rated_account
from commonweal.federation.client_set import ToldGain
from commonweal.ledger.member_documents import ClientReport
from commonweal.records import Rates
from commonweal.records.rounds import GAIN
from commonweal.remote.coordinator.answer_rules import BrokenRuleError
from commonweal.task.measured import Measured, gain_over
from commonweal.task.metrics import Metric

_ROUNDING = 1e-9  # processors round differently


def checked_account(
    rates: Rates,
    report: ClientReport,
    metric: Metric,
    *,
    now: Measured,
    reference: Measured,
    is_advantage: bool,
    told: ToldGain | None,
) -> ClientAccount:
    """The member's round by the rates. Raises `BrokenRuleError` if it signed another gain or another profit.

    `now` and `reference` are what the gain is measured from, by the scores that the member sent.
    """
    by_scores, gain_draws = gain_over(reference, now, metric)
    gain = report.further.get(GAIN, by_scores)
    if not math.isclose(gain, by_scores, rel_tol=_ROUNDING, abs_tol=_ROUNDING):
        raise BrokenRuleError(f"its gain must be {by_scores:.9g} by the scores that it sent, got {gain:.9g}")
    assert report.sample_count is not None, "members declare how many samples are new"
    account = rated_account(
        rates,
        gain=gain,
        gain_draws=gain_draws,
        sample_count=report.sample_count,
        is_advantage=is_advantage,
        told=told,
    )
    check_profit(report.profit, account.profit)
    if report.gain is not None:
        check_profit(report.gain.expected_profit, account.expected_profit, "expected profit")
    return account


def check_profit(signed: float | None, by_rates: float | None, what: str = "profit") -> None:
    """Everybody computes it alike, to the last bit."""
    if signed != by_rates:
        raise BrokenRuleError(f"its {what} must be {by_rates!r} by the agreed rates, got {signed!r}")
