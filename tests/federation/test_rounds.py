"""Rounds of a session with real clients, some of whose answers get lost on the way."""

from __future__ import annotations

import pytest

from commonweal import metrics
from commonweal.data.federated_dataset import FederatedDataset
from commonweal.errors import CommonwealError
from commonweal.federation.session import run_rounds
from commonweal.records import History
from commonweal.scenario.toml_file import parse_scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import image_task

THREE = """
name = "three"
description = "three clients, each with its own source"
rounds = 3
seed = 5
[learning]
iteration_limit = 2
stop_below = 0.0001
[mechanism]
mu = "inf"
contribution = "{measure}"
[defaults]
samples_per_round = 24
[[clients]]
name = "paper"
source = "mnist-5k"
[[clients]]
name = "screen"
source = "rendered-digits"
"""
TABLET = """
[[clients]]
name = "tablet"
source = "uci-digits"
"""


def scenario_of(text=THREE + TABLET, measure="marginal"):
    return parse_scenario(text.replace("{measure}", measure), "the test")


class Lossy:
    """A client set whose answers get lost: (question, round, how often asked before in it) -> clients."""

    def __init__(self, clients, losses):
        self._clients = clients
        self._losses = losses
        self._asked = {}

    def __getattr__(self, name):
        ask = getattr(self._clients, name)
        if name not in ("open_round", "train", "evaluate", "report"):
            return ask

        def lossy(round_number, *rest):
            times = self._asked.get((name, round_number), 0)
            self._asked[name, round_number] = times + 1
            answers = ask(round_number, *rest)
            lost = self._losses.get((name, round_number, times), ())
            return {client: answer for client, answer in answers.items() if client not in lost}

        return lossy


def held_rounds(scenario, losses=None, **options):
    dataset = FederatedDataset.for_scenario(scenario, None)
    with InProcessClients(scenario, image_task(scenario, dataset)) as clients:
        return list(run_rounds(Lossy(clients, losses or {}), scenario, **options))


LOSSES = {
    "opening": ("open_round", 1, 0),
    "training": ("train", 1, 0),
    "the second training": ("train", 1, 1),
    "the evaluation after an iteration": ("evaluate", 1, 0),
    "the evaluation of coalitions": ("evaluate", 1, 2),
    "the report": ("report", 1, 0),
}


@pytest.mark.parametrize("question", LOSSES)
def test_a_client_that_does_not_answer_is_absent_from_the_whole_round_and_may_return(question):
    scenario = scenario_of()
    held = held_rounds(scenario, {LOSSES[question]: ("tablet",)})
    first, second, _ = held
    assert first.record.absent == ("tablet",)
    assert "tablet" not in first.record.decision.figures.profits
    assert "tablet" not in first.measured
    assert sum(first.record.decision.transfers.values()) == pytest.approx(0, abs=1e-12)
    assert second.record.absent == ()
    assert "tablet" in second.record.decision.figures.profits
    history = History(clients=scenario.client_names, rounds=tuple(h.record for h in held))
    assert metrics.durations(history) == {"paper": 3, "screen": 3, "tablet": 2}


@pytest.mark.parametrize("question", ["opening", "training"])
def test_a_round_without_an_absent_client_is_the_round_of_the_others(question):
    """Streams are keyed and each client has its own source, so the others cannot tell the difference."""
    with_absent = held_rounds(scenario_of(), {LOSSES[question]: ("tablet",)})[0]
    without = held_rounds(scenario_of(THREE))[0]
    assert with_absent.record.decision == without.record.decision
    assert with_absent.iteration_accuracies[1:] == without.iteration_accuracies[1:]
    assert (with_absent.contribution_draws == without.contribution_draws).all()


def test_the_baseline_of_a_returning_client_is_its_last_measured_accuracy():
    held = held_rounds(scenario_of(), {("train", 2, 0): ("tablet",)})
    assert held[1].record.absent == ("tablet",)
    assert held[2].measured["tablet"].previous_accuracy == held[0].measured["tablet"].accuracy.value
    assert held[2].measured["paper"].previous_accuracy == held[1].measured["paper"].accuracy.value


def test_two_clients_may_be_lost_one_after_the_other():
    held = held_rounds(scenario_of(), {("evaluate", 1, 0): ("tablet",), ("evaluate", 1, 1): ("paper",)})
    assert held[0].record.absent == ("paper", "tablet")
    assert held[0].record.decision.shares == {"screen": 1.0}


def test_a_round_that_nobody_answers_is_refused():
    with pytest.raises(CommonwealError, match="No client answered in round 2"):
        held_rounds(scenario_of(), {("train", 2, 0): ("paper", "screen", "tablet")})


@pytest.mark.parametrize("measure", ["quantity", "marginal", "shapley"])
def test_completed_rounds_are_continued(measure):
    scenario = scenario_of(measure=measure)
    dataset = FederatedDataset.for_scenario(scenario, None)
    whole = held_rounds(scenario)
    with InProcessClients(scenario, image_task(scenario, dataset)) as clients:
        first = next(run_rounds(clients, scenario))
        state = {name: array.copy() for name, array in clients.save().items()}
    with InProcessClients(scenario, image_task(scenario, dataset)) as clients:
        clients.restore(1, state)
        rest = list(run_rounds(clients, scenario, completed=[first]))
    for found, expected in zip([first, *rest], whole, strict=True):
        assert found.record == expected.record
        assert found.measured == expected.measured
        assert (found.profit_draws == expected.profit_draws).all()


def test_a_restored_absence_continues_to_the_bit():
    scenario = scenario_of()
    dataset = FederatedDataset.for_scenario(scenario, None)
    losses = {("train", 2, 0): ("tablet",)}
    whole = held_rounds(scenario, losses)
    with InProcessClients(scenario, image_task(scenario, dataset)) as clients:
        rounds = run_rounds(Lossy(clients, losses), scenario)
        held = [next(rounds), next(rounds)]
        state = {name: array.copy() for name, array in clients.save().items()}
    with InProcessClients(scenario, image_task(scenario, dataset)) as clients:
        clients.restore(2, state)
        held += run_rounds(clients, scenario, completed=held)
    assert [h.record for h in held] == [h.record for h in whole]
    assert [h.measured for h in held] == [h.measured for h in whole]


def test_progress_is_reported_after_the_opening_and_each_iteration():
    seen = []
    held_rounds(scenario_of(), watch=seen.append)
    assert [(p.round_number, p.iteration) for p in seen[:3]] == [(1, 0), (1, 1), (1, 2)]
    assert set(seen[0].accuracies) == {"paper", "screen", "tablet"}
