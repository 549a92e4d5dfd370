"""A client's report of a round: utility, cost and profit, from what only the client knows.

    gain        utility = u (W(ε_t) − W(ε_{t−1})),   profit = utility − cost
    advantage   utility = u (W(ε_t) − W(α_t)),       profit = utility − (cost − cost alone)

ε is the metric of the federation's model on the client's validation samples, α that of the model which the client
trains alone, and W the worth of a metric: the metric itself (its negative, where less is better), or the client's own
curve through points (metric, worth).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from commonweal.task.measured import Measured
from commonweal.task.metrics import Metric
from commonweal.valuation import cost, profit, utility
from commonweal.valuation.profit import is_rounding

Curve = Sequence[tuple[float, float]]


class PrivateTerms(Protocol):
    """What a gain is worth to a client, and what the client spends, in units of utility."""

    @property
    def unit_value(self) -> float: ...
    @property
    def cost_per_sample(self) -> float: ...
    @property
    def cost_per_step(self) -> float: ...
    @property
    def cost_per_round(self) -> float: ...
    @property
    def worth_curve(self) -> Curve | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """What a client would have without the federation: the metric of its own model, and what training it cost."""

    measured: Measured
    step_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAccount:
    """A client's round in its own figures, in units of utility."""

    utility: float
    cost: float
    profit: float
    profit_draws: NDArray[np.float64]  # in each bootstrap draw
    alone_cost: float | None = None  # what the client would have spent alone; only for advantage


def account(
    terms: PrivateTerms,
    metric: Metric,
    *,
    now: Measured,
    before: Measured,
    sample_count: int,
    step_count: int,
    alone: Alone | None = None,
) -> ClientAccount:
    """The client's round. With `alone`, utility is the advantage over it; otherwise the gain since `before`.

    Where the metric cannot be measured, nothing is known to have been gained, and the utility is 0.
    """
    reference = before if alone is None else alone.measured
    gained_draws = worth(metric, terms.worth_curve, now.draws) - worth(metric, terms.worth_curve, reference.draws)
    if math.isnan(now.value) or math.isnan(reference.value):
        gained, size, gained_draws = 0.0, 0.0, np.zeros_like(gained_draws)
    else:
        worths = [float(worth(metric, terms.worth_curve, figure.value)) for figure in (now, reference)]
        if is_unchanged(metric, now.value, reference.value):  # however steep the curve is
            worths[0] = worths[1]
        gained = utility(terms.unit_value, *worths)
        size = terms.unit_value * max(map(abs, worths))
    spent = cost(
        cost_per_sample=terms.cost_per_sample,
        cost_per_step=terms.cost_per_step,
        cost_per_round=terms.cost_per_round,
        sample_count=sample_count,
        step_count=step_count,
    )
    if alone is None:
        return ClientAccount(
            utility=gained,
            cost=spent,
            profit=profit(gained, spent, size=size),
            profit_draws=terms.unit_value * gained_draws - spent,
        )
    spent_alone = cost(
        cost_per_sample=terms.cost_per_sample,
        cost_per_step=terms.cost_per_step,
        cost_per_round=0.0,
        sample_count=sample_count,
        step_count=alone.step_count,
    )
    return ClientAccount(
        utility=gained,
        cost=spent,
        profit=profit(gained + spent_alone, spent, size=max(size, abs(gained), spent_alone)),
        profit_draws=terms.unit_value * gained_draws + spent_alone - spent,
        alone_cost=spent_alone,
    )


def is_unchanged(metric: Metric, now: float, reference: float) -> bool:
    """Whether two values of the metric differ by no more than rounding.

    A bounded metric is rounded relative to its bounds: R² near 0 is a difference of numbers near 1.
    """
    bounds = [bound for bound in (metric.lowest, metric.highest) if math.isfinite(bound)]
    return bool(is_rounding(now - reference, now, reference, *bounds))


def worth(metric: Metric, curve: Curve | None, figure: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """W: what a metric is worth, in units of the client's unit value; flat beyond the ends of a curve."""
    if curve is None:
        return np.asarray(figure if metric.higher_is_better else -np.asarray(figure))
    at, worths = zip(*curve, strict=True)
    return np.asarray(np.interp(figure, at, worths))
