"""The results in docs/results match their summary, are small, and say where data are rebuilt."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from benchmarks.bench_harm import SETTINGS, read_runs
from benchmarks.harm_tables import tables as harm_tables
from benchmarks.mechanism_tables import comparisons
from benchmarks.mechanism_tables import tables as mechanism_tables
from benchmarks.noise.tables import tables as noise_tables
from benchmarks.path_tables import read_rows
from benchmarks.path_tables import tables as path_tables
from benchmarks.results_page import FOLDER, quoted

from commonweal.paper.experiments import EXPERIMENTS
from commonweal.paper.make_study import make_study
from commonweal.paper.page.page import paper_page
from commonweal.report.study.tables import markdown_tables
from commonweal.study.experiments import load_experiments, parse_settings
from commonweal.study.result_set import scenario_digest, stored_replications
from tests.paper.paper_page_text import check_words, sections, verdicts

PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
SUMMARY = json.loads((FOLDER / "summary.json").read_text(encoding="utf-8"))


def test_quoted_tables_match_the_summary():
    current = markdown_tables(SUMMARY)
    on_page = quoted(PAGE)
    assert {"verdicts", "verdicts/learning_rate=0.01", "regimes", "runs", "facts"} <= set(on_page)
    for name, body in on_page.items():
        assert body == current[name].strip(), name


def test_tables_of_the_comparison_with_the_truth_match_its_rows():
    rows = json.loads((FOLDER / "noise.json").read_text(encoding="utf-8"))
    assert quoted((FOLDER / "noise.md").read_text(encoding="utf-8")) == noise_tables(rows)


def test_all_six_experiments_at_both_rates_with_as_many_replications_as_the_commands_on_the_page_say():
    commands = re.findall(r"commonweal reproduce all --replications (\d+)(?: --set (\S+))?", PAGE)[:2]
    counts = {experiment["name"]: experiment["replication_count"] for experiment in SUMMARY["experiments"]}
    for asked, setting in commands:
        regime = f"[{setting.removeprefix('learning.')}]" if setting else ""
        assert {counts[name + regime] for name in EXPERIMENTS} == {int(asked)}
    assert [setting for _, setting in commands] == ["", "learning.learning_rate=0.01"]


def test_the_set_that_is_being_computed_can_be_continued():
    stored = list(stored_replications(FOLDER))
    assert {one.origin.experiment.partition("[")[0] for one in stored} >= set(EXPERIMENTS)
    for one in stored:
        scenario = next(iter(load_experiments([one.origin.experiment.partition("[")[0]], settings_of(one)).values()))
        assert scenario_digest(scenario) == one.origin.scenario_digest, "the shipped scenario has changed since"
    # The first part is the same on all processors, the second of one kind only.
    assert len({one.origin.code_version.partition("-")[0] for one in stored}) == 1


@pytest.mark.soak  # testing all claims takes a minute
@pytest.mark.skipif(not os.environ.get("COMMONWEAL_DATA"), reason="no original data")
def test_the_page_of_the_paper_follows_from_the_rows():
    published = (FOLDER / "paper.md").read_text(encoding="utf-8")
    again = paper_page(make_study(FOLDER, Path(os.environ["COMMONWEAL_DATA"])))
    assert check_words(published) > 0
    assert sections(published).keys() == sections(again).keys()
    for heading, section in sections(again).items():
        assert verdicts(sections(published)[heading]) == verdicts(section), heading


def settings_of(one):
    """The keys that its name says were varied."""
    varied = one.origin.experiment.partition("[")[2].removesuffix("]")
    of_mechanism = ("contribution=", "figures=")
    return parse_settings(
        [f"{'mechanism' if key.startswith(of_mechanism) else 'learning'}.{key}" for key in varied.split(",") if key]
    )


def test_the_rebuilt_set_is_labelled():
    for heterogeneous in (e for e in SUMMARY["experiments"] if e["name"].startswith("heterogeneous")):
        assert "rebuilt, not the original" in heterogeneous["data_note"]
    assert "SynthDigits is not\nthe original" in PAGE
    assert all("synthdigits" not in sheet["source"] or "rebuilt" in sheet["label"] for sheet in SUMMARY["sheets"])


def test_the_tables_of_paths_match_their_rows():
    rows = read_rows(FOLDER / "path.json")
    page = (FOLDER / "path.md").read_text(encoding="utf-8")
    assert quoted(page) == path_tables(rows)
    asked = int(re.findall(r"path_figures --seeds (\d+)", page)[0])
    seeds = {setting: {row.seed for row in rows if row.setting == setting} for setting in {row.setting for row in rows}}
    assert all(found == set(range(1, asked + 1)) for found in seeds.values()), seeds


def test_the_table_of_harm_matches_its_runs():
    page = (FOLDER / "harm.md").read_text(encoding="utf-8")
    runs = read_runs(FOLDER / "harm.jsonl")
    assert quoted(page) == harm_tables(runs)
    asked = int(re.findall(r"bench_harm --seeds (\d+)", page)[0])
    seeds = {setting: sorted(run.seed for run in runs if run.setting == setting) for setting in SETTINGS}
    assert seeds == {setting: list(range(1, asked + 1)) for setting in SETTINGS}


def test_the_tables_of_mechanisms_match_what_was_compared():
    page = (FOLDER / "mechanisms.md").read_text(encoding="utf-8")
    compared = comparisons()
    assert quoted(page) == mechanism_tables(compared)
    for name, count in re.findall(r"commonweal compare (\S+) --replications (\d+)", page):
        assert len(compared[name.removesuffix(".toml")]["seeds"]) == int(count)


def test_plots_exist_and_files_are_small():
    for picture in re.findall(r"\]\((figures/[^)]+)\)", (FOLDER / "paper.md").read_text(encoding="utf-8")):
        assert (FOLDER / picture).is_file()
    sizes = {file.name: file.stat().st_size for file in FOLDER.rglob("*") if file.is_file()}
    rows = sizes.pop("results.parquet")  # every replication, so that claims can be tested again without computing them
    assert rows < 6_000_000
    assert max(sizes.values()) < 2_000_000  # summary.json: nine regimes, with the reason for each verdict
    assert sum(sizes.values()) < 6_000_000
