"""The plain answer: try every set. Slow, obvious, and the oracle of the solver.

With `Fraction` inputs it is exact; with floats it is the brute force that benchmarks are measured against.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

Number = Fraction | float


def penalty(eliminated: Number, retained: Number, mu: Number) -> Number:
    """μ · Q(E) / Q(retained); +∞ where nothing of value is left to divide by, 0 where nothing is lost.

    A retained set whose contributions sum to zero is never bought with μ > 0, whatever the sign of Q(E):
    the ratio has no meaning there.
    """
    if mu == 0 or eliminated == 0:
        return 0
    if retained == 0:
        return math.inf
    return mu * eliminated / retained


def objective(
    profits: Sequence[Number], contributions: Sequence[Number], eliminated: Sequence[int], mu: Number
) -> Number:
    """f(E) = Σ profit of the retained − μ · Q(E) / Q(retained)."""
    gone = set(eliminated)
    retained = [n for n in range(len(profits)) if n not in gone]
    welfare = sum(profits[n] for n in retained)
    lost = sum(contributions[n] for n in eliminated)
    kept = sum(contributions[n] for n in retained)
    return welfare - penalty(lost, kept, mu)


def best_eliminated(
    profits: Sequence[Number], contributions: Sequence[Number], mu: Number
) -> tuple[tuple[int, ...], Number]:
    """The set of clients to eliminate and its objective, over all subsets of the loss-makers.

    Ties: the larger retained set wins, then the one that retains the earlier client where the two first
    differ. Retained sets are tried in just that order, so the first best one is it.
    """
    if mu == math.inf:
        return (), objective(profits, contributions, (), 0)
    candidates = [n for n, profit in enumerate(profits) if profit < 0]
    best: tuple[int, ...] = ()
    best_objective = objective(profits, contributions, best, mu)
    for retained_count in range(len(candidates) - 1, -1, -1):
        for retained in combinations(candidates, retained_count):
            eliminated = tuple(n for n in candidates if n not in retained)
            score = objective(profits, contributions, eliminated, mu)
            if score > best_objective:
                best, best_objective = eliminated, score
    return best, best_objective
