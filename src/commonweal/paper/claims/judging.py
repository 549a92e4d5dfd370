"""Test claims on outcomes: every claim on every experiment it is about, under our choices and under others."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from commonweal.errors import InputError
from commonweal.paper.claims import durations, fairness, payoffs, welfare
from commonweal.paper.claims.claim import Claim, verdict
from commonweal.paper.claims.sample import LENIENT, Sample, common_grid, sample_of, tsfi_as_printed
from commonweal.paper.claims.sentences import mu_text
from commonweal.paper.experiments import EXPERIMENTS
from commonweal.records import ContributionRule, LossRule
from commonweal.records.study import ClaimResult
from commonweal.study.outcomes import Outcome, OutcomesByKey


def _number(claim: Claim) -> tuple[int, str]:
    found = re.fullmatch(r"C(\d+)([a-z]?)", claim.name)
    assert found, claim.name
    return int(found[1]), found[2]


CLAIMS = tuple(sorted((*durations.CLAIMS, *welfare.CLAIMS, *fairness.CLAIMS, *payoffs.CLAIMS), key=_number))
"""In the paper's order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One choice where the paper leaves something open."""

    name: str  # "" for ours
    claims: tuple[str, ...] = ("C",)  # prefixes of the claims that it can change
    contribution_rule: ContributionRule = "clip"
    loss_rule: LossRule = "contribution"
    tsfi_of: Callable[[Outcome], tuple[float, ...]] = tsfi_as_printed
    experiment_suffix: str = ""  # of the experiment that was run for this choice

    def concerns(self, claim: str) -> bool:
        return claim.startswith(self.claims)

    def applied(self, sample: Sample) -> Sample:
        """The sample under this choice."""
        return replace(sample, loss_rule=self.loss_rule, tsfi_of=self.tsfi_of)


OURS = Variant(name="")

ALTERNATIVES = (
    Variant(name="raw contributions", contribution_rule="raw"),
    Variant(name="TSFI of the final set", claims=("C8",), tsfi_of=lambda outcome: outcome.tsfi_final_set),
    Variant(name="departed count as zero", claims=("C8",), tsfi_of=lambda outcome: outcome.tsfi_departed_zero),
    Variant(name="losses in equal parts", claims=("C9", "C10"), loss_rule="equal"),
    Variant(name="losses by cost", claims=("C9", "C10"), loss_rule="cost"),
    Variant(name="label noise in training only", claims=("C5", "C11"), experiment_suffix="-training-only"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A claim under our choices and under another one, on the same replications."""

    ours: ClaimResult
    other: ClaimResult

    @property
    def verdict_changes(self) -> bool:
        return self.ours.verdict != self.other.verdict


def findings(outcomes: OutcomesByKey, *, variant: str = "") -> tuple[ClaimResult, ...]:
    """Every claim on every experiment of the paper that was run with μ = 0, inf and a value between.

    `variant` names another choice; then only the claims that it can change are tested.
    """
    chosen = _variant(variant)
    samples = {}
    for experiment in EXPERIMENTS:
        found = outcomes.get((experiment + chosen.experiment_suffix, chosen.contribution_rule))
        if found is not None and (mus := common_grid(found)):
            samples[experiment] = chosen.applied(sample_of(found, mus))
    return tuple(
        _test(claim, experiment, chosen, samples[experiment])
        for claim in CLAIMS
        for experiment in claim.experiments
        if experiment in samples and chosen.concerns(claim.name)
    )


def comparisons(outcomes: OutcomesByKey) -> tuple[Comparison, ...]:
    """Every claim under every other choice that was run, beside ours on the same replications."""
    return tuple(
        comparison
        for variant in ALTERNATIVES
        for experiment in EXPERIMENTS
        for comparison in _comparisons(outcomes, experiment, variant)
    )


def alternative_findings(outcomes: OutcomesByKey) -> tuple[ClaimResult, ...]:
    """The results of all comparisons, ours before those they are compared with, without repetition."""
    both = (finding for one in comparisons(outcomes) for finding in (one.ours, one.other))
    return tuple(dict.fromkeys(both))


def _comparisons(outcomes: OutcomesByKey, experiment: str, variant: Variant) -> list[Comparison]:
    ours = outcomes.get((experiment, OURS.contribution_rule))
    theirs = outcomes.get((experiment + variant.experiment_suffix, variant.contribution_rule))
    if ours is None or theirs is None:
        return []
    common = [number for number in ours.replications if number in theirs.replications]
    ours, theirs = ours.only(common), theirs.only(common)
    mus = common_grid(ours, theirs)
    if not common or not mus:
        return []
    our_sample, their_sample = sample_of(ours, mus), variant.applied(sample_of(theirs, mus))
    return [
        Comparison(
            ours=_test(claim, experiment, OURS, our_sample),
            other=_test(claim, experiment, variant, their_sample),
        )
        for claim in CLAIMS
        if experiment in claim.experiments and variant.concerns(claim.name)
    ]


def _test(claim: Claim, experiment: str, variant: Variant, sample: Sample) -> ClaimResult:
    effect = claim.measure(sample)
    interval = effect.census() if claim.by_construction else effect.interval()
    judged = verdict(
        interval,
        claim.threshold,
        replication_count=sample.replication_count,
        by_construction=claim.by_construction,
        knows_no_exception=claim.knows_no_exception,
    )
    return ClaimResult(
        claim=claim.name,
        statement=claim.statement,
        experiment=experiment,
        variant=variant.name,
        effect=claim.effect.format(mu=mu_text(sample.mus[LENIENT])),
        interval=interval,
        threshold=claim.threshold,
        verdict=judged,
        replication_count=sample.replication_count,
        driver=claim.driver(sample, judged),
    )


def _variant(name: str) -> Variant:
    for variant in (OURS, *ALTERNATIVES):
        if variant.name == name:
            return variant
    names = ", ".join(repr(variant.name) for variant in ALTERNATIVES)
    raise InputError(f"variant must be '' for our choices or one of {names}, got {name!r}.")
