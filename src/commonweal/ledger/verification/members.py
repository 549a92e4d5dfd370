"""Does the ledger agree with what members keep: heads that they know, statements, and their own keys?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from commonweal.errors import CommonwealError
from commonweal.ledger.chain import keys_since
from commonweal.ledger.signed_files import KnownHead
from commonweal.ledger.state import LedgerState
from commonweal.ledger.statements import make_statement
from commonweal.ledger.store import Store
from commonweal.ledger.verification.replay import Finding, Findings
from commonweal.records.statement import Statement


def contradictions(store: Store, statement: Statement, source: str) -> tuple[Finding, ...]:
    """Where a statement differs from the ledger; empty if the ledger cannot even be read: verifying it says so."""
    findings, rule = Findings(), f"{source} says what the ledger says"
    try:
        derived = make_statement(store, statement.client, at=statement.at, last=statement.head_number)
    except CommonwealError:
        return ()
    stated = {line.entry: asdict(line) for line in statement.lines}
    in_ledger = {line.entry: asdict(line) for line in derived.lines}
    for entry in sorted({*stated, *in_ledger}):
        findings.compare(entry, rule, in_ledger.get(entry), stated.get(entry))
    for name in ("client_key", "currency", "minor_digits", "worth", "settlement"):
        findings.compare(1, f"{rule}: {name}", getattr(derived, name), getattr(statement, name))
    return findings.all()


def foreign_keys(state: LedgerState, own: Mapping[str, str]) -> tuple[Finding, ...]:
    """Clients for whom the ledger holds another key than they say is theirs."""
    findings = Findings()
    for client, key in own.items():
        findings.compare(state.number, f"the ledger holds the key of {client}", key, state.members.get(client))
    return findings.all()


def check_known_head(
    known: KnownHead, *, ledger: str, operators: Sequence[str], seen: Mapping[int, str], findings: Findings
) -> None:
    """`operators` are the operator's keys as far as they are known, `seen` the hashes of the ledger's entries."""
    source, number, head = known.source, known.number, f"hash {known.head[:16]}…"
    if not known.signed.is_sound:
        findings.add(number, f"the operator signed {source}", _keys_text(operators), "a signature that does not fit")
    elif known.ledger != ledger:
        findings.add(1, f"{source} speaks of this ledger", f"ledger {known.ledger[:16]}…", f"{ledger[:16]}…")
    elif not _is_by(known, operators):
        findings.add(number, f"the operator signed {source}", _keys_text(operators), f"{known.signed.signer[:16]}…")
    elif number not in seen:
        findings.add(number, f"{source} has seen this entry", head, "no such entry")
    elif seen[number] != known.head:
        findings.add(number, f"the entry is as {source} has seen it", head, f"{seen[number][:16]}…")


def _is_by(known: KnownHead, operators: Sequence[str]) -> bool:
    """A rewritten ledger may lack the change to the key that signed the known; a known brings its own proof of it."""
    rotations = known.key_rotations
    return any(known.signed.signer in keys_since(operator, known.ledger, rotations) for operator in operators)


def _keys_text(operators: Sequence[str]) -> str:
    return ", ".join(f"{operator[:16]}…" for operator in operators) or "no key"
