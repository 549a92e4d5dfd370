"""history.json: complete, documented field by field, the same bytes every time, and read as it was written."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from commonweal.errors import InputError, StorageError
from commonweal.records import ClientRound, MuRange, RoundReport, Rules, RunReport
from commonweal.report.history_json import read_history, to_document, write_history
from tests.report import run_reports

PAGE = Path(__file__).parents[2] / "docs/reference/history-json.md"
BY_NAME = {  # objects whose keys are the user's
    "settings", "scenario", "client_facts", "rounds[].individual_rationality.violations",
    "rounds[].iteration_accuracies[]", "totals.durations", "totals.eliminated_after", "totals.payoffs",
    "totals.transfers", "rounds[].gains.pooled", "rounds[].gains.expected",
    "totals.harmful_after", "rounds[].harm[].by_scorer", "rounds[].ending.expected",
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
    clinics = run_reports.clinics()  # where models are also trained alone, and a profit is misreported
    rated = replace(hospitals, profits="rates")
    reports = hospitals, clinics, run_reports.with_forecasts(hospitals), run_reports.advised(), rated
    assert set().union(*(field_paths(to_document(report)) for report in reports)) == documented_paths()


def test_no_field_of_the_records_is_left_out():
    """Every field of the run report's records has a field of its own, under its own name or the one given here."""
    document = to_document(replace(run_reports.clinics(), profits="rates"))
    in_totals = {"total_payoffs": "payoffs", "total_transfers": "transfers"}
    for field in fields(RunReport):
        assert field.name in document or in_totals.get(field.name, field.name) in document["totals"], field.name
    for field in fields(ClientRound):
        assert field.name in document["rounds"][0]["clients"][0], field.name
    for name in {field.name for field in fields(RoundReport)} - {"record", "decision_map"}:
        assert name in document["rounds"][0], name


def test_figures_come_through_unchanged(hospitals):
    document = to_document(hospitals)
    for each, written in zip(hospitals.rounds, document["rounds"], strict=True):
        assert written["retained"] == list(each.record.decision.retained)
        assert written["mu_path"][-1]["upper"] == "inf"
        for client in written["clients"]:
            figures = each.clients[client["client"]]
            assert client["profit"] == {
                "value": each.record.decision.figures.profits[client["client"]],
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


def as_written(ranges):
    """Ranges of mu whose exact bounds are doubles: as much as the file holds."""
    return ranges and tuple(
        MuRange(exact_lower=r.lower, exact_upper=r.upper, closed_below=r.includes_lower, closed_above=r.includes_upper)
        for r in ranges
    )


def without_exact_bounds(run_report):
    rounds = []
    for each in run_report.rounds:
        drawn = each.decision_map
        if drawn is not None:
            ranges = as_written([mus for mus, _ in drawn.pieces])
            pieces = zip(ranges, (retained for _, retained in drawn.pieces), strict=True)
            drawn = replace(drawn, pieces=tuple(pieces))
        clients = {
            name: replace(client, stays_for_mu=as_written(client.stays_for_mu)) for name, client in each.clients.items()
        }
        rounds.append(replace(each, clients=clients, decision_map=drawn))
    return replace(run_report, rounds=tuple(rounds))


def test_a_history_is_read_as_it_was_written(hospitals, tmp_path):
    write_history(hospitals, tmp_path / "a.json")
    read = read_history(tmp_path / "a.json")
    assert read == without_exact_bounds(hospitals)
    assert read.payments == hospitals.payments
    write_history(read, tmp_path / "b.json")
    assert (tmp_path / "b.json").read_bytes() == (tmp_path / "a.json").read_bytes()


def test_unusual_histories_are_read_as_they_were_written(unusual, tmp_path):
    write_history(unusual, tmp_path / "a.json")
    read = read_history(tmp_path / "a.json")
    scenario = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["scenario"]
    assert read == replace(without_exact_bounds(unusual), scenario=scenario)  # where infinity stays text
    assert read.rules.mu == unusual.rules.mu
    write_history(read, tmp_path / "b.json")
    assert (tmp_path / "b.json").read_bytes() == (tmp_path / "a.json").read_bytes()


def test_what_cannot_be_measured_is_null_and_comes_back(tmp_path):
    clinics = without_exact_bounds(run_reports.clinics())
    write_history(clinics, tmp_path / "a.json")
    document = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert document["metric"] == {
        "name": "roc-auc", "label": "ROC AUC", "higher_is_better": True, "is_share": False,
    }  # fmt: skip
    assert document["utility"] == "advantage"
    for each in document["rounds"]:
        (unmeasured,) = (client for client in each["clients"] if client["client"] == "single-class")
        assert unmeasured["previous_accuracy"] is None
        for field in ("accuracy", "alone", "advantage"):
            assert unmeasured[field] == {"value": None, "standard_error": None}
        assert all(row["single-class"] is None and row["gains"] is not None for row in each["iteration_accuracies"])
    read = read_history(tmp_path / "a.json")
    figures = read.rounds[0].clients["single-class"]
    not_numbers = (figures.accuracy.value, figures.previous_accuracy, figures.alone.value, figures.advantage.value)
    assert all(math.isnan(value) for value in not_numbers)
    assert read.rounds[2].clients["gains"] == clinics.rounds[2].clients["gains"]
    assert (read.metric, read.utility, read.advice) == (clinics.metric, clinics.utility, clinics.advice)
    write_history(read, tmp_path / "b.json")
    assert (tmp_path / "b.json").read_bytes() == (tmp_path / "a.json").read_bytes()


def test_files_from_before_metrics_hold_accuracy_and_gain(hospitals, tmp_path):
    document = to_document(hospitals)
    del document["metric"], document["utility"], document["advice"]
    (tmp_path / "old.json").write_text(json.dumps(document), encoding="utf-8")
    assert read_history(tmp_path / "old.json") == without_exact_bounds(hospitals)
    assert not {"alone", "alone_cost", "advantage"} & set(document["rounds"][0]["clients"][0])


def test_files_from_before_rules_had_a_version_are_of_the_first(hospitals, tmp_path):
    document = to_document(hospitals)
    assert document["rules"]["version"] == 2
    for rules in (document["rules"], *(round_["rules"] for round_ in document["rounds"])):
        del rules["version"]
    (tmp_path / "old.json").write_text(json.dumps(document), encoding="utf-8")
    read = read_history(tmp_path / "old.json")
    assert {read.rules.version, *(round_.record.decision.rules.version for round_ in read.rounds)} == {1}
    assert replace(read.rules, version=2) == hospitals.rules


def test_another_mechanism_comes_back(tmp_path):
    pair = without_exact_bounds(run_reports.pair())
    rules = Rules(mu=0.1, liability_cap=2.5, mechanism="another", parameters=(("rate", 0.5),))
    (only,) = pair.rounds
    decision = replace(only.record.decision, rules=rules)
    changed = replace(pair, rules=rules, rounds=(replace(only, record=replace(only.record, decision=decision)),))
    write_history(changed, tmp_path / "history.json")
    assert read_history(tmp_path / "history.json") == changed


def test_infinities_withdrawals_and_grace_come_back(tmp_path):
    pair = run_reports.pair()
    (only,) = pair.rounds
    decision = replace(only.record.decision, objective=-math.inf, proven_gap=math.inf, grace=True)
    client = replace(only.clients["north"], stays_for_mu=None, step_count=None, cost=None)
    changed = replace(
        only,
        record=replace(
            only.record,
            decision=replace(decision, figures=replace(decision.figures, costs=None)),
            withdrawn=("south",),
        ),
        clients={**only.clients, "north": client},
        decision_map=None,
    )
    report = without_exact_bounds(replace(pair, rounds=(changed,), withdrawn_after={"south": 1}))
    write_history(report, tmp_path / "history.json")
    assert read_history(tmp_path / "history.json") == report


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b'{"schema": NaN}', "NaN is not JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[]", "its schema must be 'commonweal.history/1', got None"),
        (
            b'{"schema": "commonweal.history/2"}',
            "its schema must be 'commonweal.history/1', got 'commonweal.history/2'",
        ),
        (b'{"schema": "commonweal.history/1"}', "totals is missing"),
    ],
)
def test_other_files_are_refused(content, why, tmp_path):
    (tmp_path / "history.json").write_bytes(content)
    with pytest.raises(InputError, match=re.escape(why)) as refusal:
        read_history(tmp_path / "history.json")
    assert str(refusal.value).startswith(f"Cannot read {tmp_path / 'history.json'}: ")


def test_a_history_that_cannot_be_opened_is_refused(tmp_path):
    with pytest.raises(StorageError, match=r"Cannot read .*nowhere\.json: no such file"):
        read_history(tmp_path / "nowhere.json")
    with pytest.raises(StorageError, match="is a directory"):
        read_history(tmp_path)


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        (("rounds", 0, "budget"), 3, "rounds[0].budget must be an object, got 3."),
        (
            ("rounds", 0, "clients", 1, "profit", "value"),
            "x",
            'rounds[0].clients[1].profit.value must be a number, got "x".',
        ),
        (
            ("rounds", 0, "rules", "loss_rule"),
            "new",
            "rounds[0].rules.loss_rule must be one of contribution, equal, cost, loss,",
        ),
        (("rounds", 0, "grace"), 1, "rounds[0].grace must be true or false, got 1."),
        (("rounds", 0, "node_count"), True, "rounds[0].node_count must be a whole number, got true."),
        (("rounds", 0, "retained"), ["stranger"], "must include every retained client; 'stranger' is missing."),
        (("totals", "durations", "north"), None, "totals.durations['north'] must be a whole number, got null."),
        (("utility",), "joy", 'utility must be one of gain, advantage, got "joy".'),
        (("metric", "is_share"), 1, "metric.is_share must be true or false, got 1."),
        (("rounds", 0, "clients", 0, "profit", "value"), None, "profit.value must be a number, got null."),
        (("rules", "mu"), 10**400, "rules.mu must be a number in the range of a double"),
    ],
)
def test_a_broken_field_is_named(place, value, why, tmp_path):
    document = to_document(run_reports.pair())
    part = document
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    (tmp_path / "history.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(why)):
        read_history(tmp_path / "history.json")


def places(value, place=()):
    """The places of all values of a document."""
    yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from places(part, (*place, key))


def refusal(path):
    """The sentence with which a history is refused; "." if it is not."""
    try:
        read_history(path)
    except InputError as error:
        return str(error)
    return "."


def test_any_broken_value_is_refused_with_a_message_or_harmless(tmp_path):
    written = json.dumps(to_document(run_reports.pair()))
    path = tmp_path / "history.json"
    for *outer, last in list(places(json.loads(written)))[1:]:
        for broken in ({}, "x", None):
            document = part = json.loads(written)
            for key in outer:
                part = part[key]
            part[last] = broken
            path.write_text(json.dumps(document), encoding="utf-8")
            assert refusal(path).endswith(".")


def test_fields_of_later_versions_are_ignored(tmp_path):
    document = to_document(run_reports.pair())
    document["new"] = document["rounds"][0]["clients"][0]["new"] = {"a": 1}
    (tmp_path / "history.json").write_text(json.dumps(document), encoding="utf-8")
    assert read_history(tmp_path / "history.json").clients == ("north", "south")
