"""Answers are signed with the SuperNode's own key, and hold for one question alone.

Flower authenticates a SuperNode when it connects, but does not bind an answer to the node that was asked: another
registered node that knows a message's id could answer it. So every question carries a random number of its own, and
every answer a signature over that number, the kind of question and a digest of what it says.
"""

from __future__ import annotations

from dataclasses import replace

from commonweal.ledger.canonical import canonical
from commonweal.ledger.keys import is_signed
from commonweal.ledger.node_keys import NodeKey
from commonweal.remote.messages.message import Parcel

FORMAT = "commonweal.answer/1"


def sealed(answer: Parcel, *, kind: str, question: str, key: NodeKey) -> Parcel:
    """The answer with the member's signature; `question` is the question's random number."""
    return replace(answer, seal=key.sign(_message(answer, kind, question)))


def is_sealed(answer: Parcel, *, kind: str, question: str, public: str) -> bool:
    return is_signed(_message(answer, kind, question), answer.seal, public)


def _message(answer: Parcel, kind: str, question: str) -> bytes:
    return canonical({"format": FORMAT, "kind": kind, "question": question, "digest": answer.digest()})
