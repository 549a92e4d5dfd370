"""A late report was made after its round was settled: a report in time cannot be entered as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from commonweal.ledger.reports import BASED_REPORT_FORMATS

if TYPE_CHECKING:  # the state knows late reports
    from commonweal.ledger.state import LedgerState

REPORT_FORMATS = ("commonweal.report/1", "commonweal.report/2", *BASED_REPORT_FORMATS)


def attempt_of(body: Mapping[str, Any]) -> str | None:
    """The attempt that a settled round's reports name; None if they name none."""
    return next((row["report"]["attempt"] for row in body["inputs"] if "report" in row), None)


def fault_of_late_report(document: Mapping[str, Any], round_number: int, state: LedgerState) -> str | None:
    """Why a document is not a late report of a round that is settled; None if it can be one."""
    form = document.get("format")
    if form not in REPORT_FORMATS:
        return f"it is not a report, but has the format {form!r}"
    settled = state.attempts.get(round_number)
    if settled is None:
        return None
    if form not in BASED_REPORT_FORMATS:
        return "it does not say what it rests on, as the reports of this round do"
    opening, _, valuation = settled.rpartition("/")
    its_opening, _, its_valuation = str(document.get("attempt")).rpartition("/")
    if its_opening != opening:
        return f"it is about another opening of the round than {opening!r}"
    if not _is_later(its_valuation, valuation):
        return f"its attempt {its_opening}/{its_valuation} is not after {settled}, by which the round was settled"
    return None


def _is_later(one: str, other: str) -> bool:
    digits = one.isascii() and one.isdigit() and other.isascii() and other.isdigit()
    return digits and len(one) < 10 and len(other) < 10 and int(one) > int(other)
