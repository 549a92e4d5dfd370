"""A client's account, derived from a ledger, and how amounts and tables of a ledger are written. All frozen.

Amounts are in minor units of the ledger's currency: + received, − paid.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

BYTE_ORDER_MARK = "\ufeff"
_FORMULA = "=+\\-@＝＋－＠"  # what a formula starts with, for a regular expression
_SEPARATOR = ',;:|"\t\r\n'  # some spreadsheets split cells here, whatever the quotes say
_FORMULA_CELL = re.compile(f" *[{_FORMULA}\t\r']")
_FORMULA_INSIDE = re.compile(
    rf"(?P<before>[{_SEPARATOR}]\s*)(?![+-]?[0-9]+(?:\.[0-9]+)?\s*(?:[{_SEPARATOR}]|$))(?P<start>[{_FORMULA}'])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementLine:
    """One entry as it concerns the client."""

    entry: int
    at: str  # UTC
    text: str  # what happened, in a few words
    amount: int  # on the client's account
    accrued: int  # payoff that accrued in this entry
    balance: int  # of the account after this line
    accrued_balance: int
    profit: float | None = None  # this and the next four: of a round, in units of utility
    contribution: float | None = None
    share: float | None = None  # this and the next two: None if the client was eliminated
    payoff: float | None = None
    transfer: float | None = None
    measured_gain: float | None = None  # this and the next two: in the metric, if profits were not used as measured
    used_gain: float | None = None
    expected_gain: float | None = None  # of the next round; only with forecasts
    kind: str | None = None  # of the entry; this and the round are not in whole statements
    round_number: int | None = None  # that the entry settles, reports late or charges for, or ends a membership after


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A client's account up to an entry of the ledger."""

    ledger: str  # its identity: the hash of its first entry
    name: str  # the ledger's
    client: str
    client_key: str | None  # the public key that signs the client's reports
    currency: str
    minor_digits: int
    worth: int  # of one unit of utility, in minor units
    settlement: str  # "transfers" or "accruals"
    at: str  # when it was made, UTC
    head_number: int  # the last entry it covers
    head: str  # the hash of that entry, which later shows whether the ledger was rewritten
    lines: tuple[StatementLine, ...]

    @property
    def has_gains(self) -> bool:
        """Whether any profit follows from another gain than the one measured."""
        return any(line.used_gain is not None for line in self.lines)

    @property
    def balance(self) -> int:
        return self.lines[-1].balance if self.lines else 0

    @property
    def accrued(self) -> int:
        return self.lines[-1].accrued_balance if self.lines else 0

    def money(self, amount: int) -> str:
        """An amount as a decimal number in the currency."""
        return amount_text(amount, self.minor_digits)


def amount_text(amount: int, minor_digits: int) -> str:
    """Minor units as a decimal number: 1234 → "12.34"."""
    sign, digits = "-" * (amount < 0), str(abs(amount)).rjust(minor_digits + 1, "0")
    return sign + (f"{digits[:-minor_digits]}.{digits[-minor_digits:]}" if minor_digits else digits)


def csv_text(rows: Iterable[Iterable[str | int | float | Decimal | None]]) -> str:
    """A table for spreadsheets: RFC 4180, with a byte order mark so that they recognise UTF-8.

    Spreadsheets run text that starts with = + - or @ as a formula, and clients choose their own names, so such text
    gets an apostrophe in front. So does text that starts with an apostrophe, so that different texts stay different.
    Where semicolons separate cells, spreadsheets split `a;=1` in two, so there is one after each separator in a text
    too, except before a plain number.
    """
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator="\r\n").writerows([_cell(value) for value in row] for row in rows)
    return BYTE_ORDER_MARK + file.getvalue()


def _cell(value: str | int | float | Decimal | None) -> str | int | float | Decimal | None:
    if not isinstance(value, str):
        return value
    text = _FORMULA_INSIDE.sub(r"\g<before>'\g<start>", value)
    return f"'{text}" if _FORMULA_CELL.match(text) else text
