"""Profit by agreed rates. Clients, coordinators, ledgers and their verification compute it with this one function.

    gain        profit = ρ_gain g − ρ_sample s − ρ_round
    advantage   profit = ρ_gain g − ρ_round

g is the gain in the metric that figures are made from: as measured, pooled over clients, expected of the next round, or
the advantage over the model that the client trains alone; s is the number of new samples that it declared. A client
that trains alone spends as much on samples as in the federation, so they do not count against its advantage.
"""

from __future__ import annotations

from commonweal.records.rates import Rates
from commonweal.valuation.profit import cost, profit, utility


def rated_cost(rates: Rates, sample_count: int) -> float:
    """ρ_sample s + ρ_round."""
    return cost(
        cost_per_sample=rates.sample,
        cost_per_step=0.0,
        cost_per_round=rates.round,
        sample_count=sample_count,
        step_count=0,
    )


def rated_profit(rates: Rates, gain: float, sample_count: int, *, is_advantage: bool = False) -> float:
    """The profit of a round; exactly 0.0 where it is below the rounding of what a gain of 1 is worth."""
    return profit(
        utility(rates.gain, gain, 0.0), rated_cost(rates, 0 if is_advantage else sample_count), size=rates.gain
    )
