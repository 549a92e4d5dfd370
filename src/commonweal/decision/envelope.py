"""The decision for every μ at once.

The objective of a set is a line in μ, so the best sets form an upper envelope: solve at both ends, find where the two
lines cross, solve there, and repeat in both halves until no line is higher at the crossing. Crossings are kept as
exact rationals, and the tie rule decides at a crossing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from commonweal.decision.exact import BoolArray
from commonweal.decision.problem import Line, Problem
from commonweal.errors import InputError

PATH_LIMIT = 10_000  # breakpoints
PATH_CANDIDATE_LIMIT = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """Breakpoints b(1) < b(2) < …, the sets retained before, between and after them, and the sets at them.

    If 0 is the first breakpoint, the set before it is the one at μ = 0 alone.
    """

    breakpoints: tuple[Fraction, ...]
    between: tuple[BoolArray, ...]  # one more than breakpoints
    at: tuple[BoolArray, ...]
    complete: bool  # False: the limit was reached, and nothing is known beyond the last breakpoint
    solve_count: int
    proven_gap: float  # the largest gap of all solves

    def retained(self, mu: Fraction | float) -> BoolArray | None:
        """The set retained at a finite μ; None where the envelope was cut off."""
        index = bisect_left(self.breakpoints, mu)
        if index < len(self.breakpoints):
            return self.at[index] if self.breakpoints[index] == mu else self.between[index]
        return self.between[index] if self.complete else None


def trace(
    problem: Problem,
    client_count: int,
    *,
    limit: int = PATH_LIMIT,
    progress: Callable[[int], None] | None = None,
) -> Envelope:
    """Follow the envelope from μ = 0 to ∞, up to `limit` breakpoints."""
    if len(problem.candidates) > PATH_CANDIDATE_LIMIT:
        raise InputError(
            f"a mu path can have at most {PATH_CANDIDATE_LIMIT:,} loss-making clients, got "
            f"{len(problem.candidates):,}; decide at the mu you need instead"
        )
    at_zero = np.ones(client_count, np.bool_)
    at_zero[problem.candidates] = False
    first, last = problem.just_above_zero(), problem.for_large_mu()
    breakpoints: list[Fraction] = []
    between: list[BoolArray] = [first]
    at: list[BoolArray] = []
    if not np.array_equal(first, at_zero):
        breakpoints, between, at = [Fraction(0)], [at_zero, first], [at_zero]

    solve_count = 0
    proven_gap = 0.0
    # A stack of halves that have not been examined yet, the leftmost on top.
    halves: list[tuple[BoolArray, Line, BoolArray, Line]] = []
    if not np.array_equal(first, last):
        halves.append((first, problem.line(first), last, problem.line(last)))
    while halves and len(breakpoints) < limit:
        left, left_line, right, right_line = halves.pop()
        crossing = (left_line.welfare - right_line.welfare) / (left_line.ratio - right_line.ratio)
        choice = problem.solve(crossing)
        solve_count += 1
        proven_gap = max(proven_gap, choice.proven_gap)
        line = problem.line(choice.retained)
        if line.at(crossing) > left_line.at(crossing) and right_line.ratio < line.ratio < left_line.ratio:
            halves.append((choice.retained, line, right, right_line))
            halves.append((left, left_line, choice.retained, line))
            continue
        if breakpoints and breakpoints[-1] == crossing:  # three lines through one point
            between[-1] = right
        else:
            breakpoints.append(crossing)
            # With too many candidates for exact ties, a solve may miss a set that is already known, by up to its gap.
            at.append(choice.retained if line.at(crossing) >= right_line.at(crossing) else right)
            between.append(right)
        if progress is not None:
            progress(len(breakpoints))
    return Envelope(
        breakpoints=tuple(breakpoints),
        between=tuple(between),
        at=tuple(at),
        complete=not halves,
        solve_count=solve_count,
        proven_gap=proven_gap,
    )
