"""Putting questions to members over Flower.

A SuperNode is identified by its public key, not by the name it gives itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping

from flwr.app import Message as FlowerMessage
from flwr.serverapp import Grid

from commonweal.errors import CommonwealError, FederationError
from commonweal.flower.codec import fault_of_content, from_content, to_content
from commonweal.ledger.node_keys import node_public_key
from commonweal.remote.messages.answer_limit import AnswerLimit
from commonweal.remote.messages.lateness import TOO_LATE, Waiting
from commonweal.remote.messages.message import Message, printable
from commonweal.remote.transport import Answers, NoAnswer

POLL_SECONDS = 0.2  # Flower's own send_and_receive polls every 3 s

_NOT_IN_TIME = "it did not answer in time"
_FLOWER_ERRORS = {  # by Flower's error codes
    3: _NOT_IN_TIME,
    4: "its answer came too late",
    5: "its SuperNode disconnected",
    8: "its ClientApp was killed",
}


class FlowerTransport:
    """Flower behind the `Transport` protocol; `keys` are the public keys of the members' SuperNodes."""

    def __init__(self, grid: Grid, keys: Mapping[str, str]) -> None:
        self._grid = grid
        self._keys = keys
        self._nodes: dict[str, int] = {}

    def locate(self, clients: Iterable[str], *, seconds: float = 0.0) -> set[str]:
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

    def ask(self, kind: str, questions: Mapping[str, Message], *, seconds: float) -> Answers:
        messages = [
            FlowerMessage(to_content(question), self._nodes[client], kind, ttl=seconds)
            for client, question in questions.items()
        ]
        given: dict[str, Message] = {}
        missing: dict[str, NoAnswer] = {}
        waiting: dict[str, str] = {}
        message_ids = list(self._grid.push_messages(messages))
        if len(message_ids) != len(messages):
            raise FederationError(
                f"The SuperLink accepted {len(message_ids)} of {len(messages)} questions. Check in its log whether "
                "models are larger than it allows."
            )
        for client, message_id in zip(questions, message_ids, strict=True):
            if message_id:
                waiting[message_id] = client
            else:
                missing[client] = NoAnswer(kind="absent", reason="its SuperNode was not connected")
        start = time.monotonic()
        limits = {client: question.limit for client, question in questions.items()}
        late = {client: math.inf if limit is None else limit.late_seconds for client, limit in limits.items()}
        patience = Waiting(seconds=seconds, late_seconds=late)
        while waiting:
            replies = self._replies(waiting)
            arrived = time.monotonic() - start  # all of these, whichever is decoded first
            for message_id, reply in replies:
                client = waiting.pop(message_id)
                found = reply if isinstance(reply, NoAnswer) else _read(reply, limits[client])
                if isinstance(found, NoAnswer):
                    missing[client] = found
                else:
                    given[client] = found
                    patience.times[client] = arrived
            now = time.monotonic() - start
            for message_id, client in list(waiting.items()):
                if patience.is_over(client, now):
                    del waiting[message_id]
                    why = _NOT_IN_TIME if now >= seconds else TOO_LATE
                    missing[client] = NoAnswer(kind="absent", reason=why)
            if waiting:
                time.sleep(POLL_SECONDS)
        return Answers(
            given={client: given[client] for client in questions if client in given},
            missing=missing,
            seconds=patience.times,
        )

    def _replies(self, waiting: Mapping[str, str]) -> list[tuple[str, FlowerMessage | NoAnswer]]:
        """Replies that have arrived, each with the id of its question.

        If Flower cannot read one of them, they are pulled one by one to find out which.
        """
        try:
            replies = list(self._grid.pull_messages(list(waiting)))
        except Exception as error:  # the kind of error depends on what was sent
            if len(waiting) == 1:
                self._grid.get_node_ids()  # raises if the SuperLink itself is unreachable
                reason = f"its answer could not be read: {type(error).__name__}"
                return [(message_id, NoAnswer(kind="refused", reason=reason)) for message_id in waiting]
            return [found for message_id, client in waiting.items() for found in self._replies({message_id: client})]
        answered = {reply.metadata.reply_to_message_id: reply for reply in replies}
        return [(message_id, answered[message_id]) for message_id in waiting if message_id in answered]


def _read(reply: FlowerMessage, limit: AnswerLimit | None) -> Message | NoAnswer:
    if reply.has_error():
        if reply.error.code in _FLOWER_ERRORS:
            return NoAnswer(kind="absent", reason=_FLOWER_ERRORS[reply.error.code])
        return NoAnswer(kind="absent", reason=f"its ClientApp failed: {printable(reply.error.reason or '')}")
    try:
        fault = None if limit is None else fault_of_content(reply.content, limit)
        return from_content(reply.content) if fault is None else NoAnswer(kind="refused", reason=fault)
    except CommonwealError as error:
        return NoAnswer(kind="refused", reason=f"its answer could not be read: {printable(str(error))}")


def _key_text(public_key: bytes) -> str | None:
    try:
        return node_public_key(public_key)
    except CommonwealError:
        return None  # another kind of key, which no member has
