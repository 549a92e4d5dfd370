"""Which sets tie, and which of them is retained.

With Σ|profit| over all clients of the round, sets tie if their objective falls short of the best one by no more than

    width = 1e-12 · Σ|profit|

and of the sets that tie, the one that retains the most clients wins; of equally many, the one that retains the earlier
client where two sets first differ. In version 1 of the rules the width is 0: only sets with equal objectives tie.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray, IntArray, common_integers, exact_sum

TIE_RATIO = Fraction(1, 10**12)


def tie_width(profits: FloatArray, version: int) -> Fraction:
    """How far a set's objective may fall short of the best one and still tie with it, exactly."""
    return exact_sum(np.abs(profits)) * TIE_RATIO if version > 1 else Fraction(0)


def rough_tie_width(profits: FloatArray) -> float:
    """A little more than the width in version 2, and faster: a smaller loss need not be below the width."""
    return 1.000001e-12 * float(np.abs(profits).sum())


def in_tie_order(goes: BoolArray) -> IntArray:
    """The numbers of the rows, each a set (True = goes), from the one that wins every tie to the one that loses all."""
    count = goes.shape[1]
    assert count <= 57, "the key has 64 bits"
    later_first = goes @ (1 << np.arange(count, dtype=np.int64)[::-1])  # smaller: retains the earlier
    return np.argsort((goes.sum(axis=1) << count) | later_first, kind="stable")


def wins_tie(goes: BoolArray, other: BoolArray) -> bool:
    """Whether a set (True = goes) comes before another one in the tie order."""
    return (int(goes.sum()), goes.tolist()) < (int(other.sum()), other.tolist())


def negligible(losses: FloatArray, width: Fraction) -> IntArray:
    """The smallest losses, as many as do not add up to more than the width; of equal losses the first."""
    by_size = np.argsort(losses, kind="stable")
    return by_size[: int(np.searchsorted(losses[by_size].cumsum(), float(width), side="right"))]


def sets_that_go(losses: FloatArray, budget: Fraction, is_needed: BoolArray | None = None) -> Iterator[BoolArray]:
    """The sets whose other candidates can stay because their losses add up to at most the budget, in tie order.

    One of the candidates marked as needed must stay, if there are any. True = goes.
    """
    amounts, unit = common_integers(losses.tolist())
    needed = [False] * len(amounts) if is_needed is None else is_needed.tolist()
    for stays in _sets_that_stay(amounts, math.floor(budget / unit), needed):
        yield ~np.array(stays, np.bool_)


def _sets_that_stay(amounts: Sequence[int], budget: int, is_needed: Sequence[bool]) -> Iterator[list[bool]]:
    count = len(amounts)
    sorted_after = [sorted(amounts[start:]) for start in range(count + 1)]
    needed_after = [
        min((amounts[n] for n in range(start, count) if is_needed[n]), default=budget + 1) for start in range(count + 1)
    ]

    def is_possible(start: int, stay_count: int, left: int, is_missing: bool) -> bool:
        """Whether so many of those from `start` on can stay, with a needed one among them if it is missing."""
        if not int(is_missing) <= stay_count <= count - start:
            return False
        smallest = sorted_after[start][:stay_count]
        if is_missing:
            smallest[-1] = max(smallest[-1], needed_after[start])
        return sum(smallest) <= left

    def sets_of(start: int, stay_count: int, left: int, is_missing: bool) -> Iterator[list[bool]]:
        if not is_possible(start, stay_count, left, is_missing):
            return
        if start == count:
            yield []
            return
        for others in sets_of(start + 1, stay_count - 1, left - amounts[start], is_missing and not is_needed[start]):
            yield [True, *others]
        for others in sets_of(start + 1, stay_count, left, is_missing):
            yield [False, *others]

    for stay_count in range(count, -1, -1):
        yield from sets_of(0, stay_count, budget, any(is_needed))
