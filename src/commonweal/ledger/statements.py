"""A client's statement: derived from a ledger, signed by the operator, checked offline by the client."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from commonweal.decision.reasons import (
    brought_and_earned,
    elimination_reason,
    expectation,
    harm_in_words,
    how_sure_of,
    loss_reason,
    payment_reason,
    reported_as_harmful,
)
from commonweal.errors import CommonwealError, LedgerError
from commonweal.ledger.canonical import Document
from commonweal.ledger.chain import documents, key_rotations, keys_since, retired_by
from commonweal.ledger.checks import listed
from commonweal.ledger.entries import accrued_account, client_account, postings_of
from commonweal.ledger.fates import harm_of, harmful_in
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.ledger import Ledger
from commonweal.ledger.line_texts import (
    ABOUT_A_ROUND,
    ABSENT,
    ADMITTED,
    RESTING,
    SILENT,
    amendment_text,
    income_text,
    reversal_text,
    round_text,
    withdrawal_text,
)
from commonweal.ledger.printable import printable
from commonweal.ledger.readable import readable
from commonweal.ledger.rounds import decision_of, evidence_of, gains_of, resting_in
from commonweal.ledger.signed_files import STATEMENT_FORMAT, SignedDocument, last_entry_in, read_signed, signed_content
from commonweal.ledger.silence import silence_line, silent_in
from commonweal.ledger.state import LedgerState
from commonweal.ledger.store import Store
from commonweal.ledger.terms import MOST_MINOR_DIGITS
from commonweal.records import FINISHED, Decision, Evidence, HarmEvidence
from commonweal.records.statement import Statement, StatementLine

SEPARATOR = "; "  # between what a round meant for a client and how that is explained
_PLAIN_FIELDS = ("name", "client", "client_key", "currency", "minor_digits", "settlement", "at")
_AMOUNTS = ("amount", "accrued", "balance", "accrued_balance")
_ABOUT = {"kind": "kind", "round": "round_number"}  # only in parts of statements: whole ones never change
_GAINS = ("measured_gain", "used_gain", "expected_gain")  # not in statements of version 0.1, nor in lines without them


def make_statement(store: Store, client: str, *, at: str, last: int | None = None) -> Statement:
    """The client's account up to entry `last`, or up to the ledger's last entry."""
    state, lines = LedgerState(), list[StatementLine]()
    for document, entry in documents(store, "a statement"):
        if last is not None and entry.number > last:
            break
        with readable(entry.number, "a statement"):
            state.apply(document, entry.hash)
            line = line_of(document, client, state, lines)
        if line is not None:
            lines.append(line)
    return statement_of(state, client, lines, at=at)


def statement_of(state: LedgerState, client: str, lines: Sequence[StatementLine], *, at: str) -> Statement:
    """These lines under the heading that a client's statement has in this state of the ledger."""
    if client not in state.members:
        raise LedgerError(
            f"Client {client!r} is not a member of this ledger and has no statement; its members are "
            f"{listed(state.members)}."
        )
    assert state.terms is not None, "the first entry states the terms"
    return Statement(
        ledger=state.identity,
        name=state.terms.name,
        client=client,
        client_key=state.members[client],
        currency=state.terms.currency,
        minor_digits=state.terms.minor_digits,
        worth=state.terms.worth,
        settlement=state.terms.settlement,
        at=at,
        head_number=state.number,
        head=state.head,
        lines=tuple(lines),
    )


def statement_document(statement: Statement, store: Store) -> Document:
    """The statement as it is signed. It includes the changes of the operator's key, so that an old key can check it.

    Its field "book" is the ledger: names in signed documents never change.
    """
    return {
        "format": STATEMENT_FORMAT,
        **heading_and_lines(statement, is_whole=True),
        "balance": str(statement.balance),
        "accrued": str(statement.accrued),
        "key_rotations": key_rotations(store, "a statement"),
    }


def heading_and_lines(statement: Statement, *, is_whole: bool) -> Document:
    """What whole statements and parts of them have in common."""
    return {
        "book": statement.ledger,
        **{name: getattr(statement, name) for name in _PLAIN_FIELDS},
        "worth": str(statement.worth),
        "head": {"number": statement.head_number, "hash": statement.head},
        "lines": [_line_document(line, is_whole=is_whole) for line in statement.lines],
    }


def _line_document(line: StatementLine, *, is_whole: bool) -> Document:
    document = asdict(line) | {name: str(getattr(line, name)) for name in _AMOUNTS}
    about = {name: document.pop(field) for name, field in _ABOUT.items()}
    document = {name: value for name, value in document.items() if name not in _GAINS or value is not None}
    return document if is_whole else document | {name: value for name, value in about.items() if value is not None}


def _line_in(given: Mapping[str, Any]) -> StatementLine:
    about = {field: given.get(name) for name, field in _ABOUT.items()}
    if not isinstance(about["kind"], str | None) or type(about["round_number"]) not in (int, type(None)):
        raise TypeError
    others = {name: value for name, value in given.items() if name not in _ABOUT}
    return StatementLine(**others | {name: int(given[name]) for name in _AMOUNTS} | about)


def signed_statement(store: Store, client: str, keys: KeyDirectory, *, at: str) -> bytes:
    """The content of a statement file, signed with the ledger's current key."""
    document = statement_document(make_statement(store, client, at=at), store)
    return signed_content(document, keys.key_of(Ledger(store, None).state.operator))


def read_statement(path: Path) -> tuple[Statement, SignedDocument]:
    """The statement in a file, whether or not it is valid."""
    signed = read_signed(path, (STATEMENT_FORMAT,))
    with complete(path):
        return whole_statement_in(signed.document), signed


def whole_statement_in(given: Mapping[str, Any]) -> Statement:
    """The statement in a document; raises one of the errors that `complete` translates."""
    return statement_in(given, totals=(given["balance"], given["accrued"]))


@contextmanager
def complete(path: Path | str) -> Iterator[None]:
    """Refuse a file whose statement lacks a field or has one of another type."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        raise LedgerError(
            f"The statement in {path} is incomplete or damaged. Use the file exactly as the operator sent it."
        ) from None


def statement_in(given: Mapping[str, Any], *, totals: tuple[Any, Any]) -> Statement:
    """The heading and lines of a document; raises as `whole_statement_in` does."""
    lines = tuple(map(_line_in, given["lines"]))
    head_number, head = last_entry_in(given)
    statement = Statement(
        ledger=given["book"],
        **{name: given[name] for name in _PLAIN_FIELDS},
        worth=int(given["worth"]),
        head_number=head_number,
        head=head,
        lines=lines,
    )
    _check_kinds(statement, given["key_rotations"], totals=totals)
    return statement


def _check_kinds(statement: Statement, rotations: list[Mapping[str, Any]], totals: tuple[Any, Any]) -> None:
    """Refuse fields of the wrong type before the statement is shown."""
    texts = [statement.ledger, statement.name, statement.client, statement.currency, statement.settlement, statement.at]
    texts += ["" if statement.client_key is None else statement.client_key]
    texts += [text for line in statement.lines for text in (line.at, line.text)]
    proofs = [text for rotation in rotations for text in (rotation["content"], rotation["signature"])]
    counts = [statement.minor_digits, *(line.entry for line in statement.lines)]
    rows = [
        [getattr(line, name) for name in ("profit", "contribution", "share", "payoff", "transfer", *_GAINS)]
        for line in statement.lines
    ]
    figures = [value for row in rows for value in row if value is not None]
    if not (
        all(isinstance(text, str) for text in (*texts, *proofs, *totals))
        and all(text.isprintable() for text in texts)  # no terminal control characters
        and all(isinstance(count, int) for count in counts)
        and all(isinstance(figure, int | float) and math.isfinite(figure) for figure in figures)
        and 0 <= statement.minor_digits <= MOST_MINOR_DIGITS
    ):
        raise TypeError


def faults_of(
    statement: Statement, signed: SignedDocument, key: str, *, known_rotations: Sequence[Any] = ()
) -> list[str]:
    """What is wrong with a statement, given the operator's public key; empty if nothing is."""
    found = faults_of_signature(statement, signed, key, known_rotations=known_rotations)
    found += faults_of_sums(statement.lines)
    if (str(statement.balance), str(statement.accrued)) != (signed.document["balance"], signed.document["accrued"]):
        found.append("the final balance is not that of the last line")
    return found


def faults_of_signature(
    statement: Statement, signed: SignedDocument, key: str, *, known_rotations: Sequence[Any] = ()
) -> list[str]:
    """Whether the holder of the key, or of one that follows it, signed the statement before that key was retired.

    `known_rotations` are changes of the key that the reader knows from elsewhere, such as earlier statements.
    """
    found: list[str] = []
    if not signed.is_sound:
        found.append("the signature does not match the statement: it was changed, or never signed")
    if signed.signer not in keys_since(key, statement.ledger, signed.document["key_rotations"]):
        found.append(f"it is signed with the key {signed.signer[:16]}…, neither {key[:16]}… nor one of its successors")
    rotations = [*known_rotations, *signed.document["key_rotations"]]
    retired = retired_by(signed.signer, statement.ledger, rotations)
    if retired is not None and statement.head_number >= retired:
        found.append(f"it is signed with the key {signed.signer[:16]}…, which entry {retired} retired")
    return found


def faults_of_sums(lines: Sequence[StatementLine], *, balance: int = 0, accrued: int = 0) -> list[str]:
    """The first line whose balance does not follow from the balances before these lines."""
    for line in lines:
        balance, accrued = balance + line.amount, accrued + line.accrued
        if (line.balance, line.accrued_balance) != (balance, accrued):
            return [f"the balance after entry {line.entry} does not follow from the lines up to it"]
    return []


class EntryFacts:
    """What the lines of several clients need of one entry; read once, and only if needed."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    @cached_property
    def amounts(self) -> dict[str, int]:
        return {posting.account: posting.amount for posting in postings_of(self._document)}

    @cached_property
    def explanations(self) -> tuple[Decision, dict[str, Evidence], dict[str, HarmEvidence]]:
        body = self._document["body"]
        return decision_of(body), evidence_of(body), harm_of(body)


def line_of(
    document: Mapping[str, Any],
    client: str,
    state: LedgerState,
    before: Sequence[StatementLine],
    facts: EntryFacts | None = None,
) -> StatementLine | None:
    """The client's line of an entry, if it concerns the client; `state` is that after the entry, `before` its lines."""
    facts = EntryFacts(document) if facts is None else facts
    amounts = facts.amounts
    amount = amounts.get(client_account(client), 0)
    accrued = amounts.get(accrued_account(client), 0)
    figures: dict[str, float] = {}
    kind, body = document["kind"], document["body"]
    if kind == "round":
        assert state.terms is not None, "the first entry states the terms"
        line = _round_line(body, client, facts, is_paid=state.terms.settlement == "transfers")
        if line is None:
            return None
        text, figures = line
    elif kind == "realisation" and amount:
        text = income_text(body["reference"])
    elif kind == "reversal" and any(line.entry == body["entry"] for line in before):
        # Listed even if no money moved: the reversal may undo an elimination.
        text = reversal_text(body["entry"], body["reason"])
    elif kind == "withdrawal" and body["client"] == client:
        text = withdrawal_text(body["round"])
    elif (about := silence_line(kind, body, client, amount)) is not None:
        text = about
    elif kind in ("admission", "amendment") and any(member["client"] == client for member in body["members"]):
        text = ADMITTED
    elif kind == "amendment" and client in state.active(body["first_round"]):
        text = amendment_text(body["amendment"], body["first_round"])
    else:
        return None
    return StatementLine(
        entry=document["number"],
        at=printable(document["at"]),
        text=printable(text),
        amount=amount,
        accrued=accrued,
        balance=state.balances[client_account(client)],
        accrued_balance=state.balances[accrued_account(client)],
        kind=kind,
        round_number=body["round"] if kind in ABOUT_A_ROUND else None,
        **figures,
    )


def _round_line(
    body: Mapping[str, Any], client: str, facts: EntryFacts, *, is_paid: bool
) -> tuple[str, dict[str, float]] | None:
    """What a round meant for a client, in words and figures."""
    number, decision = body["round"], body["decision"]
    if client in body["absent"]:
        return round_text(number, SILENT if client in silent_in(body) else ABSENT), {}
    if client in resting_in(body):
        return round_text(number, RESTING), {}
    row = next((row for row in body["inputs"] if row["client"] == client), None)
    if row is None:
        return None
    figures = {"profit": float(row["profit"]), "contribution": float(row["contribution"]), **_gains(body, client)}
    if client not in decision["retained"]:
        as_harmful = " as harmful" if client in harmful_in(body) else ""
        place = decision["eliminated"].index(client)
        if charge := decision.get("charges", {place: 0.0})[place]:
            figures["transfer"] = float(charge)
        fate = f"eliminated{as_harmful}{_explained(body, client, facts, is_paid=is_paid)}"
        return round_text(number, fate), figures
    place = decision["retained"].index(client)
    parts = {"share": "shares", "payoff": "payoffs", "transfer": "transfers"}
    figures |= {name: float(decision[row][place]) for name, row in parts.items()}
    return round_text(number, f"retained{_explained(body, client, facts, is_paid=is_paid)}"), figures


def _gains(body: Mapping[str, Any], client: str) -> dict[str, float]:
    """The gain that the client's profit follows from, beside the one measured; nothing if profits are as measured."""
    try:
        gains = gains_of(body)
    except (AttributeError, KeyError, TypeError, ValueError):  # a finding of verification
        return {}
    if gains is None:
        return {}
    used, expected = gains.used(client)
    measured = gains.table[client].gain if client in gains.table else None
    figures = {"measured_gain": measured, "used_gain": used, "expected_gain": expected}
    return {name: gain for name, gain in figures.items() if gain is not None}


def _explained(body: Mapping[str, Any], client: str, facts: EntryFacts, *, is_paid: bool) -> str:
    """How sure the figures and the fate are, and why the client bears a part of a loss; each after a semicolon."""
    try:
        decision, evidence_of_all, harm_of_all = facts.explanations
        evidence, harm = evidence_of_all.get(client), harm_of_all.get(client)
    except (CommonwealError, AttributeError, KeyError, TypeError, ValueError):  # a finding of verification
        return ""
    stays, told = client in decision.payoffs, []
    if evidence is not None or not stays:
        told.append(brought_and_earned(decision, client, evidence) + expectation(decision, client, evidence, who="you"))
    if not stays and client not in decision.harmful:
        told.append(elimination_reason(decision, client))
    if harm is not None:
        told.append(reported_as_harmful(harm, who="you") if stays else harm_in_words(harm, who="you"))
    told.append(loss_reason(decision, client, who="you", is_paid=is_paid))
    told.append(payment_reason(decision, client) if is_paid else "")
    if "ending" in body:
        told.append(f"{'the federation is ' if decision.finished else ''}{FINISHED}")
    told.append(how_sure_of(decision, client, evidence, who="you"))
    return "".join(f"{SEPARATOR}{sentence}" for sentence in told if sentence)
