"""Compare what statements tell of rounds with what this member reported, and with the receipts it got for that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from commonweal.errors import StorageError
from commonweal.ledger.member_documents import ROUND_LIMIT
from commonweal.ledger.receipts import report_hash
from commonweal.records.statement import StatementLine
from commonweal.remote.member.receipts import RECEIPTS, acknowledged
from commonweal.remote.member.report_book import REPORTS, ReportBook, reported_rounds
from commonweal.remote.member.store import MemberStore

_ROUND_TEXT = re.compile(r"round ([0-9]{1,10}): ")  # how lines of all versions start that tell of a round

_STARTS: dict[str, tuple[str, ...]] = {  # how the lines of each kind of entry start, in all versions
    "round": ("round ",),
    "realisation": ("income, ",),
    "reversal": ("reversal of entry ",),
    "withdrawal": ("withdrew after round ",),
    "charge": ("charge for ",),
    "exclusion": ("membership ended",),
    "late-report": ("reported round ",),
    "admission": ("admitted",),
    "amendment": ("admitted", "amendment "),
}


def round_told(line: StatementLine) -> int | None:
    """The round that a line tells the outcome of; None if it is about something else, or does not say."""
    if line.kind not in (None, "round"):
        return None
    if line.round_number is not None:
        return line.round_number
    match = _ROUND_TEXT.match(line.text)  # whole statements do not name the round apart
    return None if match is None else int(match[1])


def mislabelled(lines: Sequence[StatementLine]) -> list[str]:
    """Lines whose words and whose field name two different rounds, and lines that hide what they are about.

    A line of a round that the member missed has no figures, so only its kind and its round tell what it is.
    """
    found = []
    for line in lines:
        starts = sum(_STARTS.values(), ()) if line.kind is None else _STARTS.get(line.kind, ())
        if not line.text.startswith(starts):
            kind = "" if line.kind is None else f" of kind {line.kind[:40]!r}"
            found.append(f"the line about entry {line.entry}{kind} says {line.text[:40]!r}, which is not known here")
        elif line.kind in ("round", "late-report") and line.round_number is None:
            found.append(f"the line about entry {line.entry} does not say which round it is about")
        match = _ROUND_TEXT.match(line.text)
        if match is not None and line.round_number is not None and int(match[1]) != line.round_number:
            found.append(
                f"the line about entry {line.entry} says round {match[1]}, but names round {line.round_number}"
            )
    return found


def last_round_told(lines: Sequence[StatementLine], before: int | None) -> int | None:
    """The highest round told so far; `before` is that before these lines."""
    return max((number for line in lines if (number := round_told(line)) is not None), default=before)


def differences_from_reports(store: MemberStore, lines: Sequence[StatementLine], last_round: int | None) -> list[str]:
    """Where new lines differ from this member's reports and receipts, whatever message brought them.

    `last_round` is the highest round that earlier lines tell of; None if that is not known.
    """
    return list(_differences(store, lines, last_round))


def _differences(store: MemberStore, lines: Sequence[StatementLine], last_round: int | None) -> Iterator[str]:
    told: dict[int, list[StatementLine]] = {}
    for line in lines:
        number = round_told(line)
        if number is not None and 0 < number <= ROUND_LIMIT:
            told.setdefault(number, []).append(line)
        elif number is not None or line.profit is not None or line.kind == "round":
            yield f"the line about entry {line.entry} does not say which round it is about"
    is_reversed = any(line.kind == "reversal" for line in lines)  # then only the last line of a round stands
    late = {line.round_number for line in lines if line.kind == "late-report"}
    for number, of_round in told.items():
        for line in of_round[-1:] if is_reversed else of_round:
            if difference := _difference(store, number, line, is_late=number in late):
                yield f"round {number}: {difference}"
    first = min(told, default=0) if last_round is None else last_round + 1
    for number in reported_rounds(store):
        if first <= number < max(told, default=0) and number not in told and acknowledged(store, number):
            yield (
                f"round {number}: the statement goes on to round {max(told)} without a line about this one, but the "
                f"operator signed a receipt for a report of it, in {RECEIPTS}"
            )


def _difference(store: MemberStore, number: int, line: StatementLine, *, is_late: bool) -> str:
    try:
        last = ReportBook(store, number).last
    except StorageError as error:
        return f"the statement cannot be compared with the reports: {error}"
    if line.profit is not None:
        if last is None and number < min(reported_rounds(store), default=number + 1):
            return ""  # the folder is younger than this round: it was lost
        if last is None:
            return (
                f"the statement says that a profit of {line.profit!r} was reported, but there is no report of this "
                f"round in {REPORTS}. Unless this folder was restored from a backup, ask the operator"
            )
        if line.profit == last.document["profit"]:
            return ""
        return (
            f"the statement says that a profit of {line.profit!r} was reported, but the last report signed here, in "
            f"{REPORTS}/round-{number:04d}.json, says {last.document['profit']!r}"
        )
    receipts = acknowledged(store, number)
    if is_late and last is not None and "entry" in last.document:  # asked for after the round was settled
        receipts.pop(report_hash(last.signature), None)
    if not receipts:
        return ""
    return (
        f"the statement calls this member absent or silent, but the operator signed a receipt for its report, "
        f"{RECEIPTS}/{min(receipts.values())}. Unless the round was run again while this member was away, show the "
        "receipt to the other members"
    )
