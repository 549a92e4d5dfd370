"""What was tried and what it gained, case by case; and what follows from all cases of a lie."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from commonweal.records.audit import LieKind, LieResult
from commonweal.records.study import Interval
from commonweal.study.intervals import statistic_interval

_ROUNDING = 1e-12
_MOST_BLOCKS = 400
"""Rounds are drawn one by one up to so many of them, and in blocks of consecutive rounds beyond that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One liar, or two together, in one round; or in a whole run, with amounts per round."""

    replication: int
    round_place: int  # among all audited rounds
    liars: tuple[str, ...]
    gain: float  # in true payoff
    payoff_size: float  # Σ |true payoff| of the liars if they tell the truth
    pays: bool
    loses_place: bool
    wins_place: bool


@dataclass(slots=True, kw_only=True)
class Cases:
    """All cases of one lie."""

    name: str
    title: str
    kind: LieKind = "report"
    liar_count: int = 1
    never_loses: bool = False  # the truth is among the reports of which it is the best
    cases: list[Case] = field(default_factory=list)

    def result(self) -> LieResult:
        """The lie's mean gain with a bootstrap interval, and how often it pays."""
        count = len(self.cases)
        gains, relative = _intervals(self.cases)
        if self.never_loses:
            gains = gains.within(min(0.0, gains.value))
            relative = None if relative is None else relative.within(min(0.0, relative.value))
        by_client = defaultdict[str, list[float]](list)
        for case in self.cases:
            for liar in case.liars:
                by_client[liar].append(case.gain / self.liar_count)
        return LieResult(
            name=self.name,
            title=self.title,
            kind=self.kind,
            liar_count=self.liar_count,
            case_count=count,
            round_count=len({case.round_place for case in self.cases}),
            gain=gains,
            relative_gain=relative,
            pays_share=sum(case.pays for case in self.cases) / count,
            loses_place_share=sum(case.loses_place for case in self.cases) / count,
            wins_place_share=sum(case.wins_place for case in self.cases) / count,
            client_gains={client: float(np.mean(values)) for client, values in by_client.items()},
        )


def _intervals(cases: Sequence[Case]) -> tuple[Interval, Interval | None]:
    """Of the mean gain, and of Σ gain / Σ |true payoff|."""
    sums = _sums(cases)

    def ratio(column: int) -> Interval:
        def of_means(means: NDArray[np.float64]) -> NDArray[np.float64]:
            below = means[:, column]
            return np.divide(means[:, 0], below, out=np.zeros(len(means)), where=below > 0)

        return _without_rounding(statistic_interval(sums, of_means), largest if column == 1 else 1.0)

    largest = max(abs(case.gain) for case in cases)
    return ratio(1), ratio(2) if sums[:, 2].any() else None


def _without_rounding(interval: Interval, size: float) -> Interval:
    """Gains that cancel leave a little rounding, which is no gain."""

    def rounded(value: float) -> float:
        return 0.0 if abs(value) <= _ROUNDING * size else value

    return Interval(value=rounded(interval.value), lower=rounded(interval.lower), upper=rounded(interval.upper))


def _sums(cases: Sequence[Case]) -> NDArray[np.float64]:
    """Σ gain, number of cases and Σ |true payoff| of each part of the cases that is drawn as a whole.

    Replications if there are several, otherwise rounds, otherwise liars.
    """
    replications = np.array([case.replication for case in cases])
    rounds = np.array([case.round_place for case in cases])
    if len(np.unique(replications)) > 1:
        keys = replications
    elif len(np.unique(rounds)) > 1:
        places = np.unique(rounds, return_inverse=True)[1]
        block = -(-(int(places.max()) + 1) // _MOST_BLOCKS)
        keys = places // block
    else:
        keys = np.arange(len(cases))
    parts = np.unique(keys, return_inverse=True)[1]
    columns = ([case.gain for case in cases], [1.0] * len(cases), [case.payoff_size for case in cases])
    return np.array([np.bincount(parts, weights=column) for column in columns]).T
