"""The operator's public key as a member knows it."""

from __future__ import annotations

import json

from commonweal.atomic_write import write_atomically
from commonweal.ledger.keys import public_pem, read_operator_key
from commonweal.ledger.signed_files import SignedDocument
from commonweal.remote.member.member_file import Member
from commonweal.remote.member.store import ACCOUNT, OPERATOR_KEY, MemberStore


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
