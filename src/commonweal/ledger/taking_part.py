"""Who can be in a round, and who can be called silent in it: members that get its model."""

from __future__ import annotations

from collections.abc import Iterable

from commonweal.errors import LedgerError
from commonweal.ledger.silence import owed_reports
from commonweal.ledger.state import LedgerState

AFTER_ADMISSION = "members take part in the rounds after their admission"
ONLY_WITH_THE_MODEL = "only members that get a round's model are silent in it"
STILL_ACTIVE = "only active members are absent from a round"
NOT_SILENT_BEFORE = "nobody becomes silent in a round that is settled again"


def fault_of_silence(client: str, round_number: int, state: LedgerState) -> str | None:
    """Why a client cannot have been silent in a round; None if it can."""
    if client not in state.listed_in(round_number):
        return "had left before it, or joined after it"
    if not state.terms_since:
        return None  # already a finding of the first entry
    owed = owed_reports(state, client, round_number)
    return f"is kept out since its silence in round {owed[0]}" if owed else None


def wrongly_absent(absent: Iterable[str], round_number: int, state: LedgerState) -> dict[str, str]:
    """Members that are listed as absent from a round and had no part in it, where rules are agreed, and why."""
    if not state.has_rules:
        return {}
    active, listed = state.active(round_number), state.listed_in(round_number)
    return {
        client: f"joined after round {round_number}" if client in active else f"left before round {round_number}"
        for client in absent
        if client in state.members and client not in listed
    }


def check_absent(absent: Iterable[str], round_number: int, state: LedgerState) -> None:
    """Refuse a round that lists somebody as absent who left before it, or joined after it."""
    for client, reason in wrongly_absent(absent, round_number, state).items():
        raise LedgerError(f"Client {client!r} {reason} and cannot be absent. Leave it out.")


def was_not_silent(client: str, round_number: int, state: LedgerState) -> bool:
    """Whether a settlement of this round, reversed ones included, does not call a client silent.

    It has its report, calls it absent only, or does not list it: the round went on without it, since it had left or
    rested, so it did not get the model.
    """
    silent = state.called_silent.get(round_number)
    return silent is not None and (client not in silent or client in state.not_silent[round_number])


def check_silent(clients: tuple[str, ...], round_number: int, state: LedgerState) -> None:
    """Refuse a round that calls somebody silent who did not get its model, or was not silent when it was settled."""
    for client in clients:
        if was_not_silent(client, round_number, state):
            raise LedgerError(
                f"Client {client!r} cannot be silent in round {round_number}: it reported or was only absent when the "
                "round was settled before, or had no part in it. List it as absent only."
            )
        fault = fault_of_silence(client, round_number, state)
        if fault is not None:
            raise LedgerError(
                f"Client {client!r} cannot be silent in round {round_number}: it {fault}, so it did not get the "
                "round's model. Leave it out, or list it as absent only."
            )


def check_joined(client: str, round_number: int, state: LedgerState) -> None:
    """Refuse a client in a round from before its admission, where rules are agreed."""
    if state.has_rules and state.joins_after(client, round_number):
        raise LedgerError(
            f"Client {client!r} cannot take part in round {round_number}: it was admitted from round "
            f"{state.first_rounds[client]} on. Leave it out."
        )
