"""A client's own word: its figures of a round, signed by itself, so that the operator cannot invent them."""

from __future__ import annotations

from dataclasses import dataclass

from commonweal.ledger.canonical import canonical
from commonweal.ledger.keys import Signer, is_signed

FORMAT = "commonweal.report/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReport:
    """What a client declares of a round. It holds for one round of one book alone."""

    book: str  # the hash of its first entry
    round_number: int
    client: str
    profit: float  # utility − cost, in units of utility
    sample_count: int | None = None  # new in this round
    cost: float | None = None  # only where the loss rule divides by cost

    def message(self) -> bytes:
        """What is signed."""
        return canonical(
            {
                "format": FORMAT,
                "book": self.book,
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
