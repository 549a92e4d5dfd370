"""A client's statement as a table for spreadsheets."""

from __future__ import annotations

from decimal import Decimal

from commonweal.records.statement import Statement, csv_text

_HEADINGS = (
    "entry", "at", "client", "text", "profit", "contribution", "share", "payoff", "transfer",
    "amount", "balance", "accrued", "accrued_balance", "currency",
)  # fmt: skip


def to_csv(statement: Statement) -> str:
    """A row for each line; profit to transfer in units of utility, amount to accrued_balance in the currency.

    Text that a spreadsheet would run as a formula has an apostrophe in front. The byte order mark comes first.
    """
    rows = [
        (
            line.entry,
            line.at,
            statement.client,
            line.text,
            *(line.profit, line.contribution, line.share, line.payoff, line.transfer),
            *(
                Decimal(statement.money(amount))
                for amount in (line.amount, line.balance, line.accrued, line.accrued_balance)
            ),
            statement.currency,
        )
        for line in statement.lines
    ]
    return csv_text([_HEADINGS, *rows])
