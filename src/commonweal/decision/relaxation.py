"""The continuous relaxation of the choice, and the price it puts on contribution.

If a candidate could be eliminated in part, the best choice would be to eliminate in order of falling ratio l/q until
the ratio no longer exceeds the marginal penalty μT/X². The ratio at which that happens is the price λ.

For any price λ > 0, and X* = √(μT/λ), every set E satisfies the identity

    (bound at λ) − value(E)  =  Σ_{n on the wrong side of λ} |l − λq|  +  λ (X(E) − X*)² / X(E),

where a candidate is on the wrong side if it goes with l < λq or stays with l > λq. Both terms are
non-negative, so the right-hand side is how far the set falls short of the bound: no large numbers are
subtracted, and a candidate with |l − λq| above the best known shortfall must be on the right side.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray, IntArray
from commonweal.decision.instance import Instance, sums_after

# Up to this many candidates are all sorted (and the order is kept for the next μ); if there are more, only those near
# the price are.
SORT_LIMIT = 4096
_SAMPLE_COUNT = 1024
# A generous bound on the relative error of a pairwise sum of up to 2^40 doubles and of the few operations after it.
ROUNDING = 2.0**-46


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxation:
    """The price, and the side on which it puts each candidate."""

    price: float  # λ, in units of utility per unit of contribution
    x_best: float  # X*, the contribution that would best be retained at that price
    goes: BoolArray  # l > λq
    greedy: BoolArray  # the first few by ratio: like `goes`, but with only some of those exactly at the price
    wrong_side: FloatArray  # |l − λq|: what it costs to put the candidate on the other side

    def open_candidates(self, instance: Instance, shortfall: float) -> IntArray:
        """The candidates whose side is not yet certain, given a set that falls short of the bound by `shortfall`."""
        return np.flatnonzero(self.wrong_side - ROUNDING * instance.losses <= shortfall)

    def shortfall(self, instance: Instance, goes: BoolArray, *, rounded_down: bool = False) -> float:
        """How far the set falls short of the bound, by the identity above; rounded up unless `rounded_down`."""
        x = instance.kept_sum + float(instance.contributions[~goes].sum())
        if x <= 0:
            return np.inf
        rounding = -ROUNDING if rounded_down else ROUNDING
        distance = max(abs(x - self.x_best) + rounding * (x + self.x_best), 0.0)
        flipped = goes != self.goes
        moved = max(self.wrong_side[flipped].sum() + rounding * instance.losses[flipped].sum(), 0.0)
        return float(moved + self.price * distance * distance / x) * (1 + rounding)


def relax(instance: Instance, mu: float) -> Relaxation:
    """Solve the relaxation at a finite μ > 0."""
    mu_total = mu * instance.total
    ratios = instance.ratios
    if instance.size <= SORT_LIMIT:
        order, stays_after = instance.by_ratio
        greedy = np.zeros(instance.size, np.bool_)
        stays_besides = instance.kept_sum
    else:
        greedy, order, far_below = _around_the_price(instance, mu_total)
        stays_after = sums_after(instance.contributions[order])
        stays_besides = instance.kept_sum + float((instance.contributions * far_below).sum())
    # The first j candidates go in full as long as X after the j-th exceeds its own X*. The key rises with j in floats
    # too, because each of its operations is correctly rounded, so only a few of a million candidates are looked at.
    with np.errstate(divide="ignore", over="ignore"):
        last_full = bisect_left(
            range(len(order)), stays_besides, key=lambda j: np.sqrt(mu_total / ratios[order[j]]) - stays_after[j]
        )
    if instance.kept_sum == 0:
        last_full = min(last_full, instance.size - 1)  # somebody with a contribution must stay
    greedy[order[:last_full]] = True
    x_greedy = instance.kept_sum + float((instance.contributions * ~greedy).sum())
    break_ratio = float(ratios[order[last_full]]) if last_full < len(order) else 0.0
    # Either the next candidate would go in part, at its own ratio, or the greedy set already balances the penalty.
    price = max(break_ratio, mu_total / x_greedy / x_greedy)
    wrong_side = instance.losses - price * instance.contributions
    goes = wrong_side > 0
    np.abs(wrong_side, out=wrong_side)
    return Relaxation(
        price=price,
        x_best=float(np.sqrt(mu_total / price)),
        goes=goes,
        greedy=greedy,
        wrong_side=wrong_side,
    )


def _around_the_price(instance: Instance, mu_total: float) -> tuple[BoolArray, IntArray, BoolArray]:
    """The candidates that surely go because their ratio is above the price; those near it, by falling ratio; the rest.

    A sorted sample brackets the price, and sums over the whole array halve the bracket. The time is linear.
    """
    ratios, contributions = instance.ratios, instance.contributions
    sample = np.unique(ratios[:: max(1, len(ratios) // _SAMPLE_COUNT)])
    x_all = instance.kept_sum + float(contributions.sum())
    goes = np.empty_like(contributions)  # one buffer for all sums
    low, high = -1, len(sample)  # the price is at least sample[low] and at most sample[high]
    while high - low > 1:
        middle = (low + high) // 2
        x = x_all - float(np.multiply(contributions, ratios > sample[middle], out=goes).sum())
        if x > 0 and sample[middle] * x * x >= mu_total:
            high = middle
        else:
            low = middle
    lowest = sample[low] if low >= 0 else -np.inf
    highest = sample[high] if high < len(sample) else np.inf
    above, below = ratios > highest, ratios < lowest
    # A million ratios may be equal: they need no sorting, and if they fill the bracket, they lie at its ends.
    between = np.flatnonzero((ratios > lowest) & (ratios < highest))
    between = between[np.argsort(-ratios[between], kind="stable")]
    return above, np.concatenate((np.flatnonzero(ratios == highest), between, np.flatnonzero(ratios == lowest))), below
