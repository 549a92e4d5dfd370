"""Which of a few sets is the best if floats cannot tell: exact integers, and the tie rule."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import compress
from operator import not_

import numpy as np

from commonweal.decision.exact import BoolArray, IntArray, common_integers, exact_sum
from commonweal.decision.instance import Instance
from commonweal.decision.ties import wins_tie

_FEW_ROWS = 64  # compared one by one


def best_of(instance: Instance, mu: float | Fraction, goes: BoolArray, core: IntArray, rows: BoolArray) -> BoolArray:
    """The set with the largest exact objective among those that equal `goes` outside the core and a row inside it.

    The tie rule chooses between equal sets. Values of Σ_E l − μT/X are compared as cross-multiplied integers, because
    there may be thousands of near-ties, and fractions are slow.
    """
    assert len(rows), "the best set found always survives"
    chosen = goes.copy()
    chosen[core] = rows[0]
    if len(rows) == 1:
        return chosen
    # Only the core is converted to Python integers; the other contributions, up to a million, are summed as arrays.
    core_losses, loss_unit = common_integers(instance.losses[core].tolist())
    core_contributions, unit_of_core = common_integers(instance.contributions[core].tolist())
    settled = np.ones(instance.size, np.bool_)
    settled[core] = False
    stays = exact_sum(instance.kept) + exact_sum(instance.contributions[settled & ~goes])
    total = stays + sum(core_contributions) * unit_of_core + exact_sum(instance.contributions[settled & goes])
    total += exact_sum(instance.gone)
    # One unit for all contributions, in which the contribution that stays is a whole number too.
    finer = (stays / unit_of_core).denominator
    unit = unit_of_core / finer
    core_contributions = [k * finer for k in core_contributions]
    kept = int(stays / unit)
    price = Fraction(mu) * total / unit / loss_unit  # μT in the integers' units

    best, best_lost, best_x = 0, 0, 0
    for row, going in _distinct(rows, core_losses, core_contributions):
        lost = sum(compress(core_losses, going))
        x = kept + sum(compress(core_contributions, map(not_, going)))
        if best_x:
            ahead = (lost - best_lost) * x * best_x * price.denominator - price.numerator * (best_x - x)
            if ahead < 0 or (ahead == 0 and not wins_tie(rows[row], rows[best])):
                continue
        best, best_lost, best_x = row, lost, x
    chosen[core] = rows[best]
    return chosen


def _distinct(rows: BoolArray, losses: list[int], contributions: list[int]) -> Iterator[tuple[int, list[bool]]]:
    """The rows with their numbers; if there are many, only the winner of each tie between rows with equal sums."""
    if len(rows) <= _FEW_ROWS or rows.shape[1] > 62:
        yield from enumerate(rows.tolist())
        return
    # Sums are kept in digits of 32 bits, which int64 adds without overflow; once carried, equal sums have equal digits.
    digits: list[IntArray] = []
    going = rows.astype(np.int64)
    for figures in (losses, contributions):
        carry = np.zeros(len(rows), np.int64)
        for shift in range(0, max(figures).bit_length() + rows.shape[1].bit_length(), 32):
            carry = carry + going @ np.array([figure >> shift & 0xFFFFFFFF for figure in figures])
            digits.append(carry & 0xFFFFFFFF)
            carry >>= 32
    counts = going.sum(axis=1)
    order_code = going @ (1 << np.arange(rows.shape[1])[::-1])  # smaller: retains the earlier where they first differ
    ranked = np.lexsort((order_code, counts, *digits))
    sums = np.array(digits)[:, ranked]
    first = np.concatenate(([True], (sums[:, 1:] != sums[:, :-1]).any(axis=0)))
    for row in ranked[first].tolist():
        yield row, rows[row].tolist()
