"""What the methods of a mechanism returned, checked where a round is decided: a wrong value is never settled."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray
from commonweal.decision.problem import Choice
from commonweal.decision.transfers import Division
from commonweal.errors import InputError

_ROUNDING = 1e-12  # of the sizes of the amounts that are added up


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
    return retained


def checked_division(mechanism: str, division: object, profits: FloatArray) -> Division:
    """Finite amounts for each of the retained clients, whose profits are given; the transfers sum to zero."""
    if not isinstance(division, Division):
        raise InputError(f"Mechanism {mechanism!r} returned {_kind(division)} from divide. Return a Division.")
    budget = _amounts(mechanism, "the budget", [division.budget], 1)
    shares = _amounts(mechanism, "shares", division.shares, len(profits))
    payoffs = _amounts(mechanism, "payoffs", division.payoffs, len(profits))
    transfers = _amounts(mechanism, "transfers", division.transfers, len(profits))
    total = math.fsum(transfers.tolist())
    # Raw contributions can give shares of any size, and transfers that cancel after they are multiplied by those.
    size = float(np.abs(profits).sum()) * (1 + float(np.abs(shares).sum())) + float(np.abs(transfers).sum())
    if abs(total) > _ROUNDING * size:
        raise InputError(f"Mechanism {mechanism!r} returned transfers that sum to {total:.6g}; they must sum to zero.")
    return Division(budget=float(budget[0]), shares=shares, payoffs=payoffs, transfers=transfers)


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


def _amounts(mechanism: str, what: str, values: object, count: int) -> FloatArray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"Mechanism {mechanism!r} returned {values!r} as {what}; only numbers are allowed.") from None
    if array.shape != (count,):
        raise InputError(
            f"Mechanism {mechanism!r} returned {_kind(array)} as {what}. Return one number for each of the {count} "
            "retained clients, in their order."
        )
    if not np.isfinite(array).all():
        odd = float(array[~np.isfinite(array)][0])
        raise InputError(f"Mechanism {mechanism!r} returned {odd} in {what}; amounts must be finite numbers.")
    return array


def _kind(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    return f"a value of type {type(value).__name__}"
