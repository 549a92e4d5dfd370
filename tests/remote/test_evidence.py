"""Whatever a question says otherwise, a member takes in what the operator signed with it, and acts on it."""

from __future__ import annotations

import json

import pytest

from commonweal.ledger.reports import ReportBasis, SignedReport, faults_of_reports
from commonweal.remote.coordinator import report_reading
from commonweal.remote.member import agent
from tests.remote.hostile import VICTIM, log, reports, resigned, run, settled_fields, state, with_fields


@pytest.fixture(autouse=True)
def unchecked(monkeypatch):
    """The hostile coordinator does not check what reports are measured from."""
    monkeypatch.setattr(report_reading, "check_baseline", lambda *checked: None)


def opened_with(operator, number):
    return settled_fields(operator.last("query.open", number))


@pytest.mark.parametrize("mechanism", ['mu = "inf"', 'mu = "inf"\nutility = "advantage"'])
def test_a_round_that_was_opened_again_is_adopted_once_a_statement_shows_it_settled(tmp_path, mechanism):
    """Else the next round would be measured from the baseline of the one before, and a gain reported twice."""
    seen = {}

    def twist(toy, operator, kind, questions):
        question = questions.get(VICTIM)
        if question is None:
            return None
        number = question.fields["round"]
        if (number, kind) == (2, "query.close"):
            seen["memory"] = state(toy).under_way.memory
            operator.extra("query.open", number=2, attempt="again")
            return {**questions, VICTIM: with_fields(question, **opened_with(operator, 2))}
        if (number, kind) == (3, "query.open"):
            seen["state"] = state(toy)
            return {**questions, VICTIM: with_fields(question, **opened_with(operator, 2))}
        return None

    toy = run(tmp_path, twist, mechanism=mechanism)
    (report,) = reports(toy, 2)
    adopted = seen["state"]
    assert (adopted.settled_round, adopted.settled_attempt) == (2, report["attempt"].rpartition("/")[0])
    assert adopted.memory == seen["memory"], "of the attempt that was settled"
    if "advantage" not in mechanism:
        assert adopted.baseline == report["measured"]
    assert adopted.under_way is None
    assert not reports(toy, 3), "it was told that round 1 was the last one settled"
    assert "ERROR refused to go back to round 3: round 2 was settled here before" in log(toy)


def test_no_figure_is_signed_of_a_round_after_its_statement_was_kept(tmp_path):
    def twist(toy, operator, kind, questions):
        question = questions.get(VICTIM)
        if question is None or (question.fields["round"], kind) != (2, "query.close"):
            return
        models = list(state(toy).under_way.accuracies)
        operator.extra("query.open", number=2, attempt="again")
        assert operator.extra("query.close", question, **opened_with(operator, 2)) is not None
        for valuation, model in enumerate(models, start=1):
            asked = {"number": 2, "attempt": "again", "models": [model]}
            operator.extra("evaluate.coalitions", **asked, whole=[model], parts=[])
            operator.extra("query.report", **asked, valuation=valuation, adopted=model)
        operator.extra("query.open", number=2, attempt="once more")

    toy = run(tmp_path, twist)
    assert [report["number"] for report in reports(toy, 2)] == [1]
    assert "ERROR refused to go back to round 2: round 2 was settled here before" in log(toy)


def test_a_question_that_goes_back_brings_evidence_all_the_same(tmp_path):
    seen = {}

    def twist(toy, operator, kind, questions):
        question = questions.get(VICTIM)
        if question is None:
            return None
        number = question.fields["round"]
        if (number, kind) == (2, "query.close"):
            seen["models"] = list(state(toy).under_way.accuracies)
            return {**questions, VICTIM: with_fields(question, settled_round=0)}
        if (number, kind) == (3, "query.open"):
            seen["state"] = state(toy)
            for valuation, model in enumerate(seen["models"], start=2):
                operator.extra("query.report", number=2, valuation=valuation, adopted=model, models=[model])
        return None

    toy = run(tmp_path, twist)
    assert seen["state"].settled_round == 2
    assert len(reports(toy, 2)) == 1
    (row,) = reports(toy, 3)
    assert row["baseline"] == reports(toy, 2)[0]["measured"]
    named = [line.split()[0] for line in (toy.home(VICTIM) / "heads.txt").read_text().splitlines()]
    assert "4" in named, "the entry of round 2"


WRONG = {
    "nothing": {},
    "settled_model": {"settled_model": "00" * 32},
    "outcome": {"outcome": None},
    "round": {"round": []},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_contradicts_is_logged_and_kept_whatever_else_is_wrong_with_the_question(tmp_path, wrong):
    def twist(toy, operator, kind, questions):
        question = questions.get(VICTIM)
        if question is None or (question.fields["round"], kind) != (2, "query.close"):
            return
        first = (toy.home(VICTIM) / "statements" / "round-0001.json").read_text()
        statement = resigned(toy, first, lambda document: document.update(head={"number": 3, "hash": "ab" * 32}))
        trail = resigned(
            toy, question.fields["trail"], lambda document: document.update(first=1, hashes=["ab" * 32] * 3)
        )
        operator.extra(kind, question, statement=statement, trail=trail, **WRONG[wrong])

    toy = run(tmp_path, twist, rounds=2)
    assert "DOUBTFUL STATEMENT in round-" in log(toy)
    assert "CONTRADICTION: the operator signed two different entries 1" in log(toy)
    assert len(list((toy.home(VICTIM) / "statements" / "doubtful").glob("round-*"))) == 1
    assert "CONTRADICTION: the operator signed two different entries 3" in log(toy)
    assert len(list((toy.home(VICTIM) / "contradictions").iterdir())) == 2, "the trail and the statement"
    assert "ERROR 'outcome'" not in log(toy)


def hides_reports(change):
    """The member signs three reports of round 2, and the first is settled; the statement is changed."""

    def twist(toy, operator, kind, questions):
        question = questions.get(VICTIM)
        if question is None:
            return None
        number = question.fields["round"]
        if (number, kind) == (2, "query.receipt"):
            return {client: other for client, other in questions.items() if client != VICTIM}
        if (number, kind) == (2, "query.close"):
            for valuation, model in enumerate(list(state(toy).under_way.accuracies)[:2], start=2):
                operator.extra("query.report", number=2, valuation=valuation, adopted=model, models=[model])
            other = resigned(toy, question.fields["statement"], change)
            return {**questions, VICTIM: with_fields(question, statement=other, **opened_with(operator, 2))}
        if (number, kind) == (3, "query.open"):
            operator.extra("query.open", number=2, attempt="again")
        return None

    return twist


def call_it_900(document):
    for line in document["lines"]:
        line["round"] = 900 if line["round"] == 2 else line["round"]


def call_it_900_everywhere(document):
    call_it_900(document)
    for line in document["lines"]:
        line["text"] = line["text"].replace("round 2:", "round 900:")


@pytest.mark.parametrize("change", [call_it_900, call_it_900_everywhere])
def test_a_line_about_another_round_hides_no_report(tmp_path, change):
    toy = run(tmp_path, hides_reports(change))
    first, *others = reports(toy, 2)
    assert len(others) == 2
    if change is call_it_900:
        assert "DOUBTFUL STATEMENT in round-0002: the line about entry 4 says round 2, but names round 900" in log(toy)
        assert not reports(toy, 3), "round 2 is said to be settled by a report that is not the last one"
    else:
        assert "ERROR round 900: the statement says that a profit of" in log(toy)
        assert reports(toy, 3)[0]["baseline"] == first["measured"], "as settled"


def test_a_report_that_is_not_the_last_one_does_not_settle_a_round(tmp_path):
    """The operator sends the first of two signed reports, which have different profits, as the one that was settled."""

    def twist(toy, operator, kind, questions):
        question = questions.get(VICTIM)
        if question is not None and (question.fields["round"], kind) == (2, "query.close"):
            operator.extra("query.open", number=2, attempt="again")
            (model,) = operator.last("query.open", 2).fields["models"]
            asked = {"number": 2, "attempt": "again", "models": [model]}
            operator.extra("evaluate.coalitions", **asked, whole=[model], parts=[])
            operator.extra("query.report", **asked, adopted=model)
            operator.extra("query.open", number=2, attempt="and again")
            return {client: other for client, other in questions.items() if client != VICTIM}
        return None

    toy = run(tmp_path, twist)
    first, second = reports(toy, 2)
    assert first["profit"] != second["profit"]
    assert not reports(toy, 3)
    assert "Round 2 is said to be settled by an attempt that was not reported here last" in log(toy)


def test_the_operator_cannot_choose_between_pooled_gains_and_those_measured(tmp_path):
    refusals = {}

    def twist(toy, operator, kind, questions):
        question = questions.get(VICTIM)
        if question is None or (question.fields["round"], kind) != (2, "query.report"):
            return
        figures = question.fields["figures"]
        if figures == "pooled":
            without = {name: value for name, value in question.fields.items() if name != "gains"}
            question = type(question)(fields=without)
            told = {}
        else:
            table = {"round": 2, "version": "pooled/1", "newcomers": [], "gains": []}
            told = {"gains": json.dumps({"table": table, "pooled": 0.0, "expected": None})}
        refusals[figures] = operator.extra(kind, question, valuation=7, **told).reason

    for figures in ("measured", "pooled"):
        toy = run(tmp_path / figures, twist, rounds=2, mechanism=f'mu = "inf"\nfigures = "{figures}"')
        assert len(reports(toy, 2)) == 1
    assert "Gains are used as measured in round 2, but the question came with a table of gains" in refusals["measured"]
    assert "pooled with those of the others in round 2, but the question came without a table" in refusals["pooled"]


def test_earlier_reports_of_another_kind_of_figures_are_a_fault(tmp_path, monkeypatch):
    """As a member of an earlier version would sign them."""
    monkeypatch.setattr(agent, "check_figures", lambda *checked, **options: None)

    def twist(toy, operator, kind, questions):
        question = questions.get(VICTIM)
        if question is not None and (question.fields["round"], kind) == (2, "query.report"):
            without = {name: value for name, value in question.fields.items() if name != "gains"}
            operator.extra(kind, type(question)(fields=without), valuation=7)

    toy = run(tmp_path, twist, rounds=2, mechanism='mu = "inf"\nfigures = "pooled"')
    first, second = (SignedReport(document=report, signature="") for report in reports(toy, 2))
    assert ("gains" in first.document, "gains" in second.document) == (False, True)
    assert any("all reports of a round use one kind of figures" in line for line in toy.said)
    basis = ReportBasis.from_document({**second.document, "earlier": [first.to_document()]}, "")
    for has_gains, is_fault in ((True, True), (False, False), (None, False)):
        faults = faults_of_reports(
            {VICTIM: basis}, {}, ledger="", round_number=2, terms="", stated_terms=(), has_gains=has_gains
        )
        assert any(fault.rule == "all reports of a round use one kind of figures" for fault in faults) == is_fault
