"""The gain to expect of the next round: from all rounds so far, the posterior mean over a family of learning curves.

    a(t) = A (1 − exp(−(t/s)^k)),        gain of round t:  g(t) = a(t) − a(t−1)

A is what there is to gain, s the rounds that it takes, and k the shape: gains fall from the start if k ≤ 1, and rise
before they fall if k > 1, as where training has hardly begun. At first A is uniform between 0 and the largest gain
possible, and all s and k of a grid are equally likely. So even the first round can be followed by a forecast, and a
federation that has not gained yet is not taken for one that never will.

A measured gain deviates from its curve by sampling and by the luck of training. The sampling variance is π̂/m_n, as in
`pooling`; errors of successive rounds are negatively correlated, because a model that was lucky on a client's samples
is compared with its successor on the same samples. The others' rounds count for a client like its own, with a weight
below 1, since clients learn at different speeds.

While gains do not fall yet, a single next round says little. The expected gain is therefore the mean over as many of
the next rounds as make that mean largest; where gains fall, this is the next round alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from commonweal.records.gains import PairedGain
from commonweal.seeds import stream
from commonweal.valuation.bootstrap import DRAW_COUNT, Draws
from commonweal.valuation.pooling import variance_per_sample

Floats = NDArray[np.float64]

_AMPLITUDES = tuple((step + 0.5) / 20 for step in range(20))  # parts of the largest gain possible
_ROUNDS_NEEDED = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0)
_SHAPES = (0.35, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)
_LUCK_OF_TRAINING = 0.02  # standard deviation of a gain around its curve, as a part of the largest gain possible
_CORRELATION = -0.35  # of the sampling errors of two successive gains; measured: −0.30 to −0.40
_WEIGHT_OF_OTHERS = 0.3  # of another client's rounds, relative to a client's own
_MOST_ROUNDS_AHEAD = 8

# docs/results/noise.md compares the federations that follow from these constants with the truth.


def forecast_gains(tables: Sequence[Mapping[str, PairedGain]]) -> dict[str, float]:
    """The expected gain of the next round for each client of the last table.

    `tables` are the paired gains of all rounds so far, in order; a client may be missing from some.
    """
    ahead, posteriors = _posteriors(tables)
    return {client: float(_best_mean(weights @ ahead)) for client, weights in posteriors.items()}


def forecast_draws(tables: Sequence[Mapping[str, PairedGain]]) -> dict[str, Draws]:
    """The same, had one of the curves been known to be the right one: drawn from the posterior, the same every time."""
    ahead, posteriors = _posteriors(tables)
    if_known = _best_mean(ahead)
    drawn = {}
    for client, weights in posteriors.items():
        # One draw from each of equally likely parts of the posterior, in random order: fewer draws suffice that way.
        order = stream(0, "forecast", client, len(tables)).permutation(DRAW_COUNT)
        chosen = np.searchsorted(np.cumsum(weights), (order + 0.5) / DRAW_COUNT)
        drawn[client] = if_known[np.minimum(chosen, len(weights) - 1)]
    return drawn


def _posteriors(tables: Sequence[Mapping[str, PairedGain]]) -> tuple[Floats, dict[str, Floats]]:
    """The gains of each curve in the rounds ahead, and for each client of the last table the curves' probabilities."""
    # Where no gain was ever measured, in a metric whose unit says nothing about what is possible, none is expected.
    scale = _largest_gain(tables)
    curves = scale * _unit_gains(len(tables) + _MOST_ROUNDS_AHEAD)
    variances = [_variance(table) for table in tables]
    evidence = {client: _log_likelihood(client, tables, variances, curves, scale) for client in tables[-1]}
    everybody = np.sum(list(evidence.values()), axis=0)
    return curves[:, len(tables) :], {
        client: _normalised(own + _WEIGHT_OF_OTHERS * (everybody - own)) for client, own in evidence.items()
    }


def _best_mean(ahead: Floats) -> Floats:
    """The largest mean of the first gains ahead, over the number of rounds."""
    return np.asarray(np.max(np.cumsum(ahead, axis=-1) / np.arange(1, _MOST_ROUNDS_AHEAD + 1), axis=-1))


def _unit_gains(round_count: int) -> Floats:
    """The gains of each curve of the grid with A as a part of 1: one row per curve, one column per round."""
    grid = np.array(list(product(_AMPLITUDES, _ROUNDS_NEEDED, _SHAPES)))
    rounds = np.arange(round_count + 1)
    gained = grid[:, :1] * -np.expm1(-((rounds / grid[:, 1:2]) ** grid[:, 2:3]))
    return np.diff(gained, axis=1)


def _log_likelihood(
    client: str,
    tables: Sequence[Mapping[str, PairedGain]],
    variances: Sequence[float],
    curves: Floats,
    scale: float,
) -> Floats:
    """Of each curve, given a client's own gains, up to a constant.

    The covariance of the gains is tridiagonal; each error is predicted from the one before (Cholesky).
    """
    found = np.zeros(len(curves))
    last_round, last_error, last_deviation, last_variance = -1, 0.0, np.zeros(len(curves)), 1.0
    for number, table in enumerate(tables):
        if client not in table or scale == 0:
            continue
        row = table[client]
        error = math.sqrt(variances[number] / row.sample_count)
        own_variance = error**2 + (_LUCK_OF_TRAINING * scale) ** 2
        deviation = row.gain - curves[:, number]
        if number == last_round + 1 and last_round >= 0:
            slope = _CORRELATION * error * last_error / last_variance
            deviation = deviation - slope * last_deviation
            own_variance -= slope**2 * last_variance
        found -= deviation**2 / (2 * own_variance)
        last_round, last_error, last_deviation, last_variance = number, error, deviation, own_variance
    return found


def _variance(table: Mapping[str, PairedGain]) -> float:
    """π̂ of a round."""
    rows = list(table.values())
    return variance_per_sample(rows, [row.sample_count for row in rows]) if rows else 0.0


def _largest_gain(tables: Sequence[Mapping[str, PairedGain]]) -> float:
    """1 for a metric within 0 and 1; otherwise twice the most that a client has gained so far."""
    rows = [row for table in tables for row in table.values()]
    if all(row.is_bounded for row in rows):
        return 1.0
    clients = {client for table in tables for client in table}
    return 2 * max(math.fsum(abs(table[client].gain) for table in tables if client in table) for client in clients)


def _normalised(log_weights: Floats) -> Floats:
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(weights / weights.sum())
