"""Who paid whom in a run, as a table or in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from commonweal.records import RunReport
from commonweal.records.rounds import DEFAULT_MECHANISM
from commonweal.report.client_lines import CLIENTS_DRAWN
from commonweal.report.plots import payment_totals
from commonweal.report.run_page.client_names import ClientName, client_name
from commonweal.report.text import decimals_for, number, numbered_rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Payment:
    amount: str
    depth: str  # how strong the colour is, from 0 to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Payments:
    receivers: Sequence[str]
    rows: Sequence[tuple[ClientName, Sequence[_Payment | None], str]]  # the payer, its payments by receiver, their sum
    received: Sequence[str]  # by receiver, and in total


def paid_in_words(run_report: RunReport) -> str:
    """In place of the table of payments."""
    totals = payment_totals(run_report)
    if not totals:
        return "No money moved."
    payers, receivers = {payer for payer, _ in totals}, {receiver for _, receiver in totals}
    return (
        f"{len(payers):,} clients paid {len(receivers):,} others: too many for a table. Each client's transfers are "
        "in its details."
    )


_LOSS_RULES = {
    "contribution": "by contribution, too",
    "equal": "equally",
    "cost": "by cost",
    "loss": "in proportion to their own losses: profits cover the losses of others first",
}


def loss_in_words(run_report: RunReport) -> str:
    """How the joint losses of the run were divided; "" if there were none, or its mechanism has a way of its own."""
    losses = [each.number for each in run_report.rounds if each.record.decision.budget < 0]
    rules = run_report.rules
    if not losses or rules.mechanism != DEFAULT_MECHANISM or rules.loss_rule not in _LOSS_RULES:
        return ""
    return (
        f" Where they made a loss together (round{'s' if len(losses) > 1 else ''} "
        f"{numbered_rounds(losses).partition(' ')[2]}), they bore it {_LOSS_RULES[rules.loss_rule]}."
    )


def payment_table(run_report: RunReport) -> _Payments | None:
    """Payers by receivers, with sums; the stronger the colour, the more was paid.

    None if nobody paid, or too many did.
    """
    totals = payment_totals(run_report)
    paying, receiving = {payer for payer, _ in totals}, {receiver for _, receiver in totals}
    if not 0 < max(len(paying), len(receiving)) <= CLIENTS_DRAWN:
        return None
    payers = [client for client in run_report.clients if client in paying]
    receivers = [client for client in run_report.clients if client in receiving]
    largest, decimals = max(totals.values()), decimals_for(totals.values())

    def cell(payer: str, receiver: str) -> _Payment | None:
        amount = totals.get((payer, receiver))
        if amount is None:
            return None
        return _Payment(amount=number(amount, decimals=decimals), depth=f"{amount / largest:.2f}")

    def sum_of(pairs: Sequence[tuple[str, str]]) -> float:
        return math.fsum(totals.get(pair, 0.0) for pair in pairs)

    received = [sum_of([(payer, receiver) for payer in payers]) for receiver in receivers]
    return _Payments(
        receivers=receivers,
        rows=[
            (
                client_name(run_report, payer),
                [cell(payer, receiver) for receiver in receivers],
                number(sum_of([(payer, receiver) for receiver in receivers]), decimals=decimals),
            )
            for payer in payers
        ],
        received=[number(amount, decimals=decimals) for amount in (*received, math.fsum(received))],
    )
