"""The whole chronicle as one JSON file, for programs: every field is in docs/reference/history-json.md."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from commonweal.atomic_write import write_atomically
from commonweal.records import ClientRound, DecisionMap, Estimate, MuRange, RoundReport, Rules, RunReport

SCHEMA = "commonweal.history/1"


def write_history(chronicle: RunReport, path: Path) -> None:
    """Write history.json; the same chronicle gives the same bytes."""
    text = json.dumps(to_document(chronicle), indent=1, ensure_ascii=False, allow_nan=False)
    write_atomically(path, f"{text}\n".encode(), what="the history")


def to_document(chronicle: RunReport) -> dict[str, Any]:
    """The chronicle in the types of JSON; infinity is the string "inf"."""
    return {
        "schema": SCHEMA,
        "version": version("commonweal"),
        "name": chronicle.name,
        "description": chronicle.description,
        "sentence": chronicle.sentence,
        "settings": dict(chronicle.settings),
        "scenario": _plain(chronicle.scenario),
        "rules": _rules(chronicle.rules),
        "clients": list(chronicle.clients),
        "declared": list(chronicle.declared),
        "client_facts": {client: dict(facts) for client, facts in chronicle.client_facts.items()},
        "round_count": chronicle.round_count,
        "rounds": [_round(held) for held in chronicle.rounds],
        "payments": [
            {"round": number, "payer": payer, "receiver": receiver, "amount": _number(amount)}
            for number, payer, receiver, amount in chronicle.payments
        ],
        "totals": {
            "tsw": [_estimate(total) for total in chronicle.tsw],
            "tsfi": [_estimate(total) for total in chronicle.tsfi],
            "tsfi_final_set": [_estimate(total) for total in chronicle.tsfi_final_set],
            "durations": dict(chronicle.durations),
            "eliminated_after": dict(chronicle.eliminated_after),
            "withdrawn_after": dict(chronicle.withdrawn_after),
            "payoffs": {client: _estimate(total) for client, total in chronicle.total_payoffs.items()},
            "transfers": {client: _estimate(total) for client, total in chronicle.total_transfers.items()},
        },
        "warnings": list(chronicle.warnings),
    }


def _rules(rules: Rules) -> dict[str, Any]:
    return {
        "mu": _number(rules.mu),
        "contribution_rule": rules.contribution_rule,
        "loss_rule": rules.loss_rule,
        "liability_cap": None if rules.liability_cap is None else _number(rules.liability_cap),
    }


def _round(held: RoundReport) -> dict[str, Any]:
    decision, drawn = held.record.decision, held.decision_map
    below = decision.irrational
    return {
        "round": held.number,
        "rules": _rules(decision.rules),
        "grace": decision.grace,
        "retained": list(decision.retained),
        "eliminated": list(decision.eliminated),
        "absent": list(held.record.absent),
        "withdrawn": list(held.record.withdrawn),
        "objective": _number(decision.objective),
        "budget": _estimate(held.budget),
        "proven_gap": _number(decision.proven_gap),
        "node_count": decision.node_count,
        "node_limit_reached": decision.limit_reached,
        "individual_rationality": {
            "held": not below,
            "violations": {client: _number(amount) for client, amount in below.items()},
        },
        "breakpoints": None if drawn is None else [_number(mu) for mu in drawn.breakpoints],
        "mu_path": None if drawn is None else _pieces(drawn),
        "clients": [_client(held, client, figures) for client, figures in held.clients.items()],
        "iteration_accuracies": [
            {client: _number(accuracy) for client, accuracy in accuracies.items()}
            for accuracies in held.iteration_accuracies
        ],
        "coalition_values": [
            {"coalition": list(coalition), "value": _number(worth.value), "standard_error": _error(worth)}
            for coalition, worth in held.coalition_values
        ],
        "events": [{"kind": event.kind, "client": event.client, "text": event.text} for event in held.events],
    }


def _client(held: RoundReport, client: str, figures: ClientRound) -> dict[str, Any]:
    decision = held.record.decision
    return {
        "client": client,
        "candidate": client in decision.candidates,
        "retained": client in decision.retained,
        "sample_count": figures.sample_count,
        "training_count": figures.training_count,
        "validation_count": figures.validation_count,
        "step_count": figures.step_count,
        "accuracy": _estimate(figures.accuracy),
        "previous_accuracy": _number(figures.previous_accuracy),
        "utility": _estimate(figures.utility),
        "cost": None if figures.cost is None else _number(figures.cost),
        "profit": _estimate(figures.profit),
        "contribution": _estimate(figures.contribution),
        "used_contribution": _number(decision.used_contributions[client]),
        "share": _estimate(figures.share),
        "payoff": _estimate(figures.payoff),
        "transfer": _estimate(figures.transfer),
        "sentence": figures.sentence,
        "stays_for_mu": None
        if figures.stays_for_mu is None
        else [range_document(range_) for range_ in figures.stays_for_mu],
    }


def _pieces(drawn: DecisionMap) -> list[dict[str, Any]]:
    return [{**range_document(range_), "retained": list(retained)} for range_, retained in drawn.pieces]


def range_document(range_: MuRange) -> dict[str, Any]:
    """A range of μ; its bounds are doubles, and whether they belong to it is told of those."""
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


def _error(estimate: Estimate) -> float | str | None:
    return None if estimate.standard_error is None else _number(estimate.standard_error)


def _number(value: float) -> float | str:
    """JSON has no infinity."""
    value = float(value)
    assert not math.isnan(value), "a figure of a chronicle is a number"
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def _plain(value: object) -> Any:
    """A scenario's nested mappings and sequences in the types of JSON."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return _number(value)
    assert value is None or isinstance(value, str | int), f"a scenario holds TOML's types, got {type(value)}"
    return value
