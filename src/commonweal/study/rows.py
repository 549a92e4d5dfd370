"""A replication as rows, one for each contribution rule, μ, round and client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from commonweal.decision.decide import decision_with
from commonweal.records import ContributionRule, MuRange
from commonweal.scenario.spec import Scenario
from commonweal.study.row_schema import SCHEMA
from commonweal.study.sweep import Branch


def to_table(experiment: str, replication: int, scenario: Scenario, branches: Iterable[Branch]) -> pa.Table:
    """All rows of a replication in a settled order: by rule, μ, round, client."""
    histories = [
        (rule, range_, branch) for branch in branches for rule, ranges in branch.mu_ranges.items() for range_ in ranges
    ]
    histories.sort(key=lambda history: (history[0], history[1].exact_lower, history[1].exact_upper))
    rows = [
        {"experiment": experiment, "replication": replication, "seed": scenario.seed, **row}
        for rule, range_, branch in histories
        for row in _rows(scenario, rule, range_, branch)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _rows(scenario: Scenario, rule: ContributionRule, mus: MuRange, branch: Branch) -> Iterator[dict[str, Any]]:
    policy = {
        "contribution_rule": rule,
        "mu_lower": mus.lower,
        "mu_upper": mus.upper,
        "mu_includes_lower": mus.includes_lower,
        "mu_includes_upper": mus.includes_upper,
    }
    rules = replace(scenario.mechanism.rules, contribution_rule=rule)
    for held, retained in branch.rounds:
        figures = held.record.decision.figures
        decision = decision_with(figures, rules, retained)
        for client, measured in held.measured.items():
            assert measured.utility is not None, "the simulator keeps nothing private"
            assert measured.cost is not None
            yield policy | {
                "round": held.record.round_number,
                "client": client,
                "sample_count": measured.sample_count,
                "training_count": measured.training_count,
                "validation_count": measured.validation_count,
                "iteration_count": len(held.iteration_accuracies) - 1,
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
            }
