"""What training costs a member is reported, so the operator cannot have it train more than was agreed on."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from tests.remote import toy as toys
from tests.remote.hostile import VICTIM, bodies, findings, log, reports, run, state

SOUTH = "south"
ODD = [0, -1, 3, 1.0, True, "2", None, float("nan"), 10**30]


@pytest.fixture
def steps_cost(monkeypatch):
    monkeypatch.setitem(toys.PRIVATE, SOUTH, (0.8765, 0.00027, 0.001, 0.0))


def asks_for_training(iterations, answers):
    def twist(toy, operator, kind, questions):
        if SOUTH in questions and (questions[SOUTH].fields["round"], kind) == (2, "query.report"):
            first = operator.last("train.iteration", 2, SOUTH)
            answers["honest"] = [
                s.message for s in operator.sent if not s.to_member and (s.client, s.kind) == (SOUTH, "train.iteration")
            ][-1]
            answers["extra"] = [operator.extra("train.iteration", first, name=SOUTH, iteration=i) for i in iterations]

    return twist


def test_training_beyond_the_agreed_iterations_is_refused(tmp_path, steps_cost):
    rules = {"rounds": 2, "mechanism": "mu = 0.01\ngrace_rounds = 1", "learning": "iteration_limit = 2\nstop_below = 0"}
    honest, hostile, answers = {}, {}, {}
    for name, iterations in (("honest", ()), ("hostile", [2, 2, 2, *range(3, 20), *ODD])):
        toy = run(tmp_path / name, asks_for_training(iterations, answers), **rules)
        (honest if name == "honest" else hostile).update(
            profit=reports(toy, 2, SOUTH)[-1]["profit"],
            retained=bodies(toy)[1]["decision"]["retained"],
            steps=state(toy, SOUTH).settled_round,
        )
    assert hostile == honest
    repeats, refusals = answers["extra"][:3], answers["extra"][3:]
    for repeat in repeats:  # as it was trained, at no cost
        for array, other in zip(
            answers["honest"].groups["local"].values(), repeat.groups["local"].values(), strict=True
        ):
            assert np.array_equal(array, other)
    assert all("iteration" in refusal.reason for refusal in refusals)
    assert "A round has at most 2 iterations, got iteration 3" in refusals[0].reason
    assert not findings(toy)


def test_a_member_with_an_older_folder_trains_its_own_model_on(tmp_path):
    """One that started again from the federation's model would be too good, and the member seem to lose by it."""
    rules = {"mechanism": 'mu = "inf"\nutility = "advantage"', "rounds": 3}
    done = set()

    def put_back(toy, operator, kind, questions):
        number, home = next(iter(questions.values())).fields["round"], toy.home(VICTIM)
        if kind == "query.open" and number not in done:
            done.add(number)
            if number == 2:
                shutil.copytree(home, home.parent / "backup")
            if number == 3:
                shutil.rmtree(home)
                (home.parent / "backup").rename(home)

    honest = run(tmp_path / "honest", lambda *asked: None, **rules)
    restored = run(tmp_path / "restored", put_back, **rules)
    assert "ERROR this folder is older than the ledger" in log(restored)
    assert [report["baseline"] for report in reports(restored, 3)] == [r["baseline"] for r in reports(honest, 3)]
    assert [report["profit"] for report in reports(restored, 3)] == [r["profit"] for r in reports(honest, 3)]


def test_a_member_whose_own_model_is_lost_is_absent(tmp_path):
    def lose(toy, operator, kind, questions):
        if kind == "query.open" and next(iter(questions.values())).fields["round"] == 2 and "out" not in lost:
            lost.append("out")
            shutil.rmtree(toy.home(VICTIM))

    lost = []
    toy = run(tmp_path, lose, mechanism='mu = "inf"\nutility = "advantage"', rounds=2)
    assert toy.run_report.rounds[1].record.absent == (VICTIM,)
    assert (
        "ERROR refused to open round 2: Round 1 was settled with this member, but the model that it trains alone"
        in (log(toy))
    )


def test_an_operator_cannot_make_a_member_forget_its_own_model(tmp_path):
    """By opening a settled round again, so that the folder seems to be older than the ledger."""
    rules = {"mechanism": 'mu = "inf"\nutility = "advantage"', "rounds": 3}

    def open_again(toy, operator, kind, questions):
        if kind == "query.close" and VICTIM in questions and questions[VICTIM].fields["round"] == 2:
            operator.extra("query.open", number=2, attempt="again")
            return {client: question for client, question in questions.items() if client != VICTIM}
        return None

    honest, hostile = (run(tmp_path / str(n), twist, **rules) for n, twist in enumerate((lambda *a: None, open_again)))
    assert [report["profit"] for report in reports(hostile, 3)] == [r["profit"] for r in reports(honest, 3)]
    assert "older than the ledger" not in log(hostile)
