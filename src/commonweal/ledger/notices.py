"""A client's notice that it leaves, signed by itself, so that the operator cannot send it away in its name."""

from __future__ import annotations

from dataclasses import dataclass

from commonweal.ledger.canonical import canonical
from commonweal.ledger.keys import Signer, is_signed

FORMAT = "commonweal.withdrawal/1"
ROUND_LIMIT = 10**9  # beyond it nobody means a round


@dataclass(frozen=True, slots=True)
class WithdrawalNotice:
    """The client leaves after this round. It holds for one book alone."""

    book: str  # the hash of its first entry
    client: str
    round_number: int  # the last that it takes part in; 0: none

    def message(self) -> bytes:
        """What is signed."""
        return canonical({"format": FORMAT, "book": self.book, "client": self.client, "round": self.round_number})

    def signed(self, key: Signer) -> str:
        return key.sign(self.message())

    def is_signed(self, signature: str, public: str) -> bool:
        return is_signed(self.message(), signature, public)
