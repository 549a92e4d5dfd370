"""From outcomes to findings: every claim on every experiment it speaks of, under our settled points and others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from commonweal.errors import InputError
from commonweal.paper.claims.claim import Claim
from commonweal.paper.claims.registry import CLAIMS
from commonweal.paper.claims.sample import LENIENT, Sample, common_grid, sample_of
from commonweal.paper.claims.sentences import mu_text
from commonweal.paper.claims.variants import ALTERNATIVES, SETTLED, Variant
from commonweal.paper.claims.verdict import verdict
from commonweal.paper.experiments import EXPERIMENTS
from commonweal.records import ContributionRule
from commonweal.records.study import ClaimResult
from commonweal.study.outcomes import Outcomes

OutcomesByKey = Mapping[tuple[str, ContributionRule], Outcomes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A claim under our settled points and under another choice, on the same replications."""

    settled: ClaimResult
    other: ClaimResult

    @property
    def verdict_changes(self) -> bool:
        return self.settled.verdict != self.other.verdict


def findings(outcomes: OutcomesByKey, *, variant: str = "") -> tuple[ClaimResult, ...]:
    """Every claim on every experiment that was run for it; experiments without μ = 0, inf and one between are passed.

    `variant` names another choice of the settled points; then only the claims that it concerns are tested.
    """
    chosen = _variant(variant)
    samples = {}
    for experiment in EXPERIMENTS:
        found = outcomes.get((experiment + chosen.experiment_suffix, chosen.contribution_rule))
        if found is not None and (mus := common_grid(found)):
            samples[experiment] = chosen.applied(sample_of(found, mus))
    return tuple(
        _finding(claim, experiment, chosen, samples[experiment])
        for claim in CLAIMS
        for experiment in claim.experiments
        if experiment in samples and chosen.concerns(claim.name)
    )


def comparisons(outcomes: OutcomesByKey) -> tuple[Comparison, ...]:
    """Every claim under every other choice that was run, beside ours on the replications that both have."""
    return tuple(
        comparison
        for variant in ALTERNATIVES
        for experiment in EXPERIMENTS
        for comparison in _comparisons(outcomes, experiment, variant)
    )


def alternative_findings(outcomes: OutcomesByKey) -> tuple[ClaimResult, ...]:
    """The findings of all comparisons, ours before those it is compared with; each once."""
    both = (finding for one in comparisons(outcomes) for finding in (one.settled, one.other))
    return tuple(dict.fromkeys(both))


def _comparisons(outcomes: OutcomesByKey, experiment: str, variant: Variant) -> list[Comparison]:
    ours = outcomes.get((experiment, SETTLED.contribution_rule))
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
            settled=_finding(claim, experiment, SETTLED, our_sample),
            other=_finding(claim, experiment, variant, their_sample),
        )
        for claim in CLAIMS
        if experiment in claim.experiments and variant.concerns(claim.name)
    ]


def _finding(claim: Claim, experiment: str, variant: Variant, sample: Sample) -> ClaimResult:
    measured = claim.measure(sample)
    interval = measured.census() if claim.by_construction else measured.interval()
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
    for variant in (SETTLED, *ALTERNATIVES):
        if variant.name == name:
            return variant
    names = ", ".join(repr(variant.name) for variant in ALTERNATIVES)
    raise InputError(f"variant must be '' for the settled points or one of {names}, got {name!r}; choose one of those")
