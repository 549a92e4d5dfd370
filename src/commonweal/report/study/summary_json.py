"""summary.json: a study in one file for programs, without its images. `FIELDS` says what each field is.

Fields may be added within a schema version; none is renamed, removed or given another meaning. Keys are sorted, numbers
are doubles in full, infinity is the string "inf", amounts are in units of utility. The same study gives the same bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from commonweal.records.study import (
    ClaimResult,
    ExperimentStudy,
    Interval,
    MuOutcome,
    MuStep,
    Recommendation,
    Study,
    SweepCost,
)
from commonweal.report.history_json import range_document
from commonweal.report.study.text import recommendation_sentence

SCHEMA = "commonweal.study/1"

FIELDS = {
    "schema": "this schema",
    "title": "of the study",
    "facts": "for people: names and texts, with the level of the intervals",
    "experiments[]": "under the default contribution rule",
    "alternatives[]": "the same experiments under other contribution rules, with the same fields",
    "experiments[].name": "of the experiment",
    "experiments[].description": "of the experiment, for people",
    "experiments[].data_note": "a note to show with all its results, or empty",
    "experiments[].contribution_rule": "clip or raw",
    "experiments[].clients[]": "names, in order",
    "experiments[].round_count": "rounds planned",
    "experiments[].replication_count": "seeded runs",
    "experiments[].axis_replication_count": "how many of these covered the whole axis of mu",
    "experiments[].scenario_digest": "of the scenario that was run",
    "experiments[].outcomes[]": "at each mu of the grid, in rising order",
    "experiments[].outcomes[].mu": "leniency",
    "experiments[].outcomes[].replication_count": "replications behind the intervals",
    "experiments[].outcomes[].durations": "interval by client, in rounds",
    "experiments[].outcomes[].tsw[]": "interval after each round",
    "experiments[].outcomes[].tsfi[]": "interval after each round",
    "experiments[].outcomes[].welfare_of_all": "interval at the end: as TSW, with the losses of clients in the round "
    "that eliminates them",
    "experiments[].outcomes[].ended_early_share": "share of the replications that ended with at most one client",
    "experiments[].steps[]": "the whole axis of mu in rising order, ending with the point inf; empty if not covered",
    "experiments[].steps[].mus": "lower, upper, includes_lower, includes_upper: a range in which no outcome changes",
    "experiments[].steps[].durations": "interval by client, in rounds",
    "experiments[].steps[].tsw": "interval at the end",
    "experiments[].steps[].tsfi": "interval at the end",
    "experiments[].recommendations[]": "the mu with the most welfare among those that are fair "
    "enough, on every second replication; empty if there are fewer than ten",
    "experiments[].recommendations[].fairness_target": "the lowest acceptable mean TSFI at the end",
    "experiments[].recommendations[].step": "a step as above, with the figures of the other replications, or null if "
    "no mu reaches the target",
    "experiments[].recommendations[].sentence": "the recommendation as a sentence",
    "experiments[].sweep_cost": "null if no replication covered the whole axis",
    "experiments[].sweep_cost.replication_count": "replications behind the means",
    "experiments[].sweep_cost.most_lenient": "rounds computed for mu = inf only, mean",
    "experiments[].sweep_cost.grid": "rounds computed for all mu of the grid, mean",
    "experiments[].sweep_cost.whole_axis": "rounds computed for all mu, mean",
    "experiments[].processor_seconds": "interval, of processor time per replication",
    "experiments[].peak_memory_bytes": "the largest of any worker",
    "findings[]": "claims tested under our choices",
    "alternative_findings[]": "under other choices, with ours on the same replications beside them; the same fields",
    "findings[].claim": "its number, with a letter for a part of it",
    "findings[].statement": "what the paper says",
    "findings[].experiment": "the experiment on which it was tested",
    "findings[].variant": "what differs from our choices, or empty",
    "findings[].effect": "what is measured, with its unit",
    "findings[].interval": "interval of the effect",
    "findings[].threshold": "held if the interval lies above it, not held if it lies at or below it",
    "findings[].verdict": "held, not held, undecided or not testable",
    "findings[].quote": "the paper's sentence",
    "findings[].p_value": "two-sided, that the effect is at the threshold; null where nothing is estimated",
    "findings[].adjusted_p": "the same, corrected by Holm for all findings in regimes with all six experiments, "
    "or for those in the others; null in alternative_findings",
    "findings[].power": "the chance of finding the effect if the true one is as large as the one observed",
    "findings[].replication_count": "replications behind the interval",
    "findings[].driver": "what explains the result, or empty",
    "sheets[]": "sources of which the report shows samples",
    "sheets[].source": "name of the source",
    "sheets[].label": "for people; says so where the data set is rebuilt",
    "sheets[].image_count": "samples shown",
}  # an interval is an object of value, lower and upper


def to_json(document: Mapping[str, Any]) -> str:
    """Indented, with objects and lists of plain values on one line; otherwise an interval would take five lines."""
    return _lines(document, "") + "\n"


def to_document(study: Study) -> dict[str, Any]:
    """The study in the types of JSON."""
    return {
        "schema": SCHEMA,
        "title": study.title,
        "facts": dict(study.facts),
        "experiments": [_experiment(experiment) for experiment in study.experiments],
        "alternatives": [_experiment(experiment) for experiment in study.alternatives],
        "findings": [_finding(finding) for finding in study.findings],
        "alternative_findings": [_finding(finding) for finding in study.alternative_findings],
        "sheets": [
            {"source": sheet.source, "label": sheet.label, "image_count": len(sheet.images)} for sheet in study.sheets
        ],
    }


def _experiment(experiment: ExperimentStudy) -> dict[str, Any]:
    return {
        "name": experiment.name,
        "description": experiment.description,
        "data_note": experiment.data_note,
        "contribution_rule": experiment.contribution_rule,
        "clients": list(experiment.clients),
        "round_count": experiment.round_count,
        "replication_count": experiment.replication_count,
        "axis_replication_count": experiment.axis_replication_count,
        "scenario_digest": experiment.scenario_digest,
        "outcomes": [_outcome(outcome) for outcome in experiment.outcomes],
        "steps": [_step(step) for step in experiment.steps],
        "recommendations": [_recommendation(recommendation) for recommendation in experiment.recommendations],
        "sweep_cost": None if experiment.sweep_cost is None else _sweep_cost(experiment.sweep_cost),
        "processor_seconds": _interval(experiment.processor_seconds),
        "peak_memory_bytes": int(experiment.peak_memory_bytes),
    }


def _outcome(outcome: MuOutcome) -> dict[str, Any]:
    return {
        "mu": _number(outcome.mu),
        "replication_count": outcome.replication_count,
        "durations": _intervals(outcome.durations),
        "tsw": [_interval(after) for after in outcome.tsw],
        "tsfi": [_interval(after) for after in outcome.tsfi],
        "welfare_of_all": _interval(outcome.welfare_of_all),
        "ended_early_share": _number(outcome.ended_early_share),
    }


def _step(step: MuStep) -> dict[str, Any]:
    return {
        "mus": range_document(step.mus),
        "durations": _intervals(step.durations),
        "tsw": _interval(step.tsw),
        "tsfi": _interval(step.tsfi),
    }


def _recommendation(recommendation: Recommendation) -> dict[str, Any]:
    return {
        "fairness_target": _number(recommendation.fairness_target),
        "step": None if recommendation.step is None else _step(recommendation.step),
        "sentence": recommendation_sentence(recommendation),
    }


def _sweep_cost(cost: SweepCost) -> dict[str, Any]:
    return {
        "replication_count": cost.replication_count,
        "most_lenient": _number(cost.most_lenient),
        "grid": _number(cost.grid),
        "whole_axis": _number(cost.whole_axis),
    }


def _finding(finding: ClaimResult) -> dict[str, Any]:
    return {
        "claim": finding.claim,
        "statement": finding.statement,
        "experiment": finding.experiment,
        "variant": finding.variant,
        "effect": finding.effect,
        "interval": _interval(finding.interval),
        "threshold": _number(finding.threshold),
        "verdict": finding.verdict,
        "replication_count": finding.replication_count,
        "driver": finding.driver,
        "quote": finding.quote,
        "p_value": finding.p_value,
        "adjusted_p": finding.adjusted_p,
        "power": finding.power,
    }


def _intervals(by_client: Mapping[str, Interval]) -> dict[str, Any]:
    return {client: _interval(interval) for client, interval in by_client.items()}


def _interval(interval: Interval) -> dict[str, Any]:
    return {"value": _number(interval.value), "lower": _number(interval.lower), "upper": _number(interval.upper)}


def _number(value: float) -> float | str:
    """JSON has no infinity."""
    value = float(value)
    assert not math.isnan(value), "a figure of a study is a number"
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def _lines(value: Any, indent: str) -> str:
    inner = indent + " "
    if isinstance(value, Mapping) and any(isinstance(part, Mapping | list) for part in value.values()):
        parts = (f"{inner}{json.dumps(key, ensure_ascii=False)}: {_lines(value[key], inner)}" for key in sorted(value))
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(part, Mapping | list) for part in value):
        return "[\n" + ",\n".join(f"{inner}{_lines(part, inner)}" for part in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True)
