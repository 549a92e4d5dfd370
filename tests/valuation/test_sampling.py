from __future__ import annotations

from collections import Counter
from math import comb

import numpy as np
import pytest

from commonweal.valuation.coalition import all_coalitions
from commonweal.valuation.sampling import distinct_pairs, fresh_coalitions


def ends(client_count: int) -> np.ndarray:
    return np.array([np.zeros(client_count), np.ones(client_count)])


def test_fresh_coalitions_are_distinct_and_unknown() -> None:
    rng = np.random.default_rng(0)
    known = np.vstack([ends(6), fresh_coalitions(ends(6), 20, rng)])
    fresh = fresh_coalitions(known, 30, rng)
    assert len({row.tobytes() for row in np.vstack([known, fresh])}) == 52


def test_fresh_coalitions_can_use_up_all() -> None:
    fresh = fresh_coalitions(ends(4), 14, np.random.default_rng(0))
    assert {row.tobytes() for row in np.vstack([ends(4), fresh])} == {row.tobytes() for row in all_coalitions(4)}


def test_sizes_of_fresh_coalitions_are_equally_frequent() -> None:
    fresh = fresh_coalitions(ends(30), 290, np.random.default_rng(0))
    counts = Counter(fresh.sum(axis=1).astype(int).tolist())
    assert set(counts) <= set(range(1, 30))
    assert all(abs(counts[size] - 10) <= 2 for size in range(2, 29))


@pytest.mark.parametrize("client_count", [3, 4, 7, 8, 11])
@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9, 1.0])
def test_pairs_are_distinct_and_never_complementary(client_count: int, fraction: float) -> None:
    pair_count = max(1, int(fraction * (2 ** (client_count - 1) - 1)))
    members, fractions = distinct_pairs(client_count, pair_count, np.random.default_rng(1))
    both = {row.tobytes() for row in np.vstack([members, 1.0 - members])}
    assert len(members) == len(fractions) == pair_count
    assert len(both) == 2 * pair_count
    assert np.zeros(client_count).tobytes() not in both


def test_each_size_gets_its_due_and_its_fraction() -> None:
    members, fractions = distinct_pairs(10, 45, np.random.default_rng(2))
    sizes = np.minimum(members.sum(axis=1), 10 - members.sum(axis=1)).astype(int)
    counts = Counter(sizes.tolist())
    assert all(abs(counts[size] - 10) <= 1 for size in (1, 2, 3, 4))
    assert abs(counts[5] - 5) <= 1
    for size, fraction in zip(sizes.tolist(), fractions, strict=True):
        assert fraction == counts[size] / (comb(10, size) // (2 if size == 5 else 1))


def test_clients_occur_equally_often_within_a_size() -> None:
    members, _ = distinct_pairs(12, 55, np.random.default_rng(3))
    threes = members[members.sum(axis=1) == 3]
    assert len(threes) >= 9
    assert np.ptp(threes.sum(axis=0)) <= 2
