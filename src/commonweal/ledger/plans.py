"""Whom a mechanism plans the next round with: everybody who stays, so that the operator does not choose among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commonweal.errors import LedgerError
from commonweal.ledger.rounds import RoundToSettle, resting_in
from commonweal.ledger.silence import at_the_limit, silent_in
from commonweal.ledger.state import LedgerState


def staying(body: Mapping[str, Any], state: LedgerState) -> list[str]:
    """The clients of a round that are still members after it, in the order of admission.

    Those leave whom its entry ends the membership of, and whose notices the ledger has. Others may withdraw after the
    round, too: their notices follow it in the ledger. Python's own errors if the entry is damaged.
    """
    number = body["round"]
    listed = {*(row["client"] for row in body["inputs"]), *body["absent"], *resting_in(body)}
    gone = {*body["decision"]["eliminated"], *({*silent_in(body)} & at_the_limit(state, number))}
    gone |= {client for client, last in state.withdrawn.items() if last <= number}
    return [client for client in state.members if client in listed - gone]


def left_out(planned_with: tuple[str, ...], round_number: int, state: LedgerState) -> list[str]:
    """Members of a round that the one before it was settled with, but that it did not plan this one with."""
    before = max((each for each in state.rounds if each < round_number), default=0)
    known = (client for client in state.listed_in(round_number) if not state.joins_after(client, before))
    return [client for client in known if client not in planned_with]


def check_planned_with(settled: RoundToSettle, body: Mapping[str, Any], state: LedgerState) -> None:
    """Refuse a plan for the next round without somebody who stays, where rules are agreed."""
    if settled.active is None or not state.has_rules:
        return
    record = settled.record
    for client in staying(body, state):
        if client not in settled.active and client not in record.withdrawn:
            raise LedgerError(
                f"The round after round {record.round_number} was planned without {client!r}, which stays. Plan it "
                "with everybody who is still in the federation."
            )
