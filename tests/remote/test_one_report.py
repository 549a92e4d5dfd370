"""A member signs one report per attempt of a round, whatever the operator asks; the ledger lists all of them."""

from __future__ import annotations

import json
import shutil

import pytest

from commonweal.errors import CommonwealError, FederationError, StorageError
from commonweal.federation.settlement import FederationLedger
from commonweal.ledger.canonical import canonical
from commonweal.ledger.keys import is_signed
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.verification.recompute import recompute
from commonweal.ledger.verification.verify import verify_ledger
from commonweal.remote.member.agent import MemberAgent
from commonweal.remote.member.member_file import read_member
from commonweal.remote.member.store import MemberStore
from commonweal.remote.messages.message import Message, QuestionError
from tests.remote.toy import NAMES, TASK, make_toy, open_toy, settled

VICTIM, LATE = "north", "west"
RULES = {"rounds": 3, "mechanism": 'mu = "inf"'}


class Killed(BaseException):
    """The coordinator, at once."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    toy = make_toy(tmp_path_factory.mktemp("killed") / "f", **RULES)
    kill_when_reported(toy, 3)
    return toy


@pytest.fixture
def reported(killed, tmp_path):
    """A federation whose coordinator was killed in round 3, when everybody had reported; with what was sent so far."""
    shutil.copytree(killed.folder, tmp_path / "f")
    toy = open_toy(tmp_path / "f")
    toy.transport.sent += killed.transport.sent
    return toy


def kill_when_reported(toy, number):
    ask = toy.transport.ask

    def until_reported(kind, questions, *, seconds):
        answers = ask(kind, questions, seconds=seconds)
        if kind == "query.report" and next(iter(questions.values())).fields["round"] == number:
            toy.transport.ask = ask
            raise Killed
        return answers

    toy.transport.ask = until_reported
    with pytest.raises(Killed):
        toy.coordinate()


class HostileOperator:
    """Asks a member again what it was asked before, with other fields; keeps what it gets signed."""

    def __init__(self, toy, name=VICTIM):
        member = read_member(toy.folder / "members" / name / "member.toml")
        self.agent = MemberAgent(member, TASK, NodeKey.read(member.key_file))
        self.toy, self.name = toy, name
        self.profits = {}  # (round, opening, valuation) → the profits that were signed
        self.refusals = []

    def asked(self, kind, number):
        sent = self.toy.transport.sent
        questions = [s.message for s in sent if (s.to_member, s.client, s.kind) == (True, self.name, kind)]
        return [question for question in questions if question.fields["round"] == number][-1]

    def ask(self, kind, number, **fields):
        question = self.asked(kind, number)
        asked = {**question.fields, **fields}
        sent = {name: group for s in self.toy.transport.sent for name, group in s.message.groups.items()}
        groups = {name: group for name, group in question.groups.items() if not name.startswith("model/")}
        groups |= {f"model/{digest}": sent[f"model/{digest}"] for digest in asked.get("models", ())}
        try:
            answer = self.agent.answer(kind, Message(fields=asked, groups=groups))
        except QuestionError as error:
            self.refusals.append(str(error))
            return None
        if "profit" in answer.fields:
            at = asked["round"], asked["attempt"], asked.get("valuation")
            self.profits.setdefault(at, set()).add(answer.fields["profit"])
        return answer

    def baseline(self):
        return MemberStore(self.toy.home(self.name)).load().baseline


def test_an_operator_gets_one_signed_profit_of_an_attempt(reported):
    operator = HostileOperator(reported)
    before = operator.baseline()
    scored = list(MemberStore(reported.home(VICTIM)).load().under_way.accuracies)
    assert len(scored) == 3, "the opening model, and one of each iteration"
    for model in scored:  # any model that it has scored
        operator.ask("query.report", 3, adopted=model, models=[model])
    for model in scored:  # from another baseline
        operator.ask("query.open", 3, has_baseline=False, models=[model])
        assert operator.baseline() == before
        for adopted in scored:
            operator.ask("evaluate.coalitions", 3, whole=[adopted], parts=[], models=[adopted])
            operator.ask("query.report", 3, adopted=adopted, models=[adopted])
    for number in (1, 2):  # rounds that are settled
        operator.ask("query.open", number, attempt="again", has_baseline=False)
        operator.ask("query.open", number, attempt="again", has_baseline=False, settled_round=2)
        for valuation in (1, 2):
            operator.ask("query.report", number, attempt="again", valuation=valuation)
    assert [len(profits) for profits in operator.profits.values()] == [1], operator.profits
    assert any("has been reported with model" in refusal for refusal in operator.refusals)
    assert "ERROR refused to sign a second report" in log(reported, VICTIM)


def test_no_more_training_after_a_report(reported):
    operator = HostileOperator(reported, "south")
    first = operator.ask("query.report", 3)
    for iteration in (3, 4):
        assert operator.ask("train.iteration", 3, iteration=iteration) is None
    state = MemberStore(reported.home("south")).load()
    state.under_way.steps.pop("2")  # as in a round that ends early
    MemberStore(reported.home("south")).save(state)
    assert operator.ask("train.iteration", 3, iteration=2) is None
    assert "was reported, and is trained no more" in operator.refusals[-1]
    assert MemberStore(reported.home("south")).load() == state
    state.under_way.steps["2"] = 3
    MemberStore(reported.home("south")).save(state)
    again = operator.ask("query.report", 3)
    assert dict(again.fields) == dict(first.fields)


def test_an_attempt_that_was_reported_is_not_opened_again_after_another(reported):
    operator = HostileOperator(reported)
    assert operator.ask("query.open", 3, attempt="another") is not None
    assert operator.ask("query.open", 3) is None
    assert "is under way and not opened again" in operator.refusals[-1]


def test_every_new_attempt_is_numbered_and_shows_those_before(reported):
    operator = HostileOperator(reported)
    key = NodeKey.read(reported.folder / "members" / VICTIM / "node-key").public
    answers = [operator.ask("query.report", 3, valuation=valuation) for valuation in range(1, 21)]
    assert [answer.fields["report_number"] for answer in answers] == list(range(1, 21))
    earlier = json.loads(answers[-1].fields["earlier"])
    assert [report["report"]["number"] for report in earlier] == list(range(1, 20))
    assert all(is_signed(canonical(report["report"]), report["signature"], key) for report in earlier)
    kept = json.loads((reported.home(VICTIM) / "reports" / "round-0003.json").read_text())["reports"]
    assert kept[:-1] == earlier
    assert kept[-1]["report"]["opening_model"] == operator.asked("query.open", 3).fields["models"][0]
    assert kept[-1]["report"]["terms"] == operator.asked("query.open", 3).fields["terms"]
    assert operator.ask("query.report", 3, valuation=21) is None
    assert "has signed 20 reports of round 3 and signs no more" in operator.refusals[-1]
    assert operator.ask("query.open", 3, attempt="another") is None, "what is done in it could not be reported"
    assert "has signed 20 reports of round 3 and signs no more" in operator.refusals[-1]


def test_a_report_is_on_the_disk_before_it_is_sent(reported):
    shutil.rmtree(reported.home(VICTIM) / "reports")
    (reported.home(VICTIM) / "reports").write_text("in the way")
    with pytest.raises(StorageError, match="reports"):
        HostileOperator(reported).ask("query.report", 3)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "commonweal.reports/1", "reports": [1]}'])
def test_damaged_reports_at_home_stop_the_member_rather_than_starting_at_1_again(reported, content):
    (reported.home(VICTIM) / "reports" / "round-0003.json").write_text(content)
    with pytest.raises(CommonwealError, match=r"Cannot read .*round-0003.*Restore the folder from a backup"):
        HostileOperator(reported).ask("query.report", 3, valuation=2)


def test_a_round_is_settled_with_the_model_that_was_reported(reported):
    """Else the operator could choose the next baseline among all models that the member has scored."""
    operator = HostileOperator(reported)
    state = MemberStore(reported.home(VICTIM)).load()
    before = state.baseline
    told = {"round": 4, "attempt": "next", "settled_round": 3, "settled_attempt": state.under_way.attempt}
    told["terms"] = "ab" * 32  # amended, or there would be no fourth round
    reported_model = operator.asked("query.report", 3).fields["adopted"]
    for model in state.under_way.accuracies:
        if model != reported_model:
            assert operator.ask("query.open", 3, **told, settled_model=model) is None
            assert operator.baseline() == before
    assert "but was reported here on model" in operator.refusals[-1]
    assert operator.ask("query.open", 3, **told, settled_model=reported_model, models=[reported_model]) is not None
    assert operator.baseline() == state.under_way.accuracies[reported_model]


def entries(toy):
    store = open_store(str(toy.out / "ledger.db"))
    try:
        assert not verify_ledger(store, recompute).findings
        with store.reading() as reading:
            documents = [json.loads(entry.content) for entry in reading.entries()]
    finally:
        store.close()
    return {document["body"]["round"]: document["body"] for document in documents if document["kind"] == "round"}


def test_the_reports_of_an_interrupted_attempt_are_listed(reported):
    reported.coordinate()
    rounds = entries(reported)
    assert [row["report"]["number"] for row in rounds[2]["inputs"]] == [1, 1, 1, 1]
    for row in rounds[3]["inputs"]:
        (first,) = row["report"]["earlier"]
        assert (row["report"]["number"], first["report"]["number"]) == (2, 1)
        assert first["report"]["profit"] == row["profit"], "nothing else had changed"
        assert first["report"]["attempt"] != row["report"]["attempt"]
    assert len({row["report"]["attempt"] for row in rounds[3]["inputs"]}) == 1
    assert "report 2 of this round, which takes the place of those before it" in log(reported, VICTIM)
    assert "ERROR" not in log(reported, VICTIM)


def test_terms_that_change_while_a_round_is_under_way_make_another_attempt(tmp_path, monkeypatch):
    """The reports name the terms that the round was opened under, so they do not count under others."""
    toy = make_toy(tmp_path / "f", **{**RULES, "rounds": 2}, names=NAMES[:3])
    ask = toy.transport.ask

    def changing(kind, questions, *, seconds):
        answers = ask(kind, questions, seconds=seconds)
        if kind == "query.report" and next(iter(questions.values())).fields["round"] == 2:
            monkeypatch.setattr(FederationLedger, "terms_hash", property(lambda ledger: "0" * 64))
        return answers

    toy.transport.ask = changing
    with pytest.raises(FederationError, match=r"changed while round 2 was under way.*Resume"):
        toy.coordinate()
    monkeypatch.undo()
    toy.transport.ask = ask
    toy.coordinate()
    assert [row["report"]["number"] for row in entries(toy)[2]["inputs"]] == [2, 2, 2]


def test_a_member_lost_at_the_report_opens_another_attempt_for_the_others(tmp_path):
    toy = make_toy(tmp_path / "f", **RULES)

    def twist(kind, question, answer):
        if kind == "query.report" and question.fields["round"] == 2:
            raise ConnectionError
        return answer

    toy.member(LATE).twist = twist
    run_report, _ = toy.coordinate()
    assert [each.record.absent for each in run_report.rounds] == [(), (LATE,), ()]
    rows = entries(toy)[2]["inputs"]
    assert [row["client"] for row in rows] == [name for name in NAMES if name != LATE]
    for row in rows:
        (first,) = row["report"]["earlier"]
        assert first["report"]["model"] != row["report"]["model"], "that one was also made from the absent member's"
        assert first["report"]["opening_model"] == row["report"]["opening_model"]
    assert settled(toy.out)
    (error,) = [line for line in log(toy, LATE).splitlines() if " ERROR " in line]
    assert "round 2: the statement calls this member absent or silent, but it signed a report" in error


def test_what_is_signed_stands_in_the_entry(reported):
    reported.coordinate()
    bodies = entries(reported)
    opened = {number: HostileOperator(reported).asked("query.open", number).fields for number in bodies}
    for number, body in bodies.items():
        for row in body["inputs"]:
            assert row["report"]["opening_model"] == opened[number]["models"][0]
            last = json.loads((reported.home(row["client"]) / "reports" / f"round-{number:04d}.json").read_text())[
                "reports"
            ][-1]
            assert last["signature"] == row["signature"]
            assert last["report"] == {
                "format": "commonweal.report/4",
                "book": opened[number]["book"],
                "round": number,
                **{name: row[name] for name in ("client", "profit", "sample_count", "cost")},
                **{name: value for name, value in row["report"].items() if name != "earlier"},
                "terms": body["terms"],
            }
    first, second = ({row["client"]: row for row in bodies[number]["inputs"]} for number in (1, 2))
    assert second[VICTIM]["report"]["opening_model"] == first[VICTIM]["report"]["model"]


MEASURED_FROM = {
    'utility = "gain"': lambda completed, name: completed.clients[name].previous_accuracy,
    'utility = "advantage"': lambda completed, name: completed.clients[name].alone.value,
    'figures = "pooled"': lambda completed, name: completed.iteration_accuracies[0][name],
}


@pytest.mark.parametrize("rule", MEASURED_FROM)
def test_the_baseline_is_what_utility_is_measured_from(tmp_path, rule):
    """And the round opens with the model of the one before, which verify finds to be so by any rule."""
    toy = make_toy(tmp_path / "f", rounds=2, mechanism=f'mu = "inf"\n{rule}', names=NAMES[:3])
    run_report, _ = toy.coordinate()
    settled(toy.out)  # without findings
    for completed, body in zip(run_report.rounds, entries(toy).values(), strict=True):
        assert not completed.record.absent
        for row in body["inputs"]:
            assert row["report"]["baseline"] == MEASURED_FROM[rule](completed, row["client"])


def test_a_statement_with_another_profit_than_was_reported_last_is_noticed(reported):
    """The operator may hide the last report and settle an earlier one."""
    operator = HostileOperator(reported)
    statement = json.loads(operator.asked("query.close", 2).fields["statement"])
    file = reported.home(VICTIM) / "reports" / "round-0002.json"
    text = file.read_text()
    profit = json.loads(text)["reports"][-1]["report"]["profit"]
    assert statement["document"]["lines"][-1]["profit"] == profit
    file.write_text(text.replace(repr(profit), "0.75"))
    (reported.home(VICTIM) / "statements" / "round-0002.json").unlink()  # so that its line is new
    operator.ask("query.close", 2)
    assert f"a profit of {profit!r} was reported, but the last report signed here" in log(reported, VICTIM)


def log(toy, name):
    return (toy.home(name) / "log.txt").read_text()
