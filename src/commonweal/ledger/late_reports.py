"""A late report was made after its round was settled: a report in time cannot be entered as one.

A client that reports late signs the hash of the entry that calls it silent. Reports of earlier versions do not have it;
of them, only the attempt shows whether they are late. Clients that sign their settings can sign that hash, too: such a
report without it came in time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from commonweal.ledger.reports import (
    BASED_REPORT_FORMATS,
    LATE_REPORT_FORMAT,
    is_of_opening,
    is_valued_before,
    odd_field,
)

REPORT_FORMATS = ("commonweal.report/1", "commonweal.report/2", *BASED_REPORT_FORMATS, LATE_REPORT_FORMAT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """One settlement of a round, and what its reports name; None if they name nothing."""

    entry: str  # its hash
    terms: str | None = None
    attempt: str | None = None
    opening_model: str | None = None
    settings: str | None = None  # one of them names these, as all reports of members that can sign an entry's hash

    @classmethod
    def of(cls, body: Mapping[str, Any], entry: str) -> Play:
        reports = [row["report"] for row in body["inputs"] if "report" in row]
        if not reports:
            return cls(entry=entry)
        return cls(
            entry=entry,
            terms=body["terms"],
            attempt=reports[0]["attempt"],
            opening_model=reports[0]["opening_model"],
            settings=next((each for report in reports if (each := report.get("settings")) is not None), None),
        )


def fault_of_late_report(document: Mapping[str, Any], play: Play) -> str | None:
    """Why a document is not a late report of a round that is settled; None if it can be one."""
    form = document.get("format")
    if form not in REPORT_FORMATS:
        return f"it is not a report, but has the format {form!r}"
    profit = document.get("profit")
    if type(profit) not in (int, float):
        return f"it states no profit, but {ascii(profit)[:40]}"
    if form in (*BASED_REPORT_FORMATS, LATE_REPORT_FORMAT) and (odd := odd_field(document)) is not None:
        return f"it does not have the fields of its format: its {ascii(odd)[:80]} is missing or another one"
    if form == LATE_REPORT_FORMAT and document.get("entry") != play.entry:
        return f"it does not name the entry {play.entry[:16]}…, which calls the client silent"
    if form == BASED_REPORT_FORMATS[1]:
        return "it does not name the entry that calls the client silent"
    if play.attempt is None:
        return None
    if form not in (*BASED_REPORT_FORMATS, LATE_REPORT_FORMAT):
        return "it does not say what it rests on, as the reports of this round do"
    if play.settings is not None and form != LATE_REPORT_FORMAT:
        return "it does not name the entry that calls the client silent"
    # The model may be another one: a client that fell silent may have had that of the last iteration only.
    for name, settled in (("opening_model", play.opening_model), ("terms", play.terms)):
        if document.get(name) != settled:
            return f"its {name.replace('_', ' ')} is not that of the round"
    opening, its_attempt = play.attempt.rpartition("/")[0], str(document.get("attempt"))
    if not is_of_opening(its_attempt, opening):
        return f"it is about another opening of the round than {opening!r}"
    if not is_valued_before(play.attempt, its_attempt):
        return f"its attempt {its_attempt} is not after {play.attempt}, by which the round was settled"
    return None
