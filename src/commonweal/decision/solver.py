"""The exact solver: relax, fix what is certain, search the rest, and let `near_ties` decide what floats cannot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from commonweal.decision.cardinality import best_by_count
from commonweal.decision.exact import BoolArray, IntArray
from commonweal.decision.instance import Instance
from commonweal.decision.near_best import EXACT_TIE_LIMIT, NODE_LIMIT, near_best
from commonweal.decision.near_ties import best_of
from commonweal.decision.relaxation import relax
from commonweal.decision.search import SearchResult, search

_CORE_LIMIT = 64  # up to this many open candidates are searched completely; of more, those nearest the price come first
_LOOK_NODE_LIMIT = 2**17
_SHORT_SEARCH = 2**13  # after this many states, fixing the number of candidates that go is tried,
_BY_COUNT_LIMIT = 4096  # if no more than this many candidates are open
_GOOD_ENOUGH = 1e-12  # of the sum of losses, if more than _CORE_LIMIT candidates are open or the search is large


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Who goes, and what is proven about it."""

    goes: BoolArray
    proven_gap: float  # no set is better by more than this, in units of the objective; 0: proven to be the best
    node_count: int = 0
    limit_reached: bool = False


def solve(instance: Instance, mu: float | Fraction, *, node_limit: int = NODE_LIMIT) -> Solution:
    """The candidates to eliminate at a finite μ > 0.

    With up to EXACT_TIE_LIMIT candidates, the answer is that of `reference.best_eliminated`, equal sets included. With
    more, it is the best up to the proven gap, which is 0 unless there are so many sets of nearly the same value that
    the search stops at about 1e-12 of the sum of losses, or at the node limit.
    """
    if instance.size > EXACT_TIE_LIMIT:
        return _solve_many(instance, mu, node_limit)
    near = near_best(instance, mu, node_limit=node_limit)
    return Solution(
        goes=near.best(mu), proven_gap=near.gap, node_count=near.node_count, limit_reached=near.limit_reached
    )


def _solve_many(instance: Instance, mu: float | Fraction, node_limit: int) -> Solution:
    """The best set up to the proven gap."""
    good_enough = _GOOD_ENOUGH * float(instance.losses.sum())
    goes = np.zeros(instance.size, np.bool_)
    undecided = np.arange(instance.size)
    part = instance
    node_count = 0
    lost_to_rounding = 0.0
    while len(undecided):
        part_goes, shortfall, core, looked = _relax_and_look(part, float(mu), good_enough)
        goes[undecided] = part_goes
        node_count += looked
        if len(core) == 0:
            break
        if len(core) > _CORE_LIMIT and shortfall <= good_enough:
            return Solution(goes=goes, proven_gap=shortfall + lost_to_rounding, node_count=node_count)
        core = undecided[core]
        part = instance.part(core, goes)
        result = _search_core(part, float(mu), node_limit=node_limit - node_count, good_enough=good_enough)
        node_count += result.node_count
        if len(result.undecided) == 0:
            return Solution(
                goes=best_of(instance, mu, goes, core, result.survivors),
                proven_gap=result.shortfall + lost_to_rounding,
                node_count=node_count,
                limit_reached=result.limit_reached,
            )
        goes[core] = result.survivors[0]
        lost_to_rounding += result.shortfall
        undecided = core[result.undecided]
        part = instance.part(undecided, goes)
    return Solution(goes=goes, proven_gap=lost_to_rounding, node_count=node_count)


def _relax_and_look(instance: Instance, mu: float, good_enough: float) -> tuple[BoolArray, float, IntArray, int]:
    """A good set, how far it falls short of the bound, the candidates still open then, and the states that it took."""
    relaxation = relax(instance, mu)
    goes = relaxation.greedy
    shortfall = relaxation.shortfall(instance, goes)
    core = relaxation.open_candidates(instance, shortfall)
    node_count = 0
    while len(core) > _CORE_LIMIT and shortfall > good_enough:
        closest = core[np.argpartition(relaxation.wrong_side[core], _CORE_LIMIT)[:_CORE_LIMIT]]
        part = instance.part(closest, goes)
        look = search(part, mu, node_limit=_LOOK_NODE_LIMIT, good_enough=good_enough, all_ties=False)
        node_count += look.node_count
        found = goes.copy()
        found[closest] = look.survivors[0]
        before, found_shortfall = shortfall, relaxation.shortfall(instance, found)
        if found_shortfall < shortfall:
            goes, shortfall = found, found_shortfall
            core = relaxation.open_candidates(instance, shortfall)
        if shortfall > before / 2:
            break
    return goes, shortfall, core, node_count


def _search_core(part: Instance, mu: float, *, node_limit: int, good_enough: float) -> SearchResult:
    """Try a short search, then a fixed number, then a long search."""

    def search_part(limit: int, enough: float) -> SearchResult:
        return search(
            part,
            mu,
            node_limit=limit,
            good_enough=enough,
            all_ties=False,
            stop_when_certain=part.size > _CORE_LIMIT,
        )

    short = search_part(min(_SHORT_SEARCH, node_limit), -1.0)
    if not short.limit_reached:
        return short
    if part.size <= _BY_COUNT_LIMIT:
        relaxation = relax(part, mu)
        known = short.survivors[0]
        finalists = best_by_count(part, mu, relaxation, known, relaxation.shortfall(part, known))
        if finalists is not None:
            return replace(short, survivors=finalists, shortfall=0.0, limit_reached=False)
    long = search_part(node_limit - short.node_count, good_enough)
    return replace(long, node_count=short.node_count + long.node_count)
