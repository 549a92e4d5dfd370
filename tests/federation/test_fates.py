"""Poisoners are eliminated as harmful, and a federation that no further round would pay ends; over real clients."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from commonweal.decision.decide import decide_figures
from commonweal.errors import ScenarioError
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.statements import make_statement
from commonweal.ledger.verification.recompute import recompute
from commonweal.ledger.verification.verify import verify_ledger
from commonweal.report.history_json import read_history, to_document
from commonweal.scenario.toml_file import parse_scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.run import ledger_of_run, run_scenario
from commonweal.simulation.simulated_task import task_of
from commonweal.study.mu_sets import MuGrid
from commonweal.study.sweep import sweep
from tests.undrawn import without_drawings

HONEST = ("ann", "bob", "cyd", "dan", "eve")
POISONED = """
name = "poisoned"
rounds = 3
seed = 1
[mechanism]
mu = 0.05
contribution = "path"
scorers = "guarded"
harm = "eliminate"
[learning]
iteration_limit = 3
[defaults]
source = "uci-digits"
samples_per_round = 40
[[clients]]
name = "poisoner"
reported_profit = 0.0
defect = { kind = "sign-flip", factor = 2 }
""" + "".join(f'[[clients]]\nname = "{name}"\n' for name in HONEST)
FINISHED = """
name = "finished"
rounds = 6
seed = 1
[mechanism]
mu = 0.05
figures = "forecast"
ending = "stop"
[learning]
iteration_limit = 1
[defaults]
source = "uci-digits"
samples_per_round = 40
cost_per_sample = 0.02
""" + "".join(f'[[clients]]\nname = "{name}"\n' for name in HONEST[:3])


def edited(text, *edits):
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return parse_scenario(text, "the test")


def run(scenario, folder, **options):
    folder.mkdir(exist_ok=True)
    keys = KeyDirectory(folder / "keys")
    with closing(ledger_of_run(scenario, None, folder, keys, resume=options.get("resume", False))) as ledger:
        return run_scenario(scenario, directory=folder, ledger=ledger, **options)


def findings(folder):
    with closing(open_store(str(folder / "ledger.db"))) as store:
        return verify_ledger(store, recompute).findings


def statement(folder, client):
    with closing(open_store(str(folder / "ledger.db"))) as store:
        return [line.text for line in make_statement(store, client, at="2026-01-01T00:00:00Z").lines]


class StopError(Exception):
    pass


def interrupt(after):
    def on_round(result):
        if result.record.round_number == after:
            raise StopError

    return on_round


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("poisoned")
    with without_drawings():
        return run(edited(POISONED), folder), folder


def test_a_poisoner_that_reports_no_loss_is_eliminated_as_harmful(poisoned):
    report, _ = poisoned
    (after,) = report.harmful_after.values()
    assert report.harmful_after == {"poisoner": after}
    assert report.eliminated_after["poisoner"] == after
    last = next(each for each in report.rounds if each.number == after)
    (evidence,) = last.record.harm
    assert set(evidence.by_scorer) == set(HONEST)
    assert evidence.is_beyond_doubt
    decision = last.record.decision
    assert "poisoner" not in decision.candidates  # it reports no loss
    others = decide_figures(decision.figures.without(["poisoner"]), decision.rules)
    assert (decision.retained, decision.transfers) == (others.retained, others.transfers)
    assert last.clients["poisoner"].transfer is None
    assert "It is eliminated as harmful: " in last.clients["poisoner"].sentence
    assert "the model got worse by what it sent at 5 of 5 other clients" in last.clients["poisoner"].sentence
    assert f"eliminated as harmful: poisoner after round {after}" in report.sentence
    assert report.fate_of("poisoner") == f"eliminated as harmful after round {after}"
    assert last.record.stability_of("poisoner") is None  # harm is not decided on draws


def test_its_evidence_is_in_the_history_the_page_the_statement_and_the_ledger(poisoned):
    report, folder = poisoned
    after = report.harmful_after["poisoner"]
    written = json.loads((folder / "history.json").read_text())
    assert written["outcome"] == "all-rounds"
    assert written["totals"]["harmful_after"] == {"poisoner": after}
    assert written["rounds"][after - 1]["harmful"] == ["poisoner"]
    assert written["rounds"][after - 1]["harm"][0]["client"] == "poisoner"
    read = read_history(folder / "history.json")
    assert to_document(read) == written
    assert read.rounds[after - 1].record.harm == report.rounds[after - 1].record.harm
    page = (folder / "report.html").read_text()
    assert "Evidence of harm" in page
    assert f"eliminated as harmful after round {after}" in page
    assert statement(folder, "poisoner")[-1].startswith(f"round {after}: eliminated as harmful; ")
    assert findings(folder) == ()


@pytest.mark.soak
@pytest.mark.usefixtures("numbers_only")
def test_an_interrupted_run_finds_the_same(poisoned, tmp_path):
    """The effects of earlier rounds are in the checkpoint."""
    _, folder = poisoned
    scenario, out = edited(POISONED), tmp_path / "out"
    for after in (1, 2):
        with pytest.raises(StopError):
            run(scenario, out, resume=after > 1, on_round=interrupt(after))
    run(scenario, out, resume=True)
    assert (out / "history.json").read_bytes() == (folder / "history.json").read_bytes()
    assert findings(out) == ()


@pytest.mark.usefixtures("numbers_only")
def test_advice_tells_the_operator_and_eliminates_nobody(poisoned, tmp_path):
    after = poisoned[0].harmful_after["poisoner"]
    report = run(edited(POISONED, ('"eliminate"', '"advise"')), tmp_path)
    assert report.harmful_after == {}
    last = report.rounds[after - 1]
    assert last.record.harm == poisoned[0].rounds[after - 1].record.harm
    (event,) = [event for event in last.events if event.kind == "harmful"]
    assert event.client == "poisoner"
    assert event.text.startswith("poisoner harms the federation: ")
    assert "poisoner" in last.record.decision.retained
    assert any("reported as harmful: " in line for line in statement(tmp_path, "poisoner"))
    assert " It is reported as harmful: " in last.clients["poisoner"].sentence
    assert findings(tmp_path) == ()


def test_without_the_key_nobody_looks_for_harm(tmp_path):
    report = run_scenario(edited(POISONED, ('harm = "eliminate"\n', "")))
    assert report.harmful_after == {}
    assert not any(each.record.harm for each in report.rounds)


def test_grace_rounds_are_no_evidence_of_harm():
    report = run_scenario(edited(POISONED, ("mu = 0.05", "mu = 0.05\ngrace_rounds = 2")))
    assert not any(each.record.harm for each in report.rounds[:2])
    assert [one.round_numbers for one in report.rounds[2].record.harm] == [(3,)]


def test_a_sweep_over_mu_eliminates_harmful_clients_too(poisoned):
    scenario = edited(POISONED)
    with InProcessClients(scenario, task_of(scenario, None), worker_count=1) as clients:
        (swept,) = sweep(clients, scenario, {"clip": MuGrid((0.05,))})
    retained = [each.record.decision.retained for each in poisoned[0].rounds]
    assert [kept for _, kept in swept.rounds] == retained


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    with without_drawings():
        return run(edited(FINISHED), folder), folder


def test_a_federation_that_no_further_round_would_pay_ends(finished):
    report, folder = finished
    last = report.rounds[-1]
    assert report.outcome == "finished"
    assert len(report.rounds) < 6
    assert "finished: another round is expected to cost more than it brings" in report.sentence
    decision = last.record.decision
    assert decision.finished
    assert decision.eliminated == ()  # though they expect losses
    expected = sorted(decision.figures.expected.values())
    assert expected[-1] + expected[-2] <= 0
    assert last.record.ending.expected == decision.figures.expected
    assert last.record.ending.best_budget == pytest.approx(expected[-1] + expected[-2])
    assert [event.kind for event in last.events if event.client is None] == ["finished"]
    stayed = [client for client in report.clients if report.eliminated_after[client] is None]
    assert all(report.durations[client] == len(report.rounds) for client in stayed)
    written = json.loads((folder / "history.json").read_text())
    assert written["outcome"] == "finished"
    assert written["rounds"][-1]["finished"] is True
    assert written["rounds"][-1]["ending"]["stability"] == 1.0  # the costs leave no doubt
    assert "brings (the same in all 100 draws). " in report.sentence
    assert "; the same in all 100 draws). The federation ends." in last.events[-1].text
    assert to_document(read_history(folder / "history.json")) == written
    assert findings(folder) == ()
    assert all("the federation is finished: " in statement(folder, client)[-1] for client in stayed)


@pytest.mark.usefixtures("numbers_only")
def test_a_finished_run_stays_finished_when_it_is_resumed(finished, tmp_path):
    report, folder = finished
    out = tmp_path / "out"
    with pytest.raises(StopError):
        run(edited(FINISHED), out, on_round=interrupt(len(report.rounds)))
    run(edited(FINISHED), out, resume=True)
    assert (out / "history.json").read_bytes() == (folder / "history.json").read_bytes()


@pytest.mark.usefixtures("numbers_only")
def test_advice_on_the_end_lets_the_federation_go_on(finished, tmp_path):
    told = len(finished[0].rounds)
    report = run(edited(FINISHED, ('"stop"', '"advise"')), tmp_path)
    record = report.rounds[told - 1].record
    assert not record.decision.finished
    assert record.ending == finished[0].rounds[-1].record.ending
    assert report.outcome != "finished"
    assert f"After round {told} it was finished: " in report.sentence
    assert findings(tmp_path) == ()


@pytest.mark.parametrize(
    ("text", "edit", "message"),
    [
        (
            POISONED,
            ('contribution = "path"\nscorers = "guarded"\n', ""),
            r'harm = "eliminate" needs contribution = "path"',
        ),
        (FINISHED, ('figures = "forecast"\n', ""), r'ending = "stop" needs figures = "forecast", got "measured"'),
        (FINISHED, ('"forecast"', '"pooled"'), r'ending = "stop" needs figures = "forecast", got "pooled"'),
        (POISONED, ('"eliminate"', '"punish"'), "harm must be one of eliminate, advise, none"),
    ],
)
def test_what_does_not_go_together_is_refused(text, edit, message):
    with pytest.raises(ScenarioError, match=message):
        edited(text, edit)
