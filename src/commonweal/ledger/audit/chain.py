"""Is an entry in its place, in its one form, and signed by the operator?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commonweal.ledger.audit.findings import Findings
from commonweal.ledger.canonical import canonical, hash_of
from commonweal.ledger.entries import FORMAT, StoredEntry, signed_message
from commonweal.ledger.keys import is_signed_by_operator
from commonweal.ledger.state import LedgerState


def check_chain(
    entry: StoredEntry, document: Mapping[str, Any] | None, state: LedgerState, findings: Findings
) -> str | None:
    """Check an entry against `state`, that of the entries before. Returns the public key that signed it, if one did.

    `document` is the parsed content; None: it is none.
    """
    number = entry.number
    if not isinstance(entry.content, str):  # SQLite keeps anything in any column
        findings.add(number, "the content is text", "text", repr(entry.content)[:60])
        return None
    content = entry.content.encode()
    digest = hash_of(content)
    findings.compare(number, "the hash is that of the content", digest, entry.hash)
    if document is None:
        findings.add(number, "the content is a JSON document", "one", entry.content[:60])
        return None
    if not is_canonical(document, content):
        findings.add(number, "the content is canonical JSON (RFC 8785)", "its one form", "another")
    findings.compare(number, "the content is of a known format", FORMAT, document.get("format"))
    findings.compare(number, "the content states its own number", number, document.get("number"))
    findings.compare(number, "an entry is chained to the one before", state.head, document.get("previous"))
    signer = _signer(document, state)
    if not is_signed_by_operator(signed_message(digest), entry.signature, signer):
        findings.add(number, "the operator signed the entry", f"a signature by {signer[:16]}…", "another or none")
        return None
    return signer


def is_canonical(document: Mapping[str, Any], content: bytes) -> bool:
    """Whether the content is the one way to write the document that was parsed from it."""
    try:
        return canonical(document) == content
    except (ValueError, RecursionError):
        return False


def _signer(document: Mapping[str, Any], state: LedgerState) -> str:
    """The key that must sign an entry. The first one names it; who may say so is for the caller and witnesses."""
    body = document.get("body")
    is_opening = document.get("kind") == "opening" and isinstance(body, dict)
    return str(body.get("operator", "") if is_opening and isinstance(body, dict) else state.operator)
