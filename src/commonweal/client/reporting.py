"""A client's report of a round: utility, cost and profit, from what only the client knows.

    gain        utility = u (W(ε_t) − W(ε_{t−1})),   profit = utility − cost
    advantage   utility = u (W(ε_t) − W(α_t)),       profit = utility − (cost − cost alone)
    told        utility = u (W(ε_o + g̃) − W(ε_o)),   profit = utility − cost
    expected    utility = u (W(ε_t + ĝ) − W(ε_t)),   profit = utility − cost, of the next round

ε is the metric of the federation's model on the client's validation samples, α that of the model which the client
trains alone, and W the worth of a metric: the metric itself (its negative, where less is better), or the client's own
curve through points (metric, worth). Where figures are pooled, the client is told its gain g̃ over the model that
opened the round, ε_o; where they are forecast, also the gain ĝ that it can expect of the next round. The round's cost
is the estimate of the next round's.

Where a consortium agreed on rates, the report follows from these and from what was measured (`rated_account`), and the
profit above stays with the client.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from commonweal.federation.client_set import ToldGain
from commonweal.records import Rates
from commonweal.task.measured import Measured, direction, is_unchanged
from commonweal.task.metrics import Metric
from commonweal.valuation import cost, profit, utility
from commonweal.valuation.bootstrap import Draws
from commonweal.valuation.rates import rated_cost, rated_profit

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
    expected_profit: float | None = None  # of the next round; only if a forecast was told
    expected_draws: NDArray[np.float64] | None = None  # the same in each draw of the forecast
    measured_profit: float | None = None  # this and the next: as they would be had nothing been told
    measured_profit_draws: NDArray[np.float64] | None = None


def account(
    terms: PrivateTerms,
    metric: Metric,
    *,
    now: Measured,
    before: Measured,
    sample_count: int,
    step_count: int,
    alone: Alone | None = None,
    opening: Measured | None = None,
    told: ToldGain | None = None,
) -> ClientAccount:
    """The client's round. With `alone`, utility is the advantage over it; otherwise the gain since `before`.

    If the client was `told` its gain over the model that opened the round, with the metric `opening`, utility is that
    gain's.

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
        measured = ClientAccount(
            utility=gained,
            cost=spent,
            profit=profit(gained, spent, size=size),
            profit_draws=terms.unit_value * gained_draws - spent,
        )
        if told is None:
            return measured
        assert opening is not None, "a gain is told over the model that opened the round"
        return _as_told(terms, metric, measured, now=now, opening=opening, told=told)
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


def rated_account(
    rates: Rates,
    *,
    gain: float,
    gain_draws: Draws,
    sample_count: int,
    is_advantage: bool = False,
    told: ToldGain | None = None,
) -> ClientAccount:
    """The client's round by agreed rates (see `valuation.rates`), from its measured gain, or from the one it was told.

    With `is_advantage`, the gain is the advantage over the model that the client trains alone.
    """
    spent = rated_cost(rates, sample_count)
    alone_cost = rated_cost(replace(rates, round=0.0), sample_count) if is_advantage else None
    net_cost = spent - (alone_cost or 0.0)

    def profit_of(gain: float) -> float:
        return rated_profit(rates, gain, sample_count, is_advantage=is_advantage)

    measured = ClientAccount(
        utility=utility(rates.gain, gain, 0.0),
        cost=spent,
        profit=profit_of(gain),
        profit_draws=rates.gain * gain_draws - net_cost,
        alone_cost=alone_cost,
    )
    if told is None:
        return measured
    drawn = np.empty(0) if told.pooled_draws is None else told.pooled_draws
    return replace(
        measured,
        utility=utility(rates.gain, told.pooled, 0.0),
        profit=profit_of(told.pooled),
        profit_draws=rates.gain * drawn - spent,
        expected_profit=None if told.expected is None else profit_of(told.expected),
        expected_draws=None if told.expected_draws is None else rates.gain * told.expected_draws - spent,
        measured_profit=measured.profit,
        measured_profit_draws=measured.profit_draws,
    )


def as_reported(own: ClientAccount, reported_profit: float | None) -> ClientAccount:
    """The account as a client tells it that reports this profit, of the round and of the next one; None: the truth."""
    if reported_profit is None:
        return own
    expected_draws = own.expected_draws
    return replace(
        own,
        profit=reported_profit,
        profit_draws=np.full_like(own.profit_draws, reported_profit),
        expected_profit=None if own.expected_profit is None else reported_profit,
        expected_draws=None if expected_draws is None else np.full_like(expected_draws, reported_profit),
    )


def _as_told(
    terms: PrivateTerms, metric: Metric, measured: ClientAccount, *, now: Measured, opening: Measured, told: ToldGain
) -> ClientAccount:
    curve, spent = terms.worth_curve, measured.cost

    def of_gain(start: float, gain: float) -> tuple[float, float]:
        """Utility and profit."""
        gained = utility(terms.unit_value, float(_worth_gained(metric, curve, start, gain)), 0.0)
        size = 0.0 if math.isnan(start) else terms.unit_value * abs(float(worth(metric, curve, start)))
        return gained, profit(gained, spent, size=size)

    used, used_profit = of_gain(opening.value, told.pooled)
    in_draws = np.empty(0)
    if told.pooled_draws is not None:
        in_draws = _worth_gained(metric, curve, opening.draws, told.pooled_draws)
    expected_draws = None
    if told.expected_draws is not None:
        expected_draws = terms.unit_value * _worth_gained(metric, curve, now.value, told.expected_draws) - spent
    return ClientAccount(
        utility=used,
        cost=spent,
        profit=used_profit,
        profit_draws=terms.unit_value * in_draws - spent,
        expected_profit=None if told.expected is None else of_gain(now.value, told.expected)[1],
        expected_draws=expected_draws,
        measured_profit=measured.profit,
        measured_profit_draws=measured.profit_draws,
    )


def _worth_gained(
    metric: Metric, curve: Curve | None, start: float | NDArray[np.float64], gain: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    """W(start + gain) − W(start), where a gain is positive if the metric improves; 0 from an unknown start."""
    if curve is None:
        return np.asarray(gain)
    reached = start + direction(metric) * np.asarray(gain)
    return np.nan_to_num(worth(metric, curve, reached) - worth(metric, curve, start), nan=0.0)


def worth(metric: Metric, curve: Curve | None, figure: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """W: what a metric is worth, in units of the client's unit value; flat beyond the ends of a curve."""
    if curve is None:
        return np.asarray(figure if metric.higher_is_better else -np.asarray(figure))
    at, worths = zip(*curve, strict=True)
    return np.asarray(np.interp(figure, at, worths))
