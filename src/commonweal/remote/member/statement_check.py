"""What a member does with the statement it is sent: keep it, and look whether it is right."""

from __future__ import annotations

from pathlib import Path

from commonweal.atomic_write import write_atomically
from commonweal.errors import CommonwealError
from commonweal.ledger.keys import public_pem, read_public_key
from commonweal.ledger.statements import doubts, read_statement
from commonweal.remote.member.member_file import Member
from commonweal.remote.member.store import STATEMENTS

OPERATOR_KEY = "operator.pub.pem"


def keep_statement(home: Path, member: Member, content: str, *, book: str, round_number: int) -> str:
    """Write the statement to the member's disk; returns in one line what it says, or what is wrong with it."""
    file = home / STATEMENTS / f"round-{round_number:04d}.json"
    write_atomically(file, content.encode(), what="a statement")
    try:
        statement, signed = read_statement(file)
    except CommonwealError as error:
        return f"DOUBTFUL STATEMENT: {error}"
    known = home / OPERATOR_KEY if member.operator_key_file is None else member.operator_key_file
    if member.operator_key_file is None and not known.exists():
        # The first one is believed; from then on it must be the same operator.
        write_atomically(known, public_pem(signed.signer), what="the operator's public key")
    found = doubts(statement, signed, read_public_key(known))
    if statement.client != member.name or statement.ledger != book:
        found.append(f"it is of {statement.client!r} in the book {statement.ledger[:16]}…, not of this member's")
    if found:
        return f"DOUBTFUL STATEMENT in {file.name}: {'; '.join(found)}"
    return f"statement {file.name} is signed by the operator, balance {statement.balance} minor units"
