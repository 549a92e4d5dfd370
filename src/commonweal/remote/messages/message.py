"""Questions of the coordinator and answers of the members: plain fields and groups of arrays.

How messages travel is up to the transport. An answer counts only if it is signed with the member's own key: every
question carries a random number, and the answer's signature covers that number, the kind of question and a digest of
the answer. So no other member can answer in its place, even if the transport does not bind an answer to the node that
was asked, and an earlier answer cannot be replayed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from commonweal.errors import FederationError
from commonweal.ledger.canonical import canonical
from commonweal.ledger.keys import is_signed
from commonweal.ledger.node_keys import NodeKey
from commonweal.remote.messages.answer_limit import AnswerLimit
from commonweal.task.models import fingerprint
from commonweal.task.records import Model

# The kinds of questions. Flower routes a message by the part before the dot.
SUMMARISE = "query.summarise"  # before the first round: what its data look like, for the task's `agree`
OPEN = "query.open"  # load the round's data; score the model that the round starts from
TRAIN = "train.iteration"
EVALUATE = "evaluate.coalitions"
GRADIENT = "evaluate.gradient"  # of the mean smooth score at a model, where contributions are measured by path
REPORT = "query.report"
RECEIPT = "query.receipt"  # your report has arrived: here is the operator's receipt
CLOSE = "query.close"  # the round is settled: here is your statement

MODEL = "model/"  # prefix of a group that is a model; the model's hash follows
LACKS = "lacks"  # the field of an answer that names models the member does not have
NUMBER = "number"  # the field of a question with its random number
SAW_SETTLED = "saw_settled"  # the field of an answer that refuses to go back: the last round that was settled there
PROOF = "proof"  # a signed file that shows it

_ANSWER_FORMAT = "commonweal.answer/1"


class QuestionError(FederationError):
    """A question that a member cannot answer now. The coordinator is told its text, so it has nothing private."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A question or an answer. A group of arrays is a model, or figures by sample."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    groups: Mapping[str, Model] = field(default_factory=dict)
    signature: str = ""  # the member's, of answers
    limit: AnswerLimit | None = field(default=None, compare=False)  # of a question: on its answer; it is not sent
    fault: str = field(default="", compare=False)  # of a question that arrived: what in it could not be read

    def digest(self) -> str:
        """SHA-256 over everything except the signature."""
        content = hashlib.sha256(fields_text(self.fields).encode())
        for name in sorted(self.groups):
            content.update(json.dumps([name, fingerprint(self.groups[name])]).encode())
        return content.hexdigest()


def fields_text(fields: Mapping[str, Any]) -> str:
    """Fields as JSON; equal fields give equal text."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def signed_answer(answer: Message, *, kind: str, number: str, key: NodeKey) -> Message:
    """The answer with the member's signature; `number` is the random number of the question."""
    return replace(answer, signature=key.sign(_signed_content(answer, kind, number)))


def is_answer_signed(answer: Message, *, kind: str, number: str, public: str) -> bool:
    """Whether the holder of the public key signed this answer to this question."""
    return is_signed(_signed_content(answer, kind, number), answer.signature, public)


def printable(text: str, limit: int = 300) -> str:
    """Another machine's text without terminal control characters, cut to `limit` characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:limit]


def _signed_content(answer: Message, kind: str, number: str) -> bytes:
    return canonical({"format": _ANSWER_FORMAT, "kind": kind, "question": number, "digest": answer.digest()})
