"""The operator's receipt for a client's report: who has one can answer an entry that calls it absent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from commonweal.errors import LedgerError
from commonweal.ledger.canonical import Document, hash_of
from commonweal.ledger.chain import keys_since
from commonweal.ledger.signed_files import SignedDocument, read_signed

RECEIPT_FORMAT = "commonweal.receipt/1"


def report_hash(signature: str) -> str:
    """What a receipt names a report by: the SHA-256 of its signature, which covers the whole report."""
    return hash_of(signature.encode())


def receipt_document(
    *, ledger: str, round_number: int, client: str, signature: str, at: str, key_rotations: Sequence[Document] = ()
) -> Document:
    """A receipt, to be signed by the operator. Its field "book" is the ledger, as in other signed files."""
    return {
        "format": RECEIPT_FORMAT,
        "book": ledger,
        "round": round_number,
        "client": client,
        "report": report_hash(signature),
        "at": at,
        "key_rotations": list(key_rotations),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportReceipt:
    """A receipt as somebody gave it, whether or not it is valid."""

    source: str  # the name of its file
    ledger: str
    round_number: int
    client: str
    report: str  # the hash of the report's signature
    signed: SignedDocument

    @classmethod
    def of(cls, signed: SignedDocument, source: str) -> ReportReceipt:
        given = signed.document
        texts = [given.get("book"), given.get("client"), given.get("report"), given.get("at")]
        if (
            not all(isinstance(text, str) and text.isprintable() for text in texts)
            or type(given.get("round")) is not int
            or not isinstance(given.get("key_rotations"), list)
        ):
            raise LedgerError(
                f"The receipt in {source} is incomplete or damaged. Use the file exactly as the operator sent it."
            )
        return cls(
            source=source,
            ledger=given["book"],
            round_number=given["round"],
            client=given["client"],
            report=given["report"],
            signed=signed,
        )

    def is_by(self, operator: str) -> bool:
        """Whether the holder of this key, or of one of its successors, signed it."""
        known = keys_since(operator, self.ledger, self.signed.document["key_rotations"])
        return self.signed.is_sound and self.signed.signer in known


def read_receipt(path: Path) -> ReportReceipt:
    """The receipt in a file."""
    return ReportReceipt.of(read_signed(path, (RECEIPT_FORMAT,)), path.name)
