"""Draws of clients for the next round, the same whenever a round is decided again."""

from __future__ import annotations

import math

import numpy as np

from commonweal.decision.exact import FloatArray


def place_count(fraction: float, client_count: int) -> int:
    """max(fraction · clients, 1), rounded down; 0.6 · 5 is 3 although the doubles may give a little less."""
    return max(math.floor(fraction * client_count + 1e-9), 1)


def drawn(log_weights: FloatArray, count: int, rng: np.random.Generator) -> list[int]:
    """Positions drawn one after another without replacement, with these weights; those of weight 0 are never drawn."""
    # The largest of log weight + Gumbel noise is a draw by weight, the second largest the next one, and so on.
    keys = log_weights - np.log(-np.log1p(-rng.random(len(log_weights))))
    order = np.argsort(-keys, kind="stable")[:count].tolist()
    return [position for position in order if log_weights[position] > -math.inf]
