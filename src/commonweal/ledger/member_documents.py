"""What members sign themselves, so that the operator cannot invent it: reports of a round and withdrawal notices."""

from __future__ import annotations

from dataclasses import dataclass

from commonweal.ledger.canonical import canonical
from commonweal.ledger.keys import Signer, is_signed

REPORT_FORMAT = "commonweal.report/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReport:
    """What a client declares of a round. It holds for one round of one ledger alone."""

    ledger: str  # the hash of its first entry
    round_number: int
    client: str
    profit: float  # utility − cost, in units of utility
    sample_count: int | None = None  # new in this round
    cost: float | None = None  # only where the loss rule divides by cost

    def message(self) -> bytes:
        """What is signed."""
        return canonical(
            {
                "format": REPORT_FORMAT,
                "book": self.ledger,
                "round": self.round_number,
                "client": self.client,
                "profit": self.profit,
                "sample_count": self.sample_count,
                "cost": self.cost,
            }
        )

    def signed(self, key: Signer) -> str:
        return key.sign(self.message())

    def is_signed(self, signature: str, public: str) -> bool:
        return is_signed(self.message(), signature, public)


WITHDRAWAL_FORMAT = "commonweal.withdrawal/1"
ROUND_LIMIT = 10**9  # beyond it nobody means a round


@dataclass(frozen=True, slots=True)
class WithdrawalNotice:
    """The client leaves after this round. It holds for one ledger alone."""

    ledger: str  # the hash of its first entry
    client: str
    round_number: int  # the last that it takes part in; 0: none

    def message(self) -> bytes:
        """What is signed."""
        return canonical(
            {"format": WITHDRAWAL_FORMAT, "book": self.ledger, "client": self.client, "round": self.round_number}
        )

    def signed(self, key: Signer) -> str:
        return key.sign(self.message())

    def is_signed(self, signature: str, public: str) -> bool:
        return is_signed(self.message(), signature, public)
