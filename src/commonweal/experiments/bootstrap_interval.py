"""Intervals over replications: replications are drawn again with replacement, all figures of one together."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from commonweal.seeds import stream
from commonweal.study import Interval

LEVEL = 0.95
DRAW_COUNT = 4000

Values = NDArray[np.float64]


def mean_intervals(values: Values) -> list[Interval]:
    """The mean over replications (rows) of each column, with its interval."""
    values = np.asarray(values, dtype=np.float64)
    drawn = _weights(len(values)) @ values
    lower, upper = np.quantile(drawn, _TAILS, axis=0)
    means = values.mean(axis=0)
    # Rounding aside, a mean of equal values has no spread.
    constant = (values == values[0]).all(axis=0)
    return [
        Interval(value=v, lower=v, upper=v) if same else Interval(value=m, lower=lo, upper=hi)
        for m, lo, hi, same, v in zip(
            means.tolist(), lower.tolist(), upper.tolist(), constant.tolist(), values[0].tolist(), strict=True
        )
    ]


def mean_interval(values: Values) -> Interval:
    """The same of one figure a replication."""
    (interval,) = mean_intervals(np.asarray(values, dtype=np.float64)[:, None])
    return interval


def statistic_interval(values: Values, statistic: Callable[[Values], Values]) -> Interval:
    """Of a statistic of means: `statistic` maps rows of means (draws, columns) to one number a row."""
    values = np.asarray(values, dtype=np.float64)
    if (values == values[0]).all():  # rounding aside, equal replications have no spread
        (same,) = statistic(values[:1]).tolist()
        return Interval(value=same, lower=same, upper=same)
    drawn = statistic(_weights(len(values)) @ values)
    lower, upper = np.quantile(drawn, _TAILS)
    (value,) = statistic(values.mean(axis=0)[None, :])
    return Interval(value=float(value), lower=float(lower), upper=float(upper))


_TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)


@cache
def _weights(replication_count: int) -> Values:
    """How often each replication is in each draw, over their number; the same for all figures of a study."""
    counts = stream(0, "bootstrap over replications", replication_count).multinomial(
        replication_count, np.full(replication_count, 1 / replication_count), size=DRAW_COUNT
    )
    return np.asarray(counts / replication_count)
