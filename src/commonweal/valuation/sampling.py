"""Random coalitions with every size equally likely, as Shapley values give equal weight to every size."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from commonweal.valuation.coalition import Members


def fresh_coalitions(known: Members, count: int, rng: np.random.Generator) -> Members:
    """`count` distinct coalitions that are not rows of `known`, each followed by its complement.

    There must be that many. Sizes 1..N−1 take turns in random order, so they are used equally often.
    """
    client_count = known.shape[1]
    seen = {row.tobytes() for row in known}
    fresh: list[NDArray[np.float64]] = []
    sizes = rng.permutation(np.arange(1, client_count))
    turn = 0
    while len(fresh) < count:
        coalition = np.zeros(client_count)
        coalition[rng.permutation(client_count)[: sizes[turn % len(sizes)]]] = 1.0
        turn += 1
        for candidate in (coalition, 1.0 - coalition):
            if len(fresh) < count and candidate.tobytes() not in seen:
                seen.add(candidate.tobytes())
                fresh.append(candidate)
    return np.array(fresh).reshape(count, client_count)


def distinct_pairs(client_count: int, pair_count: int, rng: np.random.Generator) -> tuple[Members, NDArray[np.float64]]:
    """`pair_count` coalitions, no two equal or complementary, and for each the fraction of its size that was drawn.

    Each size up to N/2 gets an equal number of pairs (N/2, which pairs with itself, gets half as many); if a size has
    fewer pairs than that, all of them are used. Within a size the clients occur about equally often.
    """
    capacities = {
        size: comb(client_count, size) // (2 if 2 * size == client_count else 1)
        for size in range(1, client_count // 2 + 1)
    }
    counts = _shares(client_count, pair_count, capacities, rng)
    rows: list[NDArray[np.float64]] = []
    fractions: list[float] = []
    for size, count in counts.items():
        chosen = _of_one_size(client_count, size, count, capacities[size], rng)
        rows.extend(_row(client_count, coalition) for coalition in chosen)
        fractions.extend([count / capacities[size]] * count)
    return np.array(rows), np.array(fractions)


def _shares(client_count: int, pair_count: int, capacities: dict[int, int], rng: np.random.Generator) -> dict[int, int]:
    """How many pairs each size gets: in proportion to `due`, no more than there are, and rounded at random."""
    due = {size: 0.5 if 2 * size == client_count else 1.0 for size in capacities}
    counts = dict.fromkeys(capacities, 0)
    left = pair_count
    while due:
        total = sum(due.values())
        exhausted = [size for size in due if left * due[size] / total >= capacities[size]]
        if not exhausted:
            break
        for size in exhausted:
            counts[size] = capacities[size]
            left -= capacities[size]
            del due[size]
    edge = rng.random()
    total = sum(due.values())
    for size, part in due.items():
        next_edge = edge + left * part / total
        counts[size] = int(np.floor(next_edge + 1e-9)) - int(np.floor(edge + 1e-9))
        edge = next_edge
    return counts


def _of_one_size(
    client_count: int, size: int, count: int, capacity: int, rng: np.random.Generator
) -> Iterable[tuple[int, ...]]:
    """`count` coalitions of `size`; at half size, those with client 0 stand for their complements too."""
    is_half = 2 * size == client_count
    if count > capacity // 2:
        every = [c for c in combinations(range(client_count), size) if not is_half or c[0] == 0]
        return [every[k] for k in sorted(rng.choice(capacity, size=count, replace=False))]
    uses = np.zeros(client_count)
    chosen: dict[tuple[int, ...], None] = {}
    is_balanced = True
    while len(chosen) < count:
        # Take the least used clients, with ties broken at random; if that repeats a coalition, take a random one next.
        order = np.argsort(uses * is_balanced + rng.random(client_count))
        coalition = tuple(sorted(order[:size].tolist()))
        if is_half and coalition[0] != 0:
            coalition = tuple(sorted(order[size:].tolist()))
        is_balanced = coalition not in chosen
        if is_balanced:
            chosen[coalition] = None
            uses[list(coalition)] += 1.0
    return chosen


def _row(client_count: int, coalition: tuple[int, ...]) -> NDArray[np.float64]:
    row = np.zeros(client_count)
    row[list(coalition)] = 1.0
    return row
