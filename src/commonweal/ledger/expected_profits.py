"""Expected profits in a round decide who stays, so they count only where clients sign them: with a table of gains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commonweal.errors import LedgerError
from commonweal.ledger.state import LedgerState

SIGNED_OR_NONE = "profits are expected by all clients, who sign them with a table of gains, or by none"


def fault_of_expected_profits(body: Mapping[str, Any], state: LedgerState) -> tuple[str, str] | None:
    """What was expected of a round's entry and what was found; None if nothing is wrong.

    Where no rules are agreed and the operator vouches for all clients, it vouches for these figures too.
    """
    stated = [row["client"] for row in body["inputs"] if "expected_profit" in row]
    if not stated:
        return None
    if "gains" not in body and (state.has_rules or any(state.members.get(client) is not None for client in stated)):
        return "no expected profits without a table of gains", f"one of {stated[0]}, which nobody signs"
    missing = [row["client"] for row in body["inputs"] if "expected_profit" not in row]
    return (f"one of {missing[0]}, as of {stated[0]}", "none") if missing else None


def check_expected_profits(body: Mapping[str, Any], state: LedgerState) -> None:
    """Refuse a round with expected profits that its clients cannot have signed."""
    fault = fault_of_expected_profits(body, state)
    if fault is not None:
        raise LedgerError(
            f"Round {body['round']} has expected profits that its clients do not sign: expected {fault[0]}, got "
            f"{fault[1]}. Settle it with the table of gains that they follow from, or without expected profits."
        )
