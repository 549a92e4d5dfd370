"""The terms of a ledger, stated before its first round and changed only by amendments."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from commonweal.errors import InputError
from commonweal.ledger.agreed_rules import AgreedRules
from commonweal.ledger.canonical import Document, canonical, hash_of
from commonweal.ledger.money import LARGEST_AMOUNT

MOST_MINOR_DIGITS = 6
SettlementKind = Literal["transfers", "accruals"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The currency of a ledger, how rounds become money, and what the consortium agreed on for its rounds."""

    name: str
    currency: str = "XTS"  # the ISO 4217 code for tests
    minor_digits: int = 2  # decimal places of the currency
    worth: int = 100_000  # of one unit of utility, in minor units
    settlement: SettlementKind = "transfers"  # "accruals": payoffs add up, and are paid when the model earns
    largest_share: float | None = None  # accepted with raw contributions; None: only shares from 0 to 1
    agreed: AgreedRules | None = None  # None: rules may differ from round to round

    def __post_init__(self) -> None:
        if not self.name.strip() or len(self.name) > 100 or not self.name.isprintable():
            raise InputError(f"A ledger's name must have 1 to 100 printable characters, got {self.name!r}.")
        if not re.fullmatch(r"[A-Z]{3}", self.currency):
            raise InputError(
                f"A currency must be a code of three capital letters such as EUR (or XTS for tests), got "
                f"{self.currency!r}."
            )
        if type(self.minor_digits) is not int or not 0 <= self.minor_digits <= MOST_MINOR_DIGITS:
            raise InputError(
                f"A currency must have 0 to {MOST_MINOR_DIGITS} decimal places (most have 2), got "
                f"{self.minor_digits!r}."
            )
        if type(self.worth) is not int or not 1 <= self.worth <= LARGEST_AMOUNT:
            raise InputError(
                f"One unit of utility must be worth from 1 to 10^15 minor units of the currency, got {self.worth}."
            )
        if self.settlement not in get_args(SettlementKind):
            raise InputError(f"Rounds must be settled by 'transfers' or 'accruals', got {self.settlement!r}.")
        if self.largest_share is not None and (
            type(self.largest_share) not in (int, float) or not 1 <= self.largest_share < math.inf
        ):
            raise InputError(
                f"The largest accepted share must be a finite number of at least 1, got {self.largest_share!r}. Leave "
                "it out to accept only shares from 0 to 1."
            )

    def to_document(self) -> Document:
        """The terms in the types of JSON; without agreed rules as in ledgers that could not have them."""
        document = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "agreed"}
        document["worth"] = str(self.worth)
        return document if self.agreed is None else document | {"agreed": self.agreed.to_document()}

    def digest(self) -> str:
        """SHA-256 of the canonical terms; members sign it with each report."""
        return hash_of(canonical(self.to_document()))

    @classmethod
    def from_document(cls, document: Document) -> Terms:
        given: dict[str, Any] = dict(document)
        if "agreed" in given:
            given["agreed"] = AgreedRules.from_document(given["agreed"])
        return cls(**given | {"worth": int(given["worth"])})

    @property
    def settlement_version(self) -> int:
        return 1 if self.agreed is None else self.agreed.settlement_version
