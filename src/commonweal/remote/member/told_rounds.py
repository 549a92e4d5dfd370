"""Compare what statements tell with the lines kept before, with what this member did, and with the receipts it got."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from commonweal.errors import StorageError
from commonweal.ledger.line_texts import SILENT, Told, fault_of_line, told_in
from commonweal.ledger.receipts import report_hash
from commonweal.ledger.silence import REVERSIBLE
from commonweal.records.statement import StatementLine
from commonweal.remote.member.receipts import RECEIPTS, acknowledged
from commonweal.remote.member.report_book import ReportBook, reported_rounds
from commonweal.remote.member.store import REPORTS, MemberStore

_FATE = re.compile(r"(retained|eliminated|silent|absent|resting)\b")  # in what a message says
_OBJECT = "Unless this folder was restored from a backup, object at once"


def round_told(line: StatementLine) -> int | None:
    """The round that a line tells the outcome of; None if it is about something else, or does not say."""
    told = told_in(line)
    return told.rounds[0] if told is not None and told.kind == "round" else None


def mislabelled(lines: Sequence[StatementLine], *, is_part: bool) -> list[str]:
    """Lines that no ledger leads to: in words that are not those of their kind, or with money that they cannot move.

    Whole statements have no kinds; there the words must do.
    """
    faults = [(line.entry, fault_of_line(line, is_part=is_part)) for line in lines]
    return [f"the line about entry {entry} {fault}" for entry, fault in faults if fault]


def last_round_told(lines: Sequence[StatementLine], before: int | None) -> int | None:
    """The highest round told so far; `before` is that before these lines."""
    told = [number for line in lines if (number := round_told(line)) is not None]
    return max([*told, before or 0]) if told else before


def contradicts(lines: Sequence[StatementLine], round_number: object, outcome: str) -> str:
    """Why what was told with a statement is not what its new lines say of the round; empty if it is, or is unclear."""
    said = [told.fate.split()[0] for told in map(told_in, lines) if told is not None and _is_of(told, round_number)]
    match = _FATE.match(outcome)
    if not said or match is None or said[-1] == match[1]:
        return ""
    return f"round {round_number}: {match[1]!r} was told with the statement, but its line says {said[-1]!r}"


def _is_of(told: Told, round_number: object) -> bool:
    """Whether it tells the outcome of a round."""
    return told.kind == "round" and told.rounds[0] == round_number


def differences(
    store: MemberStore,
    lines: Sequence[StatementLine],
    last_round: int | None,
    *,
    closed: int,
    kept: Callable[[], Sequence[StatementLine]],
) -> list[str]:
    """Where new lines differ from what this member did and from the lines kept before, whatever message brought them.

    `last_round` is the highest round that earlier lines tell of; None if that is not known. `closed` is the round that
    the statement closes: if it was reported here, it must have a line. `kept` reads the lines kept before.
    """
    is_plain = last_round is not None and all((round_told(line) or 0) > last_round for line in lines)
    standing = _Standing([] if is_plain else kept())
    found = [difference for line in lines for difference in standing.add(line)]
    told = {number for line in lines if (number := round_told(line)) is not None}
    for line in standing.of(lines):  # what was reversed in the same statement need not fit
        found += _from_own(store, line, standing, lines)
    return [*found, *_left_out(store, told, last_round, closed)]


class _Standing:
    """The lines that no later line reversed."""

    def __init__(self, lines: Sequence[StatementLine]) -> None:
        self._by_entry: dict[int, tuple[StatementLine, Told]] = {}
        self._reversed: set[int] = set()
        for line in lines:
            if line.entry not in self._by_entry and line.entry not in self._reversed:  # whole statements repeat lines
                list(self.add(line))

    def add(self, line: StatementLine) -> Iterator[str]:
        """Take in the next line; yields why it cannot follow those before it."""
        told = told_in(line)
        if told is None:  # kept by a version that did not look
            return
        if told.entry is not None:
            yield from self._reverse(line, told.entry)
        if told.kind == "round" or (told.kind == "charge" and told.is_own):
            for other, known in self._by_entry.values():
                if (known.kind, known.rounds, known.is_own) == (told.kind, told.rounds, True):
                    yield (
                        f"round {told.rounds[0]}: the line about entry {line.entry} says {line.text[:60]!r}, but entry "
                        f"{other.entry} said {other.text[:60]!r}, and no line reverses that. {_OBJECT}"
                    )
        self._by_entry[line.entry] = (line, told)

    def _reverse(self, line: StatementLine, entry: int) -> Iterator[str]:
        before = self._by_entry.pop(entry, None)
        if before is None or before[1].kind not in REVERSIBLE:
            yield f"entry {line.entry} is said to reverse entry {entry}, which is not among the lines here. {_OBJECT}"
        elif (line.amount, line.accrued) != (-before[0].amount, -before[0].accrued):
            yield (
                f"entry {line.entry} is said to reverse entry {entry}, but moves {line.amount} and accrues "
                f"{line.accrued} minor units, not {-before[0].amount} and {-before[0].accrued}. {_OBJECT}"
            )
        self._reversed.add(entry)

    def of(self, lines: Sequence[StatementLine]) -> list[tuple[StatementLine, Told]]:
        return [self._by_entry[line.entry] for line in lines if line.entry in self._by_entry]

    def fate(self, number: int) -> str:
        """What became of the client in a round, in one word; empty if no line that stands says so."""
        fates = [told.fate for _, told in self._by_entry.values() if _is_of(told, number)]
        return fates[-1] if fates else ""


def _from_own(
    store: MemberStore, given: tuple[StatementLine, Told], standing: _Standing, lines: Sequence[StatementLine]
) -> Iterator[str]:
    """How a line differs from what this member did in the rounds that it is about."""
    line, told = given
    says = f"the statement says {line.text[:60]!r}, but"
    for number in told.rounds:
        if told.kind == "round":
            if difference := _difference(store, number, line):
                yield f"round {number}: {difference}"
        elif told.kind == "exclusion" or (told.kind == "charge" and told.is_own):
            is_told_now = any((number, line.profit) == (round_told(line), None) for line in lines)
            if not is_told_now and (evidence := _evidence(store, number)):
                yield f"round {number}: {says} {evidence}"
            elif standing.fate(number) != SILENT:
                yield f"round {number}: {says} no line calls this member silent in that round. {_OBJECT}"
        elif told.kind == "withdrawal" and not _gave_notice(store, number):
            yield f"round {number}: {says} no notice of that was signed in this folder. {_OBJECT}"
        elif told.kind == "late-report" and not _reported_late(store, number):
            yield f"round {number}: {says} {REPORTS} has no late report of that round. {_OBJECT}"


def _left_out(store: MemberStore, told: set[int], last_round: int | None, closed: int) -> Iterator[str]:
    """Rounds that were reported here and that the lines pass over."""
    last = max((*told, closed))
    first = min(told, default=last + 1) if last_round is None else last_round + 1
    for number in reported_rounds(store):
        if number in told or not first <= number <= last or not (evidence := _evidence(store, number)):
            continue
        if number < last:
            yield f"round {number}: the statement goes on to round {last} without a line about this one, but {evidence}"
        else:
            yield f"round {number}: the statement that closes this round has no line about it, but {evidence}"


def _gave_notice(store: MemberStore, number: int) -> bool:
    """Folders of earlier versions did not note the rounds of notices, only that there is one."""
    notices = store.load().notices
    return number in notices or (not notices and store.wants_to_withdraw)


def _reported_late(store: MemberStore, number: int) -> bool:
    with suppress(StorageError):
        return ReportBook(store, number).has_late
    return False


def _difference(store: MemberStore, number: int, line: StatementLine) -> str:
    if line.profit is None:
        evidence = _evidence(store, number)
        return evidence and f"the statement calls this member absent or silent, but {evidence}"
    try:
        last = ReportBook(store, number).last
    except StorageError as error:
        return f"the statement cannot be compared with the reports: {error}"
    if last is None:
        return (
            f"the statement says that a profit of {line.profit!r} was reported, but there is no report of this round "
            f"in {REPORTS}. Unless this folder is newer than the round or was restored from a backup, ask the operator"
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
