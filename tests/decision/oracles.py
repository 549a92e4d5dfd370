"""Second opinions on decisions, written without looking at the solver: integers, every set, nothing clever."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np


def integers(values):
    """The doubles as integers of one common unit."""
    fractions = [Fraction(v) for v in values]
    unit = Fraction(1, max((f.denominator for f in fractions), default=1))
    return [int(f / unit) for f in fractions], unit


def all_sets(profits, contributions):
    """(set as a bit mask over candidates, Σ loss, Q(E), Q(retained)) of every set of loss-makers, exactly."""
    candidates = [n for n, p in enumerate(profits) if p < 0]
    losses, loss_unit = integers([-profits[n] for n in candidates])
    qs, _ = integers(contributions)
    total = sum(qs)
    sums = [(0, 0, 0)]
    for bit, n in enumerate(candidates):
        sums += [(mask | 1 << bit, lost + losses[bit], gone + qs[n]) for mask, lost, gone in sums]
    return candidates, loss_unit, [(mask, lost, gone, total - gone) for mask, lost, gone in sums]


def tolerant(profits, contributions, mu):
    """Indices of the clients to eliminate at a finite mu by version 2 of the rules, from the definition.

    Of all sets whose objective falls short of the best one by at most 1e-12 of the sum of absolute profits, the one
    that retains the most clients, and of these the one that retains the earlier clients.
    """
    candidates, loss_unit, sets = all_sets(profits, contributions)
    objectives = {}
    for mask, lost, gone, kept in sets:
        if mu == 0 or gone == 0:
            objectives[mask] = lost * loss_unit
        elif kept != 0:
            objectives[mask] = lost * loss_unit - Fraction(mu) * Fraction(gone, kept)
    lowest = max(objectives.values()) - sum(abs(Fraction(p)) for p in profits) / 10**12
    eliminated = (
        tuple(n for bit, n in enumerate(candidates) if mask >> bit & 1)
        for mask, objective in objectives.items()
        if objective >= lowest
    )
    return min(eliminated, key=lambda gone: (len(gone), [n in gone for n in range(len(profits))]))


def exhaustive(profits, contributions, mu):
    """Indices of the clients to eliminate at a finite mu by version 1 of the rules: exact ties only."""
    candidates, loss_unit, sets = all_sets(profits, contributions)
    price = Fraction(mu) / loss_unit
    top, bottom = price.numerator, price.denominator

    def prefer(mask, other):
        count, other_count = mask.bit_count(), other.bit_count()
        if count != other_count:
            return count < other_count
        lowest_difference = (mask ^ other) & -(mask ^ other)
        return bool(other & lowest_difference)

    best = None
    for mask, lost, gone, kept in sets:
        if mu == 0 or gone == 0:
            gone, kept = 0, 1
        elif kept == 0:
            continue
        if best is not None:
            # lost − price·gone/kept against the best so far, cleared of denominators (kept may be negative)
            difference = (lost - best[1]) * bottom * kept * best[3] - top * (gone * best[3] - best[2] * kept)
            sign = difference if kept * best[3] > 0 else -difference
            if sign < 0 or (sign == 0 and not prefer(mask, best[0])):
                continue
        best = (mask, lost, gone, kept)
    return tuple(n for bit, n in enumerate(candidates) if best[0] >> bit & 1)


def envelope(profits, contributions):
    """Exact breakpoints > 0 of the upper envelope over all sets that a finite mu > 0 allows."""
    _, loss_unit, sets = all_sets(profits, contributions)
    highest = {}
    for _, lost, gone, kept in sets:
        if gone == 0:
            slope = Fraction(0)
        elif kept == 0:
            continue
        else:
            slope = Fraction(gone, kept)
        highest[slope] = max(highest.get(slope, Fraction(-1, 10**9)), lost * loss_unit)
    lines = sorted(highest.items(), reverse=True)  # steepest first: best for small mu
    hull = []
    for slope, height in lines:
        while hull:
            if len(hull) == 1:
                # at mu = 0+ the higher line wins; an equal or higher flatter line buries the steeper one
                if height >= hull[-1][1]:
                    hull.pop()
                    continue
                break
            (s1, h1), (s2, h2) = hull[-2], hull[-1]
            if (h1 - height) * (s1 - s2) <= (h1 - h2) * (s1 - slope):
                hull.pop()
            else:
                break
        if not hull or height < hull[-1][1]:
            hull.append((slope, height))
    return [(h1 - h2) / (s1 - s2) for (s1, h1), (s2, h2) in pairwise(hull)]


def knapsack(losses, contributions, kept, mu, gone=0):
    """Largest Σ_E l − μ·Q(E)/Q(retained), by dynamic programming over the integer Q(E) of the candidates.

    `gone`: contribution that is lost whatever is decided.
    """
    unit = Fraction(1, max(Fraction(loss).denominator for loss in losses))
    scaled = [int(Fraction(loss) / unit) for loss in losses]
    size = int(sum(contributions))
    most = np.full(size + 1, -1, dtype=np.int64)
    most[0] = 0
    for loss, q in zip(scaled, contributions, strict=True):
        q = int(q)
        shifted = np.where(most[: size + 1 - q] >= 0, most[: size + 1 - q] + loss, -1)
        most[q:] = np.maximum(most[q:], shifted)
    total = int(kept) + size + int(gone)
    return max(
        int(most[out]) * unit - Fraction(mu) * Fraction(int(gone) + out, total - int(gone) - out)
        for out in range(size + 1)
        if most[out] >= 0 and int(gone) + out < total
    )
