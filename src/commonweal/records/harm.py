"""The evidence that a client harms the federation. All frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

HarmRule = Literal["eliminate", "advise", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HarmEvidence:
    """What a client's updates did to the scores of the other clients, summed over rounds (see `valuation.harm`)."""

    client: str
    round_numbers: tuple[int, ...]  # that are summed
    by_scorer: Mapping[str, float]  # the sum at each of the other clients, all of which weigh the same
    test_count: int  # planned rounds without grace × clients: the chance of an error is divided among so many tests
    mean: float  # over the scorers
    standard_error: float
    bound: float  # what the mean is below, but for the chance of an error
    margin: float = 0.0  # zero or less: harm that is smaller does not count; harm/1 had none

    @property
    def is_beyond_doubt(self) -> bool:
        return self.bound < self.margin

    @property
    def harmed_count(self) -> int:
        """At how many of the others the score fell by what the client sent."""
        return sum(effect < 0 for effect in self.by_scorer.values())
