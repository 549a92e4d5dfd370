"""Whether a head that somebody kept shows that this ledger is older than it was, or is another one."""

from __future__ import annotations

from collections.abc import Sequence

from commonweal.errors import CommonwealError
from commonweal.ledger.canonical import Document
from commonweal.ledger.chain import documents, first_operator, keys_since, retired_by
from commonweal.ledger.signed_files import KnownHead, known_head_in
from commonweal.ledger.store import Store


def contradiction(store: Store, content: bytes, source: str) -> str:
    """What the content of a signed file says against the ledger in the store; empty if it proves nothing.

    It counts only if the operator of this ledger signed it for this ledger; so nobody else can make such a proof.
    """
    try:
        known = known_head_in(content, source)
    except CommonwealError:
        return ""
    first, last, hashes, rotations = None, 0, {}, []
    for document, entry in documents(store, "a comparison with what a member keeps"):
        first = first or (entry.hash, first_operator(document))
        last = entry.number
        if entry.number == known.number:
            hashes[entry.number] = entry.hash
        if document["kind"] == "key-rotation":
            rotations.append({"content": entry.content, "signature": entry.signature})
    if first is None or not _is_genuine(known, *first) or _is_by_retired_key(known, rotations):
        return ""
    if known.number > last:
        return f"the operator signed a statement up to entry {known.number}, but the ledger ends with entry {last}"
    if hashes.get(known.number) != known.head:
        return f"the operator signed a statement with another entry {known.number} than the ledger has"
    return ""


def _is_genuine(known: KnownHead, ledger: str, operator: str) -> bool:
    """A head names all changes of the operator's key up to its signer, so the first key is enough to check it."""
    if known.ledger != ledger or not known.signed.is_sound:
        return False
    return known.signed.signer in keys_since(operator, ledger, known.key_rotations)


def _is_by_retired_key(known: KnownHead, rotations: Sequence[Document]) -> bool:
    """Whether the signer's key was replaced, by this ledger, before the entry that the head names."""
    retired = retired_by(known.signed.signer, known.ledger, rotations)
    return retired is not None and known.number >= retired
