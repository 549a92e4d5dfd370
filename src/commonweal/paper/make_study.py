"""From a result set to a study: means and intervals over replications, the whole μ axis, what was recommended."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from commonweal.data.catalogue import KNOWN
from commonweal.data.sources import load_source
from commonweal.errors import CommonwealError, InputError
from commonweal.paper.claims import alternative_findings, findings
from commonweal.paper.experiments import EVERY_ONE, MUS
from commonweal.records import MuRange
from commonweal.records.study import (
    SETTLED_RULE,
    ExperimentStudy,
    Interval,
    MuOutcome,
    MuStep,
    Recommendation,
    SampleSheet,
    Study,
    SweepCost,
)
from commonweal.scenario.shipped import load
from commonweal.scenario.spec import Scenario
from commonweal.study.intervals import DRAW_COUNT, LEVEL, mean_interval, mean_intervals
from commonweal.study.outcomes import Outcome, Outcomes, gather
from commonweal.study.result_set import StoredReplication, read_results, scenario_digest

FAIRNESS_TARGETS = (0.8, 0.9, 0.95)


def make_study(directory: Path, data_directory: Path | None, *, mus: Sequence[float] = ()) -> Study:
    """All that a reader is shown of the results in a directory; `mus` are shown besides those that it would show."""
    stored, rows = read_results(directory)
    if not stored:
        raise InputError(f"a study needs results, got none in {str(directory)!r}; run `commonweal reproduce` first")
    outcomes = gather(stored, rows)
    by_rule = {
        rule: tuple(
            experiment_study(outcomes[name, rule], [one for one in stored if one.origin.experiment == name], mus=mus)
            for name in EVERY_ONE
            if (name, rule) in outcomes
        )
        for rule in dict.fromkeys(rule for _, rule in outcomes)
    }
    return Study(
        title="The paper's experiments, reproduced",
        facts=_facts(stored),
        experiments=by_rule.get(SETTLED_RULE, ()),
        alternatives=tuple(study for rule, studies in by_rule.items() if rule != SETTLED_RULE for study in studies),
        findings=findings(outcomes),
        alternative_findings=alternative_findings(outcomes),
        sheets=_sheets([load(name) for name in EVERY_ONE if any(name == key for key, _ in outcomes)], data_directory),
    )


def experiment_study(
    outcomes: Outcomes, stored: Sequence[StoredReplication], *, mus: Sequence[float] = ()
) -> ExperimentStudy:
    """One experiment under one contribution rule."""
    scenario = load(outcomes.experiment)
    axis = outcomes.with_whole_axis()
    own = [one for one in stored if one.replication in outcomes.replications]
    steps = axis_steps(axis) if axis.replications else ()
    return ExperimentStudy(
        name=outcomes.experiment,
        # What was run may be another version of the scenario that has this name today.
        description=scenario.description if scenario_digest(scenario) == own[0].origin.scenario_digest else "",
        data_note=_data_note(scenario),
        contribution_rule=outcomes.contribution_rule,
        clients=next(iter(outcomes.replications.values()))[0].clients,
        round_count=own[0].round_count,
        replication_count=len(outcomes.replications),
        axis_replication_count=len(axis.replications),
        scenario_digest=own[0].origin.scenario_digest,
        outcomes=tuple(_mu_outcome(mu, outcomes.at(mu)) for mu in followed_mus(outcomes, mus)),
        steps=steps,
        recommendations=recommendations(steps),
        sweep_cost=_sweep_cost(axis) if axis.replications else None,
        seconds=mean_interval(np.array([one.seconds for one in own])),
        peak_memory_bytes=max(one.peak_memory_bytes for one in own),
    )


def followed_mus(outcomes: Outcomes, asked: Sequence[float] = ()) -> tuple[float, ...]:
    """The values of μ that every replication has: those asked for, and the paper's where an interval holds them."""
    count = len(outcomes.replications)
    return tuple(mu for mu in sorted({*MUS, *asked, *outcomes.mus}) if len(outcomes.at(mu)) == count)


def axis_steps(outcomes: Outcomes) -> tuple[MuStep, ...]:
    """The mean outcome as a function of μ: it changes only where some replication's outcome does."""
    replications = list(outcomes.replications.values())
    cuts = sorted({cut for ordered in replications for cut in _cuts(ordered)})
    starts = [[(0.0, 0), *_cuts(ordered)] for ordered in replications]
    steps = []
    for lower, upper in zip([(0.0, 0), *cuts], [*cuts, (math.inf, 1)], strict=True):
        if not _holds_a_number(lower, upper):
            continue
        here = [ordered[bisect_right(s, lower) - 1] for ordered, s in zip(replications, starts, strict=True)]
        durations, (tsw, tsfi) = _end(here)
        steps.append(MuStep(mus=_between(lower, upper), durations=durations, tsw=tsw, tsfi=tsfi))
    return tuple(steps)


def recommendations(steps: Sequence[MuStep]) -> tuple[Recommendation, ...]:
    """For each target; none where raw contributions carry the index out of 0 to 1, so that it measures no fairness."""
    if not steps or not all(-1e-9 <= step.tsfi.value <= 1 + 1e-9 for step in steps):
        return ()
    return tuple(recommend(steps, target) for target in FAIRNESS_TARGETS)


def recommend(steps: Sequence[MuStep], fairness_target: float) -> Recommendation:
    """Of the μ whose mean final TSFI reaches the target the one with the most mean final TSW; of equals the least."""
    fair = [step for step in steps if step.tsfi.value >= fairness_target]
    best = max(fair, key=lambda step: step.tsw.value) if fair else None
    return Recommendation(fairness_target=fairness_target, step=best)


Cut = tuple[float, int]
"""A place between two neighbouring numbers: (v, 0) just below v, (v, 1) just above."""


def _cuts(outcomes: Sequence[Outcome]) -> list[Cut]:
    """Where one range ends and the next begins."""
    return [(after.mus.lower, 0 if after.mus.includes_lower else 1) for after in outcomes[1:]]


def _holds_a_number(lower: Cut, upper: Cut) -> bool:
    """Whether some double lies between: exact bounds can be closer together than doubles are."""
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
    durations, _ = _end(outcomes)
    return MuOutcome(
        mu=mu,
        replication_count=len(outcomes),
        durations=durations,
        tsw=tuple(mean_intervals(np.array([o.tsw for o in outcomes]))),
        tsfi=tuple(mean_intervals(np.array([o.tsfi for o in outcomes]))),
        ended_early_share=sum(o.ended_early for o in outcomes) / len(outcomes),
    )


def _end(outcomes: Sequence[Outcome]) -> tuple[dict[str, Interval], list[Interval]]:
    """Durations by client, and final TSW and TSFI."""
    clients = outcomes[0].clients
    durations = mean_intervals(np.array([[o.durations[client] for client in clients] for o in outcomes], float))
    totals = mean_intervals(np.array([[o.tsw[-1], o.tsfi[-1]] for o in outcomes]))
    return dict(zip(clients, durations, strict=True)), totals


def _sweep_cost(axis: Outcomes) -> SweepCost:
    def mean_rounds(mus: Sequence[float] | None) -> float:
        counts = [
            len(_pasts(o for o in outcomes if mus is None or any(mu in o.mus for mu in mus)))
            for outcomes in axis.replications.values()
        ]
        return float(np.mean(counts))

    return SweepCost(
        replication_count=len(axis.replications),
        most_lenient=mean_rounds([math.inf]),
        grid=mean_rounds(MUS),
        whole_axis=mean_rounds(None),
    )


def _pasts(outcomes: Iterable[Outcome]) -> set[tuple[tuple[str, ...], ...]]:
    """All pasts after which a round had to be held."""
    return {o.retained_sets[:number] for o in outcomes for number in range(len(o.retained_sets))}


def _data_note(scenario: Scenario) -> str:
    rebuilt = sorted({c.source for c in scenario.clients if c.source in KNOWN and not KNOWN[c.source].is_original})
    return f"{', '.join(rebuilt)}: rebuilt, not the original data set" if rebuilt else ""


def _sheets(scenarios: Sequence[Scenario], directory: Path | None) -> tuple[SampleSheet, ...]:
    """Ten samples of each source, one of each class; nothing where the data are not at hand."""
    sheets = []
    for source in dict.fromkeys(client.source for scenario in scenarios for client in scenario.clients):
        try:
            samples = load_source(source, directory)
        except CommonwealError:
            return ()
        firsts = np.array([int(np.flatnonzero(samples.labels == label)[0]) for label in np.unique(samples.labels)])
        known = KNOWN.get(source)
        label = f"{source}: rebuilt, not the original" if known is not None and not known.is_original else source
        sheets.append(SampleSheet(source=source, label=label, images=samples.images[firsts]))
    return tuple(sheets)


def _facts(stored: Sequence[StoredReplication]) -> Mapping[str, str]:
    hours = sum(one.processor_seconds for one in stored) / 3600
    return {
        "replications": ", ".join(f"{count} of {name}" for name, count in _counts(stored).items()),
        "code version": ", ".join(sorted({one.origin.code_version[:16] for one in stored})),
        "processors": "; ".join(sorted({one.cpu_kind for one in stored})),
        "processor time": f"{hours:.1f} hours",
        "largest worker": f"{max(one.peak_memory_bytes for one in stored) / 2**30:.2f} GiB",
        "rounds computed": f"{sum(one.held_count for one in stored):,}",
        "intervals": f"{LEVEL:.0%}, bootstrap over replications, {DRAW_COUNT:,} draws",
    }


def _counts(stored: Sequence[StoredReplication]) -> dict[str, int]:
    return {name: count for name in EVERY_ONE if (count := sum(one.origin.experiment == name for one in stored))}
