"""What a claim is, how its effect is measured, and the one rule by which all claims are judged."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from commonweal.paper.claims.sample import Sample, Values
from commonweal.records.study import Interval, Verdict
from commonweal.study.intervals import statistic_interval

FEWEST_REPLICATIONS = 5
ALL = math.nextafter(1.0, 0.0)
"""The threshold of a share that is claimed to be 1: only 1 lies above it."""


def mean_of_one(means: Values) -> Values:
    """The statistic of a single value per replication."""
    return means[:, 0]


@dataclass(frozen=True, slots=True)
class Effect:
    """Values of each replication (rows), and a statistic that maps rows of their means to one number per row."""

    values: Values
    statistic: Callable[[Values], Values] = mean_of_one

    def interval(self) -> Interval:
        """The interval over replications; their order does not matter."""
        rows = self._rows
        return statistic_interval(rows[np.lexsort(rows.T)], self.statistic)

    def census(self) -> Interval:
        """The value over exactly these replications, not as a sample of others."""
        (value,) = self.statistic(self._rows.mean(axis=0)[None, :]).tolist()
        return Interval(value=value, lower=value, upper=value)

    @property
    def _rows(self) -> Values:
        return self.values.reshape(len(self.values), -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Something the paper says, as an effect that is claimed to lie above a threshold."""

    name: str
    statement: str  # what the paper says
    experiments: tuple[str, ...]  # on which it is tested
    effect: str  # what the number is, with its unit; {mu} stands for the largest finite μ
    threshold: float
    measure: Callable[[Sample], Effect]
    driver: Callable[[Sample, Verdict], str]
    by_construction: bool = False  # a law: every case counts, and there is nothing to estimate
    knows_no_exception: bool = False  # one counterexample refutes it


def share_without_failure(means: Values) -> Values:
    """From means of (failures, cases), the share of cases without a failure; 1 where there is no case."""
    failures, cases = means.T
    return np.asarray(1 - failures / np.where(cases == 0, 1, cases))


def verdict(
    interval: Interval,
    threshold: float,
    *,
    replication_count: int,
    by_construction: bool = False,
    knows_no_exception: bool = False,
) -> Verdict:
    """Held if the whole interval is above the threshold, not held if none of it is, otherwise undecided.

    With too few replications a claim is undecided, unless it is a law, where every case counts. A claim that allows no
    exception is refuted by a single one.
    """
    if knows_no_exception and interval.value <= threshold:
        return "not held"
    if replication_count < FEWEST_REPLICATIONS and not by_construction:
        return "undecided"
    if interval.lower > threshold:
        return "held"
    return "not held" if interval.upper <= threshold else "undecided"
