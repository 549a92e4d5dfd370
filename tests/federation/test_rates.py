"""Agreed rates in the simulator: what is decided follows from them, and what clients really made is kept beside."""

from __future__ import annotations

import json
import math
from contextlib import closing

import pytest

from commonweal.decision.decide import decide_figures
from commonweal.federation.misreports import misreport_warnings
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.verification.recompute import recompute
from commonweal.ledger.verification.verify import verify_ledger
from commonweal.report.history_json import read_history
from commonweal.scenario.settings import with_settings
from commonweal.scenario.toml_file import parse_scenario
from commonweal.simulation.run import ledger_of_run, run_scenario
from tests.undrawn import without_drawings

TEXT = """
name = "four"
rounds = 2
seed = 4
[mechanism]
mu = 0.02
{mechanism}
[learning]
iteration_limit = 2
[defaults]
source = "uci-digits"
samples_per_round = 40
cost_per_sample = 2e-3
[[clients]]
name = "ann"
{ann}
[[clients]]
name = "bob"
unit_value = 3.0
cost_per_step = 1e-4
[[clients]]
name = "cyd"
defect = {{ kind = "duplicates", fraction = 0.5 }}
[[clients]]
name = "dan"
"""
RATED = 'profits = "rates"\n[rates]\ngain = 1.5\nsample = 1e-3\nround = 0.01'


def scenario(mechanism=RATED, ann=""):
    return parse_scenario(TEXT.format(mechanism=mechanism, ann=ann), "the test")


def run(folder, *, resume=False):
    folder.mkdir(exist_ok=True)
    with (
        closing(ledger_of_run(scenario(), None, folder, KeyDirectory(folder / "keys"), resume=resume)) as ledger,
        without_drawings(),
    ):
        return run_scenario(scenario(), directory=folder, ledger=ledger, resume=resume)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rates") / "out"


@pytest.fixture(scope="module")
def rated(folder):
    return run(folder)


def test_profits_follow_from_measured_gains_and_declared_counts(rated):
    for each in rated.rounds:
        for client, figures in each.clients.items():
            gain = figures.accuracy.value - figures.previous_accuracy
            assert each.record.decision.figures.further["gain"][client] == pytest.approx(gain, abs=1e-12)
            assert figures.utility.value == pytest.approx(1.5 * gain, abs=1e-12)
            assert figures.cost == pytest.approx(1e-3 * figures.sample_count + 0.01, abs=1e-15)
            assert figures.profit.value == pytest.approx(figures.utility.value - figures.cost, abs=1e-12)
            assert figures.profit.standard_error == pytest.approx(figures.utility.standard_error, rel=1e-9)
        decision = each.record.decision
        assert decision == decide_figures(decision.figures, decision.rules), "the mechanism reads nothing else"


def test_the_private_truth_is_that_of_a_federation_without_rates(rated):
    """In the first round both have trained alike; only decisions and money differ."""
    private = run_scenario(scenario(mechanism=""))
    for client, figures in rated.rounds[0].clients.items():
        assert figures.actual_profit == private.rounds[0].clients[client].profit
    assert rated.profits == "rates"
    assert private.profits == "private"
    made = math.fsum(
        each.clients[client].actual_profit.value for each in rated.rounds for client in each.record.decision.retained
    )
    assert rated.sentence.endswith(f"instead of the agreed rates, total social welfare was {made:+.4g}.")
    payoffs = rated.actual_payoffs
    expected = [
        each.clients["ann"].actual_profit.value + each.record.decision.transfers.get("ann", 0.0)
        for each in rated.rounds
        if "ann" in each.clients
    ]
    assert payoffs["ann"] == pytest.approx(math.fsum(expected), abs=1e-15)


@pytest.mark.parametrize(
    "ann",
    ["reported_profit = -5.0", "unit_value = 50.0\ncost_per_sample = 0.5\nworth_curve = [[0.0, 0.0], [1.0, 9.0]]"],
)
def test_what_a_client_says_or_thinks_of_value_and_cost_changes_nothing(rated, ann):
    other = run_scenario(scenario(ann=ann))
    for one, two in zip(rated.rounds, other.rounds, strict=True):
        assert one.record == two.record
    assert misreport_warnings(other.rounds), "the warning would be about rates, not about lies"
    assert other.warnings == rated.warnings
    assert not any("not every reported profit is true" in warning for warning in other.warnings)
    assert other.declared == ("sample_count",)


def test_the_ledger_holds_gains_and_no_private_truth(folder, rated):
    with closing(open_store(str(folder / "ledger.db"))) as store:
        verified = verify_ledger(store, recompute)
        assert not verified.findings
        assert verified.round_count == len(rated.rounds)
        with store.reading() as reading:
            entries = [json.loads(entry.content) for entry in reading.entries()]
    assert entries[0]["body"]["terms"]["agreed"]["rates"] == {"gain": 1.5, "sample": 1e-3, "round": 0.01}
    for each, body in zip(rated.rounds, [one["body"] for one in entries if one["kind"] == "round"], strict=True):
        for row in body["inputs"]:
            figures = each.clients[row["client"]]
            assert row["further"] == {"gain": each.record.decision.figures.further["gain"][row["client"]]}
            assert repr(figures.actual_profit.value) not in json.dumps(body)


@pytest.mark.usefixtures("numbers_only")
def test_rates_survive_the_file_and_a_resumption(folder, rated):
    for report in (read_history(folder / "history.json"), run(folder, resume=True)):
        assert report.profits == "rates"
        assert report.actual_payoffs == rated.actual_payoffs
        assert report.sentence == rated.sentence
        for one, other in zip(report.rounds, rated.rounds, strict=True):
            assert one.record.decision.figures.further == other.record.decision.figures.further
    page = (folder / "report.html").read_text()
    assert "Utility, cost and profit follow from the agreed rates." in page
    assert "this decides only whether it withdraws" in page


@pytest.mark.parametrize("figures", ["pooled", "forecast"])
def test_pooled_and_expected_gains_are_rated_too(figures):
    report = run_scenario(scenario(mechanism=f'figures = "{figures}"\n{RATED}'))
    for each in report.rounds:
        gains = each.record.gains
        for client, one in each.clients.items():
            used, expected = gains.used(client)
            assert one.profit.value == pytest.approx(1.5 * used - one.cost, abs=1e-12)
            gain = one.accuracy.value - one.previous_accuracy
            assert one.used.measured_profit.value == pytest.approx(1.5 * gain - one.cost, abs=1e-12)
            if figures == "forecast":
                assert one.used.expected_profit.value == pytest.approx(1.5 * expected - one.cost, abs=1e-12)
        assert "gain" not in each.record.decision.figures.further, "the table of gains is there"


def test_rates_can_be_swept():
    text = {"rates": {"gain": 1.5}, "mechanism": {"profits": "rates", "mu": 0.1}}
    assert with_settings(text, {"rates.gain": 2.0})["rates"] == {"gain": 2.0}
