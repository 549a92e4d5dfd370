"""The records of a study: many replications of experiments, summarised for a reader. All frozen.

Intervals are bootstrap intervals over replications, at the level that the study states. Amounts are in units of
utility.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from commonweal.records import ContributionRule, MuRange

Verdict = Literal["held", "not held", "undecided", "not testable"]
DEFAULT_RULE: ContributionRule = "clip"  # the contribution rule unless another is chosen
VERDICTS: tuple[Verdict, ...] = ("held", "not held", "undecided", "not testable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean over replications and its bootstrap interval."""

    value: float
    lower: float
    upper: float

    def within(self, least: float = -math.inf, most: float = math.inf) -> Interval:
        """The same with ends inside the range that the figure can have."""
        return replace(self, lower=max(self.lower, least), upper=min(self.upper, most))


@dataclass(frozen=True, slots=True, kw_only=True)
class MuOutcome:
    """The outcome of an experiment at one μ."""

    mu: float
    replication_count: int
    durations: Mapping[str, Interval]  # by client, in rounds
    tsw: tuple[Interval, ...]  # after each round up to the last planned one
    tsfi: tuple[Interval, ...]
    welfare_of_all: Interval  # at the end, with the losses of clients in the round that eliminates them
    ended_early_share: float  # replications with at most one client left before the last round


@dataclass(frozen=True, slots=True, kw_only=True)
class MuStep:
    """A piece of the μ axis on which no replication's outcome changes."""

    mus: MuRange
    durations: Mapping[str, Interval]
    tsw: Interval  # at the end
    tsfi: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The μ with the most welfare among those that reach a fairness target, chosen on half of the replications."""

    fairness_target: float  # the lowest acceptable mean TSFI at the end
    step: MuStep | None  # with the figures of the other half; None: no μ reaches the target


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepCost:
    """How many rounds had to be computed, mean over the replications that followed the whole axis."""

    replication_count: int
    most_lenient: float  # only μ = inf
    grid: float  # all values of the grid
    whole_axis: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentStudy:
    """One experiment under one contribution rule."""

    name: str
    description: str
    data_note: str  # e.g. that a data set is rebuilt; may be empty
    contribution_rule: ContributionRule
    clients: tuple[str, ...]
    round_count: int
    replication_count: int
    axis_replication_count: int  # of these, how many followed the whole μ axis
    scenario_digest: str
    outcomes: tuple[MuOutcome, ...]  # at each μ of the grid, in rising order
    steps: tuple[MuStep, ...]  # the whole axis in rising order, ending with the point μ = inf; empty if not followed
    recommendations: tuple[Recommendation, ...]
    sweep_cost: SweepCost | None  # None if no replication followed the whole axis
    processor_seconds: Interval  # per replication
    peak_memory_bytes: int  # the largest of any worker


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimResult:
    """One claim of the paper, tested on one experiment under one choice of what the paper leaves open."""

    claim: str  # "C1"; parts of a claim are "C5a", "C5b"
    statement: str  # what the paper says, in our words
    experiment: str  # with the keys that differ from the paper's scenario: "label-noise[learning_rate=0.01]"
    variant: str  # "" for our choices, else what differs: "raw contributions", "TSFI of the final set", ...
    effect: str  # what the number is, with its unit
    interval: Interval
    threshold: float  # held if the effect surely lies above it, not held if it surely lies at or below
    verdict: Verdict
    replication_count: int
    driver: str  # what explains the result, in a sentence; may be empty
    quote: str = ""  # the paper's sentence
    p_value: float | None = None  # two-sided, that the effect is at the threshold; None: nothing is estimated
    adjusted_p: float | None = None  # by Holm, over all results that are shown together
    power: float | None = None  # the chance of deciding this, if the true effect is the one observed

    @property
    def regime(self) -> str:
        """The keys that differ from the paper's scenario, as in "learning_rate=0.01"; "" if none do."""
        return self.experiment.partition("[")[2].removesuffix("]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSheet:
    """A row of images: samples of one source."""

    source: str
    label: str  # says so where the data set is rebuilt
    images: NDArray[np.uint8]  # (sample, row, column, channel)
    sample_count: int = 0  # of the whole source
    fingerprint: str = ""  # SHA-256 of its images and labels
    note: str = ""  # which samples these are


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """Everything that a reader is shown of a result set."""

    title: str
    facts: Mapping[str, str]  # for display: code version, processor, time, memory, interval level, ...
    experiments: tuple[ExperimentStudy, ...]  # under the default contribution rule
    alternatives: tuple[ExperimentStudy, ...]  # the same under other contribution rules, where they were run
    findings: tuple[ClaimResult, ...]  # under our choices
    alternative_findings: tuple[ClaimResult, ...]  # under others, with ours on the same replications beside them
    sheets: tuple[SampleSheet, ...]  # empty where the data are not available
