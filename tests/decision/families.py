"""Random rounds of the kinds that break solvers: ties, zeros, equal ratios, mixed magnitudes."""

from __future__ import annotations

import math

import numpy as np

KINDS = ("uniform", "small integers", "magnitudes", "tenths", "eighths", "identical", "zeros")


def figures(rng, kind, candidate_count, other_count):
    """Profits and contributions of candidates and of clients without a loss, in random order."""

    def sizes(count):
        if kind == "uniform":
            return rng.random(count) + 1e-12
        if kind == "small integers":
            return rng.integers(1, 4, count).astype(float)
        if kind == "magnitudes":
            return 10.0 ** rng.uniform(-9, 9, count)
        if kind == "tenths":
            return rng.integers(1, 4, count) * 0.1
        if kind == "eighths":
            return rng.integers(1, 9, count) / 8
        if kind == "identical":
            return np.full(count, rng.choice([0.05, 1.0, 3.0]))
        return rng.integers(0, 3, count).astype(float)

    contributions = sizes(candidate_count)
    losses = contributions * rng.choice([0.3, 1.0]) if rng.random() < 0.3 else sizes(candidate_count)
    losses = np.where(losses == 0, 1.0, losses)
    contributions = np.where(rng.random(candidate_count) < 0.1, 0.0, contributions)
    profits = np.concatenate([-losses, sizes(other_count) * (rng.random(other_count) < 0.7)])
    contributions = np.concatenate([contributions, sizes(other_count) * (rng.random(other_count) < 0.7)])
    order = rng.permutation(len(profits))
    return profits[order], contributions[order]


def leniency(rng):
    """A mu from 0 to infinity."""
    kind = rng.random()
    if kind < 0.05:
        return 0.0
    if kind < 0.1:
        return math.inf
    if kind < 0.5:
        return float(10.0 ** rng.uniform(-3, 2))
    if kind < 0.8:
        return float(rng.integers(1, 9)) / 4
    return float(10.0 ** rng.uniform(-12, 12))
