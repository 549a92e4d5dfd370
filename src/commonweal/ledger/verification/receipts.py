"""Check that the ledger agrees with the receipts that members keep: it must have every report that one is for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from commonweal.ledger.canonical import parse
from commonweal.ledger.chain import retirement_of
from commonweal.ledger.entries import moment_of
from commonweal.ledger.late_reports import Play
from commonweal.ledger.order import CLOCK_SKEW
from commonweal.ledger.readable import UNREADABLE
from commonweal.ledger.receipts import ReportReceipt, report_hash
from commonweal.ledger.reports import LATE_REPORT_FORMAT, unused_in
from commonweal.ledger.silence import silent_in
from commonweal.ledger.state import LedgerState
from commonweal.ledger.store import Store
from commonweal.ledger.verification.members import check_rotations
from commonweal.ledger.verification.replay import Finding, Findings


def disproved_by_receipts(
    store: Store,
    state: LedgerState,
    receipts: Sequence[ReportReceipt],
    operators: Sequence[str],
    known_rotations: Sequence[Any] = (),
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Findings and notes: where entries of rounds differ from what the operator signed receipts for.

    `operators` are the operator's known keys, `known_rotations` changes of them that other files tell of. A round that
    was interrupted is run again, so a member may have receipts for several reports of it. Reports are numbered, and an
    entry lists all of them: each one must be there. A settlement that was reversed must have those that were there: if
    it does not, it is a finding where something that followed from it stands, and else a note, since it was corrected.
    """
    findings, notes = Findings(), Findings()
    valid = [receipt for receipt in receipts if _is_valid(receipt, state, operators, findings)]
    if valid:
        with store.reading() as reading:
            seen = {entry.number: entry.hash for entry in reading.entries()}
        for receipt in valid:
            rotations = receipt.signed.document["key_rotations"]
            check_rotations(receipt.source, receipt.ledger, rotations, operators, seen, findings)
        valid = _by_keys_in_use(store, valid, known_rotations, findings, notes)
    settlements = _settlements(store, {receipt.round_number for receipt in valid}, state)
    for client, number in dict.fromkeys((receipt.client, receipt.round_number) for receipt in valid):
        given = [receipt for receipt in valid if (receipt.client, receipt.round_number) == (client, number)]
        late = _late_report(store, state, given)
        _check_decided_since(store, state, [each for each in given if each.report in late], findings, notes)
        given = [receipt for receipt in given if receipt.report not in late]
        sources, reports = ", ".join(receipt.source for receipt in given), {receipt.report for receipt in given}
        if not reports:
            continue  # it was silent, and has a receipt for the report that it owed
        settled = state.rounds.get(number)
        if settled is None:
            is_passed = any(later > number for later in state.rounds)
            rule = f"the round that {sources} acknowledges a report of is settled"
            (findings if is_passed else notes).add(0, rule, f"round {number}", "not in the ledger")
        for each in settlements[number]:
            if each.entry == settled:
                _compare(each, client, given, findings, notes)
            else:
                spoken = [receipt for receipt in given if _speaks_of(receipt, each, settlements[number])]
                _compare(each, client, spoken, findings if each.has_consequences else notes, notes)
    return findings.all(), notes.all()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settled:
    """One settlement of a round, reversed or not."""

    entry: int
    at: datetime | None
    body: Mapping[str, Any]
    has_consequences: bool  # it was reversed, and an income or an amendment from before that stands

    @property
    def attempt(self) -> str | None:
        """That its reports name."""
        return Play.of(self.body, "").attempt


def _settlements(store: Store, rounds: Collection[int], state: LedgerState) -> dict[int, list[_Settled]]:
    """All settlements of these rounds that can be read, in order."""
    found: dict[int, list[_Settled]] = {number: [] for number in rounds}
    if not found:
        return found
    lasting = list[int]()
    with store.reading() as reading:
        entries = [(entry.number, parse(entry.content) or {}) for entry in reading.entries()]
    for number, document in entries:
        kind = document.get("kind")
        if kind == "amendment" or (kind == "realisation" and number not in state.reversals):
            lasting.append(number)
    for number, document in entries:
        body = document.get("body")
        if document.get("kind") == "round" and isinstance(body, dict) and body.get("round") in rounds:
            until = state.reversals.get(number, number)
            has_consequences = any(number < each < until for each in lasting)
            at = moment_of(document.get("at"))
            found[body["round"]].append(_Settled(entry=number, at=at, body=body, has_consequences=has_consequences))
    return found


def _speaks_of(receipt: ReportReceipt, reversed_one: _Settled, settlements: Sequence[_Settled]) -> bool:
    """Whether the report that a receipt is for was there when a round was settled that has been reversed since.

    It was, if the receipt is from before; dates are the operator's word, so it also was if it is of the same attempt.
    """
    given = moment_of(receipt.signed.document["at"])
    if given is not None and reversed_one.at is not None and given <= reversed_one.at:
        return True
    with suppress(*UNREADABLE):
        attempts = {
            report_hash(str(signature)): attempt
            for each in settlements
            for row in each.body["inputs"]
            if row["client"] == receipt.client
            for signature, attempt in _attempts_in(row)
        }
        return reversed_one.attempt is not None and attempts.get(receipt.report) == reversed_one.attempt
    return False


def _attempts_in(row: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """The signatures of a client's reports, each with the attempt that the report names."""
    if "report" in row:
        yield row["signature"], row["report"]["attempt"]
        for earlier in row["report"]["earlier"]:
            yield earlier["signature"], earlier["report"]["attempt"]


def _compare(settled: _Settled, client: str, given: Sequence[ReportReceipt], found: Findings, notes: Findings) -> None:
    """Add what the receipts of a client disprove in one settlement of a round.

    They disprove nothing if the client is absent and the entry lists its reports: it was asked again in vain.
    """
    if not given:
        return
    entry, body = settled.entry, settled.body
    rule = f"the round has the report that {', '.join(receipt.source for receipt in given)} acknowledges"
    try:
        listed = set(_reports_of(body, client))
        if client in body["absent"]:
            is_listed = client not in silent_in(body) and all(receipt.report in listed for receipt in given)
            (notes if is_listed else found).add(
                entry, rule, f"a report of {client}", "silent" if client in silent_in(body) else "absent"
            )
            return
        for receipt in given:
            if receipt.report not in listed:
                rule = f"the round has the report that {receipt.source} acknowledges"
                found.add(entry, rule, f"{client}'s report {receipt.report[:16]}…", "another report, or none")
    except (AttributeError, KeyError, TypeError):
        found.add(entry, rule, f"a report of {client}", "a damaged entry")


def _is_valid(receipt: ReportReceipt, state: LedgerState, operators: Sequence[str], findings: Findings) -> bool:
    """Anybody can write a file, so a receipt counts only if the operator signed it."""
    if receipt.signed.is_sound and receipt.ledger != state.identity:
        found = f"{state.identity[:16]}…"
        findings.add(1, f"{receipt.source} is about this ledger", f"ledger {receipt.ledger[:16]}…", found)
        return False
    if not any(receipt.is_by(operator) for operator in operators):
        keys = ", ".join(f"{operator[:16]}…" for operator in operators) or "no key"
        findings.add(0, f"the operator signed {receipt.source}", keys, "another signature or none")
        return False
    return True


def _by_keys_in_use(
    store: Store,
    receipts: Sequence[ReportReceipt],
    known_rotations: Sequence[Any],
    findings: Findings,
    notes: Findings,
) -> list[ReportReceipt]:
    """The receipts that the operator can have signed: whoever has a key that was retired may not be the operator.

    A receipt names no entry. But the key may have been changed between a receipt and the settlement of its round only
    in the first round that is settled after the change. Dates decide nothing: that of a receipt is the word of whoever
    signed it, and that of the change is the operator's, who could date it back to be rid of receipts. So could a change
    of key that only the receipt itself names.
    """
    rotations, settled = list[Any](), list[tuple[int, int]]()  # entry and round, in order
    with store.reading() as reading:
        for entry in reading.entries():
            document = parse(entry.content) or {}
            body = document.get("body")
            if document.get("kind") == "key-rotation":
                rotations.append({"content": entry.content, "signature": entry.signature})
            elif document.get("kind") == "round" and isinstance(body, dict) and type(body.get("round")) is int:
                settled.append((entry.number, body["round"]))
    rotations += known_rotations  # a rewritten ledger may lack them
    in_use = []
    for receipt in receipts:
        others = [each.signed.document["key_rotations"] for each in receipts if each is not receipt]
        known = [*rotations, *(rotation for told in others for rotation in told)]
        retirement = retirement_of(receipt.signed.signer, receipt.ledger, known)
        if retirement is None:
            in_use.append(receipt)
            continue
        number = retirement["number"]
        ever_before = {settled_round for entry, settled_round in settled if entry < number}
        under_way = next((each for entry, each in settled if entry > number and each not in ever_before), None)
        given, retired = moment_of(receipt.signed.document["at"]), moment_of(retirement.get("at"))
        if under_way is not None and receipt.round_number > under_way:
            expected = f"a key of the operator after entry {number}"
            found = f"{receipt.signed.signer[:16]}…, which entry {number} retired"
            findings.add(number, f"{receipt.source} is signed with a key that was in use", expected, found)
            continue
        in_use.append(receipt)
        if given is None or (retired is not None and given > retired + CLOCK_SKEW):
            rule = f"{receipt.source} is dated before entry {number}, which retired the key that signed it"
            notes.add(number, rule, str(retirement.get("at")), receipt.signed.document["at"])
    return in_use


def _late_report(store: Store, state: LedgerState, given: Sequence[ReportReceipt]) -> set[str]:
    """The hash of the report of a round that the ledger has as a late one, if it cannot have come in time.

    One that names the entry which calls its client silent cannot. Of others, the operator's dates must tell.
    """
    client, number = given[0].client, given[0].round_number
    late = _body(store, state.late_reports.get(client, {}).get(number))
    if late is None:
        return set()
    report, found = late.get("report"), {report_hash(str(late.get("signature")))}
    if isinstance(report, dict) and report.get("format") == LATE_REPORT_FORMAT:
        return found
    return found & _given_after(store, state, given)


def _given_after(store: Store, state: LedgerState, given: Sequence[ReportReceipt]) -> set[str]:
    """The reports of one client and round whose first receipt is from after the settlement that called it silent.

    What came before that was in time, even if the ledger has it as a late report.
    """
    client, number = given[0].client, given[0].round_number
    late = state.late_reports.get(client, {}).get(number)
    if late is None:
        return set()
    settled = ""
    with store.reading() as reading:
        for entry in reading.entries():
            if entry.number >= late:
                break
            document = parse(entry.content) or {}
            body = document.get("body")
            if document.get("kind") == "round" and isinstance(body, dict) and body.get("round") == number:
                settled = str(document.get("at"))
    first: dict[str, str] = {}
    for receipt in given:
        at = receipt.signed.document["at"]
        first[receipt.report] = min(at, first.get(receipt.report, at))
    return {report for report, at in first.items() if settled and at >= settled}


def _check_decided_since(
    store: Store, state: LedgerState, given: Sequence[ReportReceipt], findings: Findings, notes: Findings
) -> None:
    """Add what was decided between the receipts of a late report and its entry, by their dates.

    Who has reported late is not charged, and takes part again. The operator signed the date of the receipt, which is no
    earlier than that of the last entry. A round without the client is a note: the coordinator may have been interrupted
    after the receipt, and the client away when it was asked again.
    """
    if not given:
        return
    receipt = min(given, key=_date_of)
    received = _date_of(receipt)
    client, number, source = receipt.client, receipt.round_number, receipt.source
    for entry, charged in state.charges.items():
        at = _document(store, entry).get("at")
        if charged == (client, number) and _is_after(at, received):
            rule = f"no charge follows the late report that {source} acknowledges"
            findings.add(entry, rule, f"none of {client} for round {number}", f"a charge of {at}")
    entered = state.late_reports[client][number]
    for later, entry in sorted(state.rounds.items()):
        is_between = later > number and entry < entered and _is_after(_document(store, entry).get("at"), received)
        if is_between and client in (_body(store, entry) or {}).get("absent", ()):
            rule = f"no round goes on without the late report that {source} acknowledges"
            found = f"{client} absent from round {later}, and its report entered later"
            notes.add(entry, rule, f"the report of round {number} in the ledger before round {later}", found)
            break


def _date_of(receipt: ReportReceipt) -> datetime:
    """One without a date, which the operator owes its client, counts as the earliest."""
    return moment_of(receipt.signed.document["at"]) or datetime.min.replace(tzinfo=UTC)


def _is_after(at: Any, moment: datetime) -> bool:
    dated = moment_of(at)
    return dated is not None and dated > moment


def _body(store: Store, entry: int | None) -> Mapping[str, Any] | None:
    body = None if entry is None else _document(store, entry).get("body")
    return body if isinstance(body, dict) else None


def _document(store: Store, entry: int) -> Mapping[str, Any]:
    """An entry's content; empty if it cannot be read."""
    with store.reading() as reading:
        stored = next(reading.entries(after=entry - 1), None)
    return {} if stored is None else parse(stored.content) or {}


def _reports_of(body: Mapping[str, Any], client: str) -> Iterator[str]:
    """The hashes of the signatures of all of a client's reports that the entry of a round has.

    Python's own errors if the entry is damaged.
    """
    for row in body["inputs"]:
        if row["client"] != client:
            continue
        earlier = row["report"]["earlier"] if "report" in row else ()
        for signature in (row["signature"], *(report["signature"] for report in earlier)):
            if isinstance(signature, str):
                yield report_hash(signature)
    for report in unused_in(body).get(client, ()):
        yield report_hash(report.signature)
