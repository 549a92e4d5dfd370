"""Games whose Shapley values are known from mathematics, not from the code under test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pytest


@dataclass(frozen=True, kw_only=True, slots=True)
class Oracle:
    clients: tuple[str, ...]
    value: Callable[[frozenset[str]], float]
    shapley: dict[str, float]


def additive() -> Oracle:
    worth = {"a": 3.0, "b": -1.0, "c": 0.0, "d": 0.5, "e": 2.0}
    return Oracle(clients=tuple(worth), value=lambda s: 0.25 + sum(worth[name] for name in sorted(s)), shapley=worth)


def airport() -> Oracle:
    """v(S) = the longest runway needed; each stretch is shared by those who need it (Littlechild and Owen)."""
    lengths = {"a": 1.0, "b": 2.0, "c": 2.0, "d": 5.0, "e": 9.0, "f": 10.0}
    names, shares, share, previous = list(lengths), {}, 0.0, 0.0
    for k, name in enumerate(names):
        share += (lengths[name] - previous) / (len(names) - k)
        previous = lengths[name]
        shares[name] = share
    return Oracle(clients=tuple(names), value=lambda s: max((lengths[name] for name in s), default=0.0), shapley=shares)


def unanimity() -> Oracle:
    """v(S) = 1 if S contains all carriers, who share it; everybody else gets nothing."""
    carriers = {"b", "d", "e"}
    return Oracle(
        clients=tuple("abcdef"),
        value=lambda s: float(carriers <= s),
        shapley={name: (1 / 3 if name in carriers else 0.0) for name in "abcdef"},
    )


def glove() -> Oracle:
    """One left glove, four right ones: the left one's owner is paid unless it comes first, 4/5; the others share."""
    return Oracle(
        clients=tuple("lrstu"),
        value=lambda s: float("l" in s and len(s) > 1),
        shapley={"l": 4 / 5, "r": 1 / 20, "s": 1 / 20, "t": 1 / 20, "u": 1 / 20},
    )


def quadratic() -> Oracle:
    """v(S) = (Σ a)²: each pair's product 2·a·b is shared in halves, so q(n) = a(n) · Σ a."""
    size = {"a": 1.0, "b": 2.0, "c": -0.5, "d": 4.0, "e": 0.0, "f": 1.5}
    total = sum(size.values())
    return Oracle(
        clients=tuple(size),
        value=lambda s: sum(size[name] for name in sorted(s)) ** 2,
        shapley={name: amount * total for name, amount in size.items()},
    )


def voting() -> Oracle:
    """Weighted voting [15; 9, 6, 5, 4, 3]: in how many orders of joining each vote is decisive, counted one by one."""
    weights, quota = {"a": 9, "b": 6, "c": 5, "d": 4, "e": 3}, 15
    pivots = dict.fromkeys(weights, 0)
    orders = list(permutations(weights))
    for order in orders:
        sums = np.cumsum([weights[name] for name in order])
        pivots[order[int(np.argmax(sums >= quota))]] += 1
    return Oracle(
        clients=tuple(weights),
        value=lambda s: float(sum(weights[name] for name in s) >= quota),
        shapley={name: count / len(orders) for name, count in pivots.items()},
    )


@pytest.fixture(params=[additive, airport, unanimity, glove, quadratic, voting], ids=lambda make: make.__name__)
def oracle(request: pytest.FixtureRequest) -> Oracle:
    return request.param()


class Federation:
    """An accuracy-like game: saturating in the amount of good data, with one client whose data are bad."""

    def __init__(self, client_count: int = 9) -> None:
        rng = np.random.default_rng(12)
        self.clients = tuple(f"client-{i}" for i in range(client_count))
        amounts = np.exp(rng.normal(4.0, 0.8, client_count))
        quality = rng.uniform(0.3, 1.0, client_count)
        quality[0] = -0.2
        self._good = dict(zip(self.clients, amounts * quality, strict=True))
        self.calls: list[frozenset[str]] = []

    def __call__(self, coalition: frozenset[str]) -> float:
        self.calls.append(coalition)
        good = max(sum(self._good[name] for name in sorted(coalition)), 0.0)
        return 0.1 + 0.85 * (1.0 - float(np.exp(-((good / 150.0) ** 0.7))))


@pytest.fixture
def federation() -> Federation:
    return Federation()
