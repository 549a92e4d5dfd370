"""What a coordinator needs from a federated learning framework: to find members, and to ask them.

A transport only carries messages. The coordinator checks signatures and answers, and knows which models were sent. So a
new framework implements two methods here and calls `answer_question` at the member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from commonweal.remote.messages.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAnswer:
    """Why a member gave no answer, or why its answer does not count."""

    kind: Literal["absent", "refused"]
    reason: str  # completes "<client> missed the round: ..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Answers by member, and the reason why there is none for every other member that was asked."""

    given: Mapping[str, Message]
    missing: Mapping[str, NoAnswer]
    seconds: Mapping[str, float] = field(default_factory=dict)  # that each answer took, as far as it is known


class Transport(Protocol):
    """Carries questions to members, who are known by their names in the federation, and brings their answers back."""

    def locate(self, clients: Iterable[str], *, seconds: float = 0.0) -> set[str]:
        """The members that are connected, after waiting up to `seconds` for the rest."""

    def ask(self, kind: str, questions: Mapping[str, Message], *, seconds: float) -> Answers:
        """Put a question to each of these members, all at once, and wait up to `seconds` for their answers.

        Only members that `locate` found are asked. A member that cannot be reached or fails is a `NoAnswer`, not an
        exception. Answers are not trusted: their content may be anything that a `Message` can hold. The `limit` of a
        question is for the transport: it may refuse an answer by its sizes before it decodes it, and stop waiting for
        members that are later than the others (see `messages.lateness.Waiting`).
        """
