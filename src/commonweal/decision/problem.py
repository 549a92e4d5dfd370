"""The choice to be made in a round, with one interface for both contribution rules."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray, IntArray
from commonweal.decision.instance import Instance
from commonweal.decision.solver import solve
from commonweal.records import ContributionRule


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


class Problem(Protocol):
    """The choice of a round: its solution at a finite μ > 0, and near both ends of that axis."""

    @property
    def candidates(self) -> IntArray: ...

    def solve(self, mu: float | Fraction) -> Choice: ...

    def line(self, retained: BoolArray) -> Line:
        """The line of a set; welfare is relative to the set in which everybody stays."""
        ...

    def just_above_zero(self) -> BoolArray:
        """The set retained at every μ > 0 that is small enough."""
        ...

    def for_large_mu(self) -> BoolArray:
        """The set retained at every finite μ that is large enough."""
        ...


def used_contributions(contributions: FloatArray, rule: ContributionRule) -> FloatArray:
    """The contributions that the decision works with: q⁺ = max(q, 0) under "clip", q itself under "raw"."""
    return np.maximum(contributions, 0.0) if rule == "clip" else contributions


class ClipProblem:
    """The choice with contributions that are not negative, which the fast solver can handle."""

    def __init__(
        self, profits: FloatArray, contributions: FloatArray, *, stays: int | None = None, goes: int | None = None
    ) -> None:
        """`stays` or `goes` fixes the fate of one client, to find the best set with that fate."""
        may_go = profits < 0
        if stays is not None:
            may_go[stays] = False
        if goes is not None:
            may_go[goes] = False
        self.candidates = np.flatnonzero(may_go)
        stays_anyway = ~may_go
        if goes is not None:
            stays_anyway[goes] = False
        self._goes_anyway = may_go & (contributions == 0)
        if goes is not None:
            self._goes_anyway[goes] = True
        self._open = np.flatnonzero(may_go & (contributions > 0))
        self._instance = Instance(
            losses=-profits[self._open],
            contributions=contributions[self._open],
            kept=contributions[stays_anyway],
            gone=contributions[self._goes_anyway],
        )

    def _retained(self, goes: BoolArray) -> BoolArray:
        retained: BoolArray = ~self._goes_anyway
        retained[self._open[goes]] = False
        return retained

    def solve(self, mu: float | Fraction) -> Choice:
        solution = solve(self._instance, mu)
        return Choice(
            retained=self._retained(solution.goes),
            proven_gap=solution.proven_gap,
            node_count=solution.node_count,
            limit_reached=solution.limit_reached,
        )

    def line(self, retained: BoolArray) -> Line:
        saved, ratio = self._instance.exact_line(~retained[self._open])
        assert ratio is not None, "a set without contribution has no line"
        return Line(saved, ratio)

    def just_above_zero(self) -> BoolArray:
        goes = np.ones(len(self._open), np.bool_)
        if not self._instance.kept.any() and len(goes):
            # A client with a contribution must stay: the one with the smallest loss; among equal losses, the one that
            # contributes most; among equal contributions, the first.
            losses, contributions = self._instance.losses, self._instance.contributions
            goes[np.lexsort((-contributions, losses))[0]] = False
        return self._retained(goes)

    def for_large_mu(self) -> BoolArray:
        return self._retained(np.zeros(len(self._open), np.bool_))


def choose(problem: Problem, client_count: int, mu: float | Fraction) -> Choice:
    """The retained set at any μ in [0, ∞]; μ = ∞ means that nobody is ever eliminated."""
    if mu == math.inf:
        return Choice(retained=np.ones(client_count, np.bool_))
    if mu == 0:  # all loss-makers go, whatever they contribute
        retained = np.ones(client_count, np.bool_)
        retained[problem.candidates] = False
        return Choice(retained=retained)
    return problem.solve(mu)
