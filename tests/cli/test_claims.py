"""`commonweal claims`: every finding is shown, with what drove it and what another choice would change."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from commonweal.paper.claims import comparisons, findings
from commonweal.paper.experiments import MUS
from commonweal.scenario.shipped import load
from commonweal.study.outcomes import Outcomes, gather
from commonweal.study.replication import Replication, ReplicationTask
from commonweal.study.result_set import RESULTS, read_results, write_replication, write_results
from commonweal.study.rows import SCHEMA
from tests.paper.invented_outcomes import Script

# All clients except client 0 stay longer as μ grows; client 0 contributes most, and round 2 brings a loss.
SCRIPT = Script(
    durations=lambda mu, r: [4, *[5 + (3 if mu == MUS[-2] else 0) + r % 2] * 4],
    profit=lambda mu, r, t, c: 1.0 if t == 1 else -0.01,
    contribution=lambda mu, r, t, c: 0.1 if c == 0 else 0.02,
)


def full_row(outcome: Any, row: Mapping[str, Any]) -> dict[str, Any]:
    """With something in every column."""
    blank: dict[str, Any] = {
        field.name: "" if pa.types.is_string(field.type) else field.type.to_pandas_dtype()(0).item() for field in SCHEMA
    }
    policy = {
        "experiment": outcome.experiment,
        "replication": outcome.replication,
        "contribution_rule": outcome.contribution_rule,
        "mu_lower": outcome.mus.lower,
        "mu_upper": outcome.mus.upper,
        "mu_includes_lower": True,
        "mu_includes_upper": True,
    }
    return {name: {**blank, **policy, **row}[name] for name in SCHEMA.names}


def store(directory: Path, outcomes: Outcomes) -> None:
    """As a result set."""
    for number, some in outcomes.replications.items():
        rows = [full_row(outcome, row) for outcome in some for row in outcome._rows]
        task = ReplicationTask(
            experiment=outcomes.experiment,
            replication=number,
            scenario=replace(load(outcomes.experiment), seed=number),
            mus={"clip": tuple(outcome.mus.lower for outcome in some)},
            data_directory=None,
        )
        write_replication(
            directory,
            Replication(
                task=task,
                rows=pa.Table.from_pylist(rows, schema=SCHEMA),
                code_version="0",
                data_fingerprint="0",
                cpu_kind="none",
                computed_round_count=1,
                seconds=1.0,
                processor_seconds=1.0,
                peak_memory_bytes=1,
            ),
        )
    write_results(directory)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for name in ("label-noise", "heterogeneous"):
        store(tmp_path / "results", SCRIPT.outcomes(name, replication_count=6)[name, "clip"])
    return tmp_path / "results"


def test_the_table_and_the_text(commonweal, results):
    done = commonweal("claims", results, env={**os.environ, "COLUMNS": "120"})
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    lines = done.stdout.splitlines()
    outcomes = gather(*read_results(results))
    found = findings(outcomes)
    for finding in found:
        rows = [line.split() for line in lines if line.split()[:2] == [finding.claim, finding.experiment]]
        assert rows[0][-1] == "6"
        assert finding.verdict in " ".join(rows[0])
        assert finding.statement in done.stdout
        assert finding.effect in done.stdout
        assert finding.driver in done.stdout
    c1 = next(line for line in lines if line.startswith("C1 ") and "label-noise" in line)
    assert c1.split() == ["C1", "label-noise", "2.400", ">", "0", "held", "6"], "no interval where there is no spread"
    changes = [one for one in comparisons(outcomes) if one.verdict_changes]
    assert changes, "for this to test anything"
    shown = done.stdout.partition("changes a verdict\n")[2]
    for one in changes:
        assert any(
            line.split()[:2] == [one.ours.claim, one.ours.experiment] and one.other.variant in line
            for line in shown.splitlines()
        )
    unchanged = "No verdict changes with: a sole survivor stays to the end, TSFI of the final set."
    assert unchanged in shown, "both are compared, and change nothing"
    assert {one.other.variant for one in comparisons(outcomes)} - {one.other.variant for one in changes} == {
        "a sole survivor stays to the end",
        "TSFI of the final set",
    }


def test_json_is_everything(commonweal, results):
    done = commonweal("claims", results, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout, parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
    outcomes = gather(*read_results(results))
    assert document["format"] == "commonweal.claims/1"
    assert document["interval_level"] == 0.95
    assert [(one["claim"], one["experiment"], one["verdict"]) for one in document["findings"]] == [
        (finding.claim, finding.experiment, finding.verdict) for finding in findings(outcomes)
    ]
    assert {"value", "lower", "upper"} == set(document["findings"][0]["interval"])
    assert [one["verdict_changes"] for one in document["comparisons"]] == [
        one.verdict_changes for one in comparisons(outcomes)
    ]


def test_a_folder_without_results(refused, tmp_path):
    (tmp_path / "empty").mkdir()
    for folder in ("empty", "none"):
        error = refused("claims", folder)
        assert f"There is no {RESULTS} in '{folder}': run `commonweal reproduce` into this folder first." in error


def test_a_file_that_is_no_result(refused, tmp_path):
    (tmp_path / RESULTS).write_text("no parquet")
    assert "Cannot read 'results.parquet': " in refused("claims", ".")


def test_too_few_mu_to_compare(refused, tmp_path):
    outcomes = Script().outcomes("heterogeneous")["heterogeneous", "clip"]
    few = {
        number: tuple(o for o in some if o.mus.lower in (0, math.inf)) for number, some in outcomes.replications.items()
    }
    store(tmp_path / "few", replace(outcomes, replications=few))
    error = refused("claims", "few")
    assert "claims need an experiment of the paper with clipped contributions at mu = 0, inf and a value" in error
    assert "`commonweal reproduce EXPERIMENT --mu 0,0.05,inf --out few`; existing results are kept" in error


def test_a_folder_must_be_given(commonweal):
    assert commonweal("claims").returncode == 2
