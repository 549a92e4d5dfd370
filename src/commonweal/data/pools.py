"""Divide each source among the clients that draw from it: disjoint pools, in proportion to λ.

A pool is also the order in which a client's samples arrive. The pools of a source depend on the seed, the source and
the scenario's clients with that source, not on the order in which they are listed or on who is still active.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from math import floor, isfinite

import numpy as np
from numpy.typing import NDArray

from commonweal.data.samples import Indices, Samples
from commonweal.errors import ScenarioError
from commonweal.scenario.spec import ClientSpec
from commonweal.seeds import stream


def make_pools(
    clients: Sequence[ClientSpec], sources: Mapping[str, Samples], seed: int, label_skew: float | None
) -> dict[str, Indices]:
    """For each client the indices into its source, in the order in which they arrive.

    With `label_skew` = α, a client's labels follow proportions drawn from a symmetric Dirichlet(α) over the
    classes of its source; see `_skewed`. Every pool must have enough samples for one round on average.
    """
    for client in clients:
        if not (isfinite(client.samples_per_round) and client.samples_per_round > 0):
            raise ScenarioError(
                f"samples_per_round must be a finite number above 0, got {client.samples_per_round} for client "
                f"{client.name!r}."
            )
    if label_skew is not None and not (isfinite(label_skew) and label_skew > 0):
        raise ScenarioError(f"label_skew must be a finite number above 0, got {label_skew}. Leave it out for no skew.")
    pools: dict[str, Indices] = {}
    for name, samples in sources.items():
        sharers = sorted((client for client in clients if client.source == name), key=lambda client: client.name)
        sizes = _sizes(sharers, len(samples.labels))
        mixed = stream(seed, "pools", name).permutation(len(samples.labels))
        if label_skew is None:
            divided = _divided(sharers, sizes, mixed, seed)
        else:
            divided = _skewed(sharers, sizes, mixed, samples, seed, label_skew)
        for client, pool in zip(sharers, divided, strict=True):
            if len(pool) < client.samples_per_round:
                raise ScenarioError(
                    f"The share of client {client.name!r} in the source {name!r} is {len(pool)} samples, less than its "
                    f"samples_per_round of {client.samples_per_round:g}. Lower samples_per_round, or choose a larger "
                    "source."
                )
            pools[client.name] = pool
    return {client.name: pools[client.name] for client in clients}


def _sizes(clients: Sequence[ClientSpec], sample_count: int) -> list[int]:
    """Whole numbers in proportion to λ that add up to the source, each within 1 of its exact share.

    Computed with fractions, so that equal λ give equal numbers where the source divides evenly.
    """
    rates = [Fraction(client.samples_per_round) for client in clients]
    bounds = [floor(sample_count * bound / sum(rates)) for bound in accumulate(rates, initial=Fraction(0))]
    return [upper - lower for lower, upper in pairwise(bounds)]


def _divided(clients: Sequence[ClientSpec], sizes: Sequence[int], mixed: Indices, seed: int) -> list[Indices]:
    pieces = np.split(mixed, np.cumsum(sizes)[:-1])
    return [
        stream(seed, "pool-order", client.name).permutation(piece)
        for client, piece in zip(clients, pieces, strict=True)
    ]


def _skewed(
    clients: Sequence[ClientSpec],
    sizes: Sequence[int],
    mixed: Indices,
    samples: Samples,
    seed: int,
    concentration: float,
) -> list[Indices]:
    """Clients take samples in turns, in proportion to λ, until each has its share of the source.

    In its turn a client draws a class from its own Dirichlet proportions and takes the next sample of that class. When
    a class has run out, the proportions of the remaining classes are scaled up; a client with no proportion of any
    remaining class takes from them in proportion to what remains. So sizes are exact, no sample is used twice, and a
    client's labels follow its proportions exactly until a class runs out, then as closely as the source allows.
    """
    labels = samples.labels[mixed]
    by_class = [mixed[labels == label].tolist()[::-1] for label in range(samples.class_count)]
    left = np.array([len(rest) for rest in by_class])
    wishes, draws = [], []
    for client, size in zip(clients, sizes, strict=True):
        generator = stream(seed, "label-skew", client.name)
        wishes.append(generator.dirichlet(np.full(samples.class_count, concentration)))
        draws.append(generator.random(size).tolist())
    thresholds = [_thresholds(wish, left) for wish in wishes]
    pools: list[list[int]] = [[] for _ in clients]
    for taker in _turns(sizes):
        label = bisect_right(thresholds[taker], draws[taker][len(pools[taker])])
        pools[taker].append(by_class[label].pop())
        if not by_class[label]:
            left = np.array([len(rest) for rest in by_class])
            thresholds = [_thresholds(wish, left) for wish in wishes]
    return [np.array(pool, dtype=np.intp) for pool in pools]


def _turns(sizes: Sequence[int]) -> list[int]:
    """The order of turns: the j-th of n turns of a client is at time (j + ½)/n, so that all finish together."""
    times = np.concatenate([(np.arange(size) + 0.5) / size for size in sizes])
    takers: NDArray[np.intp] = np.repeat(np.arange(len(sizes)), sizes)
    return [int(taker) for taker in takers[np.argsort(times, kind="stable")]]


def _thresholds(wish: NDArray[np.float64], left: NDArray[np.int64]) -> list[float]:
    """Cumulative proportions over the remaining classes: a uniform draw u takes the first class that exceeds it."""
    proportions = np.where(left > 0, wish, 0.0)
    if not proportions.sum() > 0:
        proportions = left.astype(float)
    if not proportions.sum() > 0:
        return []  # nothing remains
    cumulative = np.cumsum(proportions / proportions.sum())
    cumulative[np.flatnonzero(proportions)[-1] :] = np.inf  # rounding must not go past the last remaining class
    return [float(bound) for bound in cumulative]
