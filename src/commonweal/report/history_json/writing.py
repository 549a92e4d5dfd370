"""Write history.json, the whole run report for programs.

Every field is described in docs/reference/history-json.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from commonweal.atomic_write import write_atomically
from commonweal.records import (
    Advice,
    ClientRound,
    DecisionMap,
    Ending,
    Estimate,
    HarmEvidence,
    Improvement,
    MuRange,
    RoundRecord,
    RoundReport,
    Rules,
    RunReport,
    UsedFigures,
)

SCHEMA = "commonweal.history/1"


def write_history(run_report: RunReport, path: Path) -> None:
    """Write history.json; the same run report gives the same bytes."""
    text = json.dumps(to_document(run_report), indent=1, ensure_ascii=False, allow_nan=False)
    write_atomically(path, f"{text}\n".encode(), what="the history")


def to_document(run_report: RunReport) -> dict[str, Any]:
    """The run report in the types of JSON; infinity is the string "inf", and a metric that cannot be measured null."""
    return {
        "schema": SCHEMA,
        "version": version("commonweal"),
        "name": run_report.name,
        "description": run_report.description,
        "sentence": run_report.sentence,
        "outcome": run_report.outcome,
        "settings": dict(run_report.settings),
        "scenario": _plain(run_report.scenario),
        "rules": rules_document(run_report.rules),
        "mechanism": None if run_report.mechanism is None else _plain(asdict(run_report.mechanism)),
        "metric": asdict(run_report.metric),
        "utility": run_report.utility,
        "figures": run_report.figures,
        **({} if run_report.profits == "private" else {"profits": run_report.profits}),
        "clients": list(run_report.clients),
        "declared": list(run_report.declared),
        "client_facts": {client: dict(facts) for client, facts in run_report.client_facts.items()},
        "round_count": run_report.round_count,
        "rounds": [_round(result) for result in run_report.rounds],
        "payments": [
            {"round": number, "payer": payer, "receiver": receiver, "amount": _number(amount)}
            for number, payer, receiver, amount in run_report.payments
        ],
        "totals": {
            "tsw": [_estimate(total) for total in run_report.tsw],
            "tsfi": [_estimate(total) for total in run_report.tsfi],
            "tsfi_final_set": [_estimate(total) for total in run_report.tsfi_final_set],
            "durations": dict(run_report.durations),
            "eliminated_after": dict(run_report.eliminated_after),
            "harmful_after": run_report.harmful_after,
            "withdrawn_after": dict(run_report.withdrawn_after),
            "payoffs": {client: _estimate(total) for client, total in run_report.total_payoffs.items()},
            "transfers": {client: _estimate(total) for client, total in run_report.total_transfers.items()},
        },
        "warnings": list(run_report.warnings),
        "advice": None if run_report.advice is None else advice_document(run_report.advice),
    }


def rules_document(rules: Rules) -> dict[str, Any]:
    """The rules with their version."""
    return {**rules.to_document(), "version": rules.version}


def _round(result: RoundReport) -> dict[str, Any]:
    decision, drawn = result.record.decision, result.decision_map
    below = decision.irrational
    return {
        "round": result.number,
        "rules": rules_document(decision.rules),
        "grace": decision.grace,
        "retained": list(decision.retained),
        "eliminated": list(decision.eliminated),
        "harmful": list(decision.harmful),
        "finished": decision.finished,
        "absent": list(result.record.absent),
        "silent": list(result.record.silent),
        "excluded": list(result.record.excluded),
        "withdrawn": list(result.record.withdrawn),
        "objective": _number(decision.objective),
        "budget": _estimate(result.budget),
        "proven_gap": _number(decision.proven_gap),
        "node_count": decision.node_count,
        "node_limit_reached": decision.limit_reached,
        "individual_rationality": {
            "held": not below,
            "violations": {client: _number(amount) for client, amount in below.items()},
        },
        "breakpoints": None if drawn is None else [_number(mu) for mu in drawn.breakpoints],
        "mu_path": None if drawn is None else _pieces(drawn),
        "clients": [_client(result, client, figures) for client, figures in result.clients.items()],
        "iteration_accuracies": [
            {client: _measurable(accuracy) for client, accuracy in accuracies.items()}
            for accuracies in result.iteration_accuracies
        ],
        "coalition_values": [
            {"coalition": list(coalition), "value": _number(worth.value), "standard_error": _error(worth)}
            for coalition, worth in result.coalition_values
        ],
        "events": [{"kind": event.kind, "client": event.client, "text": event.text} for event in result.events],
        "draw_count": result.record.draw_count,
        "gains": None if result.record.gains is None else result.record.gains.to_document(result.number),
        "harm": [_harm(evidence) for evidence in result.record.harm],
        "ending": None if result.record.ending is None else _ending(result.record.ending, result.record),
        **other_mechanisms_document(result.record),
    }


def other_mechanisms_document(record: RoundRecord) -> dict[str, Any]:
    """What only some mechanisms read or decide; fields that do not apply are left out."""
    decision, instructions = record.decision, record.instructions.to_document()
    further = {name: {c: _number(v) for c, v in column.items()} for name, column in decision.figures.further.items()}
    charges = {client: _number(charge) for client, charge in decision.charges.items()}
    return {
        **({"further": further} if further else {}),
        **({"external": _number(decision.external), "charges": charges} if decision.takes_external_money else {}),
        **({"resting": list(record.resting)} if record.resting else {}),
        **({"instructions": _plain(instructions)} if instructions else {}),
    }


def _harm(evidence: HarmEvidence) -> dict[str, Any]:
    return {
        "client": evidence.client,
        "rounds": list(evidence.round_numbers),
        "by_scorer": {scorer: _number(effect) for scorer, effect in evidence.by_scorer.items()},
        "test_count": evidence.test_count,
        "mean": _number(evidence.mean),
        "standard_error": _number(evidence.standard_error),
        "bound": _number(evidence.bound),
        "margin": _number(evidence.margin),
    }


def _ending(ending: Ending, record: RoundRecord) -> dict[str, Any]:
    stability = record.ending_stability
    return {
        "expected": {client: _number(profit) for client, profit in ending.expected.items()},
        "best_budget": _number(ending.best_budget),
        "stability": None if stability is None else stability.share,
    }


def _client(result: RoundReport, client: str, figures: ClientRound) -> dict[str, Any]:
    decision = result.record.decision
    return {
        "client": client,
        "candidate": client in decision.candidates,
        "retained": client in decision.retained,
        "sample_count": figures.sample_count,
        "training_count": figures.training_count,
        "validation_count": figures.validation_count,
        "step_count": figures.step_count,
        "accuracy": _metric_estimate(figures.accuracy),
        "previous_accuracy": _measurable(figures.previous_accuracy),
        "utility": _estimate(figures.utility),
        "cost": None if figures.cost is None else _number(figures.cost),
        "profit": _estimate(figures.profit),
        "contribution": _estimate(figures.contribution),
        "used_contribution": _number(decision.used_contributions[client]),
        "share": _estimate(figures.share),
        "payoff": _estimate(figures.payoff),
        "transfer": _estimate(figures.transfer),
        "stability": stability_share(result.record, client),
        "sentence": figures.sentence,
        "stays_for_mu": None
        if figures.stays_for_mu is None
        else [range_document(range_) for range_ in figures.stays_for_mu],
        **_alone(figures),
        "used": None if figures.used is None else _used(figures.used),
        **({} if figures.actual_profit is None else {"actual_profit": _estimate(figures.actual_profit)}),
    }


def stability_share(record: RoundRecord, client: str) -> float | None:
    """From 0 to 1; null where it is not known."""
    stability = record.stability_of(client)
    return None if stability is None else stability.share


def _alone(figures: ClientRound) -> dict[str, Any]:
    """The fields of a client that also trains a model alone."""
    if figures.alone is None or figures.advantage is None:
        return {}
    return {
        "alone": _metric_estimate(figures.alone),
        "alone_cost": None if figures.alone_cost is None else _number(figures.alone_cost),
        "advantage": _metric_estimate(figures.advantage),
    }


def _used(used: UsedFigures) -> dict[str, Any]:
    return {
        "measured_gain": _estimate(used.measured_gain),
        "used_gain": _number(used.used_gain),
        "measured_profit": _estimate(used.measured_profit),
        "expected_gain": None if used.expected_gain is None else _number(used.expected_gain),
        "expected_profit": _estimate(used.expected_profit),
    }


def advice_document(advice: Advice) -> dict[str, Any]:
    """Advice in the types of JSON."""
    return {
        "verdict": advice.verdict,
        "sentence": advice.sentence,
        "improvement": _improvement(advice.improvement),
        "clients": [
            {
                "client": client,
                "verdict": told.verdict,
                "sentence": told.sentence,
                "improvement": _improvement(told.improvement),
            }
            for client, told in advice.clients.items()
        ],
    }


def _improvement(improvement: Improvement | None) -> dict[str, Any] | None:
    if improvement is None:
        return None
    return {
        "mean": _number(improvement.mean),
        "low": _number(improvement.low),
        "high": _number(improvement.high),
    }


def _pieces(drawn: DecisionMap) -> list[dict[str, Any]]:
    return [{**range_document(range_), "retained": list(retained)} for range_, retained in drawn.pieces]


def range_document(range_: MuRange) -> dict[str, Any]:
    """A range of μ: its bounds as doubles, and whether it includes these doubles."""
    return {
        "lower": _number(range_.lower),
        "upper": _number(range_.upper),
        "includes_lower": range_.includes_lower,
        "includes_upper": range_.includes_upper,
    }


def _estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    return {"value": _number(estimate.value), "standard_error": _error(estimate)}


def _metric_estimate(estimate: Estimate) -> dict[str, Any]:
    return {"value": _measurable(estimate.value), "standard_error": _error(estimate)}


def _error(estimate: Estimate) -> float | str | None:
    return None if estimate.standard_error is None else _number(estimate.standard_error)


def _measurable(value: float) -> float | str | None:
    """A metric; null where it cannot be measured."""
    return None if math.isnan(value) else _number(value)


def _number(value: float) -> float | str:
    """JSON has no infinity."""
    value = float(value)
    assert not math.isnan(value), "a figure of a run report is a number"
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def _plain(value: object) -> Any:
    """A scenario's nested mappings and sequences in the types of JSON."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return _number(value)
    assert value is None or isinstance(value, str | int), f"a scenario has only TOML types, got {type(value)}"
    return value
