"""One choice to be made: which loss-makers go.

Let l = −profit > 0 be the loss and q > 0 the contribution of a candidate, X the contribution that stays and T the
contribution of all clients. Up to a constant, the round's objective is

    Σ_E l − μ·T / X(E),        X(E) = kept + Σ_{candidates that stay} q,

because Q(E)/X = T/X − 1. A candidate with q = 0 is part of the choice only if its loss is so small that a set in which
it stays may tie with the best one; all others go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import compress

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray, IntArray, common_integers, exact_sum


@dataclass(frozen=True, kw_only=True)
class Instance:
    """Candidates with positive losses, and the contributions of all other clients."""

    losses: FloatArray
    contributions: FloatArray
    kept: FloatArray  # contributions that stay in any case
    gone: FloatArray = field(default_factory=lambda: np.zeros(0))  # contributions that are lost in any case

    @property
    def size(self) -> int:
        return len(self.losses)

    @cached_property
    def kept_sum(self) -> float:
        return float(self.kept.sum())

    @cached_property
    def total(self) -> float:
        """T, the contribution of all clients."""
        return float(self.kept_sum + self.contributions.sum() + self.gone.sum())

    @cached_property
    def ratios(self) -> FloatArray:
        """Loss per unit of contribution: the candidate with the largest ratio goes first."""
        with np.errstate(over="ignore", divide="ignore"):
            return self.losses / self.contributions

    @cached_property
    def by_ratio(self) -> tuple[IntArray, FloatArray]:
        """The candidates in order of falling ratio, and for each the sum of the contributions after it."""
        order = np.argsort(-self.ratios, kind="stable")
        return order, sums_after(self.contributions[order])

    def part(self, candidates: IntArray, goes: BoolArray) -> Instance:
        """The choice among the given candidates, with all others decided as in `goes`."""
        settled = np.ones(self.size, np.bool_)
        settled[candidates] = False
        return Instance(
            losses=self.losses[candidates],
            contributions=self.contributions[candidates],
            kept=np.array([self.kept_sum + (self.contributions * (settled & ~goes)).sum()]),
            gone=np.array([self.gone.sum() + (self.contributions * (settled & goes)).sum()]),
        )

    # Exact figures, made only when floats cannot tell two sets apart.

    @cached_property
    def integers(self) -> tuple[list[int], Fraction, list[int], int, int]:
        """Losses as integers, with their unit; contributions, their kept sum and T as integers in a common unit."""
        losses, loss_unit = common_integers(self.losses.tolist())
        contributions, unit = common_integers(self.contributions.tolist())
        kept, gone = exact_sum(self.kept) / unit, exact_sum(self.gone) / unit
        scale = kept.denominator * gone.denominator
        contributions = [k * scale for k in contributions]
        kept_sum = int(kept * scale)
        return losses, loss_unit, contributions, kept_sum, kept_sum + sum(contributions) + int(gone * scale)

    def exact_line(self, goes: BoolArray) -> tuple[Fraction, Fraction | None]:
        """(Σ_E l, Q(E)/X(E)) as rationals; the ratio is None where X(E) = 0: a set that only μ = 0 allows.

        The objective of the set is a line in μ: the first is its intercept, the second its slope with opposite sign.
        """
        losses, loss_unit, contributions, kept, total = self.integers
        x = kept + sum(compress(contributions, (~goes).tolist()))
        intercept = sum(compress(losses, goes.tolist())) * loss_unit
        if total == x:
            return intercept, Fraction(0)
        return intercept, Fraction(total - x, x) if x else None

    def exact_value(self, goes: BoolArray, mu: Fraction) -> Fraction:
        """Σ_E l − μ · Q(E)/X(E) of a set that retains some contribution."""
        intercept, ratio = self.exact_line(goes)
        assert ratio is not None, "a set without contribution has no value"
        return intercept - mu * ratio


def sums_after(values: FloatArray) -> FloatArray:
    """For each value, the sum of all later ones, added up from the end: what stays if the first ones go."""
    return np.concatenate((values[:0:-1].cumsum()[::-1], np.zeros(min(len(values), 1))))
