"""The reports that a member signed, one file per round: `reports/round-0003.json` in its folder.

A report is on the disk before it is sent, and is never changed or removed. For an attempt that the member has reported,
it gives the same report again, or none; a new attempt gets the next number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from commonweal.atomic_write import make_directory, write_atomically
from commonweal.errors import StorageError
from commonweal.ledger.canonical import first_difference
from commonweal.ledger.member_documents import ClientReport
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.reports import BASED_REPORT_FORMATS, REPORT_LIMIT, SignedReport, is_of_opening
from commonweal.records.rounds import GAIN
from commonweal.remote.member.store import ERROR, REPORTS, MemberStore
from commonweal.remote.messages.message import Message, QuestionError

FORMAT = "commonweal.reports/1"
_FIGURES = {"number": None, "profit": None, "expected_profit": None}  # the rest is what a report rests on


def reported_rounds(store: MemberStore) -> list[int]:
    """The rounds that the member has signed reports of."""
    names = (file.stem.removeprefix("round-") for file in (store.path / REPORTS).glob("round-*.json"))
    return sorted(int(name) for name in names if name.isdecimal())


def settled_report(fields: Mapping[str, Any], *, client: str, key: str) -> SignedReport | None:
    """This member's own report of its last settled round, as a question carries it; None if it is not that.

    A folder that was restored from a backup may not have it.
    """
    try:
        report = SignedReport.from_document(json.loads(fields.get("settled_report", "")))
        document = report.document
        is_of_attempt = is_of_opening(document["attempt"], fields["settled_attempt"])
        is_of_attempt &= type(document["number"]) is int
        wanted = {
            "book": fields["book"],
            "client": client,
            "round": fields["settled_round"],
            "model": fields["settled_model"],
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    is_wanted = all(document.get(name) == value for name, value in wanted.items())
    is_wanted &= document.get("format") in BASED_REPORT_FORMATS
    return report if is_wanted and is_of_attempt and report.is_signed(key) else None


class ReportBook:
    """A member's reports of one round, in the order in which it signed them."""

    def __init__(self, store: MemberStore, round_number: int) -> None:
        self._store = store
        self._round = round_number
        self._file = store.path / REPORTS / f"round-{round_number:04d}.json"
        self.reports = self._read()

    @property
    def next_number(self) -> int:
        return len(self.reports) + 1

    @property
    def last(self) -> SignedReport | None:
        return self.reports[-1] if self.reports else None

    @property
    def has_late(self) -> bool:
        """Whether the member reported the round after it was settled."""
        return any("entry" in report.document for report in self.reports)

    def of_attempt(self, report: ClientReport) -> SignedReport | None:
        """The report that was signed of the same attempt; None if there is none yet.

        Raises `QuestionError` if that one rests on something else, or if there are too many reports for a new one.
        """
        document = report.document()
        for kept in self.reports:
            if kept.document["attempt"] == document["attempt"]:
                self._check_same(kept.document, document)
                return kept
        self.check_room()
        return None

    def has_opening(self, attempt: str) -> bool:
        """Whether the member reported what was done since this opening of the round."""
        return any(is_of_opening(report.document["attempt"], attempt) for report in self.reports)

    def last_of(self, opening: str, profit: float | None = None) -> SignedReport | None:
        """The last report of what was done since an opening of the round, or the last with this profit."""
        for report in reversed(self.reports):
            is_wanted = profit is None or report.document["profit"] == profit
            if is_wanted and is_of_opening(report.document["attempt"], opening):
                return report
        return None

    def check_room(self) -> None:
        """Raises `QuestionError` if there are too many reports of the round for a further one."""
        if len(self.reports) >= REPORT_LIMIT:
            raise QuestionError(
                f"This member has signed {REPORT_LIMIT} reports of round {self._round} and signs no more of it. Go on "
                "with the next round."
            )

    def sign(self, report: ClientReport, key: NodeKey) -> SignedReport:
        """Sign the first report of an attempt, and write it to the disk."""
        new = SignedReport(document=report.document(), signature=report.signed(key))
        self._write([*self.reports, new])
        return new

    def answer(self, signed: SignedReport) -> Message:
        """What is sent of a report: what the coordinator cannot know, and the reports before it."""
        document = signed.document
        fields: dict[str, Any] = {name: document[name] for name in ("number", "profit", "baseline")}
        for name in ("expected_profit", "measured", "settings"):
            if document.get(name) is not None:
                fields[name] = document[name]
        if GAIN in document.get("further", {}):
            fields[GAIN] = document["further"][GAIN]
        earlier = [report.to_document() for report in self.reports[: document["number"] - 1]]
        # "number" is the field of a question with its random number.
        fields["report_number"] = fields.pop("number")
        return Message(fields={**fields, "signature": signed.signature, "earlier": json.dumps(earlier)})

    def _check_same(self, kept: Any, asked: Any) -> None:
        difference = first_difference({**kept, **_FIGURES}, {**asked, **_FIGURES})
        if difference is not None:
            name, before, now = difference
            refusal = (
                f"Attempt {kept['attempt']} of round {self._round} has been reported with {name} {before}, and is not "
                f"reported again with {now}. A new attempt gets a new report."
            )
            self._store.log(f"{ERROR} refused to sign a second report: {refusal}")
            raise QuestionError(refusal)

    def _read(self) -> list[SignedReport]:
        try:
            content = json.loads(self._file.read_bytes())
            if content["format"] != FORMAT:
                raise ValueError("another format")
            return [SignedReport.from_document(report) for report in content["reports"]]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StorageError(
                f"Cannot read {self._file}: it must be complete and in the format {FORMAT}, got {error}. Restore the "
                "folder from a backup, or use the version of commonweal that wrote it."
            ) from None

    def _write(self, reports: list[SignedReport]) -> None:
        try:
            make_directory(self._file.parent)
        except OSError as error:
            raise StorageError(
                f"Cannot write {self._file}: {(error.strerror or 'error').lower()}. Check that the member's folder is "
                "writable."
            ) from None
        content = {"format": FORMAT, "reports": [report.to_document() for report in reports]}
        write_atomically(self._file, json.dumps(content, indent=1).encode(), what="a member's reports")
        self.reports = reports
