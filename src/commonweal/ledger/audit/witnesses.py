"""Has the book been rewritten since somebody saw it?

A witness counts only if the operator signed it: anybody can write a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from commonweal.ledger.audit.findings import Findings
from commonweal.ledger.succession import keys_since
from commonweal.ledger.witness import Witness


def check_witness(
    witness: Witness, *, book: str, operators: Sequence[str], seen: Mapping[int, str], findings: Findings
) -> None:
    """`operators` are the operator's keys as far as they are known, `seen` the hashes of the book's entries."""
    source, number, head = witness.source, witness.number, f"hash {witness.head[:16]}…"
    if not witness.signed.is_sound:
        findings.add(number, f"the operator signed {source}", _keys_text(operators), "a signature that does not fit")
    elif witness.book != book:
        findings.add(1, f"{source} speaks of this book", f"book {witness.book[:16]}…", f"{book[:16]}…")
    elif not _is_by(witness, operators):
        findings.add(number, f"the operator signed {source}", _keys_text(operators), f"{witness.signed.signer[:16]}…")
    elif number not in seen:
        findings.add(number, f"{source} has seen this entry", head, "no such entry")
    elif seen[number] != witness.head:
        findings.add(number, f"the entry is as {source} has seen it", head, f"{seen[number][:16]}…")


def _is_by(witness: Witness, operators: Sequence[str]) -> bool:
    """A rewritten book may lack the change to the key that signed the witness; a witness brings its own proof of it."""
    rotations = witness.key_rotations
    return any(witness.signed.signer in keys_since(operator, witness.book, rotations) for operator in operators)


def _keys_text(operators: Sequence[str]) -> str:
    return ", ".join(f"{operator[:16]}…" for operator in operators) or "no key"
