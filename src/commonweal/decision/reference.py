"""Brute force: try every set. It is slow and obvious, and the solver is tested against it.

With `Fraction` inputs it is exact; with floats it is the baseline of the benchmarks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from commonweal.decision.objective import Number, penalty


def score(profits: Sequence[Number], contributions: Sequence[Number], eliminated: Sequence[int], mu: Number) -> Number:
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
    differ. Retained sets are tried in exactly that order, so the first of the best ones wins.
    """
    if mu == math.inf:
        return (), score(profits, contributions, (), 0)
    candidates = [n for n, profit in enumerate(profits) if profit < 0]
    best: tuple[int, ...] = ()
    best_objective = score(profits, contributions, best, mu)
    for retained_count in range(len(candidates) - 1, -1, -1):
        for retained in combinations(candidates, retained_count):
            eliminated = tuple(n for n in candidates if n not in retained)
            eliminated_score = score(profits, contributions, eliminated, mu)
            if eliminated_score > best_objective:
                best, best_objective = eliminated, eliminated_score
    return best, best_objective
