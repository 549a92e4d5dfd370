"""What the methods of a mechanism returned, checked where a round is decided: a wrong value is never settled."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray
from commonweal.decision.problem import Choice
from commonweal.decision.transfers import Division
from commonweal.errors import InputError
from commonweal.records import Instructions

DECISIONS = MappingProxyType(
    {
        "participants": "participants",
        "data_shares": "data",
        "iteration_limit": "iterations",
        "model_shares": "model quality",
    }
)
"""What a mechanism can decide about the next round: the field of `Instructions`, and how `decides` calls it."""

_ROUNDING = 1e-12  # of the sizes of the amounts that are added up
_LARGEST = 1e300  # amounts beyond it could not be added up


def checked_retained(mechanism: str, choice: object, client_count: int) -> BoolArray:
    """Who is retained: one truth value for each client of the round."""
    if not isinstance(choice, Choice):
        raise InputError(
            f"Mechanism {mechanism!r} returned {_kind(choice)} from select. Return Choice(retained=mask), with True "
            "for each client that stays."
        )
    retained: object = choice.retained
    if not (isinstance(retained, np.ndarray) and retained.dtype == np.bool_ and retained.shape == (client_count,)):
        raise InputError(
            f"Mechanism {mechanism!r} returned {_kind(retained)} as retained. Return an array of True and False, one "
            f"for each of the {client_count} clients in the round."
        )
    gap: object = choice.proven_gap
    if isinstance(gap, bool) or not isinstance(gap, int | float | np.number) or not gap >= 0:
        raise InputError(f"Mechanism {mechanism!r} returned {gap!r} as proven_gap. Leave it out, or return at least 0.")
    mask = retained.copy()
    mask.flags.writeable = False
    return mask


def checked_division(
    mechanism: str,
    division: object,
    view_profits: FloatArray,
    retained: BoolArray,
    *,
    takes_external_money: bool,
    is_raw: bool = False,
) -> Division:
    """Finite amounts for each client, whose profits are given; the money sums to zero, and payoffs are what it makes.

    Only a mechanism that declares it may charge clients that are not retained, or deal with the outside. Raw
    contributions can give shares of any size, and transfers that cancel after they are multiplied by those.
    """
    if not isinstance(division, Division):
        raise InputError(f"Mechanism {mechanism!r} returned {_kind(division)} from divide. Return a Division.")
    profits, gone_count = view_profits[retained], int(np.count_nonzero(~retained))
    budget = _amounts(mechanism, "the budget", [division.budget], 1)
    shares = _amounts(mechanism, "shares", division.shares, len(profits))
    payoffs = _amounts(mechanism, "payoffs", division.payoffs, len(profits))
    transfers = _amounts(mechanism, "transfers", division.transfers, len(profits))
    external = float(_amounts(mechanism, "external", [division.external], 1)[0])
    charges = np.zeros(gone_count) if division.charges is None else division.charges
    charges = _amounts(mechanism, "charges", charges, gone_count, whose="eliminated")
    if (external or charges.any()) and not takes_external_money:
        what = f"{external:.6g} as external" if external else "charges to eliminated clients"
        raise InputError(
            f"Mechanism {mechanism!r} returned {what}, but does not declare takes_external_money = True. Declare it."
        )
    amounts = [*transfers.tolist(), *charges.tolist(), external]
    total = math.fsum(amounts)
    shares_size = float(np.abs(shares).sum()) if is_raw else 1.0
    size = float(np.abs(profits).sum()) * (1 + shares_size) + math.fsum(map(abs, amounts))
    if abs(total) > _ROUNDING * size:
        what = "transfers, charges and external" if takes_external_money else "transfers"
        raise InputError(f"Mechanism {mechanism!r} returned {what} that sum to {total:.6g}; they must sum to zero.")
    rounding = _ROUNDING * (np.abs(profits) + np.abs(transfers) + np.abs(payoffs))
    odd = np.flatnonzero(np.abs(profits + transfers - payoffs) > rounding)
    if len(odd):
        payoff, profit, transfer = (float(values[odd[0]]) for values in (payoffs, profits, transfers))
        raise InputError(
            f"Mechanism {mechanism!r} returned a payoff of {payoff:.6g} for a profit of {profit:.6g} and a transfer of "
            f"{transfer:.6g}; a payoff must be the profit plus the transfer."
        )
    return Division(
        budget=float(budget[0]),
        shares=shares,
        payoffs=payoffs,
        transfers=transfers,
        external=external,
        charges=charges,
    )


def checked_objective(mechanism: str, objective: object) -> float:
    """A number; −∞ where a set has none."""
    if isinstance(objective, bool) or not isinstance(objective, int | float | np.number) or math.isnan(objective):
        raise InputError(f"Mechanism {mechanism!r} returned {objective!r} from objective. Return a number.")
    return float(objective)


def checked_explanation(mechanism: str, explained: object) -> str:
    """A text."""
    if not isinstance(explained, str):
        raise InputError(f"Mechanism {mechanism!r} returned {_kind(explained)} from explain. Return a text.")
    return explained


def checked_instructions(
    mechanism: str, instructions: object, active: Sequence[str], decides: Collection[str]
) -> Instructions:
    """Instructions for some of the active clients, about what the mechanism declares that it decides."""
    if not isinstance(instructions, Instructions):
        raise InputError(f"Mechanism {mechanism!r} returned {_kind(instructions)} from plan. Return Instructions.")
    given = instructions.to_document()
    undeclared = next((field for field in given if DECISIONS[field] not in decides), None)
    if undeclared is not None:
        raise InputError(
            f"Mechanism {mechanism!r} returned {undeclared} from plan, but does not declare that it decides "
            f'"{DECISIONS[undeclared]}". Declare decides = frozenset({{"{DECISIONS[undeclared]}"}}).'
        )
    limit: object = instructions.iteration_limit
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 1):
        raise InputError(
            f"Mechanism {mechanism!r} returned {limit!r} as iteration_limit. Return a whole number from 1, or None."
        )
    shares = {
        name: _shares(mechanism, name, getattr(instructions, name), active) for name in ("data_shares", "model_shares")
    }
    return Instructions(
        participants=_participants(mechanism, instructions.participants, active),
        iteration_limit=None if limit is None else int(limit),
        **shares,
    )


def _participants(mechanism: str, participants: object, active: Sequence[str]) -> tuple[str, ...] | None:
    if participants is None:
        return None
    if not isinstance(participants, list | tuple) or not participants:
        what = "nobody" if isinstance(participants, list | tuple) else _kind(participants)
        raise InputError(
            f"Mechanism {mechanism!r} returned {what} as participants. Return at least one active client, or "
            "None for everybody."
        )
    _refuse_strangers(mechanism, "participants", participants, active)
    return tuple(client for client in active if client in participants)


def _shares(mechanism: str, what: str, shares: object, active: Sequence[str]) -> dict[str, float]:
    if not isinstance(shares, Mapping):
        raise InputError(f"Mechanism {mechanism!r} returned {_kind(shares)} as {what}. Return a dict by client.")
    _refuse_strangers(mechanism, what, shares, active)
    for client, share in shares.items():
        if isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0 <= share <= 1:
            raise InputError(
                f"Mechanism {mechanism!r} returned {share!r} for client {client!r} in {what}. Return a number from 0 "
                "to 1."
            )
    return {client: float(shares[client]) for client in active if client in shares}


def _refuse_strangers(mechanism: str, what: str, named: Collection[object], active: Sequence[str]) -> None:
    stranger = next((client for client in named if client not in active), None)
    if stranger is not None:
        raise InputError(
            f"Mechanism {mechanism!r} named {stranger!r} in {what}, which is no active client. The active clients: "
            f"{', '.join(active[:10])}."
        )


def checked_state(mechanism: str, state: object) -> Mapping[str, Any]:
    """A mapping in the types of JSON."""
    if not isinstance(state, Mapping):
        raise InputError(
            f"Mechanism {mechanism!r} returned {_kind(state)} from advance. Return a dict in the types of JSON."
        )
    try:
        json.dumps(state, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"Mechanism {mechanism!r} returned a state from advance that JSON cannot hold: {error}. Use dicts, lists, "
            "text, finite numbers, true, false and None."
        ) from None
    return state


def _amounts(mechanism: str, what: str, values: object, count: int, *, whose: str = "retained") -> FloatArray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"Mechanism {mechanism!r} returned {values!r} as {what}; only numbers are allowed.") from None
    if array.shape != (count,):
        raise InputError(
            f"Mechanism {mechanism!r} returned {_kind(array)} as {what}. Return one number for each of the {count} "
            f"{whose} clients, in their order."
        )
    if not np.isfinite(array).all():
        odd = float(array[~np.isfinite(array)][0])
        raise InputError(f"Mechanism {mechanism!r} returned {odd} in {what}; amounts must be finite numbers.")
    if (np.abs(array) > _LARGEST).any():
        raise InputError(f"Mechanism {mechanism!r} returned an amount above {_LARGEST:g} in {what}.")
    return array


def _kind(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    return f"a value of type {type(value).__name__}"
