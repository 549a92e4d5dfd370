"""All sets of a few candidates that are the best, or nearly so: those among which the tie rule chooses.

Floats find them, with room for rounding; which of them tie is then decided with exact rationals.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from commonweal.decision.exact import BoolArray, IntArray
from commonweal.decision.instance import Instance
from commonweal.decision.near_ties import best_of
from commonweal.decision.relaxation import relax
from commonweal.decision.search import search

EXACT_TIE_LIMIT = 25  # up to this many candidates, the tie rule is guaranteed
NODE_LIMIT = 2**23  # states that the search may create before it stops, with the gap it has proven
_TIE_NODE_LIMIT = 2**14  # after this many states, only sets that retain many clients are still looked for
_ROUNDED_UP = 1 + 2.0**-50
_NO_WIDTH = Fraction(0)
_NOBODY = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class NearBest:
    """All sets that may fall short of the best one by no more than a given width, among them the best."""

    instance: Instance
    goes: BoolArray  # who goes in all of them, apart from the core
    core: IntArray
    rows: BoolArray  # who of the core goes, one set per row
    node_count: int
    gap: float = 0.0  # if there are too many sets to know them all, others may be better than these by this much
    limit_reached: bool = False

    @property
    def sets(self) -> BoolArray:
        """One set per row, True = goes."""
        sets = np.repeat(self.goes[np.newaxis], len(self.rows), axis=0)
        sets[:, self.core] = self.rows
        return sets

    def best(self, mu: float | Fraction) -> BoolArray:
        """The best of them, exactly; the tie rule decides between equal ones."""
        return best_of(self.instance, mu, self.goes, self.core, self.rows)


def near_best(
    instance: Instance, mu: float | Fraction, width: Fraction = _NO_WIDTH, *, node_limit: int = NODE_LIMIT
) -> NearBest:
    """The sets of up to EXACT_TIE_LIMIT candidates that may be the best, or tie with it."""
    if not instance.size:
        return NearBest(
            instance=instance, goes=np.zeros(0, np.bool_), core=_NOBODY, rows=np.zeros((1, 0), np.bool_), node_count=0
        )
    room = float(width) * _ROUNDED_UP
    relaxation = relax(instance, float(mu))
    goes = relaxation.greedy
    core = relaxation.open_candidates(instance, relaxation.shortfall(instance, goes) + room)
    if not len(core):
        return NearBest(instance=instance, goes=goes, core=core, rows=np.zeros((1, 0), np.bool_), node_count=0)
    part = instance.part(core, goes)
    found = search(part, float(mu), node_limit=min(_TIE_NODE_LIMIT, node_limit) if width else node_limit, width=room)
    if not found.limit_reached:
        return NearBest(instance=instance, goes=goes, core=core, rows=found.survivors, node_count=found.node_count)
    if not width:
        # Millions of sets differ by no more than rounding: return one of them, with the gap that follows.
        one = search(part, float(mu), node_limit=node_limit, all_ties=False)
        return NearBest(
            instance=instance,
            goes=goes,
            core=core,
            rows=one.survivors,
            node_count=found.node_count + one.node_count,
            gap=one.shortfall,
            limit_reached=True,
        )
    return _largest_near_best(instance, mu, width, node_limit, goes, core)


def _largest_near_best(
    instance: Instance, mu: float | Fraction, width: Fraction, node_limit: int, goes: BoolArray, core: IntArray
) -> NearBest:
    """The best set, and all sets that tie with it and retain as many clients as one that is easily found.

    Where many small losses together are below the width, there are too many other sets that tie.
    """
    near = near_best(instance, mu, node_limit=node_limit)
    best = near.best(mu)
    large = _enlarged(instance, Fraction(mu), width, best)
    found = search(
        instance.part(core, goes),
        float(mu),
        node_limit=node_limit,
        width=float(width) * _ROUNDED_UP,
        most_going=int(large[core].sum()),
    )
    known = np.array([best[core], large[core]])
    return NearBest(
        instance=instance,
        goes=goes,
        core=core,
        rows=known if found.limit_reached else np.concatenate((known, found.survivors)),
        node_count=near.node_count + found.node_count,
        gap=near.gap + float(width) if found.limit_reached else near.gap,
        limit_reached=near.limit_reached or found.limit_reached,
    )


def _enlarged(instance: Instance, mu: Fraction, width: Fraction, goes: BoolArray) -> BoolArray:
    """A set that ties with the given one and retains more clients if possible: those with the smallest losses."""
    goes = goes.copy()
    lowest = instance.exact_value(goes, mu) - width
    for candidate in np.argsort(instance.losses, kind="stable"):
        if goes[candidate]:
            goes[candidate] = False
            goes[candidate] = instance.exact_value(goes, mu) < lowest
    return goes
