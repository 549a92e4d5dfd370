"""Money of mechanisms that do not divide the round's budget: payments as given, with the outside as the other side."""

from __future__ import annotations

import math

import numpy as np

from commonweal.decision.exact import FloatArray
from commonweal.decision.transfers import Division, proportions


def paid(profits: FloatArray, transfers: FloatArray, *, charges: FloatArray | None = None) -> Division:
    """What the retained clients receive or pay, and those who go; the outside receives or pays what is left."""
    left = 0.0 - math.fsum([*transfers.tolist(), *([] if charges is None else charges.tolist())])
    return _division(profits, transfers, external=left, charges=charges)


def exchanged(profits: FloatArray, transfers: FloatArray) -> Division:
    """What the retained clients pay each other. The transfers sum to zero but for rounding."""
    return _division(profits, transfers)


def without_money(profits: FloatArray) -> Division:
    """Nobody pays or receives anything."""
    return _division(profits, np.zeros(len(profits)))


def _division(
    profits: FloatArray, transfers: FloatArray, *, external: float = 0.0, charges: FloatArray | None = None
) -> Division:
    return Division(
        budget=math.fsum(profits.tolist()),
        shares=proportions(np.maximum(transfers, 0.0)),  # of what is paid out; equal parts where nothing is
        payoffs=profits + transfers,
        transfers=transfers,
        external=external,
        charges=charges,
    )
