"""The rule exactly as in the paper: contributions count as measured, even if negative, and every set is examined.

Ratios can then have any sign, the penalty is no longer convex, and no bound can rule out sets, so the number of
candidates is limited. Floats pick the sets that may be the best, and exact rationals compare those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import compress
from typing import Any

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray, IntArray, common_integers
from commonweal.decision.problem import Choice, ClipProblem, Line, Problem
from commonweal.decision.ties import in_tie_order, sets_that_go, tie_width
from commonweal.errors import InputError
from commonweal.records import ContributionRule
from commonweal.records.rounds import RULES_VERSION

RAW_CANDIDATE_LIMIT = 20
_ROUNDING = 2.0**-44  # relative to the sum of absolute values: far above the error of adding a few dozen doubles


class RawProblem:
    """All 2^m sets of candidates; bit i of a set's number says whether candidate i goes."""

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
        self.candidates: IntArray = np.flatnonzero(may_go)
        if len(self.candidates) > RAW_CANDIDATE_LIMIT:
            raise InputError(
                f"the raw contribution rule examines every set, so it allows at most {RAW_CANDIDATE_LIMIT} "
                f"loss-making clients, got {len(self.candidates)}; use the contribution rule 'clip'"
            )
        self.width = tie_width(profits, version)
        self._profits = profits
        self._always = np.ones(len(profits), np.bool_)
        self._always[self.candidates] = False
        if goes is not None:
            self._always[goes] = False
        lost, taken, moved = np.zeros(1), np.zeros(1), np.zeros(1)
        for candidate in self.candidates:
            lost = np.concatenate((lost, lost - profits[candidate]))
            taken = np.concatenate((taken, taken + contributions[candidate]))
            moved = np.concatenate((moved, moved + abs(contributions[candidate])))
        gone = float(contributions[goes]) if goes is not None else 0.0
        self._takes_nothing = (moved == 0) & (gone == 0)  # those that go contribute nothing, so the ratio is 0
        self._loss_integers, self._loss_unit = common_integers((-profits[self.candidates]).tolist())
        integers, _ = common_integers(contributions.tolist())
        self._contribution_integers = [integers[candidate] for candidate in self.candidates.tolist()]
        self._gone_integer = integers[goes] if goes is not None else 0
        self._total_integer = sum(integers)
        self._lost = lost
        self._gone = gone + taken
        self._kept = float(contributions.sum()) - gone - taken
        self._blur = _ROUNDING * float(np.abs(contributions).sum())
        self._loss_blur = _ROUNDING * float(lost[-1])

    def _set(self, number: int) -> BoolArray:
        retained = self._always.copy()
        for bit, candidate in enumerate(self.candidates.tolist()):
            retained[candidate] = not number >> bit & 1
        return retained

    def _figures(self, number: int) -> tuple[Fraction, Fraction | None]:
        """The exact loss saved and the exact Q(E)/Q(retained); None if that ratio has no meaning."""
        chosen = [bool(number >> bit & 1) for bit in range(len(self.candidates))]
        saved = sum(compress(self._loss_integers, chosen)) * self._loss_unit
        gone = self._gone_integer + sum(compress(self._contribution_integers, chosen))
        kept = self._total_integer - gone
        if gone == 0:
            return saved, Fraction(0)
        return saved, Fraction(gone, kept) if kept else None

    def _ratios(self) -> tuple[FloatArray, FloatArray]:
        """Q(E)/Q(retained) and its rounding error; the error is infinite where Q(retained) may be zero."""
        certain = np.abs(self._kept) > 4 * self._blur
        kept = np.where(certain, self._kept, 1.0)
        ratios = self._gone / kept
        errors = 2 * self._blur * (1 + np.abs(ratios)) / np.abs(kept)
        errors = np.where(self._takes_nothing, 0.0, np.where(certain, errors, np.inf))
        return np.where(certain & ~self._takes_nothing, ratios, 0.0), errors

    def _best(
        self, scores: FloatArray, errors: FloatArray, exact_score: Callable[[Fraction, Fraction], Any]
    ) -> BoolArray:
        """The set with the largest exact score, by the tie rule; floats only find the sets that may be the best."""
        with np.errstate(invalid="ignore"):
            surely = np.where(np.isfinite(errors), scores - errors, -np.inf).max()
            may_win = np.flatnonzero(~(scores + errors < surely))
        best: tuple[Any, int, list[bool]] | None = None
        for number in may_win.tolist():
            saved, ratio = self._figures(number)
            if ratio is None:
                continue
            retained = self._set(number)
            rank = (exact_score(saved, ratio), int(retained.sum()), retained.tolist())
            if best is None or rank > best:
                best = rank
        # If a client's fate is fixed, there may be no set with a score; then nobody else goes.
        return self._set(0) if best is None else np.array(best[2])

    def _scores(self, mu: float | Fraction) -> tuple[FloatArray, FloatArray]:
        """The objective of each set, and its rounding error."""
        ratios, errors = self._ratios()
        errors = float(mu) * errors + self._loss_blur + _ROUNDING * np.abs(float(mu) * ratios)
        return self._lost - float(mu) * ratios, errors

    def best(self, mu: float | Fraction) -> Choice:
        exact_mu = Fraction(mu)
        scores, errors = self._scores(mu)
        retained = self._best(scores, errors, lambda saved, ratio: saved - exact_mu * ratio)
        return Choice(retained=retained, node_count=len(scores))

    def near(self, mu: float | Fraction) -> Iterator[BoolArray]:
        return self._in_tie_order(*self._scores(mu))

    def near_above_zero(self) -> Iterator[BoolArray]:
        lowest = self._lost[self._number(self.just_above_zero())]
        may_tie = self._lost >= lowest - float(self.width) - 4 * self._loss_blur
        return self._in_tie_order(np.where(may_tie, 0.0, -np.inf), np.zeros(len(may_tie)))

    def _in_tie_order(self, scores: FloatArray, errors: FloatArray) -> Iterator[BoolArray]:
        """The sets with a ratio that may be within the width of the largest score."""
        with np.errstate(invalid="ignore"):
            surely = np.where(np.isfinite(errors), scores - errors, -np.inf).max()
            numbers = np.flatnonzero(~(scores + errors < surely - float(self.width) * (1 + 2.0**-50)))
        goes = (numbers[:, np.newaxis] >> np.arange(len(self.candidates)) & 1).astype(np.bool_)
        for row in in_tie_order(goes).tolist():
            if self._figures(int(numbers[row]))[1] is not None:
                yield self._set(int(numbers[row]))

    def at_zero(self) -> BoolArray:
        goes = next(sets_that_go(-self._profits[self.candidates], self.width))
        retained = self._always.copy()
        retained[self.candidates] = ~goes
        return retained

    def _number(self, retained: BoolArray) -> int:
        return sum(1 << bit for bit, candidate in enumerate(self.candidates) if not retained[candidate])

    def line(self, retained: BoolArray) -> Line:
        saved, ratio = self._figures(self._number(retained))
        assert ratio is not None, "a set without a ratio has no line"
        return Line(saved, ratio)

    def just_above_zero(self) -> BoolArray:
        by_loss = np.argsort(-self._lost, kind="stable")
        for number in by_loss.tolist():
            if self._figures(number)[1] is not None:
                break
        near = self._lost >= self._lost[number] - 4 * self._loss_blur
        scores = np.where(near, 0.0, -1.0)
        return self._best(scores, np.zeros(len(scores)), lambda saved, ratio: (saved, -ratio))

    def for_large_mu(self) -> BoolArray:
        ratios, errors = self._ratios()
        return self._best(-ratios, errors, lambda saved, ratio: (-ratio, saved))


def make_problem(
    profits: FloatArray,
    used: FloatArray,
    rule: ContributionRule,
    *,
    version: int = RULES_VERSION,
    stays: int | None = None,
    goes: int | None = None,
) -> Problem:
    """The choice under a contribution rule and a version of the rules, optionally with the fate of one client fixed."""
    kind = ClipProblem if rule == "clip" else RawProblem
    return kind(profits, used, version=version, stays=stays, goes=goes)
