"""The operator's public key as a member knows it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from commonweal.atomic_write import write_atomically
from commonweal.errors import CommonwealError
from commonweal.ledger.chain import KeyChange, retired_by
from commonweal.ledger.keys import public_pem, read_operator_key
from commonweal.ledger.receipts import RECEIPT_FORMAT
from commonweal.ledger.seen_heads import TRAIL_FORMAT
from commonweal.ledger.signed_files import WITH_HEAD, SignedDocument, signed_in
from commonweal.remote.member.member_file import Member
from commonweal.remote.member.store import (
    ACCOUNT,
    DOUBTFUL,
    OPERATOR_HEAD,
    OPERATOR_HEADS,
    OPERATOR_KEY,
    TRAILS,
    MemberStore,
)

KEY_CHANGE = "key-change"  # how the names of files in trails/doubtful start that name a change of the operator's key
_ALONE_FORMAT = "commonweal.key-changes/1"
_WITH_CHANGES = (_ALONE_FORMAT, TRAIL_FORMAT, RECEIPT_FORMAT, *WITH_HEAD)


def known_operator(store: MemberStore, member: Member, signed: SignedDocument, ledger: str) -> str:
    """The key that the member's file names; else that of the first document of this ledger that was properly signed.

    Empty if there is none yet.
    """
    if member.operator_key_file is not None:
        return read_operator_key(member.operator_key_file)
    known = store.path / OPERATOR_KEY
    if not known.exists():
        if not signed.is_sound or signed.document.get("book") != ledger:
            return ""
        write_atomically(known, public_pem(signed.signer), what="the operator's public key")
    return read_operator_key(known)


def has_operator(store: MemberStore, member: Member) -> bool:
    """Whether the operator's key is known yet."""
    return member.operator_key_file is not None or (store.path / OPERATOR_KEY).exists()


def key_in_use(store: MemberStore, known: str) -> str:
    """The key that signed the last statement kept, since those before it are retired; `known` if there is none."""
    try:
        signer = json.loads((store.path / ACCOUNT).read_bytes())["signer"]
    except (OSError, ValueError, KeyError, TypeError):
        return known
    return signer if isinstance(signer, str) else known


def kept_rotations(store: MemberStore) -> Iterator[list[Any]]:
    """The changes of the operator's key that kept files name.

    The first document to name a change is kept with the heads or as `KEY_CHANGE`, or the change alone: statements are
    many, and are not read again. What contradicts the ledger that was seen is of another one: its changes of the key
    prove nothing here.
    """
    heads, changes = (store.path / OPERATOR_HEADS).glob("*.json"), (store.path / TRAILS / DOUBTFUL)
    for file in (store.path / OPERATOR_HEAD, *heads, *changes.glob(f"{KEY_CHANGE}-*.json")):
        with suppress(CommonwealError, OSError):
            yield rotations_in(signed_in(file.read_bytes(), file.name, _WITH_CHANGES))


def changes_alone(ledger: str, changes: Iterable[KeyChange]) -> bytes:
    """The content of a file with changes of the operator's key and no more. Each of them is signed by itself."""
    rotations = [{name: change.rotation[name] for name in ("content", "signature")} for change in changes]
    document = {"format": _ALONE_FORMAT, "book": ledger, "key_rotations": rotations}
    return (json.dumps({"document": document}, indent=1) + "\n").encode()


def rotations_in(signed: SignedDocument) -> list[Any]:
    """The changes of the operator's key that a document names; it may be anything."""
    given = signed.document.get("key_rotations")
    return given if isinstance(given, list) else []


def replaced_by(store: MemberStore, signed: SignedDocument, ledger: str) -> int | None:
    """The number of the entry that replaced the key of a document, by itself or what is kept; None if none did."""
    named = (rotations_in(signed), *kept_rotations(store))
    entries = [retired_by(signed.signer, ledger, rotations) for rotations in named]
    return min((entry for entry in entries if entry is not None), default=None)


def replaced_in_words(signer: str, entry: int) -> str:
    return f"it is signed with the key {signer[:16]}…, which entry {entry} replaced"
