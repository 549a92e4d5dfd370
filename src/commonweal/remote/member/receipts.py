"""The receipts that a member keeps for its reports.

receipts/round-0003-1.json   as the operator signed it; a second report of the same round has a second receipt
receipts/awaited.json        reports that no receipt has come for yet, by the hashes of their signatures
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from commonweal.atomic_write import make_directory, write_atomically
from commonweal.errors import CommonwealError, StorageError
from commonweal.ledger.receipts import RECEIPT_FORMAT, ReportReceipt, read_receipt, report_hash
from commonweal.ledger.signed_files import signed_in
from commonweal.remote.member.member_file import Member
from commonweal.remote.member.operator_key import key_in_use, known_operator, replaced_by
from commonweal.remote.member.report_book import ReportBook
from commonweal.remote.member.store import REPORTS, MemberStore

RECEIPTS = "receipts"
MOST_DOUBTFUL = 20  # files: anybody can write them, and they must not fill the disk
MOST_CHARACTERS = 1_000_000  # of a receipt
_AWAITED = "awaited.json"


def acknowledged(store: MemberStore, round_number: int) -> dict[str, str]:
    """The reports of a round that there are receipts for, by the hashes of their signatures, with the files' names."""
    found = {}
    for file in sorted((store.path / RECEIPTS).glob(f"round-{round_number:04d}-*.json")):
        try:
            found[read_receipt(file).report] = file.name
        except CommonwealError:
            continue  # damaged since it was kept
    return found


class KeptReceipts:
    """The receipts in a member's folder. Call it only while the folder is locked."""

    def __init__(self, store: MemberStore, member: Member) -> None:
        self._store = store
        self._member = member
        self._folder = store.path / RECEIPTS

    def expect(self, round_number: int, signature: str) -> None:
        """Remember a report that is about to be sent, unless its receipt is here: a report may be asked for again."""
        if report_hash(signature) in acknowledged(self._store, round_number):
            return
        awaited = self._awaited()
        awaited[report_hash(signature)] = round_number
        self._save(awaited)

    def keep(self, content: str, *, ledger: str, round_number: int) -> str:
        """Write a receipt to the disk and check it; returns in one line what it says or what is wrong.

        Nothing is ever overwritten, and what is doubtful is kept too, under a name that says so. One receipt for a
        report is enough.
        """
        awaited, here = self._awaited(), acknowledged(self._store, round_number)
        try:
            receipt = ReportReceipt.of(signed_in(_bytes(content), "the message", (RECEIPT_FORMAT,)), "the message")
            operator = known_operator(self._store, self._member, receipt.signed, ledger)
            is_by_operator = receipt.is_by(operator)
            faults = [
                fault
                for fault, is_found in {
                    "the operator did not sign it": not is_by_operator,
                    f"it is signed with the key {receipt.signed.signer[:16]}…, which the operator has replaced": (
                        is_by_operator
                        and (
                            not receipt.is_by(key_in_use(self._store, operator))
                            or replaced_by(self._store, receipt.signed, ledger) is not None
                        )
                    ),
                    "it is for another member, ledger or round": (
                        (receipt.client, receipt.ledger, receipt.round_number)
                        != (self._member.name, ledger, round_number)
                    ),
                    "it is for a report that this member is not waiting to have acknowledged": (
                        awaited.get(receipt.report) != round_number
                        and receipt.report not in here
                        and receipt.report not in self._signed(round_number)  # it was given up, and comes late
                    ),
                }.items()
                if is_found
            ]
        except Exception as error:  # whatever it is, it leaves a trace
            is_own = isinstance(error, CommonwealError)
            faults = [str(error) if is_own else f"it cannot be read ({type(error).__name__})"]
        if faults:
            return f"DOUBTFUL RECEIPT{self._aside(content, round_number)}: {'; '.join(faults)}"
        file = None if receipt.report in here else self._write(content, f"round-{round_number:04d}")
        if receipt.report in awaited:  # also if it was kept, and the list not written before a crash
            del awaited[receipt.report]
            self._save(awaited)
        if file is None:
            date = receipt.signed.document["at"][:40]
            return (
                f"the operator has signed a receipt for the report again, dated {date}; {here[receipt.report]} is kept"
            )
        return f"the operator has signed a receipt for the report, {file.name}"

    def check_all_kept(self, round_number: int) -> None:
        """Refuse to go on with a round if a report of it was lost: the next one would get the same number."""
        sent = {digest for digest, number in self._awaited().items() if number == round_number}
        if not sent.union(acknowledged(self._store, round_number)) <= self._signed(round_number):
            raise StorageError(
                f"The folder {RECEIPTS} names a report of round {round_number} that is not in "
                f"{REPORTS}/round-{round_number:04d}.json, where it was written before it was sent. Restore the "
                "member's folder from a backup."
            )

    def _signed(self, round_number: int) -> set[str]:
        """The hashes of this member's reports of a round."""
        return {report_hash(report.signature) for report in ReportBook(self._store, round_number).reports}

    def give_up(self, before: int) -> Iterator[str]:
        """For each report of a round before this one that no receipt came for, a line that says so, once."""
        awaited = self._awaited()
        for digest, number in [(digest, number) for digest, number in awaited.items() if number < before]:
            yield (
                f"round {number}: NO RECEIPT came for the report {digest[:16]}…; if the ledger calls this member "
                "absent from that round, nothing here disproves it"
            )
            del awaited[digest]  # after it was logged
            self._save(awaited)

    def _aside(self, content: str, round_number: int) -> str:
        """Keep a doubtful receipt, as long as there are few of them and it is small."""
        if len(content) > MOST_CHARACTERS or len(list(self._folder.glob("doubtful-*"))) >= MOST_DOUBTFUL:
            return ""
        return f" in {self._write(content, f'doubtful-{round_number:04d}').name}"

    def _write(self, content: str, name: str) -> Path:
        """The content in a file that did not exist before; the same content is not written twice."""
        make_directory(self._folder)
        for place in range(1, 10_000):
            file = self._folder / f"{name}-{place}.json"
            if not file.exists():
                write_atomically(file, _bytes(content), what="a receipt")
                return file
            if file.read_bytes() == _bytes(content):
                return file
        raise CommonwealError(f"{self._folder} is full of receipts named {name}. Move them elsewhere.")

    def _awaited(self) -> dict[str, int]:
        try:
            found = json.loads((self._folder / _AWAITED).read_text())
            return {str(digest): int(number) for digest, number in found.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}  # nothing is lost but the check that a receipt comes

    def _save(self, awaited: dict[str, int]) -> None:
        make_directory(self._folder)
        content = json.dumps(awaited, indent=1).encode()
        write_atomically(self._folder / _AWAITED, content, what="the list of awaited receipts")


def _bytes(content: str) -> bytes:
    return content.encode(errors="surrogatepass")
