"""Test claims on outcomes: every claim on every experiment it is about, under our choices and under others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from commonweal.errors import InputError
from commonweal.paper.claims import durations, fairness, payoffs, properties, welfare
from commonweal.paper.claims.claim import FEWEST_REPLICATIONS, Claim, difference, verdict, verdict_on_cases
from commonweal.paper.claims.sample import (
    LENIENT,
    Sample,
    common_grid,
    rounds_taken_part,
    sample_of,
    survivor_stays,
    tsfi_as_printed,
)
from commonweal.paper.claims.sentences import mu_text
from commonweal.paper.experiments import EXPERIMENTS
from commonweal.records import ContributionRule, LossRule
from commonweal.records.study import ClaimResult, Verdict
from commonweal.study.outcomes import ExperimentKey, Outcome, Outcomes, OutcomesByKey
from commonweal.study.significance import Significance, holm


def _number(claim: Claim) -> tuple[int, str]:
    found = re.fullmatch(r"C(\d+)([a-z]?)", claim.name)
    assert found, claim.name
    return int(found[1]), found[2]


CLAIMS = tuple(
    sorted((*durations.CLAIMS, *welfare.CLAIMS, *fairness.CLAIMS, *payoffs.CLAIMS, *properties.CLAIMS), key=_number)
)
"""In the paper's order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One choice where the paper leaves something open."""

    name: str  # "" for ours
    claims: tuple[str, ...] = ()  # that it can change, without the letters of their parts; empty: all
    contribution_rule: ContributionRule = "clip"
    loss_rule: LossRule = "contribution"
    tsfi_of: Callable[[Outcome], tuple[float, ...]] = tsfi_as_printed
    durations_of: Callable[[Outcome], Mapping[str, int]] = rounds_taken_part
    experiment_suffix: str = ""  # of the experiment that was run for this choice

    def concerns(self, claim: str) -> bool:
        return not self.claims or claim.rstrip("abc") in self.claims

    def applied(self, sample: Sample) -> Sample:
        """The sample under this choice."""
        return replace(sample, loss_rule=self.loss_rule, tsfi_of=self.tsfi_of, durations_of=self.durations_of)


OURS = Variant(name="")

ALTERNATIVES = (
    Variant(name="raw contributions", contribution_rule="raw"),
    Variant(
        name="a sole survivor stays to the end",
        claims=("C1", "C2", "C3", "C4", "C5"),
        durations_of=survivor_stays,
    ),
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
    difference: Significance | None  # of the other effect minus ours; None: there is nothing to estimate

    @property
    def verdict_changes(self) -> bool:
        return self.ours.verdict != self.other.verdict

    @property
    def choice(self) -> str:
        """The key and value in which regimes differ, as in "learning_rate=0.01"; "" if they do not."""
        return next(iter(_choices(self.other.regime) - _choices(self.ours.regime)), "")


def findings(outcomes: OutcomesByKey, *, variant: str = "") -> tuple[ClaimResult, ...]:
    """Every claim on every experiment of the paper that was run with μ = 0, inf and a value between, in every regime.

    A regime is a choice of the keys in which scenarios differ from the paper's; verdicts are corrected by Holm over all
    results of regimes with all six experiments, and over those of the others. `variant` names another choice of what
    the paper leaves open; then only the claims that it can change are tested.
    """
    chosen, samples = _variant(variant), _Samples(outcomes)
    return _corrected(
        [
            _test(claim, experiment + regime, chosen, found)
            for regime, claim, experiment in _cases(samples.regimes, chosen)
            if (found := samples.of(_keys(claim, experiment, regime, chosen)))
        ]
    )


def comparisons(outcomes: OutcomesByKey) -> tuple[Comparison, ...]:
    """Every claim under every other choice that was run, beside ours on the same replications, without correction."""
    samples = _Samples(outcomes)
    return tuple(
        comparison
        for variant in ALTERNATIVES
        for regime, claim, experiment in _cases(samples.regimes, variant)
        for comparison in _comparison(claim, experiment, (OURS, regime), (variant, regime), samples)
    )


def regime_comparisons(outcomes: OutcomesByKey) -> tuple[Comparison, ...]:
    """Every claim in every regime, beside each regime that lacks one of its keys, on the same replications.

    A regime with one key is thus compared with the scenario as shipped. Nothing is corrected.
    """
    samples = _Samples(outcomes)
    return tuple(
        comparison
        for regime, claim, experiment in _cases(samples.regimes, OURS)
        for other in samples.regimes
        if _choices(other) < _choices(regime) and len(_choices(regime) - _choices(other)) == 1
        for comparison in _comparison(claim, experiment, (OURS, other), (OURS, regime), samples)
    )


def _choices(regime: str) -> frozenset[str]:
    """The keys and values of a regime, which may stand in brackets, as at the end of a name."""
    return frozenset(regime.strip("[]").split(",")) - {""}


def results_of(compared: Iterable[Comparison]) -> tuple[ClaimResult, ...]:
    """The results of comparisons, ours before those they are compared with, without repetition."""
    return tuple(dict.fromkeys(finding for one in compared for finding in (one.ours, one.other)))


def _cases(regimes: Sequence[str], variant: Variant) -> list[tuple[str, Claim, str]]:
    """Regimes, claims that the variant can change, and experiments that they are about."""
    return [
        (regime, claim, experiment)
        for claim in CLAIMS
        for experiment in claim.experiments
        for regime in regimes
        if variant.concerns(claim.name)
    ]


_Choice = tuple[Variant, str]
"""A variant, and a regime."""


def _comparison(
    claim: Claim, experiment: str, ours: _Choice, other: _Choice, samples: _Samples
) -> Iterator[Comparison]:
    """One, if both were run on some of the same replications."""
    (variant, regime), (other_variant, other_regime) = ours, other
    own_keys = _keys(claim, experiment, regime, variant)
    found = samples.of((*own_keys, *_keys(claim, experiment, other_regime, other_variant)))
    if found:
        first, second = found[: len(own_keys)], found[len(own_keys) :]
        yield Comparison(
            ours=_test(claim, experiment + regime, variant, first),
            other=_test(claim, experiment + other_regime, other_variant, second),
            difference=difference(claim.measure(_sample(first, variant)), claim.measure(_sample(second, other_variant)))
            if claim.is_estimated
            else None,
        )


def _keys(claim: Claim, experiment: str, regime: str, variant: Variant) -> tuple[ExperimentKey, ...]:
    """The experiment, and the one it is compared with if the claim needs one."""
    names = [experiment, claim.beside] if claim.beside else [experiment]
    return tuple((name + variant.experiment_suffix + regime, variant.contribution_rule) for name in names)


class _Samples:
    """Samples of a result set; each is made once, although many claims are tested on it."""

    def __init__(self, outcomes: OutcomesByKey) -> None:
        self._outcomes = outcomes
        self._made: dict[tuple[ExperimentKey, ...], list[Sample]] = {}

    @property
    def regimes(self) -> list[str]:
        """The ends of names that say what differs from the paper's scenario: "", "[learning_rate=0.01]"."""
        return list(dict.fromkeys(name[len(name.partition("[")[0]) :] for name, _ in self._outcomes))

    def of(self, keys: tuple[ExperimentKey, ...]) -> list[Sample]:
        """All on the same replications at the same μ; empty if one was not run, or if they have none in common."""
        if keys not in self._made:
            self._made[keys] = self._make([self._outcomes[key] for key in keys if key in self._outcomes], len(keys))
        return self._made[keys]

    @staticmethod
    def _make(runs: Sequence[Outcomes], count: int) -> list[Sample]:
        common = sorted(set.intersection(*(set(one.replications) for one in runs))) if len(runs) == count else []
        kept = [one.only(common) for one in runs]
        mus = common_grid(*kept) if common else ()
        return [sample_of(one, mus) for one in kept] if mus else []


def _sample(samples: Sequence[Sample], variant: Variant) -> Sample:
    """The sample under a choice, with the one that it is compared with if the claim needs one."""
    own, *beside = map(variant.applied, samples)
    return replace(own, beside=beside[0]) if beside else own


def _test(claim: Claim, experiment: str, variant: Variant, samples: Sequence[Sample]) -> ClaimResult:
    """One result, not corrected for others."""
    sample = _sample(samples, variant)
    effect, why_not = claim.measure(sample), claim.untestable(sample)
    test = None if claim.by_construction else effect.test(claim.threshold)
    interval = effect.census() if test is None else test.interval.within(claim.least, claim.most)
    estimated = test if claim.is_estimated and not why_not else None
    judged: Verdict = "not testable"
    if not why_not:
        judged = (
            verdict_on_cases(
                interval.value,
                claim.threshold,
                is_law=claim.by_construction,
                replication_count=sample.replication_count,
            )
            if estimated is None
            else verdict(
                interval, claim.threshold, p_value=estimated.p_value, replication_count=sample.replication_count
            )
        )
    return ClaimResult(
        claim=claim.name,
        statement=claim.statement,
        quote=claim.quote,
        experiment=experiment,
        variant=variant.name,
        effect=claim.effect.format(mu=mu_text(sample.mus[LENIENT])),
        interval=interval,
        threshold=claim.threshold,
        verdict=judged,
        replication_count=sample.replication_count,
        driver=f"{why_not}." if why_not else claim.driver(sample, judged),
        p_value=None if estimated is None else estimated.p_value,
        power=None if estimated is None else estimated.power,
    )


def _corrected(found: Sequence[ClaimResult]) -> tuple[ClaimResult, ...]:
    """The same with verdicts by p-values that are corrected for the number of results.

    Regimes in which all six experiments were run are corrected together, as they are shown; so are the others, which
    must not take power from them. Results of too few replications are never decided, so they do not count.
    """
    corrected, full = dict(enumerate(found)), _full(found)
    for is_full in (True, False):
        places = [place for place, one in enumerate(found) if _is_tested(one) and (one.regime in full) == is_full]
        p_values = holm([p for place in places if (p := found[place].p_value) is not None])
        for place, p in zip(places, p_values, strict=True):
            one = found[place]
            judged = verdict(one.interval, one.threshold, p_value=p, replication_count=one.replication_count)
            corrected[place] = replace(one, adjusted_p=p, verdict=judged)
    return tuple(corrected.values())


def _is_tested(one: ClaimResult) -> bool:
    return one.p_value is not None and one.replication_count >= FEWEST_REPLICATIONS


def _full(found: Sequence[ClaimResult]) -> set[str]:
    """The regimes in which all six experiments were run."""
    names = {one.experiment for one in found}
    return {
        one.regime
        for one in found
        if all((f"{name}[{one.regime}]" if one.regime else name) in names for name in EXPERIMENTS)
    }


def _variant(name: str) -> Variant:
    for variant in (OURS, *ALTERNATIVES):
        if variant.name == name:
            return variant
    names = ", ".join(repr(variant.name) for variant in ALTERNATIVES)
    raise InputError(f"variant must be '' for our choices or one of {names}, got {name!r}.")
