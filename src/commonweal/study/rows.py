"""The columns of all result files, and a replication as rows: one for each contribution rule, μ, round and client.

Where the whole μ axis was followed, a row stands for an interval of μ instead of one value; its four columns say
exactly which doubles lie in it. docs/reference/results-parquet.md describes every column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from commonweal.decision.decide import decision_with
from commonweal.records import ContributionRule, MuRange
from commonweal.scenario.spec import Scenario

if TYPE_CHECKING:  # they import torch, which reading results does not need
    from commonweal.federation.round_result import MeasuredRound
    from commonweal.study.sweep import SweptHistory

SCHEMA = pa.schema(
    [
        pa.field("experiment", pa.string(), nullable=False),
        pa.field("replication", pa.int32(), nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("contribution_rule", pa.string(), nullable=False),
        pa.field("mu_lower", pa.float64(), nullable=False),
        pa.field("mu_upper", pa.float64(), nullable=False),
        pa.field("mu_includes_lower", pa.bool_(), nullable=False),
        pa.field("mu_includes_upper", pa.bool_(), nullable=False),
        pa.field("round", pa.int32(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("sample_count", pa.int32(), nullable=False),
        pa.field("training_count", pa.int32(), nullable=False),
        pa.field("validation_count", pa.int32(), nullable=False),
        pa.field("iteration_count", pa.int32(), nullable=False),
        pa.field("step_count", pa.int32(), nullable=False),
        pa.field("accuracy", pa.float64(), nullable=False),
        pa.field("accuracy_error", pa.float64()),
        pa.field("previous_accuracy", pa.float64(), nullable=False),
        pa.field("utility", pa.float64(), nullable=False),
        pa.field("cost", pa.float64(), nullable=False),
        pa.field("profit", pa.float64(), nullable=False),
        pa.field("profit_error", pa.float64()),
        pa.field("contribution", pa.float64(), nullable=False),
        pa.field("contribution_error", pa.float64()),
        pa.field("used_contribution", pa.float64(), nullable=False),
        pa.field("retained", pa.bool_(), nullable=False),
        pa.field("share", pa.float64()),
        pa.field("payoff", pa.float64()),
        pa.field("transfer", pa.float64()),
    ]
)

_USED_FIGURES = pa.schema([pa.field("measured_profit", pa.float64()), pa.field("expected_profit", pa.float64())])
"""Columns of experiments whose figures are not used as measured; others do not have them."""


def schema_of(names: Iterable[str]) -> pa.Schema:
    """The schema of a table with these columns."""
    present = set(names)
    return pa.schema([*SCHEMA, *(field for field in _USED_FIGURES if field.name in present)])


def to_table(experiment: str, replication: int, scenario: Scenario, swept: Iterable[SweptHistory]) -> pa.Table:
    """All rows of a replication, ordered by rule, μ, round and client."""
    histories = [
        (rule, range_, history) for history in swept for rule, ranges in history.mu_ranges.items() for range_ in ranges
    ]
    histories.sort(key=lambda one: (one[0], one[1].exact_lower, one[1].exact_upper))
    rows = [
        {"experiment": experiment, "replication": replication, "seed": scenario.seed, **row}
        for rule, range_, history in histories
        for row in _rows(scenario, rule, range_, history)
    ]
    return pa.Table.from_pylist(rows, schema=schema_of(rows[0] if rows else ()))


def _rows(scenario: Scenario, rule: ContributionRule, mus: MuRange, history: SweptHistory) -> Iterator[dict[str, Any]]:
    policy = {
        "contribution_rule": rule,
        "mu_lower": mus.lower,
        "mu_upper": mus.upper,
        "mu_includes_lower": mus.includes_lower,
        "mu_includes_upper": mus.includes_upper,
    }
    rules = replace(scenario.mechanism.rules, contribution_rule=rule)
    for result, retained in history.rounds:
        figures = result.figures
        decision = decision_with(figures, rules, retained)
        for client, measured in result.measured.items():
            assert measured.utility is not None, "in a simulation no figure is private"
            assert measured.cost is not None
            yield policy | {
                "round": result.round_number,
                "client": client,
                "sample_count": measured.sample_count,
                "training_count": measured.training_count,
                "validation_count": measured.validation_count,
                "iteration_count": len(result.iteration_accuracies) - 1,
                "step_count": measured.step_count,
                "accuracy": measured.accuracy.value,
                "accuracy_error": measured.accuracy.standard_error,
                "previous_accuracy": measured.previous_accuracy,
                "utility": measured.utility.value,
                "cost": measured.cost,
                "profit": figures.profits[client],
                "profit_error": measured.profit_error,
                "contribution": figures.contributions[client],
                "contribution_error": measured.contribution_error,
                "used_contribution": decision.used_contributions[client],
                "retained": client in decision.payoffs,
                "share": decision.shares.get(client),
                "payoff": decision.payoffs.get(client),
                "transfer": decision.transfers.get(client),
                **_used_figures(result, client),
            }


def _used_figures(result: MeasuredRound, client: str) -> dict[str, float | None]:
    measured = result.measured[client].measured_profit
    if measured is None:
        return {}
    expected = result.figures.expected
    return {"measured_profit": measured.value, "expected_profit": None if expected is None else expected[client]}
