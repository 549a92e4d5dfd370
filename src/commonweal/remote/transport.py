"""What a coordinator needs of a federated learning framework: to find members, and to ask them.

A transport only carries messages. Signatures, rules for answers and models that were sent before are the coordinator's,
so a new framework implements two methods here and calls `answer_question` at the member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from commonweal.remote.messages.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAnswer:
    """Why there is no answer of a member, or why its answer does not count."""

    kind: Literal["absent", "refused"]
    reason: str  # completes "<client> missed the round: ..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Answers by member, and for every other member that was asked the reason why there is none."""

    given: Mapping[str, Message]
    missing: Mapping[str, NoAnswer]


class Transport(Protocol):
    """Carries questions to members, who are known by their names in the federation, and brings their answers back."""

    def locate(self, clients: Iterable[str], *, seconds: float = 0.0) -> set[str]:
        """Those of these members that are connected, after waiting up to `seconds` for the rest."""

    def ask(self, kind: str, questions: Mapping[str, Message], *, seconds: float) -> Answers:
        """Put a question to each of these members, all at once, and wait up to `seconds` for their answers.

        Only members that `locate` found are asked. A member that cannot be reached or fails is a `NoAnswer`, not an
        exception. Answers are not trusted: their content may be anything that a `Message` can hold.
        """
