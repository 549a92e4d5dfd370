"""The nouns of a client's account, derived from a book. All frozen.

Amounts are in minor units of the book's currency: + received, − paid.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementLine:
    """One entry as it concerns the client."""

    entry: int
    at: str  # UTC
    text: str  # what happened, in a few words
    amount: int  # on the client's account
    accrued: int  # payoff that accrued
    balance: int  # of the account after this line
    accrued_balance: int
    profit: float | None = None  # this and the next four, of a round: in units of utility
    contribution: float | None = None
    share: float | None = None  # None as well where the client was eliminated
    payoff: float | None = None
    transfer: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A client's account up to the book's last entry."""

    book: str  # the hash of its first entry
    name: str  # the book's
    client: str
    client_key: str | None  # the public key that signs the client's reports
    currency: str
    minor_digits: int
    worth: int  # of one unit of utility, in minor units
    settlement: str  # "transfers" or "accruals"
    at: str  # when it was made, UTC
    head_number: int  # the last entry it takes in
    head: str  # and its hash: whoever keeps it can tell later whether the book was rewritten
    lines: tuple[StatementLine, ...]

    @property
    def balance(self) -> int:
        return self.lines[-1].balance if self.lines else 0

    @property
    def accrued(self) -> int:
        return self.lines[-1].accrued_balance if self.lines else 0
