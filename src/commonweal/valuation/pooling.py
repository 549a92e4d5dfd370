"""Gains pooled over clients by empirical Bayes: what one client's few samples cannot tell, all clients together can.

    s_n² = π̂ / m_n,   π̂ = (Σ squared changes + 1) / (Σ m + 2)       the variance of a measured gain g_n
    τ²   the variance between clients that Paule and Mandel (1982) find: Σ (g_n − ḡ)² / (s_n² + τ²) = N − 1
    ḡ    = Σ w_n g_n / Σ w_n,   w_n = 1 / (s_n² + τ²)
    B_n  = τ² / (τ² + s_n²)
    g̃_n  = ḡ + B_n (g_n − ḡ)

π̂ is the variance of one sample's change. It is common to all clients: with variances of their own, clients at which
nothing happened to change would count most. The +1 and +2 are for metrics between 0 and 1, where a sample changes by at
most 1; metrics in other units have none. m_n, the number of validation samples, counts up to twice the median, so that
no client outweighs all others with a claim of many samples.

Sums are correctly rounded, so every machine gets the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from commonweal.records.gains import PairedGain
from commonweal.valuation.bootstrap import Draws

FEWEST_POOLED = 3
"""With fewer clients, a variance between clients cannot be told from noise, and gains stay as measured."""

_ROUNDING = 1e-12  # a pooled gain that is smaller than this part of the largest gain is only rounding error
_STEP_LIMIT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomEffects:
    """Estimates shrunk to their common mean, in the order of the estimates."""

    values: tuple[float, ...]
    weights: tuple[float, ...]  # B: of the estimate itself; 1 − B is that of the mean
    precisions: tuple[float, ...]  # w / Σ w: of each estimate in the mean
    mean: float
    between_variance: float  # τ²


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledGains:
    """The pooled gain of each client, and how it came about."""

    values: Mapping[str, float]
    weights: Mapping[str, float]  # B_n; 1 for clients outside the pool
    precisions: Mapping[str, float]  # of each client of the pool in the mean; empty if nothing was pooled
    mean: float | None  # ḡ; this and the next two: None if nothing was pooled
    between_variance: float | None  # τ²
    variance_per_sample: float | None  # π̂

    def of_draws(self, draws: Mapping[str, Draws]) -> dict[str, Draws]:
        """The same pooling, with the same weights, of the gains in each bootstrap draw."""
        mean = np.sum([part * draws[client] for client, part in self.precisions.items()], axis=0)
        return {
            client: mean + weight * (draws[client] - mean) if client in self.precisions else draws[client]
            for client, weight in self.weights.items()
        }


def pool(gains: Mapping[str, PairedGain], newcomers: Collection[str] = ()) -> PooledGains:
    """Pool the gains of a round. Newcomers stay out of the pool and keep what was measured."""
    members = [client for client in gains if client not in newcomers]
    if len(members) < FEWEST_POOLED:
        return not_pooled(gains)
    rows = [gains[client] for client in members]
    most = 2 * median(row.sample_count for row in rows)
    counts = [min(row.sample_count, most) for row in rows]
    variance = variance_per_sample(rows, counts)
    effects = random_effects([row.gain for row in rows], [variance / count for count in counts])
    pooled = dict(zip(members, effects.values, strict=True))
    weights = dict(zip(members, effects.weights, strict=True))
    return PooledGains(
        values={client: pooled.get(client, one.gain) for client, one in gains.items()},
        weights={client: weights.get(client, 1.0) for client in gains},
        precisions=dict(zip(members, effects.precisions, strict=True)),
        mean=effects.mean,
        between_variance=effects.between_variance,
        variance_per_sample=variance,
    )


def not_pooled(gains: Mapping[str, PairedGain], newcomers: Collection[str] = ()) -> PooledGains:
    """Everybody keeps what was measured."""
    return PooledGains(
        values={client: one.gain for client, one in gains.items()},
        weights=dict.fromkeys(gains, 1.0),
        precisions={},
        mean=None,
        between_variance=None,
        variance_per_sample=None,
    )


def random_effects(estimates: Sequence[float], variances: Sequence[float]) -> RandomEffects:
    """Shrink estimates with these sampling variances to their common mean; with no variance at all they stay."""
    if max(variances) == 0:
        return RandomEffects(
            values=tuple(estimates),
            weights=(1.0,) * len(estimates),
            precisions=(1 / len(estimates),) * len(estimates),
            mean=math.fsum(estimates) / len(estimates),
            between_variance=0.0,
        )
    variances = [max(variance, _ROUNDING * max(variances)) for variance in variances]  # finite weights
    between = between_variance(estimates, variances)
    weighing = [1 / (variance + between) for variance in variances]
    whole = math.fsum(weighing)
    precisions = tuple(weight / whole for weight in weighing)
    mean = math.fsum(part * value for part, value in zip(precisions, estimates, strict=True))
    weights = tuple(between / (variance + between) for variance in variances)
    shrunk = (mean + weight * (value - mean) for weight, value in zip(weights, estimates, strict=True))
    rounding = _ROUNDING * max(map(abs, estimates))
    return RandomEffects(
        values=tuple(0.0 if abs(value) < rounding else value for value in shrunk),
        weights=weights,
        precisions=precisions,
        mean=mean,
        between_variance=between,
    )


def between_variance(estimates: Sequence[float], variances: Sequence[float]) -> float:
    """τ² by Paule and Mandel: the root of Q(τ²) = Σ w (g − ḡ)² − (N − 1); 0 where Q(0) is not positive.

    Variances are above 0. Q is convex and falls, so Newton's steps from 0 approach the root from below (DerSimonian
    and Kacker 2007).
    """
    between = 0.0
    for _ in range(_STEP_LIMIT):
        weights = [1 / (variance + between) for variance in variances]
        whole = math.fsum(weights)
        mean = math.fsum(weight * value for weight, value in zip(weights, estimates, strict=True)) / whole
        squares = [weight * (value - mean) ** 2 for weight, value in zip(weights, estimates, strict=True)]
        excess = math.fsum(squares) - (len(estimates) - 1)
        if excess <= 0:
            break
        step = excess / math.fsum(weight * square for weight, square in zip(weights, squares, strict=True))
        if between + step == between:
            break
        between += step
    return between


def variance_per_sample(rows: Sequence[PairedGain], counts: Sequence[float]) -> float:
    """π̂, in which a client with more samples than count has its changes scaled down likewise."""
    changed = math.fsum(row.squared_change * count / row.sample_count for row, count in zip(rows, counts, strict=True))
    if all(row.is_bounded for row in rows):
        return (changed + 1) / (math.fsum(counts) + 2)
    return changed / math.fsum(counts)
