"""Check the number of a round, and that it says something about every active member."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commonweal.ledger.member_documents import ROUND_LIMIT
from commonweal.ledger.order import LARGEST_JUMP, comes_too_late, is_number_of_a_round, is_too_far
from commonweal.ledger.rounds import resting_in
from commonweal.ledger.verification.replay import LedgerReplay


def check_round_number(number: int, round_number: int, replay: LedgerReplay) -> None:
    """A gap is a note. So is a round settled after a later one, where no rules are agreed: figures may come late."""
    state = replay.state
    if not is_number_of_a_round(round_number):
        replay.findings.add(number, "rounds are numbered from 1 on", f"1 to {ROUND_LIMIT}", str(round_number))
    elif is_too_far(round_number, state):
        expected = f"at most {state.last_round + LARGEST_JUMP}"
        replay.findings.add(number, "the number of a round is near the last one", expected, str(round_number))
    elif comes_too_late(round_number, state):
        found = f"round {round_number} after round {state.last_round}"
        replay.findings.add(number, "where rules are agreed, new rounds are settled in order", "a later round", found)
    elif round_number not in (state.last_round + 1, max(state.ever_settled, default=0) + 1, *state.ever_settled):
        expected = f"round {state.last_round + 1}"
        replay.notes.add(number, "rounds are settled in order and without gaps", expected, f"round {round_number}")


def check_nobody_is_missing(number: int, round_number: int, body: Mapping[str, Any], replay: LedgerReplay) -> None:
    listed = {row["client"] for row in body["inputs"]} | {*body["absent"], *resting_in(body)}
    for client in replay.state.listed_in(round_number):
        if client not in listed:
            replay.findings.add(
                number, "a round lists every active member", f"{client} with figures or as absent", "neither"
            )
