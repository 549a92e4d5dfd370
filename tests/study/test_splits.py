"""Alone or together over many splits: on the real tables, and against single runs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import commonweal as cw
from commonweal.scenario.toml_file import parse_scenario, read_scenario
from commonweal.simulation.simulated_task import with_sites
from commonweal.study.splits import compare_splits, differences, reasons
from tests.simulation.test_own_task import NAMES, write

DATA = os.environ.get("COMMONWEAL_DATA")
needs_tables = pytest.mark.skipif(
    DATA is None or not (Path(DATA) / "tables").is_dir(), reason="COMMONWEAL_DATA has no folder tables"
)
TABLE = """
name = "table"
rounds = 8
[mechanism]
mu = 0.01
[task]
table = {table!r}
site = "{site}"
target = "{target}"
metric = "roc-auc"
ignore = {ignore}
"""
SMALL, SMALLEST = "3.5", "0.100000001490116"  # hospitals of 59 and 17 patients; all but one of the 17 had the same


def scenario_of(name, site, target, ignore=()):
    table = str(Path(DATA) / "tables" / f"{name}.csv")
    text = TABLE.format(table=table, site=site, target=target, ignore=list(ignore))
    return with_sites(parse_scenario(text, "the test"))


def interval(values):
    """The mean of the splits with its 95 % interval (Student)."""
    mean, error = np.mean(values), stats.sem(values)
    return mean, *stats.t.interval(0.95, len(values) - 1, mean, error)


def test_a_split_is_a_run_with_its_seed(tmp_path):
    file = write(tmp_path, mechanism='utility = "advantage"')
    scenario = read_scenario(file)
    splits = compare_splits(scenario, 2)
    assert [(one.seed, one.client) for one in splits] == [(seed, name) for seed in (3, 4) for name in NAMES]
    for seed in (3, 4):
        last = cw.run(replace(scenario, seed=seed)).rounds[-1]
        for one in splits:
            if one.seed == seed:
                row = last.clients[one.client]
                assert (one.together, one.alone) == (row.accuracy.value, row.alone.value)
                assert one.sample_count == row.training_count + row.validation_count == 90


@pytest.mark.soak
def test_processes_change_nothing(tmp_path):
    scenario = read_scenario(write(tmp_path))
    assert compare_splits(scenario, 3, worker_count=2) == compare_splits(scenario, 3)


def test_where_less_is_better_a_lower_metric_is_an_advantage(tmp_path):
    splits = compare_splits(read_scenario(write(tmp_path, task='metric = "brier"\nlower_is_better = true')), 1)
    found = differences(splits, higher_is_better=False)
    assert found == {one.client: [pytest.approx(one.alone - one.together)] for one in splits}


@needs_tables
@pytest.mark.soak
def test_the_small_hospital_gains_and_the_smallest_cannot_be_measured():
    split_count = 50
    scenario = scenario_of("azpro", "hospital", "procedure")
    splits = compare_splits(scenario, split_count, worker_count=2)
    found = differences(splits, higher_is_better=True)
    _, lowest, _ = interval(found[SMALL])
    others = [np.mean(values) for client, values in found.items() if client not in (SMALL, SMALLEST)]
    assert lowest > np.mean(others), "it gains more than the average hospital, beyond doubt"
    assert np.isfinite(found[SMALLEST]).sum() < split_count / 2
    unmeasured = [one.reason for one in splits if one.client == SMALLEST and np.isnan(one.together)]
    assert unmeasured
    assert all("cannot be measured" in reason and "same target" in reason for reason in unmeasured)
    assert reasons(splits)[SMALLEST].endswith("on 5 validation samples: that would be chance. It needs at least 8.")


@needs_tables
@pytest.mark.soak  # tests/cli/test_advise.py has the same in the words of the command
def test_the_sites_of_the_insurance_experiment_gain_nothing():
    scenario = scenario_of("randhie", "site", "binexp", ["meddol"])
    found = differences(compare_splits(scenario, 8, worker_count=2), higher_is_better=True)
    means = np.mean(list(found.values()), axis=0)  # of each split, over the sites
    _, _, highest = interval(means)
    assert highest < 0.0


@needs_tables
def test_a_metric_that_does_not_fit_the_target_is_refused():
    scenario = scenario_of("azpro", "hospital", "procedure")
    scenario = replace(scenario, task=replace(scenario.task, metric_name="r2"))
    with pytest.raises(cw.ScenarioError, match="R² does not fit: the target 'procedure' has classes"):
        compare_splits(scenario, 1)
