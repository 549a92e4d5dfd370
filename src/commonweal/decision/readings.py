"""Figures of a round as arrays, for mechanisms that cannot do without them."""

from __future__ import annotations

import numpy as np

from commonweal.decision.exact import FloatArray
from commonweal.decision.mechanism import RoundView
from commonweal.errors import InputError


def sample_counts(mechanism: str, view: RoundView) -> FloatArray:
    """The samples that each client declared as new in this round."""
    missing = next((client for client in view.clients if client not in view.sample_counts), None)
    if missing is not None:
        raise InputError(
            f"Mechanism {mechanism!r} needs the number of new samples of each client, got none for {missing!r}. "
            "Give it, or choose another mechanism."
        )
    return np.array([view.sample_counts[client] for client in view.clients], dtype=np.float64)


def given(values: FloatArray | None) -> FloatArray:
    """Values that the mechanism declares that it reads, so they are there."""
    assert values is not None, "checked before a round is decided"
    return values
