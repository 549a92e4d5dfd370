"""What a member takes from the coordinator: nothing that the question does not need lands on its disk."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest

from commonweal.errors import FederationError
from commonweal.remote.member import sent_models
from commonweal.remote.messages.message import MODEL, QuestionError
from commonweal.task.models import fingerprint
from tests.remote.toy import NAMES, make_toy

MEMBER = "east"
LARGE = {"w": np.zeros(1_000_000)}
OTHER = {"w": np.ones(2)}


def with_model(question, model, *, named=True, name=None):
    digest = fingerprint(model) if name is None else name
    fields = {**question.fields, "models": [digest] if named else question.fields["models"]}
    return replace(question, fields=fields, groups={**question.groups, MODEL + digest: model})


BAD = {
    "a model that the question does not name": (
        lambda q: with_model(q, OTHER, named=False),
        "only models that it needs",
    ),
    "a model larger than the first": (lambda q: with_model(q, LARGE), "same arrays as the one that opened the round"),
    "a model under the hash of another": (lambda q: with_model(q, OTHER, name="0" * 64), "named by its hash"),
    "two models to train from": (
        lambda q: replace(q, fields={**q.fields, "models": [*q.fields["models"], "0" * 64]}),
        "needs one model, got 2",
    ),
    "arrays for nothing": (lambda q: replace(q, groups={**q.groups, "junk": LARGE}), "got 'junk'"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_question_with_more_than_it_needs_is_refused_and_nothing_is_stored(tmp_path, name):
    change, reason = BAD[name]
    toy = make_toy(tmp_path / "f", rounds=1, names=NAMES[:3])
    member, arrays, refusals = toy.member(MEMBER), toy.home(MEMBER) / "arrays", []

    def answer(kind, question, original=member.answer):
        if kind == "train.iteration":
            before = sorted(arrays.iterdir())
            with pytest.raises(QuestionError, match=reason):
                original(kind, change(question))
            refusals.append(kind)
            assert sorted(arrays.iterdir()) == before
        return original(kind, question)

    member.answer = answer
    run_report, _ = toy.coordinate()
    assert refusals
    assert not run_report.rounds[0].record.absent, "the member goes on"


@pytest.mark.parametrize("kind", ["query.summarise", "query.close"])
def test_questions_that_need_no_model_take_none(tmp_path, kind):
    toy = make_toy(tmp_path / "f", rounds=1, names=NAMES[:3])
    toy.coordinate()
    question = next(s.message for s in toy.transport.sent if (s.client, s.kind) == (MEMBER, "query.close"))
    if kind == "query.summarise":
        shutil.rmtree(toy.home(MEMBER))  # it is asked of new members only, who get no statements yet
        others = {name: value for name, value in question.fields.items() if name not in ("statement", "trail")}
        question = replace(question, fields=others)
    with pytest.raises(QuestionError, match="needs at most 0 models, got 1"):
        toy.member(MEMBER).answer(kind, replace(question, fields={**question.fields, "models": ["0" * 64]}))
    with pytest.raises(QuestionError, match="only models that it needs"):
        toy.member(MEMBER).answer(kind, replace(question, groups={MODEL + fingerprint(LARGE): LARGE}))


def test_a_member_keeps_some_of_its_disk_free(tmp_path, monkeypatch):
    toy = make_toy(tmp_path / "f", rounds=1, names=NAMES[:3])
    monkeypatch.setattr(sent_models, "LEAST_FREE", 10**18)
    with pytest.raises(FederationError, match="No client answered"):
        toy.coordinate()
    assert not list((toy.home(MEMBER) / "arrays").iterdir())
