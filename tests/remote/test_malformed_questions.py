"""Whatever a question contains, a member refuses it in one sentence, and loses nothing."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from commonweal.remote.member.agent import answer_question
from commonweal.remote.messages.message import Message, QuestionError
from tests.remote.hostile import VICTIM, log, run, state
from tests.remote.toy import TASK

MISSING = object()
NASTY = [
    MISSING, None, True, -1, 1.5, 10**400, float("nan"), "", "x", "\ud800", "\x1b[2J", [], {}, [1], ["0" * 64], "[]",
    '{"a":NaN}', "[" * 100_000,
]  # fmt: skip
KINDS = ["query.open", "train.iteration", "evaluate.coalitions", "query.report", "query.receipt", "query.close"]
KEPT = ("statements", "reports", "receipts/round", "trails", "contradictions")


def files(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("mechanism", ['mu = "inf"', 'mu = "inf"\nfigures = "pooled"'])
def test_no_field_makes_a_member_fail(tmp_path, mechanism, capsys):
    failures, done = [], set()

    def ask(toy, kind, question):
        home = toy.home(VICTIM)
        before = files(home)
        try:
            answer_question(toy.member(VICTIM).file, TASK, kind, question)
        except QuestionError:
            return None
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:150]
        finally:
            after = files(home)
            lost = [name for name, content in before.items() if name.startswith(KEPT) and after.get(name) != content]
            assert not lost
            assert state(toy).book
        return None

    def twist(toy, operator, kind, questions):
        question = questions.get(VICTIM)
        if question is None or question.fields["round"] != 2 or kind in done or kind not in KINDS:
            return
        done.add(kind)
        home = toy.home(VICTIM)
        for name in [*question.fields, "number", "gains", "peers", "heads", "trail"]:
            for value in NASTY:
                fields = {**question.fields, "number": "00", name: value}
                if value is MISSING:
                    del fields[name]
                shutil.copytree(home, home.parent / "safe")
                failure = ask(toy, kind, Message(fields=fields, groups=question.groups))
                shutil.rmtree(home)
                (home.parent / "safe").rename(home)
                if failure:
                    failures.append((kind, name, "missing" if value is MISSING else ascii(value)[:30], failure))

    toy = run(tmp_path, twist, rounds=2, mechanism=mechanism, names=("north", "south"))
    assert done == set(KINDS)
    assert not failures, failures[:10]
    assert toy.run_report.rounds[1].record.absent == ()


def test_weights_and_kinds_of_questions_are_checked_too(tmp_path):
    refusals = []

    def twist(toy, operator, kind, questions):
        question = questions.get(VICTIM)
        if question is None or kind != "evaluate.coalitions" or not question.fields["parts"]:
            return
        count = len(question.fields["parts"])
        for rows in (
            None,
            np.zeros((1, count)),
            np.full((1, count), np.nan),
            np.ones(count),
            np.array([["x"] * count]),
        ):
            groups = {"rows": {} if rows is None else {"rows": rows}}
            refusals.append(operator.extra(kind, Message(fields=question.fields, groups=groups)).reason)
        refusals.append(operator.extra("query.nothing", question).reason)

    toy = run(tmp_path, twist, rounds=1, names=("north", "south"))
    assert refusals
    assert all("weights of local models must be rows" in refusal for refusal in refusals[:5])
    assert "There is no question 'query.nothing'" in refusals[5]
    assert "ERROR refused a question query.nothing" in log(toy)
