"""The exact solver: relax, fix what is certain, search the rest, settle near-ties in exact arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import compress
from operator import not_

import numpy as np

from commonweal.decision.cardinality import best_by_count
from commonweal.decision.exact import BoolArray, IntArray
from commonweal.decision.instance import Instance
from commonweal.decision.relaxation import relax
from commonweal.decision.search import SearchResult, search

EXACT_TIE_LIMIT = 25  # candidates up to which the tie rule is promised
NODE_LIMIT = 2**23  # states the search may make before it answers with the gap it has proven
_CORE_LIMIT = 64  # open candidates searched to the end; where more are open, the closest to the price are tried first
_LOOK_NODE_LIMIT = 2**17
_SHORT_SEARCH = 2**13  # states after which fixing the number of those who go is tried,
_BY_COUNT_LIMIT = 4096  # for at most this many open candidates
_FEW_ROWS = 64  # near-ties that are simply compared one by one
_GOOD_ENOUGH = 1e-12  # of the sum of losses: where more than _CORE_LIMIT are open, or the search grows large


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Who goes, and what is proven about it."""

    goes: BoolArray
    proven_gap: float  # no set is better by more than this, in units of the objective; 0 = proven best
    node_count: int = 0
    limit_reached: bool = False


def solve(instance: Instance, mu: float | Fraction, *, node_limit: int = NODE_LIMIT) -> Solution:
    """The candidates to let go at a finite μ > 0.

    Up to EXACT_TIE_LIMIT candidates the answer is the one of `reference.best_eliminated`, ties included.
    Beyond, it is within the proven gap, which is 0 unless there are so many sets of nearly the same value that
    the search stops at about 1e-12 of the sum of losses, or at the node limit.
    """
    promise_ties = instance.size <= EXACT_TIE_LIMIT
    good_enough = -1.0 if promise_ties else _GOOD_ENOUGH * float(instance.losses.sum())
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
        result = _search_core(
            part,
            float(mu),
            node_limit=node_limit - node_count,
            good_enough=good_enough,
            promise_ties=promise_ties,
        )
        node_count += result.node_count
        if len(result.undecided) == 0:
            return Solution(
                goes=_best_of(instance, mu, goes, core, result.survivors),
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
    """A good set, what it falls short of the bound, the candidates that leaves open, and the states it took."""
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


def _search_core(part: Instance, mu: float, *, node_limit: int, good_enough: float, promise_ties: bool) -> SearchResult:
    """A short search; if that does not end, the proof by number; if that fails, a long search."""

    if promise_ties:
        every_tie = search(part, mu, node_limit=node_limit)
        if not every_tie.limit_reached:
            return every_tie
        # Millions of sets within rounding of each other: one of them, with a gap to match.
        one_of_them = search(part, mu, node_limit=node_limit, all_ties=False)
        return replace(one_of_them, limit_reached=True, node_count=every_tie.node_count + one_of_them.node_count)

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


def _best_of(instance: Instance, mu: float | Fraction, goes: BoolArray, core: IntArray, rows: BoolArray) -> BoolArray:
    """The set with the largest exact objective, of those that differ from `goes` in the core by one of the rows.

    Of equals the one by the tie rule. Σ_E l − μT/X is compared by cross-multiplied integers: the near-ties may be
    thousands, and fractions are slow.
    """
    assert len(rows), "the best set found always survives"
    chosen = goes.copy()
    chosen[core] = rows[0]
    if len(rows) == 1:
        return chosen
    losses, loss_unit, contributions, kept, total = instance.integers
    price = Fraction(mu) * total / loss_unit  # μT in the integers' units
    core_losses = [losses[i] for i in core.tolist()]
    core_contributions = [contributions[i] for i in core.tolist()]
    settled_to_stay = ~goes
    settled_to_stay[core] = False
    kept += sum(compress(contributions, settled_to_stay.tolist()))

    best, best_lost, best_x = 0, 0, 0
    for row, going in _distinct(rows, core_losses, core_contributions):
        lost = sum(compress(core_losses, going))
        x = kept + sum(compress(core_contributions, map(not_, going)))
        if best_x:
            ahead = (lost - best_lost) * x * best_x * price.denominator - price.numerator * (best_x - x)
            if ahead < 0 or (ahead == 0 and not _wins_tie(rows[row], rows[best])):
                continue
        best, best_lost, best_x = row, lost, x
    chosen[core] = rows[best]
    return chosen


def _distinct(rows: BoolArray, losses: list[int], contributions: list[int]) -> Iterator[tuple[int, list[bool]]]:
    """Rows by number; of many with equal sums only the one that wins their tie."""
    if len(rows) <= _FEW_ROWS or rows.shape[1] > 62:
        yield from enumerate(rows.tolist())
        return
    # The sums in digits of 32 bits, which int64 adds without overflow; carried over, equal sums have equal digits.
    digits: list[IntArray] = []
    going = rows.astype(np.int64)
    for figures in (losses, contributions):
        carry = np.zeros(len(rows), np.int64)
        for shift in range(0, max(figures).bit_length() + rows.shape[1].bit_length(), 32):
            carry = carry + going @ np.array([figure >> shift & 0xFFFFFFFF for figure in figures])
            digits.append(carry & 0xFFFFFFFF)
            carry >>= 32
    counts = going.sum(axis=1)
    order_code = going @ (1 << np.arange(rows.shape[1])[::-1])  # smaller = retains the earlier at the first difference
    ranked = np.lexsort((order_code, counts, *digits))
    sums = np.array(digits)[:, ranked]
    first = np.concatenate(([True], (sums[:, 1:] != sums[:, :-1]).any(axis=0)))
    for row in ranked[first].tolist():
        yield row, rows[row].tolist()


def _wins_tie(goes: BoolArray, other: BoolArray) -> bool:
    """The larger retained set wins, then the one that retains the earlier client where the two first differ."""
    goes_count, other_count = int(goes.sum()), int(other.sum())
    return goes_count < other_count or (goes_count == other_count and bool(other[np.argmax(goes != other)]))
