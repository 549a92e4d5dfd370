"""What a claim is, how its effect is measured, and the one rule by which all claims are judged."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from commonweal.paper.claims.sample import Sample, Values
from commonweal.records import Decision
from commonweal.records.study import Interval, Verdict
from commonweal.study.intervals import LEVEL
from commonweal.study.significance import Over, Significance, significance_of

FEWEST_REPLICATIONS = 5
ALL = math.nextafter(1.0, 0.0)
"""The threshold of a share that is claimed to be 1: only 1 lies above it."""


def mean_of_one(means: Values) -> Values:
    """The statistic of a single value per replication."""
    return means[:, 0]


@dataclass(frozen=True, slots=True)
class Effect:
    """Values of each replication (rows), and a statistic that maps rows of their means to one or several numbers."""

    values: Values
    statistic: Callable[[Values], Values] = mean_of_one
    over: Over = "one"  # several numbers: whether one of them is enough for the claim, or all are needed

    def test(self, threshold: float) -> Significance:
        """Over replications as a sample of others; their order does not matter."""
        rows = self._rows
        return significance_of(rows[np.lexsort(rows.T)], self.statistic, threshold, self.over)

    def census(self) -> Interval:
        """The value over exactly these replications, not as a sample of others."""
        (value,) = self.statistic(self._rows.mean(axis=0)[None, :]).tolist()
        return Interval(value=value, lower=value, upper=value)

    @property
    def _rows(self) -> Values:
        return self.values.reshape(len(self.values), -1)


def difference(one: Effect, other: Effect) -> Significance | None:
    """The other effect minus the one, on the same replications; None if they are not measured alike."""
    first, second = one._rows, other._rows
    if first.shape[0] != second.shape[0]:
        return None
    split = first.shape[1]

    def statistic(means: Values) -> Values:
        return _single(other.statistic(means[:, split:]), other.over) - _single(
            one.statistic(means[:, :split]), one.over
        )

    rows = np.concatenate([first, second], axis=1)
    return significance_of(rows[np.lexsort(rows.T)], statistic, 0.0)


def _single(figures: Values, over: Over) -> Values:
    """The one figure of each row that the effect is about: the largest if one is enough, the smallest if all count."""
    if figures.ndim == 1:
        return figures
    return np.asarray(figures.max(axis=1) if over == "some" else figures.min(axis=1))


def always_testable(sample: Sample) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Something the paper says, as an effect that is claimed to lie above a threshold."""

    name: str
    quote: str  # the paper's sentence
    statement: str  # the same in our words
    experiments: tuple[str, ...]  # on which it is tested
    effect: str  # what the number is, with its unit; {mu} stands for the largest finite μ
    threshold: float
    measure: Callable[[Sample], Effect]
    driver: Callable[[Sample, Verdict], str]
    by_construction: bool = False  # a law: every case counts, and there is nothing to estimate
    knows_no_exception: bool = False  # one counterexample refutes it
    beside: str = ""  # another experiment that the sentence compares with; it is the sample's `beside`
    least: float = -math.inf  # the range of the effect
    most: float = math.inf
    untestable: Callable[[Sample], str] = always_testable  # why these outcomes say nothing about it, or ""

    @property
    def is_estimated(self) -> bool:
        """Whether the effect is an estimate that can be wrong by chance."""
        return not self.by_construction and not self.knows_no_exception


def share_without_failure(means: Values) -> Values:
    """From means of (failures, cases), the share of cases without a failure; 1 where there is no case."""
    failures, cases = means.T
    return np.asarray(1 - failures / np.where(cases == 0, 1, cases))


def share_of_rounds(sample: Sample, fails: Callable[[Decision], bool]) -> Effect:
    """The share of all rounds, over all μ, that do not fail."""
    counts = []
    for row in sample.histories:
        rounds = [record.decision for history in row for record in history.rounds]
        counts.append((sum(map(fails, rounds)), len(rounds)))
    return Effect(np.array(counts, dtype=float), share_without_failure)


def verdict(interval: Interval, threshold: float, *, p_value: float, replication_count: int) -> Verdict:
    """Of an estimate: decided if its interval excludes the threshold and the p-value, corrected or not, is small."""
    if replication_count < FEWEST_REPLICATIONS or p_value > 1 - LEVEL:
        return "undecided"
    if interval.lower > threshold:
        return "held"
    return "not held" if interval.upper <= threshold else "undecided"


def verdict_on_cases(share: float, threshold: float, *, is_law: bool, replication_count: int) -> Verdict:
    """Of a law, and of a claim that allows no exception: every case counts, and one exception refutes it."""
    if share <= threshold:
        return "not held"
    return "held" if is_law or replication_count >= FEWEST_REPLICATIONS else "undecided"
