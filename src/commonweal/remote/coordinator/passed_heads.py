"""The heads that members sign when a round is closed; the coordinator passes them on when it opens the next one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from commonweal.errors import LedgerError
from commonweal.ledger.seen_heads import SignedSeenHead
from commonweal.ledger.signed_files import known_head_in
from commonweal.remote.coordinator.answer_rules import BrokenRuleError, document_in
from commonweal.remote.coordinator.attempts import LedgerInForce
from commonweal.remote.messages.message import Message


class PassedHeads:
    """Each member's last signed head; `keys` are the members' public keys."""

    def __init__(self, ledger: str, keys: Mapping[str, str]) -> None:
        self._ledger = ledger
        self._keys = keys
        self._heads: dict[str, SignedSeenHead] = {}

    def take(self, answers: Mapping[str, Message]) -> list[SignedSeenHead]:
        """Keep and return the heads in answers to the end of a round."""
        taken = self.signed_in(answers)
        self._heads |= {signed.head.client: signed for signed in taken}
        return taken

    def signed_in(self, answers: Mapping[str, Message]) -> list[SignedSeenHead]:
        """The heads that members signed in their answers; members of earlier versions sign none."""
        found = []
        for client, answer in answers.items():
            try:
                document = document_in(answer, "head")
                signed = SignedSeenHead.from_document(document, ledger=self._ledger, client=client)
            except (BrokenRuleError, LedgerError):
                continue
            if signed.is_signed(self._keys[client]):
                found.append(signed)
        return found

    def fields(self, client: str, clients: Sequence[str]) -> dict[str, Any]:
        """For one client: the keys of the others in the round, and the heads that they signed.

        Those who left are still named, with their last heads: nobody must look like one who is hidden.
        """
        others = [other for other in dict.fromkeys((*clients, *self._heads)) if other != client]
        heads = {other: self._heads[other].to_document() for other in others if other in self._heads}
        return {"peers": json.dumps({other: self._keys[other] for other in others}), "heads": json.dumps(heads)}

    def trail(self, client: str, statement: bytes, ledger: LedgerInForce) -> bytes:
        """The signed hashes of the entries from the last one that the client says it saw to that of its statement."""
        after = self._heads[client].head.number if client in self._heads else 0
        return ledger.trail(after, until=known_head_in(statement, "the statement").number)

    def save(self) -> dict[str, Any]:
        return {client: dict(signed.to_document()) for client, signed in self._heads.items()}

    def restore(self, saved: Mapping[str, Any]) -> None:
        self._heads = {
            client: SignedSeenHead.from_document(document, ledger=self._ledger, client=client)
            for client, document in saved.items()
        }
