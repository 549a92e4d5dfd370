"""The complete result as JSON, documented in docs/reference/decide-json.md."""

from __future__ import annotations

import json
import math
from importlib.metadata import version
from typing import Any

from commonweal.cli.outcome import DecidedRound, DecideResult
from commonweal.decision.mechanisms import make_mechanism
from commonweal.records.rounds import DEFAULT_MECHANISM
from commonweal.report.history_json import (
    other_mechanisms_document,
    range_document,
    rules_document,
    stability_share,
)

SCHEMA = "commonweal.decide/1"
_INDENTED_ROWS = 10_000


def to_json(outcome: DecideResult, *, with_pieces: bool) -> str:
    """One JSON document; infinity is the string "inf". `with_pieces` adds the whole μ path of each round."""
    rules, totals = outcome.rules, outcome.totals
    document = {
        "schema": SCHEMA,
        "version": version("commonweal"),
        "rules": {**rules_document(rules), "grace_rounds": outcome.grace_rounds},
        **({} if rules.mechanism == DEFAULT_MECHANISM else {"mechanism": make_mechanism(rules).describe()}),
        "clients": list(outcome.replay.history.clients),
        "rounds": [_round(view, with_pieces) for view in outcome.rounds],
        "ignored": [{"round": number, "clients": list(clients)} for number, clients in outcome.replay.ignored.items()],
        "ended_after": outcome.replay.ended_after,
        "totals": {
            "tsw": list(totals.tsw),
            "tsfi": list(totals.tsfi),
            "tsfi_final_set": list(totals.tsfi_final_set),
            "durations": totals.durations,
            "payoffs": totals.payoffs,
            "contributions": totals.contributions,
            "jain": totals.jain,
            "gini": totals.gini,
            "payoff_contribution_correlation": totals.correlation,
            "irrational_rounds": [
                {"round": number, "violations": by_client} for number, by_client in totals.irrational_rounds.items()
            ],
        },
        "notes": list(outcome.notes),
        "warnings": list(outcome.warnings),
    }
    # Only small documents are indented: with indentation, the encoder is ten times slower.
    row_count = sum(len(view.record.decision.figures.profits) for view in outcome.rounds)
    indent = 2 if row_count <= _INDENTED_ROWS else None
    return json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)


def _round(view: DecidedRound, with_pieces: bool) -> dict[str, Any]:
    decision, path = view.record.decision, view.whole_path
    below = decision.irrational
    document: dict[str, Any] = {
        "round": view.number,
        "objective": decision.objective,
        "budget": decision.budget,
        "retained": list(decision.retained),
        "eliminated": list(decision.eliminated),
        "absent": list(view.record.absent),
        "grace": decision.grace,
        "proven_gap": decision.proven_gap,
        "node_limit_reached": decision.limit_reached,
        "individual_rationality": {"held": not below, "violations": below},
        "draw_count": view.record.draw_count,
        "breakpoints": None if path is None else list(path.breakpoints),
        "clients": [_client(view, client) for client in decision.figures.clients],
        **other_mechanisms_document(view.record),
    }
    if with_pieces:
        document["mu_path"] = (
            None
            if path is None
            else [{**range_document(piece), "retained": list(retained)} for piece, retained in path.pieces()]
        )
    return document


def _client(view: DecidedRound, client: str) -> dict[str, Any]:
    decision, path = view.record.decision, view.whole_path
    fate = view.fates.get(client)
    costs = decision.figures.costs
    return {
        "client": client,
        "profit": decision.figures.profits[client],
        "measured_profit": None if view.measured is None else view.measured.profits[client],
        "cost": None if costs is None else costs[client],
        "contribution": decision.figures.contributions[client],
        "used_contribution": decision.used_contributions[client],
        "candidate": decision.figures.selecting[client] < 0,
        "retained": client in decision.payoffs,
        "stability": stability_share(view.record, client),
        "share": decision.shares.get(client),
        "payoff": decision.payoffs.get(client),
        "transfer": decision.all_transfers.get(client),
        "stays_for_mu": (None if path is None else [range_document(range_) for range_ in path.stays(client)]),
        "sentence": view.reason(client),
        "runner_up": (
            None
            if fate is None or fate.gain is None or fate.runner_up_retained is None
            else {
                "objective": fate.runner_up_objective,
                "retained": list(fate.runner_up_retained),
                "gain": fate.gain,
            }
        ),
    }


def _number(value: float) -> float | str:
    return "inf" if math.isinf(value) else value
