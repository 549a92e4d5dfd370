"""Compare the statements that members kept with the ledger, which is read once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from commonweal.errors import CommonwealError
from commonweal.ledger.signed_files import STATEMENT_FORMAT, SignedDocument
from commonweal.ledger.statement_parts import MemberLines, StatementPart
from commonweal.ledger.statements import heading_and_lines
from commonweal.ledger.store import Store
from commonweal.ledger.verification.members import differences
from commonweal.ledger.verification.replay import Finding, Findings


def statement_contradictions(store: Store, kept: Sequence[tuple[str, StatementPart]]) -> list[Finding]:
    """Where whole statements or parts, each with its source, differ from the ledger.

    Nothing is found in a ledger that is unsound: verification reports that anyway.
    """
    lines = MemberLines(store, {part.statement.client for _, part in kept})
    found: dict[int, list[Finding]] = {}
    try:
        for place in sorted(range(len(kept)), key=lambda place: kept[place][1].statement.head_number):
            source, part = kept[place]
            lines.catch_up(last=part.statement.head_number)
            found[place] = _contradictions(lines, part, source)
    except (CommonwealError, ValueError):  # also figures without a canonical form
        return []
    return [finding for place in range(len(kept)) for finding in found[place]]


def _contradictions(lines: MemberLines, part: StatementPart, source: str) -> list[Finding]:
    statement, count = part.statement, part.before.count
    findings = Findings()
    if statement.client not in lines.state.members:
        findings.add(statement.head_number, f"{source} is of a member", "a client that was admitted", statement.client)
        return list(findings.all())
    derived = lines.part(statement.client, since=count, at=statement.at)
    rule = f"{source} agrees with the ledger: the first {count} lines"
    findings.compare(statement.head_number, rule, derived.before.to_document(), part.before.to_document())
    found = [*findings.all(), *differences(derived.statement, statement, source)]
    if not found:
        rule = f"{source} agrees with the ledger: all lines"
        findings.compare(statement.head_number, rule, derived.after.to_document(), part.after.to_document())
    return found or list(findings.all())


def written_otherwise(source: str, part: StatementPart, signed: SignedDocument) -> list[Finding]:
    """Where a signed statement or part says more than its lines, or something else: other totals, unknown fields."""
    given, statement, findings = signed.document, part.statement, Findings()
    is_whole = given["format"] == STATEMENT_FORMAT
    expected: dict[str, Any] = {**heading_and_lines(statement, is_whole=is_whole), "format": given["format"]}
    expected["key_rotations"] = [
        {name: rotation[name] for name in ("content", "signature")} for rotation in given["key_rotations"]
    ]
    if is_whole:
        expected |= {"balance": str(statement.balance), "accrued": str(statement.accrued)}
    else:
        expected |= {"before": part.before.to_document(), "after": part.after.to_document()}
    rule = f"{source} says only what its lines say"
    findings.compare(statement.head_number, rule, expected, given)
    return list(findings.all())
