"""What the operator signed and showed a member counts: heads, changes of its key, and parts that cannot be kept yet."""

import json

import numpy as np
import pytest

from commonweal.ledger.statement_parts import part_in
from commonweal.task.records import Task
from tests.remote import toy as toy_module
from tests.remote.hostile import VICTIM, log, reports, resigned, run, state, with_fields


class Killed(BaseException):
    pass


def in_round(number, kind, twist):
    """The twist of one question to the victim."""

    def twisted(toy, operator, asked, questions):
        question = questions.get(VICTIM)
        if question is not None and (question.fields.get("round"), asked) == (number, kind):
            return twist(toy, operator, question, questions)
        return None

    return twisted


def test_a_member_killed_before_it_adopts_what_a_statement_settles_adopts_it_at_the_next_question(tmp_path, monkeypatch):
    signed = []

    def killed(toy, operator, question, questions):
        def kill(*asked):
            raise Killed

        model = state(toy).under_way.opening
        with monkeypatch.context() as patch:
            patch.setattr("commonweal.remote.member.evidence.adopt_stated", kill)
            with pytest.raises(Killed):
                operator.extra("query.close", question)
        assert (toy.home(VICTIM) / "statements" / "round-0002.json").exists()
        operator.extra("query.report", number=2, valuation=2, adopted=model, models=[model])
        signed.extend(reports(toy, 2))

    toy = run(tmp_path, in_round(2, "query.close", killed), rounds=2)
    assert [report["number"] for report in signed] == [1]
    assert state(toy).settled_round == 2


def test_the_first_measure_of_the_opening_model_counts(tmp_path, monkeypatch):
    def train(model, training, context):
        context.memory["shift"] = context.memory.get("shift", np.zeros(1)) + 0.1
        return toy_module.train(model, training, context)

    def evaluate(model, validation, context):
        x, y = validation
        shift = float(context.memory["shift"][0]) if "shift" in context.memory else 0.0
        return (np.abs(model["w"][0] * x + model["w"][1] + shift - y) < 0.25).astype(float)

    task = Task(load=toy_module.load, train=train, evaluate=evaluate, gradient=toy_module.gradient)
    monkeypatch.setattr(toy_module, "TASK", task)
    found = []

    def again(toy, operator, question, questions):
        before = state(toy).under_way
        opening = before.opening
        operator.extra("evaluate.coalitions", question, models=[opening], whole=[opening], parts=[])
        after = state(toy).under_way
        found.append((before.accuracies[opening], after.accuracies[opening]))
        found.append((before.measures[opening], after.measures[opening]))

    run(tmp_path, in_round(2, "evaluate.coalitions", again), rounds=2, mechanism='mu = "inf"\nfigures = "pooled"')
    assert found and all(before == after for before, after in found)


def test_no_late_report_is_signed_before_a_statement_says_that_the_round_was_missed(tmp_path):
    answers = []

    def as_late(toy, operator, question, questions):
        answers.append(operator.extra("query.report", question, entry="ab" * 32))
        assert not reports(toy, 2)

    toy = run(tmp_path, in_round(2, "query.report", as_late), rounds=2)
    assert "no statement that is kept here" in answers[0].reason
    assert ["entry" in report for report in reports(toy, 2)] == [False]


@pytest.mark.parametrize(
    "told", [{"kind": "realisation", "text": "absent"}, {"kind": None, "round": None, "text": "absent"}]
)
def test_a_line_that_hides_which_round_it_is_about_is_doubted(tmp_path, told):
    def hidden(toy, operator, question, questions):
        def change(document):
            line, before = document["lines"][-1], document["before"]
            figures = ("profit", "contribution", "share", "payoff", "transfer")
            line.update(dict.fromkeys(figures), amount="0", accrued="0", **told)
            line.update(balance=before["balance"], accrued_balance=before["accrued"])
            part, _ = part_in(json.dumps({"document": document, "signer": "", "signature": ""}).encode(), "it")
            document["after"] = part.before.then(part.statement.lines).to_document()

        return {
            **questions,
            VICTIM: with_fields(question, statement=resigned(toy, question.fields["statement"], change)),
        }

    toy = run(tmp_path, in_round(2, "query.close", hidden), rounds=2)
    assert "DOUBTFUL STATEMENT in round-0002" in log(toy)
    assert any("doubts its statement" in line for line in toy.said)


@pytest.mark.parametrize("number", ["1e400", "NaN", "[]"])
def test_a_head_without_a_sound_number_is_doubted(tmp_path, number):
    def odd(toy, operator, question, questions):
        head = json.loads(question.fields["ledger_head"])
        head["document"]["head"]["number"] = "@"
        return {**questions, VICTIM: with_fields(question, ledger_head=json.dumps(head).replace('"@"', number))}

    toy = run(tmp_path, in_round(2, "query.open", odd), rounds=2)
    assert "DOUBTFUL HEAD of the ledger" in log(toy)
    assert state(toy).settled_round == 2
