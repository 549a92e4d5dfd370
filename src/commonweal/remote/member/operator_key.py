"""The operator's public key as a member knows it."""

from __future__ import annotations

import json
from contextlib import suppress

from commonweal.atomic_write import write_atomically
from commonweal.errors import CommonwealError
from commonweal.ledger.chain import retired_by
from commonweal.ledger.keys import public_pem, read_operator_key
from commonweal.ledger.signed_files import SignedDocument, known_head_in
from commonweal.remote.member.member_file import Member
from commonweal.remote.member.store import ACCOUNT, OPERATOR_HEAD, OPERATOR_HEADS, OPERATOR_KEY, MemberStore


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


def replaced_by(store: MemberStore, signer: str, ledger: str) -> int | None:
    """The number of the entry that replaced a key, by the heads that are kept; None if they tell of none."""
    for file in (store.path / OPERATOR_HEAD, *sorted((store.path / OPERATOR_HEADS).glob("*.json"), reverse=True)):
        with suppress(CommonwealError, OSError):
            entry = retired_by(signer, ledger, known_head_in(file.read_bytes(), file.name).key_rotations)
            if entry is not None:
                return entry
    return None


def replaced_in_words(signer: str, entry: int) -> str:
    return f"it is signed with the key {signer[:16]}…, which entry {entry} replaced"
