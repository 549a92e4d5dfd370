"""The choice to be made in a round, with one interface for both contribution rules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Protocol

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray, IntArray
from commonweal.decision.instance import Instance
from commonweal.decision.near_best import EXACT_TIE_LIMIT, near_best
from commonweal.decision.solver import solve
from commonweal.decision.ties import in_tie_order, negligible, rough_tie_width, sets_that_go, tie_width
from commonweal.records import ContributionRule
from commonweal.records.rounds import RULES_VERSION

_REMEMBERED = 16  # searches: a μ path asks for several things at the same μ


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Who is retained, and what is proven about it."""

    retained: BoolArray
    proven_gap: float = 0.0
    node_count: int = 0
    limit_reached: bool = False


class Line:
    """The objective of one set as a function of μ, exactly: welfare − μ · ratio."""

    __slots__ = ("ratio", "welfare")

    def __init__(self, welfare: Fraction, ratio: Fraction) -> None:
        self.welfare = welfare
        self.ratio = ratio

    def at(self, mu: Fraction) -> Fraction:
        return self.welfare - mu * self.ratio

    def ties(self, best: Line, mu: Fraction, width: Fraction, toward: int = 0) -> bool:
        """Whether the set ties with the best one at μ; with `toward` 1 or −1, at every μ just above or below it."""
        ahead = self.at(mu) - best.at(mu) + width
        return ahead > 0 or (ahead == 0 and (best.ratio - self.ratio) * toward >= 0)


class Problem(Protocol):
    """The choice of a round: its solution at a finite μ > 0, and near both ends of that axis."""

    @property
    def candidates(self) -> IntArray: ...

    @property
    def width(self) -> Fraction:
        """Sets whose objective falls short of the best one by no more than this tie with it."""
        ...

    def best(self, mu: float | Fraction) -> Choice:
        """The set with the largest objective; the tie rule decides only between equal ones."""
        ...

    def near(self, mu: float | Fraction) -> Iterable[BoolArray]:
        """All sets that may tie at a μ > 0, in tie order."""
        ...

    def near_above_zero(self) -> Iterable[BoolArray]:
        """All sets that may tie at every μ > 0 that is small enough, in tie order."""
        ...

    def line(self, retained: BoolArray) -> Line:
        """The line of a set; welfare is relative to the set in which everybody stays."""
        ...

    def at_zero(self) -> BoolArray:
        """The set retained at μ = 0, where it does not matter what is lost."""
        ...

    def just_above_zero(self) -> BoolArray:
        """The set with the largest objective at every μ > 0 that is small enough."""
        ...

    def for_large_mu(self) -> BoolArray:
        """The set with the largest objective at every finite μ that is large enough."""
        ...


def used_contributions(contributions: FloatArray, rule: ContributionRule) -> FloatArray:
    """The contributions that the decision works with: q⁺ = max(q, 0) under "clip", q itself under "raw"."""
    return np.maximum(contributions, 0.0) if rule == "clip" else contributions


class ClipProblem:
    """The choice with contributions that are not negative, which the fast solver can handle."""

    def __init__(
        self,
        profits: FloatArray,
        contributions: FloatArray,
        *,
        version: int = RULES_VERSION,
        stays: int | None = None,
        goes: int | None = None,
    ) -> None:
        """`stays` or `goes` fixes the fate of one client, to find the best set with that fate."""
        may_go = profits < 0
        for given in (stays, goes):
            if given is not None:
                may_go[given] = False
        is_open = may_go & (contributions > 0)
        self.width = Fraction(0)
        if version > 1 and may_go.any():
            is_small = may_go & (profits >= -rough_tie_width(profits))
            # A candidate without contribution goes, unless its loss is so small that a set with it may tie.
            may_tie = is_open | is_small
            if np.count_nonzero(may_tie) <= EXACT_TIE_LIMIT:
                is_open, self.width = may_tie, tie_width(profits, version)
            else:
                small = np.flatnonzero(is_small)
                small = small[negligible(-profits[small], tie_width(profits, version))] if len(small) else small
                may_go[small] = is_open[small] = False
        self.candidates = np.flatnonzero(may_go)
        stays_anyway = ~may_go
        if goes is not None:
            stays_anyway[goes] = False
        self._goes_anyway = ~(stays_anyway | is_open)
        self._open = np.flatnonzero(is_open)
        self._instance = Instance(
            losses=-profits[self._open],
            contributions=contributions[self._open],
            kept=contributions[stays_anyway],
            gone=contributions[self._goes_anyway],
        )
        has_kept = self._instance.kept.any()
        self._needed = (self._instance.contributions > 0) & ~has_kept  # at μ > 0, one of these must stay
        self._is_free = not has_kept and not self._needed.any()  # nothing can be lost, so μ does not matter
        self._near_best = lru_cache(maxsize=_REMEMBERED)(partial(near_best, self._instance, width=self.width))

    def _retained(self, goes: BoolArray) -> BoolArray:
        retained: BoolArray = ~self._goes_anyway
        retained[self._open[goes]] = False
        return retained

    def best(self, mu: float | Fraction) -> Choice:
        if self._is_free:
            return Choice(retained=self.just_above_zero())
        if self.width:
            near = self._near_best(mu)
            return Choice(
                retained=self._retained(near.best(mu)),
                proven_gap=near.gap,
                node_count=near.node_count,
                limit_reached=near.limit_reached,
            )
        solution = solve(self._instance, mu)
        return Choice(
            retained=self._retained(solution.goes),
            proven_gap=solution.proven_gap,
            node_count=solution.node_count,
            limit_reached=solution.limit_reached,
        )

    def near(self, mu: float | Fraction) -> Iterator[BoolArray]:
        if self._is_free:
            yield from self.near_above_zero()
            return
        sets = self._near_best(mu).sets
        for row in in_tie_order(sets):
            yield self._retained(sets[row])

    def near_above_zero(self) -> Iterator[BoolArray]:
        losses = self._instance.losses
        smallest = min((Fraction(loss) for loss in losses[self._needed].tolist()), default=Fraction(0))
        for goes in sets_that_go(losses, smallest + self.width, self._needed):
            yield self._retained(goes)

    def line(self, retained: BoolArray) -> Line:
        saved, ratio = self._instance.exact_line(~retained[self._open])
        assert ratio is not None, "a set without contribution has no line"
        return Line(saved, ratio)

    def at_zero(self) -> BoolArray:
        if not self.width:  # all loss-makers go
            retained = np.ones(len(self._goes_anyway), np.bool_)
            retained[self.candidates] = False
            return retained
        return self._retained(next(sets_that_go(self._instance.losses, self.width)))

    def just_above_zero(self) -> BoolArray:
        goes = np.ones(len(self._open), np.bool_)
        if self._needed.any():
            # The one with the smallest loss stays; among equal losses, the one that contributes most; among equal
            # contributions, the first.
            losses, contributions = self._instance.losses, self._instance.contributions
            by_loss = np.lexsort((-contributions, losses))
            goes[by_loss[self._needed[by_loss]][0]] = False
        return self._retained(goes)

    def for_large_mu(self) -> BoolArray:
        return self._retained(self._instance.contributions == 0)


def choose(problem: Problem, client_count: int, mu: float | Fraction) -> Choice:
    """The retained set at any μ in [0, ∞]; μ = ∞ means that nobody is ever eliminated."""
    if mu == math.inf:
        return Choice(retained=np.ones(client_count, np.bool_))
    if mu == 0:
        return Choice(retained=problem.at_zero())
    best = problem.best(mu)
    if not problem.width:
        return best
    return replace(best, retained=winner(problem, problem.line(best.retained), Fraction(mu)))


def winner(problem: Problem, best: Line, mu: Fraction, toward: int = 0) -> BoolArray:
    """The first set in tie order that ties with the best one at μ, or just above or below it; at 0, just above it."""
    near = problem.near(mu) if mu else problem.near_above_zero()
    return next(retained for retained in near if problem.line(retained).ties(best, mu, problem.width, toward))
