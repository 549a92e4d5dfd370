"""Outcomes read from rows are those of separate runs."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from commonweal import metrics
from commonweal.data.federated_dataset import FederatedDataset
from commonweal.federation.session import run_rounds
from commonweal.records import ContributionRule, History, LossRule
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import image_task
from commonweal.study.outcomes import Outcomes, gather
from commonweal.study.replication import ReplicationTask, replicate
from commonweal.study.result_set import read_results, write_replication, write_results
from tests.study.small_federation import small_federation


@pytest.fixture(scope="module")
def outcomes(small_results: Path) -> dict[tuple[str, ContributionRule], Outcomes]:
    return gather(*read_results(small_results))


def run_alone(seed: int, mu: float, rule: ContributionRule, loss_rule: LossRule) -> History:
    scenario = small_federation(rounds=3)
    rules = replace(scenario.mechanism.rules, mu=mu, contribution_rule=rule, loss_rule=loss_rule)
    scenario = replace(scenario, seed=seed, mechanism=replace(scenario.mechanism, rules=rules))
    with InProcessClients(scenario, image_task(scenario, FederatedDataset.for_scenario(scenario, None))) as clients:
        rounds = tuple(held.record for held in run_rounds(clients, scenario))
    return History(clients=scenario.client_names, rounds=rounds)


@pytest.mark.parametrize(
    ("mu", "rule", "loss_rule"),
    [(0.0, "clip", "contribution"), (0.05, "clip", "equal"), (0.05, "raw", "cost"), (math.inf, "clip", "cost")],
)
def test_history_and_metrics_are_those_of_a_run(outcomes, mu, rule, loss_rule):
    for outcome in outcomes["label-noise", rule].at(mu):
        alone = run_alone(small_federation().seed + outcome.replication - 1, mu, rule, loss_rule)
        read = outcome.history_with(loss_rule)
        for ours, theirs in zip(read.rounds, alone.rounds, strict=True):
            assert ours.round_number == theirs.round_number
            assert ours.decision.figures == theirs.decision.figures
            assert ours.decision.payoffs == theirs.decision.payoffs
            assert ours.decision.transfers == theirs.decision.transfers
            assert ours.decision.eliminated == theirs.decision.eliminated
        assert outcome.durations == metrics.durations(alone)
        assert outcome.tsw == metrics.tsw(alone, round_count=3)
        assert outcome.tsfi == metrics.tsfi(alone, round_count=3)
        assert outcome.tsfi_final_set == metrics.tsfi_final_set(alone, round_count=3)
        assert outcome.ended_early == (len(alone.rounds) < 3)


def test_every_mu_has_one_outcome_of_each_replication(outcomes):
    for rule in ("clip", "raw"):
        some = outcomes["label-noise", rule]
        assert list(some.with_whole_axis().replications) == [1, 2, 3]
        for mu in (0.0, 1e-300, 0.003, 0.05, 0.2, 17.0, math.inf):
            assert [outcome.replication for outcome in some.at(mu)] == [1, 2, 3]


def test_some_replications_can_be_selected(outcomes):
    some = outcomes["label-noise", "clip"].only([1])
    assert [outcome.replication for outcome in some.at(0.05)] == [1]
    missing_one = replace(some, replications={1: some.replications[1][1:]})
    assert not missing_one.with_whole_axis().replications, "without its first range it does not start at 0"


def test_expected_and_measured_profits_are_read_back(tmp_path):
    """An experiment with forecasts beside one with measured figures, whose rows have no such columns."""
    forecast = small_federation(rounds=2, mechanism='figures = "forecast"')
    for name, scenario in (("forecast", forecast), ("measured", small_federation(rounds=1))):
        task = ReplicationTask(
            experiment=name, replication=1, scenario=scenario, mus={"clip": (0.05,)}, data_directory=None
        )
        result = replicate(task)
        assert ("expected_profit" in result.rows.column_names) == (name == "forecast")
        write_replication(tmp_path, result)
    write_results(tmp_path)
    stored, rows = read_results(tmp_path)
    (outcome,) = gather(stored, rows)["forecast", "clip"].at(0.05)
    dataset = FederatedDataset.for_scenario(forecast, None)
    with InProcessClients(forecast, image_task(forecast, dataset), worker_count=1) as clients:
        alone = list(run_rounds(clients, forecast))
    for ours, theirs in zip(outcome.history.rounds, alone, strict=True):
        assert ours.decision.figures == theirs.record.decision.figures
        assert ours.decision.transfers == theirs.record.decision.transfers
        assert ours.decision.objective == theirs.record.decision.objective
    told = {(row["round"], row["client"]): row for row in rows.to_pylist() if row["experiment"] == "forecast"}
    for result in alone:
        for client, measured in result.measured.items():
            row = told[result.record.round_number, client]
            assert row["measured_profit"] == measured.measured_profit.value
    (plain,) = gather(stored, rows)["measured", "clip"].at(0.05)
    assert plain.history.rounds[0].decision.figures.expected is None
