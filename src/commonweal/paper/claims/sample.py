"""What claims are tested on: the replications of one experiment at several values of μ, paired by seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from commonweal.paper.experiments import MUS
from commonweal.records import Decision, History, LossRule
from commonweal.study.outcomes import Outcome, Outcomes

Values = NDArray[np.float64]

STRICT, LENIENT, NEVER = 0, -2, -1
"""Positions in the grid of μ = 0, the largest finite μ, and μ = inf, at which nobody is ever eliminated."""

FINITE = slice(0, -1)
POSITIVE = slice(1, -1)
"""The finite μ, and those above 0."""


def tsfi_as_printed(outcome: Outcome) -> tuple[float, ...]:
    """The index that claims are tested with by default."""
    return outcome.tsfi


def rounds_taken_part(outcome: Outcome) -> Mapping[str, int]:
    """The durations that claims are tested with by default."""
    return outcome.durations


def survivor_stays(outcome: Outcome) -> Mapping[str, int]:
    """Durations if the only client left stays to the last planned round, instead of the one in which it was alone."""
    left = outcome.retained_sets[-1]
    alone = {left[0]: outcome.round_count} if outcome.ended_early and len(left) == 1 else {}
    return {**outcome.durations, **alone}


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Replications in the order of their numbers, each at every μ of the grid with the same seed."""

    mus: tuple[float, ...]  # 0, some finite values in rising order, inf
    outcomes: tuple[tuple[Outcome, ...], ...]  # by replication, then μ
    loss_rule: LossRule = "contribution"
    tsfi_of: Callable[[Outcome], tuple[float, ...]] = tsfi_as_printed
    durations_of: Callable[[Outcome], Mapping[str, int]] = rounds_taken_part
    beside: Sample | None = None  # the experiment that a claim compares with, in the same replications

    @property
    def replication_count(self) -> int:
        return len(self.outcomes)

    @property
    def clients(self) -> tuple[str, ...]:
        return self.outcomes[0][0].clients

    @property
    def round_count(self) -> int:
        return self.outcomes[0][0].round_count

    @cached_property
    def durations(self) -> Values:
        """By replication, μ and client."""
        return np.array(
            [[[self.durations_of(o)[client] for client in self.clients] for o in row] for row in self.outcomes],
            dtype=float,
        )

    @cached_property
    def tsw(self) -> Values:
        """By replication, μ and round."""
        return np.array([[o.tsw for o in row] for row in self.outcomes])

    @cached_property
    def final_tsfi(self) -> Values:
        """By replication and μ."""
        return np.array([[self.tsfi_of(o)[-1] for o in row] for row in self.outcomes])

    @cached_property
    def histories(self) -> tuple[tuple[History, ...], ...]:
        """By replication, then μ, with the loss rule of this sample."""
        return tuple(tuple(self._history(o) for o in row) for row in self.outcomes)

    def decisions(self, mus: slice) -> Iterator[Decision]:
        """The decisions of all rounds of all replications at these positions of the grid."""
        return (record.decision for row in self.histories for history in row[mus] for record in history.rounds)

    def _history(self, outcome: Outcome) -> History:
        return outcome.history if self.loss_rule == "contribution" else outcome.history_with(self.loss_rule)


def common_grid(*several: Outcomes) -> tuple[float, ...]:
    """The paper's values of μ that every replication has, otherwise the values that were asked for.

    Empty if these are too few to compare: 0, inf and a value between are needed.
    """
    asked = set.intersection(*(set(some.mus) for some in several))
    for candidates in (MUS, tuple(sorted(asked))):
        grid = tuple(mu for mu in candidates if all(len(some.at(mu)) == len(some.replications) for some in several))
        if len(grid) > 2 and grid[0] == 0 and grid[-1] == math.inf:
            return grid
    return ()


def sample_of(outcomes: Outcomes, mus: tuple[float, ...]) -> Sample:
    """The replications of these outcomes at these μ."""
    rows = [outcomes.only([number]) for number in sorted(outcomes.replications)]
    return Sample(mus=mus, outcomes=tuple(tuple(one.at(mu)[0] for mu in mus) for one in rows))
