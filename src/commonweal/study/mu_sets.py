"""The values of μ that a sweep follows, single values or the whole axis, and how a round's decision splits them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, Protocol

from commonweal.decision.decide import decide_figures, mu_path_of_figures
from commonweal.records import Figures, MuRange, Rules

Mus = tuple[float, ...] | Literal["all"]
"""What was asked for: values of μ in rising order, or the whole axis."""


class MuSet(Protocol):
    """Values of μ under which a federation has had the same history so far."""

    @property
    def ranges(self) -> tuple[MuRange, ...]:
        """The set as intervals, in rising order."""
        ...

    def split(self, figures: Figures, rules: Rules) -> Mapping[tuple[str, ...], MuSet]:
        """The set divided by which clients are retained; the μ of the rules is not used."""
        ...


@dataclass(frozen=True, slots=True)
class MuGrid:
    """Chosen values of μ, in rising order."""

    mus: tuple[float, ...]

    @property
    def ranges(self) -> tuple[MuRange, ...]:
        return tuple(_point(mu) for mu in self.mus)

    def split(self, figures: Figures, rules: Rules) -> dict[tuple[str, ...], MuSet]:
        parts: dict[tuple[str, ...], list[float]] = {}
        for mu in self.mus:
            parts.setdefault(decide_figures(figures, replace(rules, mu=mu)).retained, []).append(mu)
        return {retained: MuGrid(tuple(mus)) for retained, mus in parts.items()}


@dataclass(frozen=True, slots=True)
class MuAxis:
    """Intervals of μ with exact bounds, in rising order. They need not touch: one set can be best in several."""

    ranges: tuple[MuRange, ...]

    def split(self, figures: Figures, rules: Rules) -> dict[tuple[str, ...], MuSet]:
        parts: dict[tuple[str, ...], list[MuRange]] = {}
        for piece, retained in mu_path_of_figures(figures, rules).pieces():
            common = [part for range_ in self.ranges if (part := intersection(range_, piece)) is not None]
            if common:
                parts.setdefault(retained, []).extend(common)
        return {retained: MuAxis(tuple(ranges)) for retained, ranges in parts.items()}


WHOLE_AXIS = MuAxis((MuRange(exact_lower=Fraction(0), exact_upper=math.inf, closed_below=True, closed_above=True),))


def mu_set(mus: Mus) -> MuSet:
    """The values that were asked for, as a set."""
    return WHOLE_AXIS if mus == "all" else MuGrid(mus)


def union(one: Mus, other: Mus) -> Mus:
    """The union of both."""
    return "all" if one == "all" or other == "all" else tuple(sorted({*one, *other}))


def includes(available: Mus, asked: Mus) -> bool:
    """Whether all μ asked for are available."""
    return available == "all" or (asked != "all" and set(asked) <= set(available))


def intersection(one: MuRange, other: MuRange) -> MuRange | None:
    """The intersection of two intervals; None if it is empty."""
    lower, upper = max(one.exact_lower, other.exact_lower), min(one.exact_upper, other.exact_upper)
    closed_below = all(r.closed_below for r in (one, other) if r.exact_lower == lower)
    closed_above = all(r.closed_above for r in (one, other) if r.exact_upper == upper)
    if lower > upper or (lower == upper and not (closed_below and closed_above)):
        return None
    return MuRange(exact_lower=lower, exact_upper=upper, closed_below=closed_below, closed_above=closed_above)


def _point(mu: float) -> MuRange:
    exact: Fraction | float = mu if math.isinf(mu) else Fraction(mu)
    return MuRange(exact_lower=exact, exact_upper=exact, closed_below=True, closed_above=True)
