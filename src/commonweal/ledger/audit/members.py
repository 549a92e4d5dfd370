"""What a member holds against the book: its statements, line by line, and its own key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from commonweal.errors import CommonwealError
from commonweal.ledger.audit.findings import Finding, Findings
from commonweal.ledger.state import LedgerState
from commonweal.ledger.statements import make_statement
from commonweal.ledger.store import Store
from commonweal.records.statement import Statement


def contradictions(store: Store, statement: Statement, source: str) -> tuple[Finding, ...]:
    """Where a statement says otherwise than the book; nothing where the book cannot even be read: its audit says so."""
    findings, rule = Findings(), f"{source} says what the book says"
    try:
        derived = make_statement(store, statement.client, at=statement.at, last=statement.head_number)
    except CommonwealError:
        return ()
    stated = {line.entry: asdict(line) for line in statement.lines}
    in_book = {line.entry: asdict(line) for line in derived.lines}
    for entry in sorted({*stated, *in_book}):
        findings.compare(entry, rule, in_book.get(entry), stated.get(entry))
    for name in ("client_key", "currency", "minor_digits", "worth", "settlement"):
        findings.compare(1, f"{rule}: {name}", getattr(derived, name), getattr(statement, name))
    return findings.all()


def foreign_keys(state: LedgerState, own: Mapping[str, str]) -> tuple[Finding, ...]:
    """Clients for whom the book holds another key than they say is theirs."""
    findings = Findings()
    for client, key in own.items():
        findings.compare(state.number, f"the book holds the key of {client}", key, state.members.get(client))
    return findings.all()
