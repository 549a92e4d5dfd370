"""The nouns of a study: many replications of experiments, summed up for a reader. All frozen.

Intervals are over replications, by bootstrap at the level that the study states. Amounts are in units of utility.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from commonweal.records import ContributionRule, MuRange

Verdict = Literal["held", "not held", "undecided"]
SETTLED_RULE: ContributionRule = "clip"  # of contributions; others are alternatives
VERDICTS: tuple[Verdict, ...] = ("held", "not held", "undecided")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean over replications and its bootstrap interval."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MuOutcome:
    """What became of an experiment at one μ."""

    mu: float
    replication_count: int
    durations: Mapping[str, Interval]  # by client, in rounds
    tsw: tuple[Interval, ...]  # after each round up to the last planned one
    tsfi: tuple[Interval, ...]
    ended_early_share: float  # of the replications in which at most one client was left before the last round


@dataclass(frozen=True, slots=True, kw_only=True)
class MuStep:
    """A piece of the μ axis on which no replication's outcome changes."""

    mus: MuRange
    durations: Mapping[str, Interval]
    tsw: Interval  # at the end
    tsfi: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The μ with the most welfare among those that are fair enough."""

    fairness_target: float  # the least mean TSFI at the end
    step: MuStep | None  # None: no μ is that fair


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepCost:
    """How many rounds had to be computed, mean over the replications that followed the whole axis."""

    replication_count: int
    most_lenient: float  # μ = inf alone
    grid: float  # all values of the grid
    whole_axis: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentStudy:
    """One experiment under one contribution rule."""

    name: str
    description: str
    data_note: str  # e.g. that a data set is rebuilt; empty if there is nothing to note
    contribution_rule: ContributionRule
    clients: tuple[str, ...]
    round_count: int
    replication_count: int
    axis_replication_count: int  # of those, the ones that followed the whole μ axis
    scenario_digest: str
    outcomes: tuple[MuOutcome, ...]  # at each μ of the grid, in rising order
    steps: tuple[MuStep, ...]  # the whole axis in rising order, μ = inf last as a point; empty if it was not followed
    recommendations: tuple[Recommendation, ...]
    sweep_cost: SweepCost | None  # None if no replication followed the whole axis
    seconds: Interval  # of one replication, as it ran
    peak_memory_bytes: int  # the most of any worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One claim of the paper, tested on one experiment under one choice of the settled points."""

    claim: str  # "C1"; parts of a claim are "C5a", "C5b"
    statement: str  # what the paper says
    experiment: str
    variant: str  # "" for our settled points, else what differs: "raw contributions", "TSFI of the final set", ...
    effect: str  # what the number is, with its unit
    interval: Interval
    threshold: float  # held if the interval lies above it, not held if it lies at or below
    verdict: Verdict
    replication_count: int
    driver: str  # why it came out so, in a sentence; empty where the effect says it all


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSheet:
    """Images to look at: a row of samples of one source."""

    source: str
    label: str  # for people; says so where a set is rebuilt
    images: NDArray[np.uint8]  # (sample, row, column, channel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """All that a reader is shown of a result set."""

    title: str
    facts: Mapping[str, str]  # for people: code version, processor, time, memory, interval level, ...
    experiments: tuple[ExperimentStudy, ...]  # under the settled rule
    alternatives: tuple[ExperimentStudy, ...]  # the same under other contribution rules, where they were run
    findings: tuple[Finding, ...]  # under the settled points
    alternative_findings: tuple[Finding, ...]  # under others; the settled points on the same replications beside them
    sheets: tuple[SampleSheet, ...]  # empty where the data are not at hand
