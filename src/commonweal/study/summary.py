"""From a result set to a study: means and intervals over replications, the whole μ axis, recommended values of μ."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from commonweal.data.catalogue import EXTERNAL
from commonweal.data.sources import load_source
from commonweal.errors import CommonwealError, InputError, ScenarioError
from commonweal.records import MuRange
from commonweal.records.study import (
    DEFAULT_RULE,
    ClaimResult,
    ExperimentStudy,
    Interval,
    MuOutcome,
    MuStep,
    Recommendation,
    SampleSheet,
    Study,
    SweepCost,
)
from commonweal.scenario.document import from_document
from commonweal.scenario.shipped import load, shipped_names
from commonweal.scenario.spec import Scenario
from commonweal.study.intervals import DRAW_COUNT, LEVEL, mean_interval, mean_intervals
from commonweal.study.outcomes import Outcome, Outcomes, OutcomesByKey, gather
from commonweal.study.result_set import StoredReplication, read_results, scenario_digest

FAIRNESS_TARGETS = (0.8, 0.9, 0.95)
FEWEST_TO_RECOMMEND = 10
"""Replications: half of them choose the recommended μ, and half measure it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimResults:
    """What was claimed about the experiments, tested on them."""

    findings: tuple[ClaimResult, ...] = ()
    alternative_findings: tuple[ClaimResult, ...] = ()


def no_claims(outcomes: OutcomesByKey) -> ClaimResults:
    """For experiments about which nothing is claimed."""
    return ClaimResults()


def summarise(
    directory: Path,
    data_directory: Path | None,
    *,
    title: Callable[[Sequence[str]], str],
    grid: Sequence[float],
    claims: Callable[[OutcomesByKey], ClaimResults] = no_claims,
    mus: Sequence[float] = (),
) -> Study:
    """Everything that a reader is shown of the results in a directory.

    `title` receives the names of the experiments. `grid`: the values of μ that are shown wherever all replications have
    them, and whose cost is compared with that of the whole axis; `mus` are shown as well.
    """
    stored, rows = read_results(directory)
    if not stored:
        raise InputError(f"There are no results in {str(directory)!r}: run `commonweal reproduce` first.")
    outcomes = gather(stored, rows)
    names = tuple(dict.fromkeys(name for name, _ in outcomes))
    scenarios = {name: _scenario(name, stored) for name in names}
    by_rule = {
        rule: tuple(
            experiment_study(
                outcomes[name, rule],
                [one for one in stored if one.origin.experiment == name],
                scenario=scenarios[name],
                grid=grid,
                mus=mus,
            )
            for name in names
            if (name, rule) in outcomes
        )
        for rule in dict.fromkeys(rule for _, rule in outcomes)
    }
    tested = claims(outcomes)
    return Study(
        title=title(names),
        facts=_facts(stored),
        experiments=by_rule.get(DEFAULT_RULE, ()),
        alternatives=tuple(study for rule, studies in by_rule.items() if rule != DEFAULT_RULE for study in studies),
        findings=tested.findings,
        alternative_findings=tested.alternative_findings,
        sheets=_sheets([scenario for scenario in scenarios.values() if scenario is not None], data_directory),
    )


def experiment_study(
    outcomes: Outcomes,
    stored: Sequence[StoredReplication],
    *,
    scenario: Scenario | None,
    grid: Sequence[float],
    mus: Sequence[float] = (),
) -> ExperimentStudy:
    """One experiment under one contribution rule; the scenario is None if it is no longer known."""
    axis = outcomes.with_whole_axis()
    own = [one for one in stored if one.replication in outcomes.replications]
    steps = axis_steps(axis) if axis.replications else ()
    digest, shown = own[0].origin.scenario_digest, shown_mus(outcomes, (*grid, *mus))
    return ExperimentStudy(
        name=outcomes.experiment,
        # The shipped scenario of this name may differ from the one that was run.
        description=scenario.description if scenario is not None and scenario_digest(scenario) == digest else "",
        data_note=_data_note(scenario) if scenario is not None else "",
        contribution_rule=outcomes.contribution_rule,
        clients=next(iter(outcomes.replications.values()))[0].clients,
        round_count=own[0].round_count,
        replication_count=len(outcomes.replications),
        axis_replication_count=len(axis.replications),
        scenario_digest=digest,
        outcomes=tuple(_mu_outcome(mu, outcomes.at(mu)) for mu in shown),
        steps=steps,
        recommendations=recommendations(outcomes, shown),
        sweep_cost=_sweep_cost(axis, grid) if axis.replications else None,
        processor_seconds=mean_interval(np.array([one.processor_seconds for one in own])).within(0.0),
        peak_memory_bytes=max(one.peak_memory_bytes for one in own),
    )


def shown_mus(outcomes: Outcomes, wanted: Sequence[float]) -> tuple[float, ...]:
    """The values of μ that every replication has: those that were run, and those wanted that an interval contains."""
    count = len(outcomes.replications)
    return tuple(mu for mu in sorted({*wanted, *outcomes.mus}) if len(outcomes.at(mu)) == count)


def axis_steps(outcomes: Outcomes) -> tuple[MuStep, ...]:
    """The mean outcome as a function of μ: it changes only where some replication's outcome does."""
    replications = list(outcomes.replications.values())
    cuts = sorted({cut for ordered in replications for cut in _cuts(ordered)})
    starts = [[(0.0, 0), *_cuts(ordered)] for ordered in replications]
    steps = []
    for lower, upper in zip([(0.0, 0), *cuts], [*cuts, (math.inf, 1)], strict=True):
        if not _contains_a_double(lower, upper):
            continue
        here = [ordered[bisect_right(s, lower) - 1] for ordered, s in zip(replications, starts, strict=True)]
        steps.append(_step(_between(lower, upper), here))
    return tuple(steps)


def recommendations(outcomes: Outcomes, mus: Sequence[float]) -> tuple[Recommendation, ...]:
    """One for each target: chosen on every second replication, and measured on the others.

    None if that leaves too few replications, or if raw contributions take the index outside 0 to 1, where it measures
    nothing. On the whole axis if all replications followed it, otherwise among these μ.
    """
    numbers = sorted(outcomes.replications)
    if len(numbers) < FEWEST_TO_RECOMMEND:
        return ()
    choosing, measuring = outcomes.only(numbers[::2]), outcomes.only(numbers[1::2])
    on_axis = len(outcomes.with_whole_axis().replications) == len(numbers)
    candidates = axis_steps(choosing) if on_axis else tuple(_step(_only(mu), choosing.at(mu)) for mu in mus)
    if not candidates or not all(-1e-9 <= step.tsfi.value <= 1 + 1e-9 for step in candidates):
        return ()
    chosen = [recommend(candidates, target) for target in FAIRNESS_TARGETS]
    return tuple(
        one if one.step is None else replace(one, step=_step(one.step.mus, measuring.at(_member(one.step.mus))))
        for one in chosen
    )


def recommend(steps: Sequence[MuStep], fairness_target: float) -> Recommendation:
    """Among the μ whose mean final TSFI reaches the target, the (least) one with the most mean final TSW."""
    fair = [step for step in steps if step.tsfi.value >= fairness_target]
    best = max(fair, key=lambda step: step.tsw.value) if fair else None
    return Recommendation(fairness_target=fairness_target, step=best)


def _step(mus: MuRange, here: Sequence[Outcome]) -> MuStep:
    durations, (tsw, tsfi) = _final_means(here)
    return MuStep(mus=mus, durations=durations, tsw=tsw, tsfi=tsfi)


def _only(mu: float) -> MuRange:
    return _between((mu, 0), (mu, 1))


def _member(mus: MuRange) -> float:
    """A μ of the range."""
    return mus.lower if mus.includes_lower else math.nextafter(mus.lower, math.inf)


Cut = tuple[float, int]
"""A place between two adjacent numbers: (v, 0) is just below v, (v, 1) just above."""


def _cuts(outcomes: Sequence[Outcome]) -> list[Cut]:
    """Where one range ends and the next begins."""
    return [(after.mus.lower, 0 if after.mus.includes_lower else 1) for after in outcomes[1:]]


def _contains_a_double(lower: Cut, upper: Cut) -> bool:
    """Whether a double lies between: exact bounds can be closer together than doubles are."""
    first = lower[0] if lower[1] == 0 else math.nextafter(lower[0], math.inf)
    last = upper[0] if upper[1] == 1 else math.nextafter(upper[0], 0.0)
    return first <= last


def _between(lower: Cut, upper: Cut) -> MuRange:
    def exact(mu: float) -> Fraction | float:
        return mu if math.isinf(mu) else Fraction(mu)

    return MuRange(
        exact_lower=exact(lower[0]),
        exact_upper=exact(upper[0]),
        closed_below=lower[1] == 0,
        closed_above=upper[1] == 1,
    )


def _mu_outcome(mu: float, outcomes: Sequence[Outcome]) -> MuOutcome:
    durations, _ = _final_means(outcomes)
    return MuOutcome(
        mu=mu,
        replication_count=len(outcomes),
        durations=durations,
        tsw=tuple(mean_intervals(np.array([o.tsw for o in outcomes]))),
        tsfi=tuple(_inside(mean_intervals(np.array([o.tsfi for o in outcomes])), outcomes)),
        welfare_of_all=mean_interval(np.array([o.welfare_of_all for o in outcomes])),
        ended_early_share=sum(o.ended_early for o in outcomes) / len(outcomes),
    )


def _final_means(outcomes: Sequence[Outcome]) -> tuple[dict[str, Interval], list[Interval]]:
    """Durations by client, and final TSW and TSFI."""
    clients = outcomes[0].clients
    durations = mean_intervals(np.array([[o.durations[client] for client in clients] for o in outcomes], float))
    bounded = [one.within(least=0.0, most=outcomes[0].round_count) for one in durations]
    tsw, tsfi = mean_intervals(np.array([[o.tsw[-1], o.tsfi[-1]] for o in outcomes]))
    return dict(zip(clients, bounded, strict=True)), [tsw, *_inside([tsfi], outcomes)]


def _inside(tsfi: Sequence[Interval], outcomes: Sequence[Outcome]) -> list[Interval]:
    """Intervals of TSFI inside 0..1, where raw contributions have not taken TSFI itself outside."""
    values = [value for outcome in outcomes for value in outcome.tsfi]
    return [one.within(min(0.0, *values), max(1.0, *values)) for one in tsfi]


def _sweep_cost(axis: Outcomes, grid: Sequence[float]) -> SweepCost:
    def mean_rounds(mus: Sequence[float] | None) -> float:
        counts = [
            len(_computed_rounds(o for o in outcomes if mus is None or any(mu in o.mus for mu in mus)))
            for outcomes in axis.replications.values()
        ]
        return float(np.mean(counts))

    return SweepCost(
        replication_count=len(axis.replications),
        most_lenient=mean_rounds([math.inf]),
        grid=mean_rounds(grid),
        whole_axis=mean_rounds(None),
    )


def _computed_rounds(outcomes: Iterable[Outcome]) -> set[tuple[tuple[str, ...], ...]]:
    """Every round that had to be computed, identified by the clients retained in the rounds before it."""
    return {o.retained_sets[:number] for o in outcomes for number in range(len(o.retained_sets))}


def _scenario(name: str, stored: Sequence[StoredReplication]) -> Scenario | None:
    """The scenario in the results; in results of earlier versions the shipped one of this name."""
    document = next((one.scenario for one in stored if one.origin.experiment == name and one.scenario), None)
    try:
        if document is not None:
            return from_document(document, f"the scenario of {name}")
    except ScenarioError:  # of a version with other rules
        return None
    return load(name) if name in shipped_names() else None


def _data_note(scenario: Scenario) -> str:
    sources = {client.source for client in scenario.clients}
    rebuilt = sorted(name for name in sources & set(EXTERNAL) if not EXTERNAL[name].is_original)
    return f"{', '.join(rebuilt)}: rebuilt, not the original data set" if rebuilt else ""


def _sheets(scenarios: Sequence[Scenario], directory: Path | None) -> tuple[SampleSheet, ...]:
    """One sample of each class from each source; nothing where the data are not available."""
    sheets = []
    sources = (client.source for scenario in scenarios for client in scenario.clients if client.source)
    for source in dict.fromkeys(sources):
        try:
            samples = load_source(source, directory)
        except CommonwealError:
            return ()
        firsts = np.array([int(np.flatnonzero(samples.labels == label)[0]) for label in np.unique(samples.labels)])
        known = EXTERNAL.get(source)
        label = f"{source}: rebuilt, not the original" if known is not None and not known.is_original else source
        content = hashlib.sha256(samples.images.tobytes())
        content.update(samples.labels.tobytes())
        prepared = known.prepared if known is not None else None
        sheets.append(
            SampleSheet(
                source=source,
                label=label,
                images=samples.images[firsts],
                sample_count=len(samples.labels),
                fingerprint=content.hexdigest(),
                note=prepared.rows if prepared is not None and prepared.sample_count == len(samples.labels) else "",
            )
        )
    return tuple(sheets)


def _facts(stored: Sequence[StoredReplication]) -> Mapping[str, str]:
    hours = sum(one.processor_seconds for one in stored) / 3600
    counts = Counter(one.origin.experiment for one in stored)
    return {
        "replications": ", ".join(f"{count} of {name}" for name, count in counts.items()),
        "code version": ", ".join(sorted({one.origin.code_version[:16] for one in stored})),
        "processors": "; ".join(sorted({one.cpu_kind for one in stored})),
        "processor time": f"{hours:.1f} hours",
        "largest worker": f"{max(one.peak_memory_bytes for one in stored) / 2**30:.2f} GiB",
        "rounds computed": f"{sum(one.computed_round_count for one in stored):,}",
        "intervals": f"{LEVEL:.0%}, bootstrap over replications, {DRAW_COUNT:,} draws",
    }
