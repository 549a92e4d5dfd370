"""What members sign themselves, so that the operator cannot forge it: client reports and withdrawal notices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from commonweal.ledger.canonical import canonical, hash_of
from commonweal.ledger.keys import Signer, is_signed
from commonweal.ledger.reports import BASED_REPORT_FORMAT, ReportBasis
from commonweal.records import PairedGain, RoundGains

REPORT_FORMAT = "commonweal.report/1"
TOLD_REPORT_FORMAT = "commonweal.report/2"  # of a client that was told the gain that its profit follows from


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedGain:
    """The gain that a client measured, the one that it was told, and what that one follows from."""

    measured: PairedGain | None  # None: the metric could not be measured
    table_hash: str  # of everybody's gains, as measured
    pooled: float
    expected: float | None  # of the next round; only with forecasts
    expected_profit: float | None


@dataclass(frozen=True, slots=True)
class SignedTable:
    """Everybody's gains of a round, with the hash that clients sign; it is computed once for all of them."""

    gains: RoundGains
    hash: str  # SHA-256 of the canonical table of gains as measured

    @classmethod
    def of(cls, gains: RoundGains, round_number: int) -> SignedTable:
        return cls(gains, hash_of(canonical(gains.table_document(round_number))))

    def gain_of(self, client: str, expected_profit: float | None) -> SignedGain:
        """What the client signs of it. Where the metric cannot be measured, nothing is known to have been gained."""
        pooled, expected = self.gains.used(client)
        return SignedGain(
            measured=self.gains.table.get(client),
            table_hash=self.hash,
            pooled=pooled,
            expected=expected,
            expected_profit=expected_profit,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReport:
    """What a client reports for one round of one ledger."""

    ledger: str  # its identity: the hash of its first entry
    round_number: int
    client: str
    profit: float  # utility − cost, in units of utility
    sample_count: int | None = None  # samples that are new in this round
    cost: float | None = None  # only if the loss rule divides by cost
    gain: SignedGain | None = None  # only if the figures are not used as measured
    further: Mapping[str, float] = field(default_factory=dict)  # what else the mechanism reads of what a client knows
    basis: ReportBasis | None = None  # only in a federation; other figures have no attempts and no models

    def document(self) -> dict[str, Any]:
        """What is signed. Its field "book" is the ledger; names in signed messages never change."""
        document: dict[str, Any] = {
            "format": REPORT_FORMAT,
            "book": self.ledger,
            "round": self.round_number,
            "client": self.client,
            "profit": self.profit,
            "sample_count": self.sample_count,
            "cost": self.cost,
        }
        if self.gain is not None:
            told, measured = self.gain, self.gain.measured
            document |= {
                "format": TOLD_REPORT_FORMAT,
                "gain": None if measured is None else measured.gain,
                "validation_count": None if measured is None else measured.sample_count,
                "squared_change": None if measured is None else measured.squared_change,
                "gains": told.table_hash,
                "pooled_gain": told.pooled,
                "expected_gain": told.expected,
                "expected_profit": told.expected_profit,
            }
        if self.further:
            document["further"] = dict(self.further)
        if self.basis is not None:
            document |= {**self.basis.signed_fields, "format": BASED_REPORT_FORMAT}
        return document

    def message(self) -> bytes:
        return canonical(self.document())

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
