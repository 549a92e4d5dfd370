"""A client that reports another profit than it made: what follows the report, and where the truth is kept."""

from __future__ import annotations

import json
import math
from contextlib import closing
from dataclasses import replace

import pytest

from commonweal.decision.decide import decide_figures
from commonweal.federation.misreports import misreport_warnings
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.verification.recompute import recompute
from commonweal.ledger.verification.verify import verify_ledger
from commonweal.report.history_json import read_history
from commonweal.scenario.toml_file import parse_scenario
from commonweal.simulation.run import ledger_of_run, run_scenario
from tests.undrawn import without_drawings

TEXT = """
name = "liars"
rounds = 3
seed = 4
[mechanism]
mu = 0.02
[learning]
iteration_limit = 2
[defaults]
source = "uci-digits"
samples_per_round = 40
cost_per_sample = 2e-3
[[clients]]
name = "ann"
[[clients]]
name = "bob"
[[clients]]
name = "liar"
{reported}
[[clients]]
name = "cyd"
"""


def scenario(reported):
    return parse_scenario(TEXT.format(reported=reported), "the test")


def run(folder, *, resume=False):
    folder.mkdir(exist_ok=True)
    lying = scenario("reported_profit = -0.01")
    with (
        closing(ledger_of_run(lying, None, folder, KeyDirectory(folder / "keys"), resume=resume)) as ledger,
        without_drawings(),
    ):
        return run_scenario(lying, directory=folder, ledger=ledger, resume=resume)


@pytest.fixture(scope="module")
def truthful():
    return run_scenario(scenario(""))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("misreports") / "out"


@pytest.fixture(scope="module")
def lying(folder):
    return run(folder)


def test_the_decision_is_that_of_the_reported_profit(truthful, lying):
    """In the first round nothing else differs between the two runs."""
    honest, told = truthful.rounds[0].record.decision, lying.rounds[0].record.decision
    profits = dict(honest.figures.profits) | {"liar": -0.01}
    assert told == decide_figures(replace(honest.figures, profits=profits), honest.rules)
    assert told.budget == pytest.approx(math.fsum(profits[client] for client in told.retained), abs=1e-15)


def test_the_truth_is_kept_beside_the_report(truthful, lying):
    honest, told = truthful.rounds[0].clients["liar"], lying.rounds[0].clients["liar"]
    assert told.profit.value == -0.01
    assert told.profit.standard_error == pytest.approx(0, abs=1e-15)
    assert told.actual_profit == honest.profit
    assert (told.utility, told.cost, told.accuracy) == (honest.utility, honest.cost, honest.accuracy)
    assert honest.actual_profit is None
    assert all(figures.actual_profit is None for name, figures in lying.rounds[0].clients.items() if name != "liar")
    assert lying.declared == ("sample_count", "profit")
    assert truthful.declared == ("sample_count",)
    assert lying.client_facts["liar"]["reported profit"] == "-0.01 in every round, instead of the truth"
    assert "reported profit" not in lying.client_facts["ann"]


def test_a_warning_says_which_profits_welfare_is_made_of(truthful, lying):
    (warning,) = misreport_warnings(lying.rounds)
    assert warning == lying.warnings[0]
    assert misreport_warnings(truthful.rounds) == ()
    reported = actual = made = 0.0
    for each in lying.rounds:
        for client, figures in each.clients.items():
            profit = figures.utility.value - figures.cost
            made += profit if client == "liar" else 0.0
            if client in each.record.decision.retained:
                reported += figures.profit.value
                actual += profit
    rounds = sum("liar" in each.clients for each in lying.rounds)
    assert f"liar reported {-0.01 * rounds:+.4g} and made {made:+.4g}." in warning
    assert warning.endswith(f"a total social welfare of {actual:+.4g} instead of {reported:+.4g}")
    assert lying.tsw[-1].value == pytest.approx(reported, abs=1e-12)


def test_the_ledger_sees_only_the_report(folder, lying):
    with closing(open_store(str(folder / "ledger.db"))) as store:
        assert verify_ledger(store, recompute).round_count == len(lying.rounds)
        with store.reading() as reading:
            entries = [json.loads(entry.content) for entry in reading.entries()]
    rounds = [entry["body"] for entry in entries if entry["kind"] == "round"]
    for each, body in zip(lying.rounds, rounds, strict=True):
        profits = {given["client"]: given["profit"] for given in body["inputs"]}
        assert profits == {client: figures.profit.value for client, figures in each.clients.items()}
        assert profits.get("liar", -0.01) == -0.01
        if "liar" in each.clients:
            assert repr(each.clients["liar"].actual_profit.value) not in json.dumps(body)


@pytest.mark.usefixtures("numbers_only")
def test_both_survive_the_file_and_a_resumption(folder, lying):
    kept = [each.clients["liar"].actual_profit for each in lying.rounds if "liar" in each.clients]
    for report in (read_history(folder / "history.json"), run(folder, resume=True)):
        assert [each.clients["liar"].actual_profit for each in report.rounds if "liar" in each.clients] == kept
        assert report.warnings == lying.warnings
