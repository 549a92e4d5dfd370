"""The results in docs/results match their summary, are small, and say where data are rebuilt."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest
from benchmarks.path_tables import read_rows, tables

from commonweal.paper.experiments import EXPERIMENTS
from commonweal.report.study.tables import markdown_tables

FOLDER = Path(__file__).parent.parent / "docs" / "results"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
SUMMARY = json.loads((FOLDER / "summary.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def quoted_of():
    """The function that finds the tables of a page."""
    spec = importlib.util.spec_from_file_location("update", FOLDER / "update.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.quoted


def test_quoted_tables_match_the_summary(quoted_of):
    current, quoted = markdown_tables(SUMMARY), quoted_of(PAGE)
    assert {"verdicts", "runs", "facts", "sweep-cost", "recommendations"} <= set(quoted)
    for name, body in quoted.items():
        assert body == current[name].strip(), name


def test_all_six_experiments_with_as_many_replications_as_the_command_on_the_page_says():
    asked = max(map(int, re.findall(r"commonweal reproduce all --replications (\d+)", PAGE)))
    counts = {experiment["name"]: experiment["replication_count"] for experiment in SUMMARY["experiments"]}
    assert {name: counts[name] for name in EXPERIMENTS} == dict.fromkeys(EXPERIMENTS, asked)


def test_the_rebuilt_set_is_labelled():
    (heterogeneous,) = [e for e in SUMMARY["experiments"] if e["name"] == "heterogeneous"]
    assert "rebuilt, not the original" in heterogeneous["data_note"]
    assert "SynthDigits is not\nthe original" in PAGE
    assert all("synthdigits" not in sheet["source"] or "rebuilt" in sheet["label"] for sheet in SUMMARY["sheets"])


def test_the_tables_of_paths_match_their_rows(quoted_of):
    rows = read_rows(FOLDER / "path.json")
    page = (FOLDER / "path.md").read_text(encoding="utf-8")
    assert quoted_of(page) == tables(rows)
    asked = int(re.findall(r"path_figures --seeds (\d+)", page)[0])
    seeds = {setting: {row.seed for row in rows if row.setting == setting} for setting in {row.setting for row in rows}}
    assert all(found == set(range(1, asked + 1)) for found in seeds.values()), seeds


def test_plots_exist_and_files_are_small():
    for picture in re.findall(r"\]\((figures/[^)]+)\)", PAGE):
        assert (FOLDER / picture).is_file()
    sizes = {file.name: file.stat().st_size for file in FOLDER.rglob("*") if file.is_file()}
    assert max(sizes.values()) < 1_500_000
    assert sum(sizes.values()) < 6_000_000
