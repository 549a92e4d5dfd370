"""Check the number of a round, and that it says something about every active member."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commonweal.ledger.member_documents import ROUND_LIMIT
from commonweal.ledger.order import LARGEST_JUMP, is_number_of_a_round, is_out_of_turn, is_too_far
from commonweal.ledger.rounds import resting_in
from commonweal.ledger.verification.replay import LedgerReplay


def check_round_number(number: int, round_number: int, replay: LedgerReplay) -> None:
    """Where no rules are agreed, figures may come in any order: gaps and late ones are notes."""
    state = replay.state
    if not is_number_of_a_round(round_number):
        replay.findings.add(number, "rounds are numbered from 1 on", f"1 to {ROUND_LIMIT}", str(round_number))
    elif is_too_far(round_number, state):
        expected = f"at most {state.last_round + LARGEST_JUMP}"
        replay.findings.add(number, "the number of a round is near the last one", expected, str(round_number))
    elif is_out_of_turn(round_number, state):
        rule = "where rules are agreed, rounds are settled in order and without gaps"
        replay.findings.add(number, rule, f"round {state.next_round}", f"round {round_number}")
    elif round_number not in (state.last_round + 1, *state.ever_settled):
        expected = f"round {state.last_round + 1}"
        replay.notes.add(number, "rounds are settled in order and without gaps", expected, f"round {round_number}")


def check_nobody_is_missing(number: int, round_number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    listed = {row["client"] for row in body["inputs"]} | {*body["absent"], *resting_in(body)}
    for client in replay.state.listed_in(round_number):
        if client not in listed:
            replay.findings.add(
                number, "a round lists every active member", f"{client} with figures or as absent", "neither"
            )
