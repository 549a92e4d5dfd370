"""Uncertainty of figures measured on validation samples: the Poisson bootstrap.

Each validation sample has its own weight in each draw, from a Poisson(1) distribution. A sample keeps its weights in
all rounds and for all models, so differences between rounds or coalitions, and sums over rounds, get the uncertainty of
the difference or sum, not that of unrelated figures. The scores of all samples are known, so no model is run again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from commonweal.seeds import stream
from commonweal.valuation.coalition import all_coalitions

Draws = NDArray[np.float64]
"""A figure in each bootstrap draw."""

DRAW_COUNT = 400
"""A standard error from 400 draws is itself accurate to about 4 %."""


@lru_cache(maxsize=32)  # in a round, the client and the session need the same weights
def resampling_weights(seed: int, client: str, sample_count: int) -> NDArray[np.float64]:
    """Weights of a client's first validation samples, one row per sample and one column per draw."""
    # Drawn row by row, so that the first rows do not change with more samples (except for the correction below).
    weights = stream(seed, "bootstrap", client).poisson(1.0, (sample_count, DRAW_COUNT)).astype(np.float64)
    weights[:, weights.sum(axis=0) == 0] = 1.0  # if there are few samples, a draw may contain none of them
    weights.setflags(write=False)
    return weights


def mean_draws(scores: NDArray[np.float64], weights: NDArray[np.float64]) -> Draws:
    """The mean score in each draw."""
    return np.asarray(scores @ weights / weights.sum(axis=0))


def standard_error(draws: Draws) -> float:
    """The standard deviation of a figure over the draws."""
    return float(np.std(draws, ddof=1))


def constant_draws(values: Mapping[str, float]) -> dict[str, Draws]:
    """The same value in every draw: for figures that do not depend on validation samples."""
    return {client: np.full(DRAW_COUNT, value) for client, value in values.items()}


def marginal_draws(clients: Sequence[str], values: Mapping[frozenset[str], Draws]) -> dict[str, Draws]:
    """v(A) − v(A∖n) in each draw."""
    everyone = frozenset(clients)
    return {client: values[everyone] - values[everyone - {client}] for client in clients}


def shapley_draws(clients: Sequence[str], values: Mapping[frozenset[str], Draws]) -> dict[str, Draws]:
    """Shapley values in each draw, from the coalitions that are known.

    The Shapley values are the slopes of the best additive fit to v, with weights (N − 1) / (C(N, s) s (N − s)) for
    coalitions of s clients, and with equality for the empty and the full coalition (Charnes et al. 1988). The fit is
    exact if all coalitions are known, and otherwise linear in the values, as needed for an uncertainty.
    """
    count = len(clients)
    members = all_coalitions(count) if len(values) == 1 << count else _rows(clients, values)
    names = np.array(clients, dtype=object)
    draws = np.array([values[frozenset(names[row > 0])] for row in members])
    sizes = members.sum(axis=1).astype(int)
    nothing, everything = draws[sizes == 0][0], draws[sizes == count][0]
    inner = (sizes > 0) & (sizes < count)
    if count == 1 or not inner.any():
        return dict.fromkeys(clients, (everything - nothing) / count)
    binomials = np.array([float(np.prod([(count - j) / (j + 1) for j in range(s)])) for s in range(count + 1)])
    s = sizes[inner]
    root = np.sqrt((count - 1) / (binomials[s] * s * (count - s)))[:, None]
    # Slopes are equal parts of v(A) − v(∅) plus deviations that sum to zero. Subtracting the mean from each row leaves
    # only the deviations. If there are too few coalitions to determine them, the smallest are taken, so clients that
    # cannot be told apart get the same.
    gain = everything - nothing
    centred = members[inner] - (s / count)[:, None]
    target = draws[inner] - nothing - (s / count)[:, None] * gain
    deviations = np.linalg.lstsq(root * centred, root * target, rcond=None)[0]
    return dict(zip(clients, gain / count + deviations, strict=True))


def _rows(clients: Sequence[str], values: Mapping[frozenset[str], Draws]) -> NDArray[np.float64]:
    return np.array([[float(client in coalition) for client in clients] for coalition in values])
