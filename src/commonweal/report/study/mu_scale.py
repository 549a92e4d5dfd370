"""An axis for all μ: 0 at its left end, decades where something happens, and infinity as a place of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from commonweal.records.study import MuStep

_DECADES_SHOWN = 6
_BELOW = 0.02  # of the breakpoints may lie below the first decade, squeezed together
_ISOLATED = 0.09  # of the finite axis: how far off infinity stands


@dataclass(frozen=True, slots=True, kw_only=True)
class MuScale:
    """Linear up to `first`, then logarithmic up to `last`, in decades from the left end of the axis."""

    first: float
    last: float

    def place(self, mu: float) -> float:
        if math.isinf(mu):
            return self.end * (1 + _ISOLATED)
        if mu <= self.first:
            return mu / self.first
        return min(1 + math.log10(mu / self.first), self.end)

    @property
    def end(self) -> float:
        """Where the finite part ends."""
        return 1 + math.log10(self.last / self.first)

    @property
    def limits(self) -> tuple[float, float]:
        return -0.03 * self.end, self.end * (1 + 1.5 * _ISOLATED)

    @property
    def ticks(self) -> tuple[float, ...]:
        """0, whole decades, infinity."""
        decades = range(round(math.log10(self.first)), math.floor(math.log10(self.last) + 1e-9) + 1)
        return (0.0, *(10.0**decade for decade in decades), math.inf)


def scale_for(steps: Sequence[MuStep]) -> MuScale:
    """The decades in which the breakpoints lie, but for a few that are next to 0."""
    breakpoints = sorted(step.mus.upper for step in steps if 0 < step.mus.upper < math.inf)
    if not breakpoints:
        return MuScale(first=0.01, last=1.0)
    top = math.ceil(math.log10(breakpoints[-1] * 1.2))
    low = math.floor(math.log10(breakpoints[math.floor(_BELOW * len(breakpoints))]))
    low = min(max(low, top - _DECADES_SHOWN), top - 1)
    return MuScale(first=10.0**low, last=10.0**top)
