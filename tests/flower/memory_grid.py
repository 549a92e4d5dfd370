"""The in-process grid with members that lie, and a watcher who sees every question before it is answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flwr.app import Message

from commonweal.flower.in_process import InProcessGrid, Node


@dataclass(kw_only=True)
class MemoryNode(Node):
    twist: Callable[[Message, Message], Message] | None = None  # (question, answer) → what it says instead


@dataclass
class MemoryGrid(InProcessGrid):
    before_answer: Callable[[str, str], None] = lambda client, kind: None

    def answer_of(self, node, question, context):
        self.before_answer(node.name, question.metadata.message_type)
        answer = super().answer_of(node, question, context)
        return answer if node.twist is None else node.twist(question, answer)
