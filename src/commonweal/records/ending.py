"""The end of a federation that no further round would pay. All frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

EndingRule = Literal["stop", "advise", "none"]

FINISHED = "finished: another round is expected to cost more than it brings"
"""The outcome, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What the clients expect of the next round, if no two of them can expect a positive budget."""

    expected: Mapping[str, float]  # profits, in units of utility
    best_budget: float  # the largest that any set of two or more clients expects: zero or less
