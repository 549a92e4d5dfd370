"""Send members what is new on their statements; a member that lacks earlier lines says so, and gets those as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from commonweal.remote.coordinator.answer_rules import BrokenRuleError, count_in
from commonweal.remote.messages.message import Message, printable
from commonweal.remote.transport import Answers


class StatementDelivery:
    """Remembers how many lines of its statement each member has, by the member's own word."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.line_counts: dict[str, int] = {}

    def deliver(
        self,
        clients: Iterable[str],
        fields_for: Callable[[str, int], Mapping[str, Any]],
        tell: Callable[[Mapping[str, Mapping[str, Any]]], Answers],
    ) -> dict[str, Message]:
        """Send each client its statement without the lines that it has; returns the answers.

        `fields_for` makes the message to a client, given the number of lines to leave out; `tell` sends messages.
        """
        left_out = {client: self.line_counts.get(client, 0) for client in clients}
        answers = dict(tell({client: fields_for(client, count) for client, count in left_out.items()}).given)
        has = {client: self._line_count(answer) for client, answer in answers.items()}
        lacking = {client: count for client, count in has.items() if count is not None and count < left_out[client]}
        if lacking:
            answers |= tell({client: fields_for(client, count) for client, count in lacking.items()}).given
        for client, answer in answers.items():
            self._remember(client, answer)
        return answers

    def _remember(self, client: str, answer: Message) -> None:
        count = self._line_count(answer)
        if count is None:
            self.line_counts.pop(client, None)
        else:
            self.line_counts[client] = count
        difference = answer.fields.get("difference")
        if isinstance(difference, str) and difference:
            self._say(printable(f"{client} says that its statement is not what it reported: {difference}", limit=600))
        contradiction = answer.fields.get("contradiction")
        if isinstance(contradiction, str) and contradiction:
            self._say(printable(f"{client} says: {contradiction}", limit=600))
        doubt = answer.fields.get("doubt")
        if isinstance(doubt, str) and doubt:
            self._say(printable(f"{client} doubts its statement and did not accept it: {doubt}", limit=600))

    def _line_count(self, answer: Message) -> int | None:
        try:
            return count_in(answer, "line_count")
        except BrokenRuleError:  # it gets all lines
            return None
