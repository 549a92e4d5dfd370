"""Compare what statements tell of rounds with what this member reported, and with the receipts it got for that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from commonweal.errors import StorageError
from commonweal.ledger.member_documents import ROUND_LIMIT
from commonweal.ledger.receipts import report_hash
from commonweal.records.statement import StatementLine
from commonweal.remote.member.receipts import RECEIPTS, acknowledged
from commonweal.remote.member.report_book import ReportBook, reported_rounds
from commonweal.remote.member.store import REPORTS, MemberStore

_ROUND_TEXT = re.compile(r"round ([0-9]{1,10}): ")  # how lines of all versions start that tell of a round

_FATE = re.compile(r"(?:round [0-9]{1,10}: )?(retained|eliminated|silent|absent|resting)\b")  # in lines and in messages

_ENDED = "membership ended: silent in rounds "
_FOR_SILENCE = re.compile(rf"(?:{_ENDED}|charge for your silence in round )([0-9]{{1,10}}(?:, [0-9]{{1,10}})*)")
_STARTS: dict[str, tuple[str, ...]] = {  # how the lines of each kind of entry start, in all versions
    "round": ("round ",),
    "realisation": ("income, ",),
    "reversal": ("reversal of entry ",),
    "withdrawal": ("withdrew after round ",),
    "charge": ("charge for ",),
    "exclusion": (_ENDED,),
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


def mislabelled(lines: Sequence[StatementLine], *, is_part: bool) -> list[str]:
    """Lines whose words and whose field name two different rounds, and lines that hide what they are about.

    A line of a round that the member missed has no figures, so only its kind and its round tell what it is. Whole
    statements have no kinds; there the words must do.
    """
    found = []
    for line in lines:
        match = _ROUND_TEXT.match(line.text)
        starts = sum(_STARTS.values(), ()) if line.kind is None else _STARTS.get(line.kind, ())
        if is_part and line.kind is None:
            found.append(f"the line about entry {line.entry} does not say of what kind that entry is")
        elif not line.text.startswith(starts) or (line.text.startswith("round ") and match is None):
            kind = "" if line.kind is None else f" of kind {line.kind[:40]!r}"
            found.append(f"the line about entry {line.entry}{kind} says {line.text[:40]!r}, which is not known here")
        elif line.kind in ("round", "late-report") and line.round_number is None:
            found.append(f"the line about entry {line.entry} does not say which round it is about")
        if match is not None and line.round_number is not None and int(match[1]) != line.round_number:
            found.append(
                f"the line about entry {line.entry} says round {match[1]}, but names round {line.round_number}"
            )
    return found


def last_round_told(lines: Sequence[StatementLine], before: int | None) -> int | None:
    """The highest round told so far; `before` is that before these lines."""
    return max((number for line in lines if (number := round_told(line)) is not None), default=before)


def contradicts(lines: Sequence[StatementLine], round_number: object, outcome: str) -> str:
    """Why what was told with a statement is not what its new lines say of the round; empty if it is, or is unclear."""
    of_round = [line for line in lines if round_told(line) == round_number]
    said, told = (_FATE.match(of_round[-1].text) if of_round else None), _FATE.match(outcome)
    if said is None or told is None or said[1] == told[1]:
        return ""
    return f"round {round_number}: {told[1]!r} was told with the statement, but its line says {said[1]!r}"


def differences_from_reports(
    store: MemberStore, lines: Sequence[StatementLine], last_round: int | None, *, closed: int
) -> list[str]:
    """Where new lines differ from this member's reports and receipts, whatever message brought them.

    `last_round` is the highest round that earlier lines tell of; None if that is not known. `closed` is the round that
    the statement closes: if it was reported here, it must have a line.
    """
    return list(_differences(store, lines, last_round, closed))


def _differences(
    store: MemberStore, lines: Sequence[StatementLine], last_round: int | None, closed: int
) -> Iterator[str]:
    told: dict[int, list[StatementLine]] = {}
    for line in lines:
        number = round_told(line)
        if number is not None and 0 < number <= ROUND_LIMIT:
            told.setdefault(number, []).append(line)
        elif number is not None or line.profit is not None or line.kind == "round":
            yield f"the line about entry {line.entry} does not say which round it is about"
    is_reversed = any(line.kind == "reversal" for line in lines)  # then only the last line of a round stands
    for number, of_round in told.items():
        for line in of_round[-1:] if is_reversed else of_round:
            if difference := _difference(store, number, line):
                yield f"round {number}: {difference}"
    punished = _punished(lines)
    last = max((*told, closed))
    first = min(told, default=last + 1) if last_round is None else last_round + 1
    for number in reported_rounds(store):
        if number in told or not (evidence := _evidence(store, number)):
            continue
        if number in punished:
            yield f"round {number}: the statement says {punished[number][:60]!r}, but {evidence}"
        elif first <= number < last:
            yield f"round {number}: the statement goes on to round {last} without a line about this one, but {evidence}"
        elif first <= number == last:
            yield f"round {number}: the statement that closes this round has no line about it, but {evidence}"


def _punished(lines: Sequence[StatementLine]) -> dict[int, str]:
    """The rounds that lines charge the member for, or end its membership for, since it was silent; with their texts."""
    found = {line.text: match for line in lines if (match := _FOR_SILENCE.match(line.text)) is not None}
    return {int(number): text for text, match in found.items() for number in match[1].split(", ")}


def _difference(store: MemberStore, number: int, line: StatementLine) -> str:
    if line.profit is None:
        evidence = _evidence(store, number)
        return evidence and f"the statement calls this member absent or silent, but {evidence}"
    try:
        last = ReportBook(store, number).last
    except StorageError as error:
        return f"the statement cannot be compared with the reports: {error}"
    if last is None and number < min(reported_rounds(store), default=number + 1):
        return ""  # the folder is younger than this round: it was lost
    if last is None:
        return (
            f"the statement says that a profit of {line.profit!r} was reported, but there is no report of this round "
            f"in {REPORTS}. Unless this folder was restored from a backup, ask the operator"
        )
    if line.profit == last.document["profit"]:
        return ""
    return (
        f"the statement says that a profit of {line.profit!r} was reported, but the last report signed here, in "
        f"{REPORTS}/round-{number:04d}.json, says {last.document['profit']!r}"
    )


def _evidence(store: MemberStore, number: int) -> str:
    """What this member has to show that it reported a round in time, to end a sentence; empty if it did not.

    A report that names the entry which calls it silent was asked for after that.
    """
    receipts = acknowledged(store, number)
    try:
        reports = ReportBook(store, number).reports
    except StorageError as error:
        return f"that cannot be compared with the reports: {error}"
    late = {report_hash(report.signature) for report in reports if "entry" in report.document}
    in_time = sorted(name for report, name in receipts.items() if report not in late)
    if in_time:
        return (
            f"the operator signed a receipt for its report, {RECEIPTS}/{in_time[0]}. Unless the round was run again "
            "while this member was away, show the receipt to the other members"
        )
    if len(late) < len(reports):
        return (
            f"it signed a report, in {REPORTS}/round-{number:04d}.json, and no receipt came for that. Unless the round "
            "was run again while this member was away, or its answer was lost or late, the operator left out the "
            "report: object at once"
        )
    return ""
