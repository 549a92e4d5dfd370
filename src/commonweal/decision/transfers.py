"""Who pays whom: payoffs follow contribution, and the money sums to zero.

    share(n)    = q(n) / Q(retained), equal shares where Q(retained) = 0
    payoff(n)   = share(n) · B,       B = Σ profit of the retained
    transfer(n) = payoff(n) − profit(n)

If B < 0, the loss rule says in proportion to what B is divided instead:

    "contribution"  share(n), as above       "equal"  1
    "cost"          cost(n)                  "loss"   max(−profit(n), 0): who earned something pays it, and no more

A liability cap limits what one client pays; what it does
not pay is taken from the receivers, in proportion to what they would receive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from commonweal.decision.exact import FloatArray
from commonweal.records import LossRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """Shares, payoffs and transfers of the retained clients, in their order.

    A mechanism that takes money from the outside, gives it away or charges those who go declares
    `takes_external_money`. Σ transfers + Σ charges + external = 0.
    """

    budget: float
    shares: FloatArray
    payoffs: FloatArray
    transfers: FloatArray
    external: float = 0.0  # what the outside receives (+) or pays in (−)
    charges: FloatArray | None = None  # transfers of the clients that are not retained, in their order; None: zeros


def proportions(weights: FloatArray) -> FloatArray:
    """weights / Σ weights; equal parts where they sum to zero."""
    total = math.fsum(weights.tolist())
    return weights / total if total != 0 else np.full(len(weights), 1.0 / max(len(weights), 1))


def divide(
    profits: FloatArray,
    contributions: FloatArray,
    *,
    loss_rule: LossRule = "contribution",
    costs: FloatArray | None = None,
    liability_cap: float | None = None,
) -> Division:
    """Divide the retained clients' budget among them; `costs` are needed by the loss rule "cost"."""
    budget = math.fsum(profits.tolist())
    shares = proportions(contributions)
    parts = shares
    if budget < 0 and loss_rule == "equal":
        parts = proportions(np.zeros(len(profits)))
    elif budget < 0 and loss_rule == "cost":
        assert costs is not None, "the loss rule 'cost' needs costs"
        parts = proportions(costs)
    elif budget < 0 and loss_rule == "loss":
        parts = proportions(np.maximum(-profits, 0.0))
    transfers = parts * budget - profits
    if liability_cap is not None:
        transfers = capped(transfers, liability_cap)
    return Division(budget=budget, shares=shares, payoffs=profits + transfers, transfers=transfers)


def capped(transfers: FloatArray, liability_cap: float) -> FloatArray:
    """Transfers with none below −cap; the receivers give up what is not paid, in proportion to what they receive."""
    paid = np.maximum(transfers, -liability_cap)
    unpaid = math.fsum((paid - transfers).tolist())
    receiving = transfers > 0
    received = math.fsum(transfers[receiving].tolist())
    if unpaid == 0 or received == 0:
        return paid
    # Rounding may leave a little more unpaid than there is to receive.
    return np.where(receiving, transfers * max(1 - unpaid / received, 0.0), paid)
