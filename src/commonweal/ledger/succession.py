"""The operator's keys, each announced by the one before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from commonweal.ledger.canonical import Document, hash_of, parse
from commonweal.ledger.documents import documents
from commonweal.ledger.entries import signed_message
from commonweal.ledger.keys import is_signed_by_operator
from commonweal.ledger.ledger import rotation_message
from commonweal.ledger.store import Store


def key_rotations(store: Store, made: str) -> Sequence[Document]:
    """The entries that changed the operator's key, for somebody who has an older one. `made` as for `documents`."""
    return [
        {"content": entry.content, "signature": entry.signature}
        for document, entry in documents(store, made)
        if document["kind"] == "key-rotation"
    ]


def keys_since(first: str, book: str, rotations: Iterable[Any]) -> list[str]:
    """The key and those that followed it by `rotations`, which may be anything that somebody wrote into a file."""
    keys = [first]
    for rotation in rotations:
        content = rotation.get("content") if isinstance(rotation, dict) else None
        document = parse(content) if isinstance(content, str) else None
        body = document.get("body") if document is not None else None
        if content is None or document is None or document.get("kind") != "key-rotation" or not isinstance(body, dict):
            continue
        announcement = signed_message(hash_of(content.encode(errors="surrogatepass")))
        public, proof = body.get("operator", ""), body.get("proof", "")
        if is_signed_by_operator(announcement, rotation.get("signature"), keys[-1]) and is_signed_by_operator(
            rotation_message(book, public), proof, public
        ):
            keys.append(public)
    return keys
