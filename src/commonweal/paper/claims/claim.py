"""The nouns of this room: a claim, and what was measured of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from commonweal.paper.claims.sample import Sample, Values
from commonweal.records.study import Interval, Verdict
from commonweal.study.intervals import statistic_interval


def mean_of_one(means: Values) -> Values:
    """Of one figure: its mean is meant."""
    return means[:, 0]


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of each replication (rows), and what is made of their means (rows of means to one number a row)."""

    values: Values
    statistic: Callable[[Values], Values] = mean_of_one

    def interval(self) -> Interval:
        """Over replications, whatever their order."""
        rows = self._rows
        return statistic_interval(rows[np.lexsort(rows.T)], self.statistic)

    def census(self) -> Interval:
        """Of just these replications, which are no sample of others."""
        (value,) = self.statistic(self._rows.mean(axis=0)[None, :]).tolist()
        return Interval(value=value, lower=value, upper=value)

    @property
    def _rows(self) -> Values:
        return self.values.reshape(len(self.values), -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Something the paper says, as an effect that lies above a threshold."""

    name: str
    statement: str  # what the paper says
    experiments: tuple[str, ...]  # on which it is tested
    effect: str  # what the number is, with its unit; {mu} stands for the largest finite μ
    threshold: float
    measure: Callable[[Sample], Measured]
    driver: Callable[[Sample, Verdict], str]
    by_construction: bool = False  # a law: every case counts, not a sample
    knows_no_exception: bool = False  # one case to the contrary refutes it


def kept_share(means: Values) -> Values:
    """From means of (failures, cases) the share of cases without; 1 where there is no case."""
    failures, cases = means.T
    return np.asarray(1 - failures / np.where(cases == 0, 1, cases))
