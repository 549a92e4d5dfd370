"""Does an entry follow from what it states, and from the entries before? One rule or two for each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from commonweal.ledger.audit.findings import Findings
from commonweal.ledger.audit.replay import Replay
from commonweal.ledger.audit.rounds import expected_of_round
from commonweal.ledger.audit.withdrawals import check_withdrawal
from commonweal.ledger.entries import INCOME, Posting, client_account
from commonweal.ledger.keys import is_signed_by_operator
from commonweal.ledger.ledger import rotation_message
from commonweal.ledger.money import in_proportion
from commonweal.ledger.store import StoredPosting

Expected = tuple[Posting, ...] | None
"""The postings that an entry must have by its own inputs; None where these are so wrong that nothing follows."""


def check_entry(
    number: int,
    document: Mapping[str, Any],
    stated: Sequence[Posting],
    rows: Sequence[StoredPosting],
    replay: Replay,
) -> None:
    """Check the postings that an entry states against its inputs, and `rows`, the table's, against them.

    Raises what Python raises where the entry lacks something that its kind needs.
    """
    findings = replay.findings
    _check_stated(number, document["postings"], stated, findings)
    _check_rows(number, stated, rows, findings)
    expected = _expected(number, document["kind"], document["body"], replay)
    if expected is not None:
        findings.compare(number, "postings follow from the entry's inputs", _shown(expected), _shown(stated))


def _check_stated(number: int, written: Any, stated: Sequence[Posting], findings: Findings) -> None:
    # 5.7, " 5" and "5_0" become whole numbers in Python too, and something else elsewhere.
    findings.compare(
        number, "amounts are whole numbers in digits", [[each.account, str(each.amount)] for each in stated], written
    )
    total = sum(posting.amount for posting in stated)
    if total:
        findings.add(number, "an entry sums to zero", "0", str(total))


def _check_rows(number: int, stated: Sequence[Posting], rows: Sequence[StoredPosting], findings: Findings) -> None:
    rule = "the table of postings is what the entry states"
    for place, (posting, row) in enumerate(zip(stated, rows, strict=False)):
        if (place, posting) != (row.position, row.posting):
            findings.add(number, rule, _row(place, posting), _row(row.position, row.posting))
            return
    if len(stated) != len(rows):
        findings.add(number, rule, f"{len(stated)} rows", f"{len(rows)} rows")


def _expected(number: int, kind: str, body: Mapping[str, Any], replay: Replay) -> Expected:
    findings = replay.findings
    if (kind == "opening") != (number == 1):
        findings.add(number, "a book has one opening, its first entry", "entry 1", f"{kind} as entry {number}")
    if kind == "round":
        return expected_of_round(number, body, replay)
    if kind == "realisation":
        return _expected_of_realisation(number, body, replay)
    if kind == "reversal":
        return _expected_of_reversal(number, body, replay)
    if kind == "admission":
        _check_admission(number, body, replay)
    elif kind == "withdrawal":
        check_withdrawal(number, body, replay)
    elif kind == "key-rotation":
        _check_rotation(number, body, replay)
    elif kind != "opening":
        findings.add(number, "an entry is of a known kind", "one of seven kinds", str(kind))
    return ()


def _check_admission(number: int, body: Mapping[str, Any], replay: Replay) -> None:
    known = set(replay.state.members)
    for member in body["members"]:
        if member["client"] in known:
            replay.findings.add(number, "a client is admitted once", "a new client", str(member["client"]))
        known.add(member["client"])


def _check_rotation(number: int, body: Mapping[str, Any], replay: Replay) -> None:
    public = body["operator"]
    if not is_signed_by_operator(rotation_message(replay.state.book, public), body["proof"], public):
        replay.findings.add(number, "a new key signs its own name", f"a proof by {public[:16]}…", "another or none")


def _expected_of_realisation(number: int, body: Mapping[str, Any], replay: Replay) -> Expected:
    state, findings = replay.state, replay.findings
    amount, reference = int(body["amount"]), body["reference"]
    findings.compare(number, "amounts are whole numbers in digits", str(amount), body["amount"])
    before = state.references.get(reference)
    if before is not None:
        findings.add(number, "a reference is used once", f"{reference!r} in entry {before.entry} alone", "again")
    weights = state.weights()
    if amount <= 0 or not weights:
        findings.add(number, "income is divided among those who accrued", "income and somebody", f"{amount}")
        return None
    parts = in_proportion(amount, weights)
    divided = (Posting(client_account(client), part) for client, part in parts.items() if part)
    return (Posting(INCOME, -amount), *divided)


def _expected_of_reversal(number: int, body: Mapping[str, Any], replay: Replay) -> Expected:
    findings, reversals = replay.findings, replay.state.reversals
    entry = body["entry"]
    if entry in reversals:
        findings.add(number, "an entry is reversed once", f"entry {entry} by {reversals[entry]}", "again")
    past = replay.past.get(entry)
    if past is None or past.kind not in ("round", "realisation"):
        what = f"entry {entry}, {past.kind}" if past else f"no entry {entry} before"
        findings.add(number, "rounds and realisations can be reversed", "one of them", what)
        return None
    return tuple(Posting(posting.account, -posting.amount) for posting in past.postings)


def _shown(postings: Sequence[Posting]) -> list[str]:
    return [f"{posting.account} {posting.amount}" for posting in postings]


def _row(position: int, posting: Posting) -> str:
    return f"[{position}] {posting.account} {posting.amount}"
