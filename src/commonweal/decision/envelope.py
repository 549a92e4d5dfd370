"""The decision for every μ at once.

The objective of a set is a line in μ, so the largest objectives form an upper envelope: solve at both ends, find where
the two lines cross, solve there, and repeat in both halves until no line is higher at the crossing. Crossings are kept
as exact rationals.

If sets tie within a width, a set other than the best may be retained. On a piece of the envelope, where the best
objective is a line too, a set that ties anywhere ties up to at least one end of the piece. So no set that the winner at
the left end beats there can beat it later, as long as it ties, and likewise at the right end. Whichever of the two
winners comes first in the tie order is retained up to the point where it stops to tie; what is left of the piece is
treated in the same way, until both ends have the same winner.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from commonweal.decision.exact import BoolArray
from commonweal.decision.problem import Line, Problem, winner
from commonweal.decision.ties import wins_tie
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """Where the retained set changes, or the best one: the set at that μ, and the one just above it."""

    mu: Fraction
    at: BoolArray
    above: BoolArray


def trace(
    problem: Problem,
    client_count: int,
    *,
    limit: int = PATH_LIMIT,
    progress: Callable[[int], None] | None = None,
) -> Envelope:
    """Follow the decision from μ = 0 to ∞, up to `limit` breakpoints."""
    if len(problem.candidates) > PATH_CANDIDATE_LIMIT:
        raise InputError(
            f"a mu path can have at most {PATH_CANDIDATE_LIMIT:,} loss-making clients, got "
            f"{len(problem.candidates):,}; decide at the mu you need instead"
        )
    best = _BestSets(problem)
    changes = _tied_changes(problem, best) if problem.width else best.changes()
    at_zero = problem.at_zero()
    breakpoints: list[Fraction] = []
    between: list[BoolArray] = [at_zero]
    at: list[BoolArray] = []
    complete = True
    for change in changes:
        if np.array_equal(between[-1], change.at) and np.array_equal(change.at, change.above):
            continue
        if len(breakpoints) == limit:
            complete = False
            break
        breakpoints.append(change.mu)
        at.append(change.at)
        between.append(change.above)
        if progress is not None:
            progress(len(breakpoints))
    return Envelope(
        breakpoints=tuple(breakpoints),
        between=tuple(between),
        at=tuple(at),
        complete=complete,
        solve_count=best.solve_count,
        proven_gap=best.proven_gap,
    )


class _BestSets:
    """The sets with the largest objective, from μ = 0 to ∞."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.solve_count = 0
        self.proven_gap = 0.0

    def changes(self) -> Iterator[_Change]:
        """At 0, where everything may be lost, and where another set becomes the best."""
        first, last = self._problem.just_above_zero(), self._problem.for_large_mu()
        yield _Change(mu=Fraction(0), at=self._problem.at_zero(), above=first)
        found: _Change | None = None  # several lines may go through one point
        for change in self._crossings(first, last):
            if found is not None and found.mu < change.mu:
                yield found
            at = change.at if found is None or found.mu < change.mu else found.at
            found = _Change(mu=change.mu, at=at, above=change.above)
        if found is not None:
            yield found

    def _crossings(self, first: BoolArray, last: BoolArray) -> Iterator[_Change]:
        # A stack of halves that have not been examined yet, the leftmost on top.
        problem = self._problem
        halves: list[tuple[BoolArray, Line, BoolArray, Line]] = []
        if not np.array_equal(first, last):
            halves.append((first, problem.line(first), last, problem.line(last)))
        while halves:
            left, left_line, right, right_line = halves.pop()
            crossing = (left_line.welfare - right_line.welfare) / (left_line.ratio - right_line.ratio)
            choice = problem.best(crossing)
            self.solve_count += 1
            self.proven_gap = max(self.proven_gap, choice.proven_gap)
            line = problem.line(choice.retained)
            if line.at(crossing) > left_line.at(crossing) and right_line.ratio < line.ratio < left_line.ratio:
                halves.append((choice.retained, line, right, right_line))
                halves.append((left, left_line, choice.retained, line))
                continue
            # With too many candidates for exact ties, a solve may miss a set that is already known, by up to its gap.
            at = choice.retained if line.at(crossing) >= right_line.at(crossing) else right
            yield _Change(mu=crossing, at=at, above=right)


def _tied_changes(problem: Problem, best: _BestSets) -> Iterator[_Change]:
    """The changes of the retained set where sets tie within a width."""
    changes = best.changes()
    zero = next(changes)
    lower, line = Fraction(0), problem.line(zero.above)
    above = winner(problem, line, lower, toward=1)
    yield _Change(mu=lower, at=zero.at, above=above)
    for change in changes:
        below = winner(problem, line, change.mu, toward=-1)
        yield from _changes_within(problem, line, (lower, above), (change.mu, below))
        lower, line = change.mu, problem.line(change.above)
        above = winner(problem, line, lower, toward=1)
        yield _Change(mu=lower, at=winner(problem, line, lower), above=above)
    yield from _changes_after(problem, line, lower, above)


def _changes_within(
    problem: Problem, best: Line, left: tuple[Fraction, BoolArray], right: tuple[Fraction, BoolArray]
) -> Iterator[_Change]:
    """The changes inside a piece, whose ends are given with the set retained just above and just below them."""
    (lower, above), (upper, below) = left, right
    from_right: list[_Change] = []
    while not np.array_equal(above, below):
        above_wins = wins_tie(~above[problem.candidates], ~below[problem.candidates])
        end = _stops_to_tie(problem, best, above if above_wins else below)
        if end is None or not lower < end < upper:  # only if there are too many sets to know them all
            break
        if above_wins:
            at, lower, above = above, end, winner(problem, best, end, toward=1)
            yield _Change(mu=end, at=at, above=above)
        else:
            from_right.append(_Change(mu=end, at=below, above=below))
            upper, below = end, winner(problem, best, end, toward=-1)
    yield from reversed(from_right)


def _changes_after(problem: Problem, best: Line, lower: Fraction, above: BoolArray) -> Iterator[_Change]:
    """The changes after the last change of the best set."""
    while (end := _stops_to_tie(problem, best, above)) is not None and end > lower:
        at, lower, above = above, end, winner(problem, best, end, toward=1)
        yield _Change(mu=end, at=at, above=above)


def _stops_to_tie(problem: Problem, best: Line, retained: BoolArray) -> Fraction | None:
    """The μ at which the set falls short of the best line by exactly the width; None if the lines are parallel."""
    line = problem.line(retained)
    if line.ratio == best.ratio:
        return None
    return (line.welfare - best.welfare + problem.width) / (line.ratio - best.ratio)
