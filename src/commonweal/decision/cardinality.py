"""A second way to prove that a set is the best: fix the number of candidates that go.

If the candidates near the price all contribute about the same, there may be no set that retains about X*. The
relaxation cannot see this, because it may eliminate part of a candidate. Once the number k of candidates that go is
fixed, it can: every set of k satisfies

    Σ_E l − μT/X(E)  =  νk + Σ_E (l − ν) − μT/X(E)      for any ν,

so the identity of `relaxation` holds with losses l − ν, and a set of k falls short of that bound by

    Σ_{n on the wrong side} |l − ν − λq|  +  λ (X(E) − X*)² / X(E).

Of the k candidates with the largest l − λq, none is on the wrong side if ν lies between the k-th value and the next;
λ is chosen so that X* is about the contribution that stays without those k. If that set has no shortfall, it is the
best set of k.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray
from commonweal.decision.instance import Instance
from commonweal.decision.relaxation import ROUNDING, Relaxation
from commonweal.decision.search import search

_COUNT_LIMIT = 12  # values of k to try before giving up
_HALVINGS = 60
_NODE_LIMIT = 2**14


@dataclass(frozen=True, slots=True, kw_only=True)
class _BestOfCount:
    """The best set of k at its own price, and how much better another set of k could be."""

    goes: BoolArray
    price: float
    threshold: float  # ν
    shortfall: float  # how far the set falls short of the bound for sets of k


def best_by_count(
    instance: Instance, mu: float, relaxation: Relaxation, goes: BoolArray, shortfall: float
) -> BoolArray | None:
    """All sets that may be the best, one per row; None if fixing the number of candidates cannot prove it.

    `goes` is the best set known so far, and `shortfall` is how far it falls short of the relaxation's bound.
    """
    start = int(goes.sum())
    finalists = [goes]
    tried = 0
    for step in (-1, 1):
        count = start if step == 1 else start - 1
        while 0 <= count <= instance.size:
            tried += 1
            if tried > _COUNT_LIMIT:
                return None
            best = _best_of_count(instance, mu, count)
            if best is None:
                break
            # Sets of this size fall short of the relaxation's bound by at least this much.
            at_least = relaxation.shortfall(instance, best.goes, rounded_down=True) - best.shortfall
            if at_least > shortfall:
                break  # sets of the next sizes fall short by more: the bound is concave in the size
            shortfall = min(shortfall, relaxation.shortfall(instance, best.goes))
            found = _sets_of_count(instance, mu, count, best, room=shortfall - at_least)
            if found is None:
                return None
            finalists += list(found)
            count += step
    return np.array(finalists)


def _best_of_count(instance: Instance, mu: float, count: int) -> _BestOfCount | None:
    """Bisect the price until X* matches the contribution that stays without the best `count` at that price."""
    losses, contributions = instance.losses, instance.contributions
    mu_total = mu * instance.total

    def top(price: float) -> tuple[BoolArray, FloatArray, float]:
        reduced = losses - price * contributions
        goes = np.zeros(len(losses), np.bool_)
        if count:
            goes[np.argpartition(-reduced, count - 1)[:count]] = True
        return goes, reduced, instance.kept_sum + float(contributions[~goes].sum())

    x_all = instance.kept_sum + float(contributions.sum())
    x_least = max(instance.kept_sum, float(contributions.min()))
    low, high = mu_total / x_all / x_all, mu_total / x_least / x_least
    for _ in range(_HALVINGS):
        price = (low * high) ** 0.5
        goes, reduced, x = top(price)
        if x <= 0:
            return None  # nobody with a contribution would stay
        own_price = mu_total / x / x
        if not np.array_equal(top(own_price)[0], goes):
            low, high = (price, high) if own_price > price else (low, price)
            continue
        price = own_price
        reduced = losses - price * contributions
        break
    x_best = float(np.sqrt(mu_total / price))
    inside = float(reduced[goes].min()) if count else np.inf
    outside = float(reduced[~goes].max()) if count < len(goes) else -np.inf
    if inside < outside:  # only because of rounding: the two are equal
        inside = outside
    ends = [end for end in (inside, outside) if np.isfinite(end)]
    threshold = sum(ends) / len(ends)
    distance = abs(x - x_best) + ROUNDING * (x + x_best)
    misplaced = ROUNDING * float(losses.sum())  # rounding may have changed the order by l − λq
    return _BestOfCount(
        goes=goes,
        price=price,
        threshold=threshold,
        shortfall=price * distance * distance / x * (1 + ROUNDING) + misplaced,
    )


def _sets_of_count(instance: Instance, mu: float, count: int, best: _BestOfCount, room: float) -> BoolArray | None:
    """All sets of that size that may be within `room` of the bound; None if they cannot be determined."""
    losses = instance.losses - best.threshold
    wrong_side = np.abs(losses - best.price * instance.contributions)
    rounding = ROUNDING * (instance.losses + abs(best.threshold))
    still_open = np.flatnonzero(wrong_side - rounding <= room)
    if len(still_open) == 0:
        return best.goes[np.newaxis]
    # No best set of the changed problem eliminates a candidate whose changed loss is not positive.
    may_go = still_open[losses[still_open] > 0]
    goes = best.goes.copy()
    goes[still_open] = False
    if len(may_go) == 0:
        return goes[np.newaxis] if int(goes.sum()) == count else None
    part = replace(instance.part(may_go, goes), losses=losses[may_go])
    result = search(part, mu, node_limit=_NODE_LIMIT, all_ties=True)
    sets = np.repeat(goes[np.newaxis], len(result.survivors), axis=0)
    sets[:, may_go] = result.survivors
    if result.limit_reached or (sets.sum(axis=1) != count).any():
        return None
    return sets
