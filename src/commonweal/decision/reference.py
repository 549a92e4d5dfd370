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
    profits: Sequence[Number], contributions: Sequence[Number], mu: Number, *, width: Number = 0
) -> tuple[tuple[int, ...], Number]:
    """The set of clients to eliminate and its objective, over all subsets of the loss-makers.

    Sets tie if their objective falls short of the best one by no more than `width`. Ties: the larger retained set wins,
    then the one that retains the earlier client where the two first differ. Retained sets are tried in exactly that
    order, so the first one that ties with the best wins.
    """
    if mu == math.inf:
        return (), score(profits, contributions, (), 0)
    candidates = [n for n, profit in enumerate(profits) if profit < 0]
    best: Number = -math.inf
    near: list[tuple[tuple[int, ...], Number]] = []
    for retained_count in range(len(candidates), -1, -1):
        for retained in combinations(candidates, retained_count):
            eliminated = tuple(n for n in candidates if n not in retained)
            objective = score(profits, contributions, eliminated, mu)
            if objective > best:
                best = objective
                near = [(other, its) for other, its in near if its >= best - width]
            if objective >= best - width:
                near.append((eliminated, objective))
    return near[0]
