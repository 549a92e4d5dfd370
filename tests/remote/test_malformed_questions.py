"""Whatever a question contains, a member refuses it in one sentence, and loses nothing."""

from __future__ import annotations

import shutil

import numpy as np

from commonweal.remote.member.agent import answer_question
from commonweal.remote.messages.message import Message, QuestionError
from commonweal.remote.messages.settings_hash import SETTINGS
from tests.remote.hostile import VICTIM, log, run
from tests.remote.test_silence import SILENT, make, restored_in_round_2
from tests.remote.toy import TASK

MISSING = object()
NASTY = [MISSING, None, -1, 1.5, float("nan"), "x", "\ud800", [], {"a": 1}, ["0" * 64], '{"a":NaN}', "[" * 100_000]
KINDS = ["query.open", "train.iteration", "evaluate.coalitions", "query.report", "query.receipt", "query.close"]
KEPT = ("statements", "reports", "receipts/round", "trails", "contradictions")


def files(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def outcome(toy, kind, question, name=VICTIM):
    try:
        answer_question(toy.member(name).file, TASK, kind, question)
    except QuestionError:
        return "refused"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:150]
    return "answered"


def test_no_field_makes_a_member_fail(tmp_path):
    """Gains are pooled, so that questions have all fields that there are."""
    failures, done = [], set()

    def twist(toy, operator, kind, questions):
        question = questions.get(VICTIM)
        if question is None or question.fields["round"] != 2 or kind in done:
            return
        done.add(kind)
        home, safe = toy.home(VICTIM), toy.home(VICTIM).parent / "safe"
        shutil.copytree(home, safe)
        before = files(home)
        for name in dict.fromkeys([*question.fields, "number", "gains"]):
            if name in SETTINGS and kind != "query.open":  # they are checked alike
                continue
            for value in NASTY:
                fields = {**question.fields, "number": "00", name: value}
                if value is MISSING:
                    del fields[name]
                what = outcome(toy, kind, Message(fields=fields, groups=question.groups))
                if what == "refused" and kind != "query.close":  # which brings evidence
                    continue
                if what not in ("refused", "answered"):
                    failures.append((kind, name, ascii(value)[:30], what))
                after = files(home)
                assert not [file for file in before if file.startswith(KEPT) and after.get(file) != before[file]]
                shutil.rmtree(home)
                shutil.copytree(safe, home)
        assert {**files(home), "log.txt": b""} == {**before, "log.txt": b""}, "refused questions leave no trace"
        shutil.rmtree(safe)

    toy = run(tmp_path, twist, rounds=2, mechanism='mu = "inf"\nfigures = "pooled"', names=("north", "south", "east"))
    assert done == set(KINDS)
    assert not failures, failures[:10]
    assert toy.run_report.rounds[1].record.absent == ()


def test_no_field_of_a_question_for_a_late_report_makes_a_restored_member_fail(tmp_path):
    """It is put back to before it missed the round, so that all fields count."""
    toy = make(tmp_path, "silence_limit = 2", names=("north", SILENT), mechanism='mu = "inf"\nutility = "advantage"')
    restored_in_round_2(toy)
    toy.coordinate()
    sent = [each for each in toy.transport.sent if each.to_member and each.client == SILENT]
    (closed, *_) = (each for each in sent if (each.kind, each.message.fields["round"]) == ("query.close", 2))
    late = [each for each in sent if each.kind == "evaluate.coalitions" and "opening_model" in each.message.fields][-1]
    home, safe = toy.home(SILENT), tmp_path / "safe"
    shutil.rmtree(home)
    shutil.copytree(toy.folder / "backup", home)
    assert outcome(toy, closed.kind, closed.message, SILENT) == "answered"
    shutil.copytree(home, safe)
    failures, answered = [], set()
    for name in (name for name in late.message.fields if name not in SETTINGS):
        for value in (*NASTY, "[[1]]", "[[2, 1]]", '[[1, 2]], "a": [1]'):
            fields = {**late.message.fields, "number": "00", name: value}
            if value is MISSING:
                del fields[name]
            what = outcome(toy, late.kind, Message(fields=fields, groups=late.message.groups), SILENT)
            if what == "answered":
                answered.add(name)
                shutil.rmtree(home)
                shutil.copytree(safe, home)
            elif what != "refused":
                failures.append((name, ascii(value)[:30], what))
    assert not failures, failures[:10]
    assert "settled_rounds" in answered, "coordinators of earlier versions leave it out"


def test_weights_and_kinds_of_questions_are_checked_too(tmp_path):
    refusals = []

    def twist(toy, operator, kind, questions):
        question = questions.get(VICTIM)
        if question is None or kind != "evaluate.coalitions" or not question.fields["parts"]:
            return
        count = len(question.fields["parts"])
        odd = [np.zeros((1, count)), np.full((1, count), np.nan), np.ones(count), np.array([["x"] * count])]
        for rows in (None, *odd):
            groups = {"rows": {} if rows is None else {"rows": rows}}
            refusals.append(operator.extra(kind, Message(fields=question.fields, groups=groups)).reason)
        refusals.append(operator.extra("query.nothing", question).reason)

    toy = run(tmp_path, twist, rounds=1, names=("north", "south", "east"))
    assert refusals
    assert all("weights of local models must be rows" in refusal for refusal in refusals[:5])
    assert "There is no question 'query.nothing'" in refusals[5]
    assert "ERROR refused a question query.nothing" in log(toy)
