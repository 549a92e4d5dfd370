"""What members sign themselves, so that the operator cannot forge it: client reports and withdrawal notices."""

from __future__ import annotations

from dataclasses import dataclass

from commonweal.ledger.canonical import canonical
from commonweal.ledger.keys import Signer, is_signed

REPORT_FORMAT = "commonweal.report/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReport:
    """What a client reports for one round of one ledger."""

    ledger: str  # its identity: the hash of its first entry
    round_number: int
    client: str
    profit: float  # utility − cost, in units of utility
    sample_count: int | None = None  # samples that are new in this round
    cost: float | None = None  # only if the loss rule divides by cost

    def message(self) -> bytes:
        """The message that is signed. Its field "book" is the ledger; names in signed messages never change."""
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
ROUND_LIMIT = 10**9  # no federation has more rounds


@dataclass(frozen=True, slots=True)
class WithdrawalNotice:
    """A client's notice to one ledger that it leaves after this round."""

    ledger: str  # the hash of its first entry
    client: str
    round_number: int  # the last round it takes part in; 0 if there is none

    def message(self) -> bytes:
        """The message that is signed. Its field "book" is the ledger; names in signed messages never change."""
        return canonical(
            {"format": WITHDRAWAL_FORMAT, "book": self.ledger, "client": self.client, "round": self.round_number}
        )

    def signed(self, key: Signer) -> str:
        return key.sign(self.message())

    def is_signed(self, signature: str, public: str) -> bool:
        return is_signed(self.message(), signature, public)
