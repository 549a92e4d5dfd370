"""A transport within this process: it shows how little a framework must provide, and lets tests make members lie."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from commonweal.remote.member.agent import answer_question, errors_kept_private
from commonweal.remote.messages.message import Message, fields_text, printable
from commonweal.remote.transport import Answers, NoAnswer
from commonweal.task.records import Task


@dataclass(kw_only=True)
class MemoryMember:
    """A member's machine: its file, its task, whether it is connected, and what it says instead of the truth."""

    file: Path
    task: Task
    is_connected: bool = True
    twist: Callable[[str, Message, Message], Message] | None = None  # (kind, question, answer) → another answer

    def answer(self, kind, question):
        with errors_kept_private(self.file):
            return answer_question(self.file, self.task, kind, question)


@dataclass(kw_only=True)
class Sent:
    to_member: bool  # False: from the member
    client: str
    kind: str
    message: Message


@dataclass
class MemoryTransport:
    """Members by name. Every question is answered at once, after `before_answer(client, kind)`."""

    members: dict[str, MemoryMember]
    sent: list[Sent] = field(default_factory=list)
    before_answer: Callable[[str, str], None] = lambda client, kind: None

    def locate(self, clients, *, seconds=0.0):
        return {client for client in clients if self.members[client].is_connected}

    def ask(self, kind, questions, *, seconds):
        given, missing = {}, {}
        for client, question in questions.items():
            found = self._ask_one(client, kind, self._carried(question, client, kind, to_member=True))
            if isinstance(found, NoAnswer):
                missing[client] = found
            else:
                given[client] = self._carried(found, client, kind, to_member=False)
        return Answers(given=given, missing=missing)

    def _ask_one(self, client, kind, question):
        member = self.members[client]
        try:
            if not member.is_connected:
                raise ConnectionError
            self.before_answer(client, kind)
            answer = member.answer(kind, question)
            return answer if member.twist is None else member.twist(kind, question, answer)
        except ConnectionError:
            return NoAnswer(kind="absent", reason="its connection was lost")
        except Exception as error:
            return NoAnswer(kind="absent", reason=f"its program failed: {printable(str(error))}")

    def _carried(self, message, client, kind, *, to_member):
        """A copy, as from another machine."""
        copy = Message(
            fields=json.loads(fields_text(message.fields)),
            groups={
                name: {key: array.copy() for key, array in group.items()} for name, group in message.groups.items()
            },
            signature=message.signature,
        )
        self.sent.append(Sent(to_member=to_member, client=client, kind=kind, message=copy))
        return copy
