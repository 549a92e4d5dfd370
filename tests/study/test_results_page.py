"""The reference page of results.parquet lists every column and field, and its snippet works."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commonweal.study.outcomes import Outcomes, gather
from commonweal.study.result_set import FORMAT, Origin, StoredReplication, read_results
from commonweal.study.rows import SCHEMA

PAGE = (Path(__file__).parents[2] / "docs/reference/results-parquet.md").read_text(encoding="utf-8")


def table_of(title: str) -> list[list[str]]:
    """Rows of the section's table, each a list of cells."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return rows[2:]


def test_the_columns_match_the_files() -> None:
    documented = [(name.strip("`"), kind.split(",")[0], "null" in kind) for name, kind, _, _ in table_of("Columns")]
    assert documented == [(field.name, str(field.type), field.nullable) for field in SCHEMA]
    for name, _, _, meaning in table_of("Columns"):
        assert meaning, name


def test_the_metadata_match_the_files(small_results: Path) -> None:
    assert f"Format `{FORMAT}`" in PAGE
    for path in small_results.rglob("*.parquet"):
        metadata = pq.read_schema(path).metadata
        assert set(metadata) == {b"commonweal"}
        document = json.loads(metadata[b"commonweal"])
        assert set(document) == {"format", "replications", "scenarios"}
        assert set(document["scenarios"]) == {"label-noise"}
        for replication in document["replications"]:
            assert [f"`{name}`" for name in replication] == [name for name, _ in table_of("Metadata")]
    known = {field.name for record in (Origin, StoredReplication) for field in fields(record)} - {"origin", "scenario"}
    assert known - {"computed_round_count"} == set(replication) - {"held_count"}


def test_the_files_are_where_the_page_says(small_results: Path) -> None:
    assert {str(path.relative_to(small_results)) for path in small_results.rglob("*.parquet")} == {
        "results.parquet", *(f"replications/label-noise/0000{number}.parquet" for number in (1, 2, 3)),
    }  # fmt: skip


def durations(outcomes: Outcomes, mu: float) -> dict[tuple[int, str], int]:
    return {(o.replication, client): count for o in outcomes.at(mu) for client, count in o.durations.items()}


def test_the_snippet_selects_the_rows_of_a_mu(
    small_results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/paper").symlink_to(small_results)
    monkeypatch.chdir(tmp_path)
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    defined: dict[str, object] = {}
    exec(snippet, defined)
    at, everything = defined["at"], pd.read_parquet("out/paper/results.parquet")
    bounds = {bound for bound in everything.mu_lower if 0 < bound < math.inf}
    assert bounds
    outcomes = gather(*read_results(small_results))
    for mu in {0.0, 0.05, math.inf, *bounds, *(math.nextafter(bound, math.inf) for bound in bounds)}:
        found = at(everything, mu)
        for (_, rule), of_rule in outcomes.items():
            some = found[found.contribution_rule == rule]
            assert some.groupby(["replication", "client"]).size().to_dict() == durations(of_rule, mu), (mu, rule)
            assert not some.duplicated(["replication", "round", "client"]).any(), "one policy for each mu"
    of_b = [count for (_, client), count in durations(outcomes["label-noise", "clip"], 0.05).items() if client == "b"]
    mean = sum(of_b) / len(of_b)
    assert re.search(rf"clip +a .*\n +b +{mean:.6f}\n", capsys.readouterr().out)


def test_rows_are_in_the_documented_order(small_results: Path) -> None:
    rows: pa.Table = pq.read_table(small_results / "results.parquet")
    order = ["replication", "contribution_rule", "mu_lower", "mu_upper", "round", "client"]
    assert rows.equals(rows.sort_by([(name, "ascending") for name in order]))
