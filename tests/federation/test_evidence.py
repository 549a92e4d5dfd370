"""How sure a real run's decisions are: in every place the same, and as its draws say."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from commonweal.data.federated_dataset import FederatedDataset
from commonweal.decision.decide import decide_figures
from commonweal.decision.mechanism import decide_round
from commonweal.decision.mechanisms import make_mechanism
from commonweal.federation.checkpoint import CHECKPOINT, CheckpointFile
from commonweal.federation.evidence import measured_ending, measured_evidence
from commonweal.federation.session import run_rounds
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.rounds import evidence_of
from commonweal.ledger.sql.store import open_store
from commonweal.records import Figures
from commonweal.scenario.toml_file import parse_scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.run import ledger_of_run, run_scenario
from commonweal.simulation.simulated_task import image_task
from tests.undrawn import without_drawings

SCENARIO = """
name = "costly"
rounds = 3
seed = 4
[mechanism]
mu = 0.02
grace_rounds = 1
[learning]
iteration_limit = 1
[defaults]
source = "uci-digits"
samples_per_round = 30
[[clients]]
name = "ann"
[[clients]]
name = "bob"
cost_per_sample = 1e-3
[[clients]]
name = "cyd"
cost_per_sample = 3e-3
"""


@pytest.fixture(scope="module")
def scenario():
    return parse_scenario(SCENARIO, "the test")


@pytest.fixture(scope="module")
def results(scenario):
    dataset = FederatedDataset.for_scenario(scenario, None)
    with InProcessClients(scenario, image_task(scenario, dataset)) as clients:
        return list(run_rounds(clients, scenario))


@pytest.fixture(scope="module")
def folder(scenario, tmp_path_factory):
    """The same run with everything that it writes, except for its drawings."""
    made = tmp_path_factory.mktemp("run")
    with (
        closing(ledger_of_run(scenario, None, made, KeyDirectory(made / "keys"), resume=False)) as ledger,
        without_drawings(),
    ):
        run_scenario(scenario, directory=made, ledger=ledger)
    return made


def test_a_stability_is_the_share_of_draws_with_the_same_fate(results, scenario):
    """Each draw as a round of its own, decided by the public function."""
    some_doubt = False
    for result in results:
        decision = result.record.decision
        for place, client in enumerate(decision.figures.clients):
            same = 0
            for draw in range(100):
                drawn = Figures(
                    profits=dict(zip(decision.figures.clients, result.profit_draws[:, draw].tolist(), strict=True)),
                    contributions=dict(
                        zip(decision.figures.clients, result.contribution_draws[:, draw].tolist(), strict=True)
                    ),
                )
                again = decide_figures(drawn, scenario.mechanism.rules, grace=decision.grace)
                same += (client in again.retained) == (client in decision.retained)
            evidence = result.record.evidence[client]
            assert (evidence.stability.same_count, evidence.stability.draw_count) == (same, 100)
            assert evidence.profit_error == pytest.approx(result.profit_draws[place].std(ddof=1))
            assert evidence.contribution_error == pytest.approx(result.contribution_draws[place].std(ddof=1))
            some_doubt |= 0 < same < 100
    assert results[0].record.decision.grace
    assert some_doubt, "in this run not everything is certain"


def test_ledger_history_and_checkpoint_have_the_same_evidence(results, folder, scenario):
    with closing(open_store(str(folder / "ledger.db"))) as store, store.reading() as reading:
        bodies = [json.loads(entry.content)["body"] for entry in reading.entries()]
    settled = [evidence_of(body) for body in bodies if "inputs" in body]
    assert settled == [dict(result.record.evidence) for result in results]
    history = json.loads((folder / "history.json").read_text(encoding="utf-8"))
    for written, result in zip(history["rounds"], results, strict=True):
        assert written["draw_count"] == 100
        for client in written["clients"]:
            assert client["stability"] == result.record.stability_of(client["client"]).share
    identity = json.loads(_document(folder / CHECKPOINT))["identity"]
    loaded, _ = CheckpointFile(path=folder / CHECKPOINT, identity=identity).load(scenario.mechanism.rules)
    assert [one.record for one in loaded] == [one.record for one in results]


def test_a_finished_round_is_as_stable_as_its_end(results, scenario):
    """Everybody stays to the end, in as many draws as the federation would have ended in; without the harmful ones."""
    measured, mechanism = results[0].measured, make_mechanism(scenario.mechanism.rules)
    expected = dict.fromkeys(measured, -0.001)
    draws = np.random.default_rng(3).normal(-0.001, 0.01, (3, 100))
    for harmful, others in (((), ["ann", "bob", "cyd"]), (("ann",), ["bob", "cyd"])):
        figures = replace(results[0].record.decision.figures, expected=expected)
        decision, _ = decide_round(mechanism, figures, {}, finished=True, harmful=harmful)
        evidence = measured_evidence(
            decision,
            mechanism,
            {},
            measured,
            round_number=1,
            profit_draws=results[0].profit_draws,
            contribution_draws=results[0].contribution_draws,
            expected_draws=draws,
        )
        end = measured_ending(decision, measured, draws)
        rows = [list(measured).index(client) for client in others]
        assert end.same_count == sum(sum(sorted(draw)[-2:]) <= 0 for draw in draws[rows].T.tolist())
        assert 0 < end.share < 1
        assert {client: one.stability for client, one in evidence.items()} == (
            dict.fromkeys(harmful, None) | dict.fromkeys(others, end)
        )
        for client, draw in zip(measured, draws, strict=True):
            assert evidence[client].expected_error == pytest.approx(draw.std(ddof=1))
    private = {client: replace(one, profit_error=None) for client, one in measured.items()}
    assert measured_ending(decision, private, draws) is None


def test_without_the_errors_of_profits_no_stability_is_claimed(results, scenario):
    """As where profits are private: contributions alone would make every fate look certain."""
    result = results[1]
    private = {client: replace(one, profit_error=None) for client, one in result.measured.items()}
    evidence = measured_evidence(
        result.record.decision,
        make_mechanism(scenario.mechanism.rules),
        {},
        private,
        round_number=2,
        profit_draws=result.profit_draws,
        contribution_draws=result.contribution_draws,
    )
    for client, one in evidence.items():
        assert (one.profit_error, one.stability) == (None, None)
        assert one.contribution_error == result.measured[client].contribution_error


def _document(path):
    with np.load(path, allow_pickle=False) as archive:
        return archive["document"].tobytes()
