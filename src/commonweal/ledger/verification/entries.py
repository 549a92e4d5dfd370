"""Check that an entry is signed, in its place in the chain, and follows from its inputs and the entries before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from commonweal.ledger.canonical import canonical, hash_of
from commonweal.ledger.chain import rotation_message
from commonweal.ledger.checks import KEYS_OF_THEIR_OWN
from commonweal.ledger.entries import (
    FORMAT,
    INCOME,
    Posting,
    StoredEntry,
    client_account,
    is_reason,
    is_reference,
    signed_message,
)
from commonweal.ledger.keys import fault_of_key, is_signed_by_operator
from commonweal.ledger.member_documents import ROUND_LIMIT, WithdrawalNotice
from commonweal.ledger.money import LARGEST_AMOUNT
from commonweal.ledger.order import NOTHING_REVERSED
from commonweal.ledger.silence import REVERSIBLE
from commonweal.ledger.state import LedgerState
from commonweal.ledger.store import StoredPosting
from commonweal.ledger.verification.replay import Findings, LedgerReplay
from commonweal.ledger.verification.reversals import (
    check_reversed_after_income,
    check_reversed_income,
)
from commonweal.ledger.verification.rounds import expected_of_round
from commonweal.ledger.verification.silence import (
    check_exclusion,
    check_late_report,
    check_may_be_reversed,
    expected_of_charge,
)
from commonweal.ledger.verification.terms import check_amendment, check_newcomers, check_terms, note_names_and_keys
from commonweal.ledger.verification.written_terms import terms_as_written

Expected = tuple[Posting, ...] | None
"""The postings that follow from an entry's inputs; None if the inputs are too damaged for that."""


def check_entry(
    number: int,
    document: Mapping[str, Any],
    stated: Sequence[Posting],
    rows: Sequence[StoredPosting],
    replay: LedgerReplay,
) -> None:
    """Check the postings that an entry states against its inputs, and `rows` of the postings table against both.

    If the entry lacks something that its kind needs, Python's own errors are raised.
    """
    findings = replay.findings
    _check_stated(number, document["postings"], stated, findings)
    _check_rows(number, stated, rows, findings)
    expected = _expected(number, document["kind"], document["body"], replay)
    if expected is not None:
        findings.compare(number, "the postings follow from the entry's inputs", _shown(expected), _shown(stated))


def _check_stated(number: int, written: Any, stated: Sequence[Posting], findings: Findings) -> None:
    # Python also reads 5.7, " 5" and "5_0" as integers; other programs may not.
    findings.compare(
        number,
        "amounts are whole numbers written in digits",
        [[each.account, str(each.amount)] for each in stated],
        written,
    )
    total = sum(posting.amount for posting in stated)
    if total:
        findings.add(number, "the entry sums to zero", "0", str(total))


def _check_rows(number: int, stated: Sequence[Posting], rows: Sequence[StoredPosting], findings: Findings) -> None:
    rule = "the table of postings matches the entry"
    for place, (posting, row) in enumerate(zip(stated, rows, strict=False)):
        if (place, posting) != (row.position, row.posting):
            findings.add(number, rule, _row(place, posting), _row(row.position, row.posting))
            return
    if len(stated) != len(rows):
        findings.add(number, f"{rule}: number of rows", str(len(stated)), str(len(rows)))


def _expected(number: int, kind: str, body: Mapping[str, Any], replay: LedgerReplay) -> Expected:
    findings = replay.findings
    if (kind == "opening") != (number == 1):
        findings.add(number, "only the first entry is an opening", "opening as entry 1", f"{kind} as entry {number}")
    if kind == "round":
        return expected_of_round(number, body, replay)
    if kind == "realisation":
        return _expected_of_realisation(number, body, replay)
    if kind == "reversal":
        return _expected_of_reversal(number, body, replay)
    if kind == "charge":
        return expected_of_charge(number, body, replay)
    if kind == "admission":
        _check_admission(number, body, replay)
    elif kind == "terms":
        check_terms(number, body, replay)
    elif kind == "amendment":
        check_amendment(number, body, replay)
    elif kind == "withdrawal":
        check_withdrawal(number, body, replay)
    elif kind == "late-report":
        check_late_report(number, body, replay)
    elif kind == "exclusion":
        check_exclusion(number, body, replay)
    elif kind == "key-rotation":
        _check_rotation(number, body, replay)
    elif kind == "opening":
        terms_as_written(number, body["terms"], replay)
    else:
        findings.add(number, "the kind of the entry is known", "a kind that this version knows", str(kind))
    return ()


def _check_admission(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    newcomers = [member["client"] for member in body["members"]]
    if not newcomers:
        replay.findings.add(number, "an admission admits somebody", "members", "none")
    check_newcomers(number, newcomers, replay)
    note_names_and_keys(number, {member["client"]: member["key"] for member in body["members"]}, replay)
    known = set(replay.state.members)
    for member in body["members"]:
        if member["client"] in known:
            replay.findings.add(number, "a client is admitted only once", "new clients", f"{member['client']} again")
        if member["key"] is not None and (fault := fault_of_key(member["key"])) is not None:
            replay.findings.add(
                number, "members have keys that only they can sign with", "such a key", f"one that {fault}"
            )
        known.add(member["client"])


def _check_rotation(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    public = body["operator"]
    if public == replay.state.operator or public in replay.retired:
        found = f"{public[:16]}…, which is in use or was retired"
        replay.findings.add(number, "a key that was retired stays retired", "a new key", found)
    owner = next((client for client, key in replay.state.members.items() if key == public), None)
    if owner is not None:
        replay.findings.add(number, KEYS_OF_THEIR_OWN, "a key of the operator alone", f"that of {owner}")
    if not is_signed_by_operator(rotation_message(replay.state.identity, public), body["proof"], public):
        replay.findings.add(
            number, "the new key signed its own announcement", f"a proof by {public[:16]}…", "another signature or none"
        )


def _expected_of_realisation(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> Expected:
    state, findings = replay.state, replay.findings
    amount, reference = int(body["amount"]), body["reference"]
    findings.compare(number, "amounts are whole numbers written in digits", str(amount), body["amount"])
    if amount > LARGEST_AMOUNT:
        findings.add(number, "an income is at most 10^15 minor units", f"at most {LARGEST_AMOUNT}", str(amount))
    if isinstance(reference, str) and not is_reference(reference):
        kept = findings if not reference.strip() else replay.notes
        kept.add(number, "a reference is a short text", "1 to 200 characters, no spaces around it", repr(reference))
    before = state.references.get(reference)
    if before is not None:
        expected = f"{reference!r} only in entry {before.entry}"
        findings.add(number, "a reference is used only once", expected, "used again")
    weights = state.weights()
    if amount <= 0 or not weights:
        findings.add(
            number,
            "income is divided in proportion to accrued payoffs",
            "income and accrued payoffs above zero",
            f"an income of {amount}" + ("" if weights else " and no accrued payoffs"),
        )
        return None
    divided = (Posting(client_account(client), part) for client, part in state.divided(amount).items() if part)
    return (Posting(INCOME, -amount), *divided)


def _expected_of_reversal(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> Expected:
    findings, reversals = replay.findings, replay.state.reversals
    entry = body["entry"]
    if entry in reversals:
        expected = f"entry {entry} only by entry {reversals[entry]}"
        findings.add(number, "an entry is reversed only once", expected, "reversed again")
    if isinstance(body.get("reason"), str) and not is_reason(body["reason"]):
        findings.add(number, "a reversal has a reason", "1 to 1000 characters on one line", repr(body["reason"]))
    past = replay.past.get(entry)
    if past is None or past.kind not in REVERSIBLE:
        what = f"entry {entry}, {past.kind}" if past else f"no entry {entry} before this one"
        findings.add(number, "only some kinds of entries are reversed", ", ".join(REVERSIBLE), what)
        return None
    check_reversed_after_income(number, entry, replay)
    check_reversed_income(number, entry, replay)
    check_may_be_reversed(number, entry, replay)
    return tuple(Posting(posting.account, -posting.amount) for posting in past.postings)


def _shown(postings: Sequence[Posting]) -> list[str]:
    return [f"{posting.account} {posting.amount}" for posting in postings]


def _row(position: int, posting: Posting) -> str:
    return f"[{position}] {posting.account} {posting.amount}"


def check_chain(
    entry: StoredEntry, document: Mapping[str, Any] | None, state: LedgerState, findings: Findings
) -> str | None:
    """Check an entry against the state before it. Returns the public key that signed it, if one did.

    `document` is the parsed content; None if it cannot be parsed.
    """
    number = entry.number
    if not isinstance(entry.content, str):  # SQLite stores anything in any column
        findings.add(number, "the content is text", "text", repr(entry.content)[:60])
        return None
    content = entry.content.encode()
    digest = hash_of(content)
    findings.compare(number, "the hash matches the content", digest, entry.hash)
    if document is None:
        findings.add(number, "the content is a JSON document", "a JSON document", entry.content[:60])
        return None
    if not is_canonical(document, content):
        findings.add(number, "the content is canonical JSON (RFC 8785)", "the canonical form", "another form")
    findings.compare(number, "the format is known", FORMAT, document.get("format"))
    findings.compare(number, "the content states the number of its entry", number, document.get("number"))
    findings.compare(number, "the entry is chained to the one before it", state.head, document.get("previous"))
    signer = _signer(document, state)
    if not is_signed_by_operator(signed_message(digest), entry.signature, signer):
        findings.add(
            number, "the operator signed the entry", f"a signature by {signer[:16]}…", "another signature or none"
        )
        return None
    return signer


def is_canonical(document: Mapping[str, Any], content: bytes) -> bool:
    """Whether the content is the canonical form of the document in it."""
    try:
        return canonical(document) == content
    except ValueError:
        return False


def _signer(document: Mapping[str, Any], state: LedgerState) -> str:
    """The key that must sign an entry. The first entry names its own; the caller must check that key."""
    body = document.get("body")
    is_opening = document.get("kind") == "opening" and isinstance(body, dict)
    return str(body.get("operator", "") if is_opening and isinstance(body, dict) else state.operator)


def check_withdrawal(number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    """Check a withdrawal; raises TypeError if it names no client or no round."""
    state, findings = replay.state, replay.findings
    client, last, signature = body["client"], body["round"], body["signature"]
    if type(client) is not str or type(last) is not int:
        raise TypeError(f"client {client!r} and round {last!r}")
    if not 0 <= last <= ROUND_LIMIT:
        findings.add(number, "a client withdraws after a round", f"a round from 0 to {ROUND_LIMIT}", str(last))
    if client not in state.members:
        findings.add(number, "only members withdraw", "an admitted client", client)
        return
    key = state.members[client]
    if key is None:
        findings.compare(number, "a client without a key signs nothing", None, signature)
    elif signature is None or not WithdrawalNotice(state.identity, client, last).is_signed(signature, key):
        found = "another signature" if signature else "no signature"
        findings.add(number, "a withdrawal is signed by its client", f"a signature by {client}", found)
    if state.has_rules and state.undone:
        waiting = state.next_round
        findings.add(number, NOTHING_REVERSED, f"round {waiting} settled again before", f"round {waiting} reversed")
    if client in state.withdrawn:
        expected = f"{client} after round {state.withdrawn[client]}"
        findings.add(number, "a client withdraws only once", expected, "another withdrawal")
    if client in state.eliminated:
        findings.add(
            number,
            "eliminated clients do not withdraw",
            f"{client} eliminated in round {state.eliminated[client]}",
            "a withdrawal",
        )
    later = state.took_part_after(client, last)
    if later is not None:
        findings.add(
            number,
            "withdrawn clients do not take part in later rounds",
            f"{client} not in round {later}",
            "it takes part",
        )
    silent = state.silent_after(client, last)
    if silent is not None:
        rule = "withdrawn clients are not silent in later rounds"
        findings.add(number, rule, f"a notice of {client} before round {silent}", "it was called silent there")
