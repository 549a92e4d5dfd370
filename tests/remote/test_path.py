"""Contributions by path between machines: the figures, what is sent for them, and answers that are wrong."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from commonweal.errors import FederationError
from commonweal.task.models import fingerprint
from commonweal.task.records import Task
from tests.first_few import first_few
from tests.remote.test_faults import signed_again
from tests.remote.toy import INITIAL, NAMES, evaluate, load, make_toy, settled, train

LIAR, ROUND = "east", 2
PATH = 'mu = "inf"\ncontribution = "path"'


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    toy = make_toy(tmp_path_factory.mktemp("path") / "f", mechanism=PATH)
    toy.run_report, _ = toy.coordinate()
    return toy


def sent(toy, *, kind, to_member, round_number):
    """Messages of a round, in order. Answers do not name their round, but follow the questions."""
    questions = [one for one in toy.transport.sent if one.to_member and one.kind == kind]
    wanted = [n for n, one in enumerate(questions) if one.message.fields["round"] == round_number]
    chosen = questions if to_member else [o for o in toy.transport.sent if not o.to_member and o.kind == kind]
    return [chosen[n] for n in wanted]


def score(model, name, round_number):
    """The mean smooth score of a client's validation samples so far."""
    misses = []
    for number in range(1, round_number + 1):
        x, y = load(number, SimpleNamespace(name=name)).validation
        misses.append(model[0] * x + model[1] - y)
    return float(np.exp(-(np.concatenate(misses) ** 2) / 0.125).mean())


@pytest.mark.parametrize("round_number", [1, 2, 3])
def test_contributions_are_slopes_along_the_path_of_the_messages(toy, round_number):
    """From the models as they were sent: weights ¼ each, two iterations, differences instead of gradients."""
    opened = sent(toy, kind="train.iteration", to_member=True, round_number=round_number)
    answers = sent(toy, kind="train.iteration", to_member=False, round_number=round_number)
    models = {
        name.removeprefix("model/"): group["w"]
        for one in toy.transport.sent
        for name, group in one.message.groups.items()
        if name.startswith("model/")
    }
    assert fingerprint(INITIAL) in models
    updates = dict.fromkeys(NAMES, 0.0)
    for question, answer in zip(opened, answers, strict=True):
        (base,) = question.message.fields["models"]
        updates[question.client] = updates[question.client] + answer.message.groups["local"]["w"] - models[base]
    start = models[opened[0].message.fields["models"][0]]
    end = start + sum(updates.values()) / 4
    (middle,) = sent(toy, kind="evaluate.gradient", to_member=True, round_number=round_number)[0].message.fields[
        "models"
    ]
    assert models[middle] == pytest.approx((start + end) / 2, abs=1e-12)
    step = 1e-6
    found = toy.run_report.rounds[round_number - 1].record.decision.figures.contributions
    for client in NAMES:
        effects = [
            (
                score(models[middle] + step * updates[client], scorer, round_number)
                - score(models[middle] - step * updates[client], scorer, round_number)
            )
            / (2 * step)
            / 4
            for scorer in NAMES
        ]
        assert found[client] == pytest.approx(np.mean(effects), abs=1e-9)


def test_no_member_gets_the_local_model_of_another(toy):
    local = {name: set() for name in NAMES}
    for one in toy.transport.sent:
        if not one.to_member and "local" in one.message.groups:
            local[one.client].add(fingerprint(one.message.groups["local"]))
    assert all(len(models) == 6 for models in local.values())
    received = {name: set() for name in NAMES}
    for one in toy.transport.sent:
        if one.to_member:
            assert set(one.message.fields.get("parts", [])) == set()
            received[one.client] |= {fingerprint(group) for group in one.message.groups.values()}
    for name in NAMES:
        of_others = set().union(*(local[other] for other in NAMES if other != name))
        assert len(received[name]) == 3 * 3 + 1, "the first model, and in each round two averages and the middle"
        assert not received[name] & of_others


def test_a_gradient_has_one_number_for_each_that_is_averaged_and_is_logged(toy):
    answers = [one.message for one in toy.transport.sent if not one.to_member and one.kind == "evaluate.gradient"]
    assert len(answers) == 3 * 4
    for answer in answers:
        assert set(answer.groups) == {"gradient"}
        assert answer.groups["gradient"]["gradient"].shape == (2,)
        assert not answer.fields
    assert "sent the gradient of its mean score of 12 validation samples" in (toy.home("east") / "log.txt").read_text()


LIES = {
    "no gradient": (lambda gradient: None, "it must send a gradient of 2 numbers in float64, got none"),
    "one number too few": (lambda gradient: gradient[1:], "got float64 (1,)"),
    "another precision": (lambda gradient: gradient.astype(np.float32), "got float32 (2,)"),
    "no numbers": (lambda gradient: gradient * np.nan, "its gradient must be finite"),
    "infinite": (lambda gradient: gradient + np.inf, "its gradient must be finite"),
    "too steep for a score": (lambda gradient: gradient * 0 + 1e7, "at most 1e+06 in size, got 1e+07"),
}


@pytest.fixture(scope="module")
def without_it(tmp_path_factory):
    """The federation that the liar left in the gradient's step of the round, and returned to."""
    toy = make_toy(tmp_path_factory.mktemp("absent") / "f", mechanism=PATH)
    asked = []

    def lose(client, kind):
        asked.append((client, kind))
        if asked.count((LIAR, "evaluate.gradient")) == ROUND and (client, kind) == (LIAR, "evaluate.gradient"):
            raise ConnectionError

    toy.transport.before_answer = lose
    run_report, _ = toy.coordinate()
    assert [one.record.absent for one in run_report.rounds] == [(), (LIAR,), ()]
    gradients = [
        one.client
        for one in toy.transport.sent
        if one.to_member and one.kind == "evaluate.gradient" and one.message.fields["round"] == ROUND
    ]
    others = [name for name in NAMES if name != LIAR]
    assert gradients == [*NAMES, *others], "the others are asked again, about their own path"
    return settled(toy.out)


@pytest.mark.parametrize("name", first_few(2, LIES))
def test_a_wrong_gradient_is_an_absence(tmp_path, without_it, name):
    change, reason = LIES[name]
    toy = make_toy(tmp_path / "f", mechanism=PATH)

    def twist(kind, question, answer):
        if (kind, question.fields["round"]) != ("evaluate.gradient", ROUND):
            return answer
        lie = change(answer.groups["gradient"]["gradient"])
        groups = {} if lie is None else {"gradient": {"gradient": lie}}
        return signed_again(toy, kind, question, replace(answer, groups=groups))

    toy.member(LIAR).twist = twist
    run_report, said = toy.coordinate()
    told = run_report.rounds[ROUND - 1]
    assert told.record.absent == (LIAR,)
    (event,) = [event for event in told.events if event.client == LIAR]
    assert reason in event.text
    assert event.text in said
    assert settled(toy.out) == without_it


def test_tiny_gradients_do_not_stop_a_round(tmp_path):
    """A contribution made of 1e-290 would be refused by the decision, for everybody."""
    toy = make_toy(tmp_path / "f", rounds=1, mechanism=PATH)
    for name in NAMES:
        toy.member(name).twist = lambda kind, question, answer, name=name: (
            signed_again(
                toy, kind, question, replace(answer, groups={"gradient": {"gradient": np.full(2, 1e-290)}}), name
            )
            if kind == "evaluate.gradient"
            else answer
        )
    run_report, _ = toy.coordinate()
    assert set(run_report.rounds[0].record.decision.figures.contributions.values()) == {0.0}


def test_a_task_without_a_gradient_is_refused_before_anybody_trains(tmp_path):
    toy = make_toy(tmp_path / "f", mechanism=PATH)
    task = Task(load=load, train=train, evaluate=evaluate, initial_model=lambda plan: INITIAL, name="task.py")
    with pytest.raises(FederationError, match='write contribution = "marginal" and contribution_score = "smooth"'):
        toy.coordinate(task)
    assert not toy.transport.sent


def test_errors_of_contributions_are_known_where_profits_are_private(toy):
    for completed in toy.run_report.rounds:
        for row in completed.clients.values():
            assert row.contribution.standard_error > 0
            assert math.isfinite(row.contribution.standard_error)


def test_what_follows_from_private_profits_has_unknown_errors(toy):
    report = toy.run_report
    rows = [row for completed in report.rounds for row in completed.clients.values() if row.payoff is not None]
    assert rows
    for row in rows:
        assert row.share.standard_error is not None
        assert (row.profit.standard_error, row.payoff.standard_error, row.transfer.standard_error) == (None,) * 3
    totals = [*report.total_payoffs.values(), *report.total_transfers.values(), report.tsw[-1]]
    assert [total.standard_error for total in totals] == [None] * len(totals)
