"""history.json: complete, documented field by field, and the same bytes every time."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields
from pathlib import Path

import pytest

from commonweal.errors import StorageError
from commonweal.records import ClientRound, RoundReport, RunReport
from commonweal.report.history_json import to_document, write_history
from tests.report import run_reports

PAGE = Path(__file__).parents[2] / "docs/reference/history-json.md"
BY_NAME = {  # objects whose keys are the user's
    "settings", "scenario", "client_facts", "rounds[].individual_rationality.violations",
    "rounds[].iteration_accuracies[]", "totals.durations", "totals.eliminated_after", "totals.payoffs",
    "totals.transfers",
}  # fmt: skip


def field_paths(value, path=""):
    """Paths of all fields, such as `rounds[].clients[].cost`; estimates and objects by name are leaves."""
    if isinstance(value, list):
        return {found for inner in value for found in field_paths(inner, f"{path}[]")}
    if not isinstance(value, dict) or set(value) == {"value", "standard_error"} or path in BY_NAME:
        return set()
    found = set()
    for key, inner in value.items():
        inner_path = f"{path}.{key}" if path else key
        found |= {inner_path} | field_paths(inner, inner_path)
    return found


def documented_paths():
    found = set()
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        heading, _, body = section.partition("\n")
        names = re.findall(r"^\| `(\w+)` \|", body, re.MULTILINE)
        prefixes = [f"{prefix}." for prefix in re.findall(r"`([^`]+)`", heading)] or [""]
        found |= {prefix + name for prefix in prefixes for name in names}
    return found


def test_every_field_is_documented_and_every_documented_field_is_there(hospitals):
    assert field_paths(to_document(hospitals)) == documented_paths()


def test_nothing_of_the_records_is_left_out(hospitals):
    """Every field of the run report's records has a field of its own, under its own name or the one given here."""
    document = to_document(hospitals)
    in_totals = {"total_payoffs": "payoffs", "total_transfers": "transfers"}
    for field in fields(RunReport):
        assert field.name in document or in_totals.get(field.name, field.name) in document["totals"], field.name
    for field in fields(ClientRound):
        assert field.name in document["rounds"][0]["clients"][0], field.name
    for name in {field.name for field in fields(RoundReport)} - {"record", "decision_map"}:
        assert name in document["rounds"][0], name


def test_figures_come_through_unchanged(hospitals):
    document = to_document(hospitals)
    for held, written in zip(hospitals.rounds, document["rounds"], strict=True):
        assert written["retained"] == list(held.record.decision.retained)
        assert written["mu_path"][-1]["upper"] == "inf"
        for client in written["clients"]:
            figures = held.clients[client["client"]]
            assert client["profit"] == {
                "value": held.record.decision.figures.profits[client["client"]],
                "standard_error": figures.profit.standard_error,
            }
            assert (client["transfer"] is None) == (client["client"] in written["eliminated"])
    for number in (1, 4, 8):
        paid = [p["amount"] for p in document["payments"] if p["round"] == number]
        received = [c["transfer"]["value"] for c in document["rounds"][number - 1]["clients"] if c["transfer"]]
        assert math.fsum(paid) == pytest.approx(math.fsum(amount for amount in received if amount > 0))


def test_the_same_run_gives_the_same_bytes(hospitals, tmp_path):
    write_history(hospitals, tmp_path / "a.json")
    write_history(run_reports.hospitals(), tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_unusual_runs_are_json(unusual, tmp_path):
    write_history(unusual, tmp_path / "history.json")

    def refuse(constant):
        raise AssertionError(constant)

    read = json.loads((tmp_path / "history.json").read_text(encoding="utf-8"), parse_constant=refuse)
    assert read["clients"] == list(unusual.clients)
    assert read["rules"]["mu"] == ("inf" if math.isinf(unusual.rules.mu) else unusual.rules.mu)


def test_a_folder_that_does_not_exist_is_refused(hospitals, tmp_path):
    with pytest.raises(StorageError, match=r"nowhere/history\.json"):
        write_history(hospitals, tmp_path / "nowhere" / "history.json")
