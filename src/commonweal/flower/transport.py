"""Putting questions to members over Flower, and telling answers from silence.

A SuperNode is known by its public key, whatever it calls itself. An answer counts if it came in time, whole, and
sealed with that key; anything else is silence with a reason.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from flwr.app import Message
from flwr.serverapp import Grid

from commonweal.errors import CommonwealError, FederationError
from commonweal.ledger.node_keys import node_public_key
from commonweal.remote.messages.message import Parcel, from_content, to_content
from commonweal.remote.messages.signature import is_sealed

POLL_SECONDS = 0.2  # Flower's own send_and_receive looks every 3 s
_TEXT_LIMIT = 300  # characters of a stranger's text

_FLOWER_ERRORS = {
    3: "it did not answer in time",
    4: "its answer came too late",
    5: "its SuperNode went away",
    8: "its ClientApp was killed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAnswer:
    """Why a member's answer does not count."""

    kind: Literal["absent", "refused"]
    reason: str  # completes "<client> missed the round: ..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    given: Mapping[str, Parcel]
    silences: Mapping[str, NoAnswer]


class FlowerTransport:
    """Questions to members by name; `keys` are the public keys of their SuperNodes."""

    def __init__(self, grid: Grid, keys: Mapping[str, str], *, answer_seconds: float) -> None:
        self._grid = grid
        self._keys = keys
        self._answer_seconds = answer_seconds
        self._nodes: dict[str, int] = {}

    def locate(self, clients: Iterable[str], *, seconds: float = 0.0) -> set[str]:
        """Those whose SuperNodes are connected, waiting so long for the rest."""
        wanted, end = set(clients), time.monotonic() + seconds
        while True:
            names = {key: name for name, key in self._keys.items()}
            for node in self._grid.get_nodes():
                name = names.get(_key_text(node.public_key) or "")
                if name is not None:
                    self._nodes[name] = node.node_id
                    wanted.discard(name)
            if not wanted or time.monotonic() >= end:
                return set(clients) - wanted
            time.sleep(POLL_SECONDS)

    def ask(self, kind: str, questions: Mapping[str, Parcel], *, seconds: float | None = None) -> Answers:
        """Put a question to each of these members, all at once; `seconds` to wait if not as long as for any other."""
        patience = self._answer_seconds if seconds is None else min(seconds, self._answer_seconds)
        numbers = {client: secrets.token_hex(16) for client in questions}
        messages = [
            Message(
                to_content(Parcel(fields={**question.fields, "number": numbers[client]}, groups=question.groups)),
                self._nodes[client],
                kind,
                ttl=patience,
            )
            for client, question in questions.items()
        ]
        given: dict[str, Parcel] = {}
        silences: dict[str, NoAnswer] = {}
        waiting: dict[str, str] = {}
        message_ids = list(self._grid.push_messages(messages))
        if len(message_ids) != len(messages):
            raise FederationError(
                f"the SuperLink must take every question, got {len(message_ids)} of {len(messages)} taken; see in its "
                "log whether models are larger than it allows"
            )
        for client, message_id in zip(questions, message_ids, strict=True):
            if message_id:
                waiting[message_id] = client
            else:
                silences[client] = NoAnswer(kind="absent", reason="its SuperNode was not there")
        end = time.monotonic() + patience
        while waiting:
            for message_id, reply in self._replies(waiting):
                client = waiting.pop(message_id)
                found = reply if isinstance(reply, NoAnswer) else self._opened(reply, client, kind, numbers[client])
                if isinstance(found, NoAnswer):
                    silences[client] = found
                else:
                    given[client] = found
            if waiting and time.monotonic() >= end:
                break
            if waiting:
                time.sleep(POLL_SECONDS)
        for client in waiting.values():
            silences[client] = NoAnswer(kind="absent", reason=_FLOWER_ERRORS[3])
        return Answers(given={client: given[client] for client in questions if client in given}, silences=silences)

    def _replies(self, waiting: Mapping[str, str]) -> list[tuple[str, Message | NoAnswer]]:
        """Answers that have come, each with the id of its question.

        Should one of them be so broken that Flower cannot make a message of it, it is found by asking for each alone.
        """
        try:
            replies = list(self._grid.pull_messages(list(waiting)))
        except Exception as error:  # what Flower raises depends on what somebody sent
            if len(waiting) == 1:
                self._grid.get_node_ids()  # raises if it is the SuperLink that is gone
                reason = f"its answer could not be read: {type(error).__name__}"
                return [(message_id, NoAnswer(kind="refused", reason=reason)) for message_id in waiting]
            return [found for message_id, client in waiting.items() for found in self._replies({message_id: client})]
        answered = {reply.metadata.reply_to_message_id: reply for reply in replies}
        return [(message_id, answered[message_id]) for message_id in waiting if message_id in answered]

    def _opened(self, reply: Message, client: str, kind: str, number: str) -> Parcel | NoAnswer:
        if reply.has_error():
            code, reason = reply.error.code, (reply.error.reason or "")[:_TEXT_LIMIT]
            if code in _FLOWER_ERRORS:
                return NoAnswer(kind="absent", reason=_FLOWER_ERRORS[code])
            return NoAnswer(kind="absent", reason=f"its ClientApp failed: {printable(reason)}")
        try:
            answer = from_content(reply.content)
        except CommonwealError as error:
            return NoAnswer(kind="refused", reason=f"its answer could not be read: {printable(str(error))}")
        if not is_sealed(answer, kind=kind, question=number, public=self._keys[client]):
            return NoAnswer(kind="refused", reason="its answer was not signed with the key of its SuperNode")
        return answer


def _key_text(public_key: bytes) -> str | None:
    try:
        return node_public_key(public_key)
    except CommonwealError:
        return None  # a SuperNode with a key of another kind is nobody's


def printable(text: str) -> str:
    """A stranger's text shall not command a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:_TEXT_LIMIT]
