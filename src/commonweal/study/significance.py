"""Tests of a figure against a threshold, for one figure or for several at once, and Holm's correction over a page.

A figure of n replications has the standard error of its bootstrap draws, times √(n/(n−1)), and Student's distribution
with n − 1 degrees of freedom. p-values are two-sided: they speak against the figure lying at the threshold.

Several figures, such as one for each μ, are tested together. "Some figure lies above the threshold" and "all of them
do" are each other's mirror images; both keep their error whatever the correlation of the figures (Bonferroni where one
of several is enough, the largest p-value where all are needed).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import nct, t

from commonweal.records.study import Interval
from commonweal.study.intervals import LEVEL, Values, draws_of_means, statistic_interval, widening

Over = Literal["one", "some", "all"]
"""What is claimed to lie above a threshold: the only figure, at least one of several, or all of them."""


_ROUNDING = 1e-12
"""Equal replications have no spread, but rounding could suggest one of this size."""

_CERTAIN = 35.0
"""Standard errors beyond which a test of any size finds the effect; SciPy's distribution overflows above."""


@dataclass(frozen=True, slots=True)
class Significance:
    """The interval of a figure, how surely it is not at the threshold, and how surely that would be found."""

    interval: Interval
    p_value: float  # 0 if all replications are equal
    power: float  # of finding it at the level of intervals, if the true figure is the one observed


def significance_of(
    values: Values, statistic: Callable[[Values], Values], threshold: float, over: Over = "one"
) -> Significance:
    """Test a statistic of means over replications (rows of `values`); over several, it gives one column for each."""
    values = np.asarray(values, dtype=np.float64)
    figures, errors, drawn = _estimated(values, statistic)
    freedom = max(len(values) - 1, 1)
    sign = -1.0 if over == "all" else 1.0  # all lie above: none of the negatives does
    ratios = _ratios(sign * (figures - threshold), errors)
    some_above = min(1.0, len(ratios) * float(t.sf(ratios.max(), freedom)))
    all_below = float(t.sf(-ratios, freedom).max())
    return Significance(
        interval=statistic_interval(values, statistic)
        if over == "one"
        else _together(figures, errors, drawn, values, over),
        p_value=min(1.0, 2 * min(some_above, all_below)),
        power=_power(ratios, freedom),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values: rejecting those at most α errs in any of them with a probability of at most α."""
    order = np.argsort(p_values, kind="stable")
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for place, index in enumerate(order.tolist()):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def _estimated(values: Values, statistic: Callable[[Values], Values]) -> tuple[Values, Values, Values]:
    """The figures, their standard errors, and their draws (rows)."""
    count = len(values)
    figures = np.atleast_2d(statistic(values.mean(axis=0)[None, :]).reshape(1, -1))[0]
    drawn = statistic(draws_of_means(values)).reshape(-1, len(figures))
    errors = drawn.std(axis=0) * np.sqrt(count / max(count - 1, 1))
    errors[errors <= _ROUNDING * np.abs(figures)] = 0.0
    return figures, errors, drawn


def _ratios(distances: Values, errors: Values) -> Values:
    """Distances in standard errors; without spread a figure is surely above zero, or surely not."""
    certain = np.where(distances > 0, np.inf, -np.inf)
    return np.where(errors > 0, distances / np.where(errors > 0, errors, 1.0), certain)


def _together(figures: Values, errors: Values, drawn: Values, values: Values, over: Over) -> Interval:
    """The interval of the largest (some) or smallest (all) figure, from intervals that hold for all at once."""
    spread = errors > 0
    reach = 0.0
    if spread.any():
        deviations = np.abs(drawn[:, spread] - figures[spread]) / errors[spread]
        reach = float(np.quantile(deviations.max(axis=1), LEVEL)) * widening(len(values), figure_count=len(figures))
    best = np.max if over == "some" else np.min
    return Interval(
        value=float(best(figures)),
        lower=float(best(figures - reach * errors)),
        upper=float(best(figures + reach * errors)),
    )


def _power(ratios: NDArray[np.float64], freedom: int) -> float:
    """The chance that a test of as many replications excludes the threshold, on the side of the observed figure.

    Only the largest ratio counts: if it lies above zero, it is enough, at Bonferroni's level; if not, all others lie
    further below, where they are found at least as surely.
    """
    largest = float(ratios.max())
    if abs(largest) > _CERTAIN:
        return 1.0
    tests = len(ratios) if largest > 0 else 1
    return float(nct.sf(t.ppf(1 - (1 - LEVEL) / 2 / tests, freedom), freedom, abs(largest)))
