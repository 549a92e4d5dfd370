"""The coordinator's side of the messages: who is asked, what was sent to whom, and which answers count.

Models are identified by their hashes, and each is sent to a member once. A question names the models it needs by hash;
a member that has lost one says so, and it is sent again. An answer counts if it arrived in time, is no larger than what
was asked for, is signed with the key of the member that was asked, and breaks no rule.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from commonweal.records import Event
from commonweal.remote.coordinator.answer_rules import BrokenRuleError, fault_of_sizes
from commonweal.remote.coordinator.attempts import LedgerInForce, check_majority, refusals_to_go_back
from commonweal.remote.coordinator.federation_file import Federation
from commonweal.remote.messages.answer_limit import AnswerLimit, GroupLimit
from commonweal.remote.messages.lateness import RoundLateness
from commonweal.remote.messages.message import (
    CLOSE,
    LACKS,
    MODEL,
    NUMBER,
    OPEN,
    SUMMARISE,
    Message,
    is_answer_signed,
    printable,
)
from commonweal.remote.transport import Answers, NoAnswer, Transport
from commonweal.task.records import Model

Result = TypeVar("Result")
Question = tuple[Mapping[str, Any], Sequence[str]]
"""The fields of a question, and the hashes of the models that it needs."""

CLOSE_SECONDS = 90.0  # no round depends on whether a message arrives that is told rather than asked


class Exchange:
    """Questions to the members of a federation, and their answers."""

    def __init__(
        self, transport: Transport, federation: Federation, settled_in: LedgerInForce, say: Callable[[str], None]
    ) -> None:
        self._transport = transport
        self._federation = federation
        self._settled_in = settled_in
        self._say = say
        self._is_joined = False
        self._first_round: int | None = None  # that this run opened
        self._sent: dict[str, set[str]] = {}  # models that each client has: it was sent them, or made them
        self.start_round(0)

    def start_round(self, round_number: int) -> None:
        """Nobody is late or missing yet."""
        late, usual = self._federation.late_seconds, self._federation.answer_seconds
        self._round = round_number
        if round_number and self._first_round is None:
            self._first_round = round_number
        self._lateness = RoundLateness(limit=usual if late is None else late)
        self._refusing: set[str] = set()  # members that refuse to go back
        self._missing: dict[str, NoAnswer] = {}  # the first reason of each client that misses this round

    def present(self, clients: Iterable[str]) -> list[str]:
        """Those of these clients that are connected; the first call waits for them."""
        seconds = 0.0 if self._is_joined else self._federation.join_seconds
        self._is_joined = True
        return self.connected(clients, seconds=seconds)

    def connected(self, clients: Iterable[str], *, seconds: float = 0.0) -> list[str]:
        """Those of these clients that are connected now, or within so many seconds."""
        clients = list(clients)
        there = self._transport.locate(clients, seconds=seconds)
        return [client for client in clients if client in there]

    def has(self, client: str, digest: str) -> None:
        """The client has this model: it made it."""
        self._sent[client].add(digest)

    def has_only(self, client: str, digests: Iterable[str] = ()) -> None:
        """The client keeps these models, and forgets all others."""
        self._sent[client] = set(digests)

    def ask(
        self,
        kind: str,
        questions: Mapping[str, Question],
        read: Callable[[str, Message], Result],
        *,
        common: Callable[[str], Mapping[str, Any]],  # fields that every question to a client has
        models: Mapping[str, Model],  # those that questions may need, by their hashes
        groups: Mapping[str, Model] | None = None,
        expected: Mapping[str, GroupLimit] | None = None,  # groups that an answer may contain
    ) -> dict[str, Result]:
        """Ask members, send models again to those that lost them, and keep the answers that break no rule."""

        def message(client: str, fields: Mapping[str, Any], needed: Iterable[str]) -> Message:
            sent = self._sent.setdefault(client, set())
            missing = [digest for digest in dict.fromkeys(needed) if digest not in sent]
            sent.update(missing)
            return Message(
                fields={**common(client), **fields, "models": list(dict.fromkeys(needed))},
                groups={**(groups or {}), **{MODEL + digest: models[digest] for digest in missing}},
                limit=AnswerLimit(groups=expected or {}, late_seconds=self._lateness.left(client)),
            )

        answers = self.put(kind, {client: message(client, *question) for client, question in questions.items()})
        given, missing = dict(answers.given), dict(answers.missing)
        lacking = [client for client, answer in given.items() if LACKS in answer.fields]
        if lacking:
            for client in lacking:
                self._sent[client] = set()
                del given[client]
            again = self.put(kind, {client: message(client, *questions[client]) for client in lacking})
            given, missing = given | dict(again.given), missing | dict(again.missing)
            for client in [client for client, answer in again.given.items() if LACKS in answer.fields]:
                missing[client] = NoAnswer(kind="refused", reason="it reported a model as missing that was sent twice")
                del given[client]
        if kind in (SUMMARISE, OPEN):
            check_majority(self._refusing, questions, max(self._round, 1), self._settled(kind))
        results: dict[str, Result] = {}
        for client in questions:
            if client in given:
                try:
                    results[client] = read(client, given[client])
                except BrokenRuleError as error:
                    missing[client] = NoAnswer(kind="refused", reason=str(error))
        for client, why in missing.items():
            self.note(client, why)
        return results

    def tell(self, kind: str, fields: Mapping[str, Mapping[str, Any]]) -> Answers:
        """Send each client something that no round depends on; nobody is absent who does not answer."""
        questions = {
            client: Message(fields=told, limit=AnswerLimit(late_seconds=self._lateness.left(client)))
            for client, told in fields.items()
        }
        return self.put(kind, questions, seconds=min(CLOSE_SECONDS, self._federation.answer_seconds))

    def put(self, kind: str, questions: Mapping[str, Message], *, seconds: float | None = None) -> Answers:
        """Give each question its random number and ask it; an answer without a valid signature does not count."""
        numbers = {client: secrets.token_hex(16) for client in questions}
        numbered = {
            client: replace(question, fields={**question.fields, NUMBER: numbers[client]})
            for client, question in questions.items()
        }
        seconds = self._federation.answer_seconds if seconds is None else seconds
        answers = self._transport.ask(kind, numbered, seconds=seconds)
        self._lateness.add(answers.seconds, len(questions))
        refused = {}
        for client, answer in answers.given.items():
            fault = fault_of_sizes(answer, questions[client].limit)  # first: a signature covers all of it
            if fault is None and not is_answer_signed(
                answer, kind=kind, number=numbers[client], public=self._federation.keys[client]
            ):
                fault = "its answer was not signed with the key of its SuperNode"
            if fault is not None:
                refused[client] = NoAnswer(kind="refused", reason=fault)
        given = {client: answer for client, answer in answers.given.items() if client not in refused}
        refusing = refusals_to_go_back(given, self._settled_in, self._settled(kind))
        self._refusing |= refusing.keys()
        return Answers(
            given={client: answer for client, answer in given.items() if client not in refusing},
            missing={**answers.missing, **refused, **refusing},
        )

    def _settled(self, kind: str) -> range:
        """The rounds that this run has settled when it asks such a question; the current one if it is being closed."""
        return range(self._first_round or 1, self._round + 1 if kind == CLOSE else max(self._round, 1))

    def note(self, client: str, missing: NoAnswer) -> None:
        """Remember why a client is absent, and say so at once; the first reason counts."""
        if client not in self._missing:
            self._missing[client] = missing
            self._say(self._text_of(client, missing))

    def why_absent(self, clients: Iterable[str]) -> tuple[Event, ...]:
        """Why these clients missed the round, where that is known."""
        return tuple(
            Event(kind=missing.kind, client=client, text=self._text_of(client, missing))
            for client, missing in self._missing.items()
            if client in clients
        )

    def _text_of(self, client: str, missing: NoAnswer) -> str:
        return printable(f"{client} missed round {self._round}: {missing.reason}.")
