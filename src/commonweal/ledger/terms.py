"""What a ledger says of itself once and for all, in its first entry."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from commonweal.errors import InputError
from commonweal.ledger.canonical import Document
from commonweal.ledger.money import LARGEST_AMOUNT

MOST_MINOR_DIGITS = 6
SettlementKind = Literal["transfers", "accruals"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The money of a ledger, and how rounds become money."""

    name: str
    currency: str = "XTS"  # ISO 4217's code for tests: nobody owes it
    minor_digits: int = 2  # decimal places of the currency
    worth: int = 100_000  # of one unit of utility, in minor units
    settlement: SettlementKind = "transfers"  # "accruals": payoffs are noted, and paid when the model earns
    largest_share: float | None = None  # of a round by raw contributions; None: such shares are refused

    def __post_init__(self) -> None:
        if not self.name.strip() or len(self.name) > 100 or not self.name.isprintable():
            raise InputError(f"a ledger needs a name of 1 to 100 letters, got {self.name!r}; give e.g. five-banks")
        if not re.fullmatch(r"[A-Z]{3}", self.currency):
            raise InputError(
                f"a currency must be a code of three capital letters, got {self.currency!r}; write e.g. EUR, or XTS "
                "for tests"
            )
        if not 0 <= self.minor_digits <= MOST_MINOR_DIGITS:
            raise InputError(
                f"a currency has 0 to {MOST_MINOR_DIGITS} decimal places, got {self.minor_digits}; most have 2"
            )
        if not 1 <= self.worth <= LARGEST_AMOUNT:
            raise InputError(
                "the worth of one unit of utility must be from 1 to 10^15 minor units, got "
                f"{self.worth}; give it in the currency, e.g. 1000.00"
            )
        if self.settlement not in get_args(SettlementKind):
            raise InputError(
                f"a round is settled by transfers or accruals, got {self.settlement!r}; name one of the two"
            )
        if self.largest_share is not None and not 1 <= self.largest_share < math.inf:
            raise InputError(
                f"the largest share that a ledger may accept must be a number >= 1, got {self.largest_share:g}; "
                "leave it out to accept only shares from 0 to 1"
            )

    def to_document(self) -> Document:
        return asdict(self) | {"worth": str(self.worth)}

    @classmethod
    def from_document(cls, document: Document) -> Terms:
        given: dict[str, Any] = dict(document)
        return cls(**given | {"worth": int(given["worth"])})
