"""Check that the ledger agrees with what members keep: known heads, statements, and their own keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from commonweal.errors import CommonwealError
from commonweal.ledger.chain import keys_since, retired_by, rotation_entries
from commonweal.ledger.signed_files import KnownHead
from commonweal.ledger.state import LedgerState
from commonweal.ledger.statements import SEPARATOR, make_statement
from commonweal.ledger.store import Store
from commonweal.ledger.verification.replay import Finding, Findings
from commonweal.records.statement import Statement, StatementLine

_EARLIER_WORDS = {"stays": "retained", "let go": "eliminated"}


def contradictions(store: Store, statement: Statement, source: str) -> tuple[Finding, ...]:
    """Where a statement differs from the ledger; empty if the ledger is unsound, which verification reports anyway."""
    try:
        derived = make_statement(store, statement.client, at=statement.at, last=statement.head_number)
    except CommonwealError:
        return ()
    return differences(derived, statement, source)


def differences(derived: Statement, statement: Statement, source: str) -> tuple[Finding, ...]:
    """Where a statement differs from the one derived from the ledger."""
    findings, rule = Findings(), f"{source} agrees with the ledger"
    in_ledger = {line.entry: asdict(line) for line in derived.lines}
    known = {line.entry: line for line in derived.lines}
    stated = {line.entry: asdict(_as_told_today(line, known.get(line.entry))) for line in statement.lines}
    for entry in sorted({*stated, *in_ledger}):
        findings.compare(entry, rule, in_ledger.get(entry), stated.get(entry))
    order = [line.entry for line in statement.lines]
    if order != list(stated) or order != sorted(order):  # of several lines of an entry, only the last was compared
        expected, found = "one line of each entry, in their order", f"entries {', '.join(map(str, order))}"
        findings.add(statement.head_number, f"{rule}: its lines", expected, found)
    for name in ("name", "client_key", "currency", "minor_digits", "worth", "settlement"):
        findings.compare(1, f"{rule}: {name}", getattr(derived, name), getattr(statement, name))
    return findings.all()


def _as_told_today(line: StatementLine, derived: StatementLine | None) -> StatementLine:
    """With what whole statements leave out, and in today's words."""
    if derived is not None and line.kind is None and line.round_number is None:
        line = replace(line, kind=derived.kind, round_number=derived.round_number)
    return _in_todays_words(line, "" if derived is None else derived.text)


def _in_todays_words(line: StatementLine, today: str) -> StatementLine:
    """A statement that explained less than today's. Version 0.1 wrote "stays" and "let go", and explained nothing."""
    start, _, word = line.text.rpartition(": ")
    text = f"{start}: {_EARLIER_WORDS[word]}" if word in _EARLIER_WORDS else line.text
    said, known = text.split(SEPARATOR), today.split(SEPARATOR)
    return replace(line, text=today if said[0] == known[0] and set(said) <= set(known) else text)


def keys_that_differ(state: LedgerState, own: Mapping[str, str]) -> tuple[Finding, ...]:
    """Clients whose key in the ledger differs from the key in `own`."""
    findings = Findings()
    for client, key in own.items():
        findings.compare(state.number, f"the ledger has the key of {client}", key, state.members.get(client))
    return findings.all()


def check_known_head(
    known: KnownHead, *, ledger: str, operators: Sequence[str], seen: Mapping[int, str], findings: Findings
) -> None:
    """Compare the ledger with a head that somebody kept, to see whether it has been rewritten since.

    The head counts only if the operator signed it, since anybody can write a file. `operators` are the operator's known
    keys, `seen` the hashes of the ledger's entries.
    """
    source, number, head = known.source, known.number, f"hash {known.head[:16]}…"
    if not known.signed.is_sound:
        findings.add(number, f"the operator signed {source}", _keys_text(operators), "an invalid signature")
    elif known.ledger != ledger:
        findings.add(1, f"{source} is about this ledger", f"ledger {known.ledger[:16]}…", f"{str(ledger)[:16]}…")
    elif not _is_by(known, operators):
        findings.add(number, f"the operator signed {source}", _keys_text(operators), f"{known.signed.signer[:16]}…")
    elif number not in seen:
        findings.add(number, f"the ledger has the entry that {source} names", head, "no such entry")
    elif seen[number] != known.head:
        findings.add(number, f"the entry has the hash that {source} names", head, f"{seen[number][:16]}…")
    else:
        check_rotations(source, known.ledger, known.key_rotations, operators, seen, findings)


def check_rotations(
    source: str,
    ledger: str,
    rotations: Sequence[Any],
    operators: Sequence[str],
    seen: Mapping[int, str],
    findings: Findings,
) -> None:
    """Each change of the operator's key that a signed file names is an entry of the ledger."""
    named: dict[int, str] = {}
    for operator in operators:
        named |= rotation_entries(operator, ledger, rotations)
    for number, digest in named.items():
        if seen.get(number) != digest:
            found = f"hash {seen[number][:16]}…" if number in seen else "no such entry"
            findings.add(number, f"the entry is the change of key that {source} names", f"hash {digest[:16]}…", found)


def check_not_retired(
    known: KnownHead, all_known: Sequence[KnownHead], retired: Mapping[str, int], findings: Findings
) -> None:
    """After the entry that changes the operator's key, the old key signs nothing: whoever does may not be the operator.

    `retired` are the changes in the ledger. A rewritten one may lack them, so those in the known heads count too.
    """
    signer, rotations = known.signed.signer, [rotation for each in all_known for rotation in each.key_rotations]
    entries = [retired.get(signer), retired_by(signer, known.ledger, rotations)]
    first = min((entry for entry in entries if entry is not None), default=None)
    if first is not None and known.number >= first and known.signed.is_sound:
        expected = f"a key of the operator after entry {first}"
        found = f"{signer[:16]}…, which entry {first} retired"
        findings.add(known.number, f"{known.source} is signed with a key that was in use", expected, found)


def _is_by(known: KnownHead, operators: Sequence[str]) -> bool:
    """A rewritten ledger may lack the rotation to the key that signed the head, so a head includes its own proof."""
    rotations = known.key_rotations
    return any(known.signed.signer in keys_since(operator, known.ledger, rotations) for operator in operators)


def _keys_text(operators: Sequence[str]) -> str:
    return ", ".join(f"{operator[:16]}…" for operator in operators) or "no key"
