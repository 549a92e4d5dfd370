"""Mechanisms that share rounds decide as if each had run alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from commonweal.comparison.contenders import find_contenders
from commonweal.comparison.following import follow
from commonweal.comparison.histories import Histories
from commonweal.errors import InputError, StorageError
from commonweal.federation.session import run_rounds
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import task_of
from tests.comparison.small import three

# They eliminate, move money, let clients rest, choose iterations and data, and read losses and similarities.
NAMES = ("paper", "least-lenient", "equal", "tang-wong", "zhang", "zhan", "fmore", "power-of-choice", "cgsv", "clarke")


def chosen(scenario, names=NAMES):
    return find_contenders(scenario.mechanism.rules, names)[0]


def compared(folder, scenario, names=NAMES, **options):
    folder.mkdir(exist_ok=True)
    with Histories(scenario=scenario, folder=folder, **options) as histories:
        return histories, follow(histories, chosen(scenario, names))


@pytest.fixture(scope="module", params=["fedavg", pytest.param("scaffold", marks=pytest.mark.soak)])
def together(request, tmp_path_factory):
    scenario = three(algorithm=request.param)
    return scenario, *compared(tmp_path_factory.mktemp("rounds"), scenario)


def alone(scenario, contender):
    """As `commonweal run` runs it."""
    own = replace(scenario, mechanism=replace(scenario.mechanism, rules=contender.rules))
    with InProcessClients(own, task_of(own, None), worker_count=2) as clients:
        return list(run_rounds(clients, own))


def test_each_mechanism_decides_as_if_it_had_run_alone(together):
    scenario, _, followed = together
    for one in followed:
        expected = alone(scenario, one.contender)
        assert len(one.rounds) == len(expected), one.contender.name
        for (trained, record), result in zip(one.rounds, expected, strict=True):
            assert record == replace(result.record, evidence={}), one.contender.name
            assert trained.measured.measured == result.measured
            assert trained.iteration_count == len(result.iteration_accuracies) - 1


def test_each_history_is_trained_once(together):
    scenario, histories, followed = together
    steps = {steps for one in followed for steps in one.steps(scenario)}
    assert histories.trained_count == len(steps)
    assert len(steps) < sum(len(one.rounds) for one in followed)


def test_what_is_on_disk_is_not_trained_again(together, tmp_path):
    scenario, first, followed = together
    with Histories(scenario=scenario, folder=first.folder) as histories:
        again = follow(histories, chosen(scenario))
    assert histories.trained_count == 0
    assert [[record for _, record in one.rounds] for one in again] == [
        [record for _, record in one.rounds] for one in followed
    ]
    assert [[trained.true_profits for trained, _ in one.rounds] for one in again] == [
        [trained.true_profits for trained, _ in one.rounds] for one in followed
    ]
    assert not list(first.folder.glob("*.state.npz")), "models of finished histories are not kept"


class StopHere(Exception):  # noqa: N818
    pass


def test_an_interrupted_comparison_continues(together, tmp_path):
    scenario, first, followed = together
    trained = 0

    def interrupt():
        nonlocal trained
        trained += 1
        if trained == 4:
            raise StopHere

    with pytest.raises(StopHere):
        compared(tmp_path, scenario, on_trained=interrupt)
    histories, again = compared(tmp_path, scenario)
    assert histories.trained_count == first.trained_count - 4
    assert [[record for _, record in one.rounds] for one in again] == [
        [record for _, record in one.rounds] for one in followed
    ]
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in first.folder.iterdir()}


def test_mechanisms_can_be_added_later(together, tmp_path):
    """Their histories branch off where no state was kept."""
    scenario, _, followed = together
    compared(tmp_path, scenario, ["equal"])
    _, again = compared(tmp_path, scenario)
    assert [[record for _, record in one.rounds] for one in again] == [
        [record for _, record in one.rounds] for one in followed
    ]


def test_where_profits_follow_from_agreed_rates(tmp_path):
    """Mechanisms decide by the rates, and what clients truly made does not depend on them."""
    rates = "[rates]\ngain = 2.0\nsample = 1e-3"
    scenario = three(rounds=2, mechanism='mu = 0.02\nprofits = "rates"', tables=rates)
    _, followed = compared(tmp_path / "rates", scenario, ["paper", "equal", "zhang"])
    for one in followed:
        expected = alone(scenario, one.contender)
        assert [record for _, record in one.rounds] == [replace(each.record, evidence={}) for each in expected]
    _, (private,) = compared(tmp_path / "private", three(rounds=2), ["equal"])
    for (trained, _), (other, _) in zip(followed[1].rounds, private.rounds, strict=True):
        assert trained.profits == pytest.approx(other.profits, abs=1e-12)
        assert trained.true_profits == pytest.approx(other.true_profits, abs=1e-12)
        assert trained.measured.figures.profits != other.measured.figures.profits


def test_a_damaged_round_is_named(tmp_path):
    scenario = three(rounds=1)
    compared(tmp_path, scenario, ["equal"])
    (file,) = tmp_path.glob("*.round.npz")
    whole = file.read_bytes()
    for content in (b"", b"nonsense", whole[: len(whole) // 2], whole.replace(b"profits", b"prophet", 1)):
        file.write_bytes(content)
        with pytest.raises(StorageError, match=f"{file.name}.*Remove that file"):
            compared(tmp_path, scenario, ["equal"])


def test_rounds_of_another_scenario_are_refused(tmp_path):
    compared(tmp_path, three(rounds=1), ["equal"])
    with pytest.raises(StorageError, match=r"another scenario.*Choose another folder"):
        compared(tmp_path, three(rounds=2), ["equal"])


REFUSES = """
from commonweal import InputError, Mechanism
from commonweal.decision.payments import without_money


class Refuses(Mechanism):
    def divide(self, view, state, retained):
        if view.round_number == 2:
            raise InputError("This mechanism cannot go on.")
        return without_money(view.profits[retained])
"""


@pytest.mark.parametrize("is_asked_for", [False, True])
def test_a_mechanism_that_cannot_decide_a_round_stops_there(tmp_path, is_asked_for):
    scenario = three(rounds=3)
    (tmp_path / "refuses.py").write_text(REFUSES)
    own, equal = chosen(scenario, [f"file:{tmp_path / 'refuses.py'}", "equal"])
    own = replace(own, is_asked_for=is_asked_for)
    with Histories(scenario=scenario, folder=tmp_path) as histories:
        if is_asked_for:
            with pytest.raises(InputError, match=r"cannot decide in round 2 .seed 3.: This mechanism cannot go on"):
                follow(histories, [own, equal])
            return
        refused, other = follow(histories, [own, equal])
    assert len(refused.rounds) == 1
    assert "cannot go on" in refused.refusal
    assert (len(other.rounds), other.refusal) == (3, None)
