"""What a member's utility is measured from follows from what was settled, whatever the operator tells the member."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from commonweal.ledger.sql.store import open_store
from commonweal.remote.member.store import MemberStore
from commonweal.remote.messages.message import Message, QuestionError
from commonweal.remote.transport import Answers, NoAnswer
from commonweal.task.models import fingerprint
from tests.first_few import first_few
from tests.remote import hostile
from tests.remote.memory_transport import MemoryTransport
from tests.remote.test_shown_heads import Killed
from tests.remote.toy import NAMES, make_toy, settled

VICTIM = "north"
RULES = {"rounds": 3, "mechanism": 'mu = "inf"', "learning": "iteration_limit = 2"}
ADVANTAGE = 'mu = "inf"\nutility = "advantage"'


class HostileTransport(MemoryTransport):
    """Sends the victim other questions than the coordinator wrote; None: not this one."""

    def __init__(self, members, twist):
        super().__init__(members)
        self.twist = twist

    def ask(self, kind, questions, *, seconds):
        twisted = {c: self.twist(kind, q) if c == VICTIM else q for c, q in questions.items()}
        return super().ask(kind, {c: q for c, q in twisted.items() if q is not None}, seconds=seconds)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    toy = make_toy(tmp_path_factory.mktemp("undisturbed") / "f", **RULES)
    toy.coordinate()
    return toy


def rows(toy):
    """The victim's rows in the rounds that it was in."""
    settled(toy.out)  # without findings
    store = open_store(str(toy.out / "ledger.db"))
    try:
        with store.reading() as reading:
            documents = [json.loads(entry.content) for entry in reading.entries()]
    finally:
        store.close()
    bodies = [document["body"] for document in documents if document["kind"] == "round"]
    return {body["round"]: row for body in bodies for row in body["inputs"] if row["client"] == VICTIM}


def figures(toy):
    return {number: (row["profit"], row["report"]["baseline"]) for number, row in rows(toy).items()}


def log(toy):
    return (toy.home(VICTIM) / "log.txt").read_text()


def nothing_settled(question):
    return replace(question, fields={**question.fields, "settled_round": 0, "settled_attempt": "", "settled_model": ""})


def test_a_member_adopts_a_round_that_a_statement_shows_settled(tmp_path, undisturbed):
    """The operator never tells it that a round of its was settled, so that it reports its first gain again."""
    toy = make_toy(tmp_path / "f", **RULES)
    toy.transport = HostileTransport(
        toy.transport.members, lambda kind, q: nothing_settled(q) if kind in ("query.open", "query.close") else q
    )
    toy.coordinate()
    assert figures(toy) == {1: figures(undisturbed)[1]}, "in later rounds it does not take part"
    assert "ERROR refused to go back to round 2: round 1 was settled here before" in log(toy)


def test_words_of_a_statement_that_name_no_round_hide_nothing(tmp_path, undisturbed):
    """The operator signs lines in other words."""
    from commonweal.ledger import statements

    toy = make_toy(tmp_path / "f", **RULES)
    toy.transport = HostileTransport(
        toy.transport.members, lambda kind, q: nothing_settled(q) if kind in ("query.open", "query.close") else q
    )
    original = statements.printable
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statements, "printable", lambda text: original(text).replace("round ", "part "))
        toy.coordinate()
    assert figures(toy) == {1: figures(undisturbed)[1]}


@pytest.mark.parametrize("mechanism", first_few(1, [ADVANTAGE, RULES["mechanism"]]))
def test_an_opening_that_is_given_up_leaves_no_trace(tmp_path, mechanism):
    """The operator opens the first round on a model that it chose for this member, and then again with everybody."""
    honest, toy = (make_toy(tmp_path / name, **RULES | {"mechanism": mechanism}) for name in ("honest", "f"))
    honest.coordinate()
    chosen = {"w": np.array([1.0, 0.3])}  # the member's own line
    done = []

    def twist(kind, question):
        if kind == "query.open" and not done:
            digest = fingerprint(chosen)
            other = {**question.fields, "number": "x", "attempt": "0" * 16, "models": [digest]}
            done.append(toy.member(VICTIM).answer(kind, Message(fields=other, groups={f"model/{digest}": chosen})))
        return question

    toy.transport = HostileTransport(toy.transport.members, twist)
    toy.coordinate()
    assert done
    assert figures(toy) == figures(honest)


def restored(folder, back):
    """A federation in which the member's folder is put back before round 3, to that before round `back`."""
    toy = make_toy(folder, **RULES)
    done = set()

    def before_answer(client, kind):
        number = toy.transport.sent[-1].message.fields["round"]
        if (client, kind) == (VICTIM, "query.open") and number not in done:
            done.add(number)
            if number == back and toy.home(VICTIM).exists():
                shutil.copytree(toy.home(VICTIM), folder / "backup")
            if number == 3:
                shutil.rmtree(toy.home(VICTIM))
                if (folder / "backup").exists():
                    shutil.copytree(folder / "backup", toy.home(VICTIM))

    toy.transport.before_answer = before_answer
    return toy


@pytest.mark.parametrize("back", [1, 2])
def test_a_member_with_an_older_folder_goes_on_from_what_it_signed(tmp_path, undisturbed, back):
    """In round 1 there is nothing to put back: the folder is lost."""
    toy = restored(tmp_path / "f", back)
    run_report, _ = toy.coordinate()
    assert figures(toy) == figures(undisturbed)
    assert "ERROR this folder is older than the ledger: round 2 was settled with a report" in log(toy)
    events = [event for event in run_report.rounds[2].events if event.kind == "older-folder"]
    assert [event.client for event in events] == [VICTIM]


def forged(report):
    content = json.loads(report)
    content["report"]["measured"] = 0.0
    return json.dumps(content)


@pytest.mark.parametrize(
    "twist_report", first_few(2, [forged, lambda report: "null", lambda report: "[]", lambda report: ""])
)
def test_without_its_own_signature_it_does_not_give_up_its_baseline(tmp_path, undisturbed, twist_report):
    toy = restored(tmp_path / "f", 2)
    before_answer = toy.transport.before_answer

    def twist(kind, question):
        if kind != "query.open" or question.fields["round"] != 3:
            return question
        report = twist_report(question.fields["settled_report"])
        return replace(question, fields={**question.fields, "settled_report": report})

    toy.transport = HostileTransport(toy.transport.members, twist)
    toy.transport.before_answer = before_answer
    run_report, _ = toy.coordinate()
    assert run_report.rounds[2].record.absent == (VICTIM,)
    assert figures(toy) == {number: figures(undisturbed)[number] for number in (1, 2)}
    assert "ERROR refused to open round 3: Round 2 is said to be settled with this member" in log(toy)


def asked(toy, kind, number):
    sent = [s.message for s in toy.transport.sent if (s.to_member, s.client, s.kind) == (True, VICTIM, kind)]
    return next(message for message in sent if message.fields["round"] == number)


def test_a_member_that_withdrew_opens_no_further_round(tmp_path):
    toy = make_toy(tmp_path / "f", **RULES | {"rounds": 2})
    toy.home(VICTIM).mkdir(parents=True)
    (toy.home(VICTIM) / "withdraw").touch()
    toy.coordinate()
    assert MemberStore(toy.home(VICTIM)).load().withdrew
    opened, closed = asked(toy, "query.open", 1), asked(toy, "query.close", 1).fields
    told = {name: closed[name] for name in ("settled_round", "settled_attempt", "settled_model", "settled_report")}
    fields = {**opened.fields, **told, "round": 2, "attempt": "next", "ledger_head": ""}
    with pytest.raises(QuestionError, match="withdrew after round 1, and takes part in no later one"):
        toy.member(VICTIM).answer("query.open", Message(fields=fields, groups=opened.groups))
    assert "ERROR refused to open round 2: this member withdrew after round 1" in log(toy)


def test_an_attempt_is_not_opened_again_to_forget_its_steps(tmp_path):
    class Stop(BaseException):
        pass

    toy = make_toy(tmp_path / "f", **RULES)

    def before_answer(client, kind):
        if kind == "query.report":
            raise Stop

    toy.transport.before_answer = before_answer
    with pytest.raises(Stop):
        toy.coordinate()
    toy.transport.before_answer = lambda client, kind: None
    steps = MemberStore(toy.home(VICTIM)).load().under_way.steps
    assert steps == {"1": 3, "2": 3}
    with pytest.raises(QuestionError, match="is under way and not opened again"):
        toy.member(VICTIM).answer("query.open", asked(toy, "query.open", 1))
    assert MemberStore(toy.home(VICTIM)).load().under_way.steps == steps


@pytest.mark.parametrize("mechanism", [RULES["mechanism"], ADVANTAGE])
@pytest.mark.parametrize("keeps_openings", [True, False])
def test_a_statement_that_comes_after_later_attempts_were_reported_is_adopted(tmp_path, mechanism, keeps_openings):
    """The statement of round 2 is held back until round 3 was reported twice as if round 1 had been settled last."""
    held, found = [], []

    def twist(toy, operator, kind, questions):
        question = questions.get(VICTIM)
        asked = (kind, question and question.fields.get("round"))
        if asked == ("query.close", 2):
            held.append((question, hostile.state(toy).under_way))
            return {client: other for client, other in questions.items() if client != VICTIM}
        if asked != ("query.open", 3):
            return None
        old = hostile.settled_fields(operator.last("query.open", 2)) | {"round": 3}
        report = {"round": 3, "adopted": question.fields["models"][0], "models": question.fields["models"]}
        for attempt in ("a" * 16, "b" * 16, "c" * 16):
            operator.extra("query.open", question, attempt=attempt, **old)
            if attempt[0] != "c":
                operator.extra("query.report", number=2, attempt=attempt, **report)
        if not keeps_openings:  # as a version that kept only the last one
            store = MemberStore(toy.home(VICTIM))
            state = store.load()
            del state.reported[:-1]
            store.save(state)
        operator.extra("query.close", held[0][0])
        found.append(hostile.state(toy))
        answer = operator.extra("query.report", number=2, attempt="c" * 16, **report)
        assert "Round 3 is not open here" in answer.reason
        found.append(operator.extra("query.open", question, attempt="d" * 16, **old))
        raise Killed

    with pytest.raises(Killed):
        hostile.run(tmp_path, twist, mechanism=mechanism)
    (_, opening), (after, opened) = held[0], found
    text = next(tmp_path.glob(f"**/{VICTIM}/home/log.txt")).read_text()
    if mechanism == ADVANTAGE and not keeps_openings:
        assert (after.settled_round, after.told_round, after.under_way) == (1, 2, None)
        assert "refused to open round 3: Round 2 was settled with this member, but what was trained in it" in text
        assert "what was trained in it is not in its folder" in opened.reason
        return
    assert (after.settled_round, after.alone) == (2, opening.alone)
    if mechanism != ADVANTAGE:
        folder = next(tmp_path.glob(f"**/{VICTIM}/home/reports"))
        (signed,) = json.loads((folder / "round-0002.json").read_text())["reports"]
        assert after.baseline == signed["report"]["measured"]
    assert "ERROR round 3 was opened here before the operator told that round 2 was settled" in text
    assert "saw_settled" in opened.fields


def as_if_settled(question):
    """What an operator says that has settled the round of this question for a report."""
    asked = question.fields
    return {"settled_round": asked["round"], "settled_attempt": asked["attempt"], "settled_model": asked["adopted"]}


def test_a_round_that_a_statement_calls_missed_is_not_adopted_later(tmp_path):
    """The operator drops two reports in a row, and says then that the first of both rounds was settled."""
    seen = {}

    class Dropping(MemoryTransport):
        def ask(self, kind, questions, *, seconds):
            question = questions.get(VICTIM)
            number = question.fields["round"] if question else 0
            if (kind, number) == ("query.report", 1):
                seen["as if"] = as_if_settled(question)
            if (kind, number) == ("query.open", 3):
                questions = {**questions, VICTIM: hostile.with_fields(question, **seen["as if"])}
            answers = super().ask(kind, questions, seconds=seconds)
            if kind == "query.report" and number in (1, 2):
                kept = {client: answer for client, answer in answers.given.items() if client != VICTIM}
                return Answers(given=kept, missing={VICTIM: NoAnswer(kind="absent", reason="dropped")})
            return answers

    toy = make_toy(tmp_path / "f", **RULES, names=NAMES[:3])
    toy.transport = Dropping(toy.transport.members)
    toy.coordinate()
    state = MemberStore(toy.home(VICTIM)).load()
    assert (state.settled_round, state.told_round, state.baseline) == (0, 2, None)
    assert "ERROR Round 1 is said to be settled with this member, but the statements that are kept here" in log(toy)


def test_the_baseline_is_the_figure_that_was_signed(tmp_path):
    """Another figure of the same model, as one measured after more training would be, is adopted by no way."""

    def twist(toy, operator, kind, questions):
        question = questions.get(VICTIM)
        if question is None or kind != "query.close":
            return None
        store = MemberStore(toy.home(VICTIM))
        state = store.load()
        state.under_way.accuracies[question.fields["settled_model"]] = 0.0123
        store.save(state)
        if question.fields["round"] == 1:
            return None  # adopted by the statement
        return {client: other for client, other in questions.items() if client != VICTIM}  # by the next opening

    toy = hostile.run(tmp_path, twist, names=NAMES[:2])
    for number in (2, 3):
        (before,), (report,) = hostile.reports(toy, number - 1), hostile.reports(toy, number)
        assert report["baseline"] == before["measured"] != 0.0123


def test_a_round_that_was_adopted_on_the_operators_word_and_that_a_statement_calls_missed_is_an_error(tmp_path):
    """No statement of the round comes before the next one is opened, which says that the round was settled."""
    seen = {}

    class Dropping(MemoryTransport):
        def ask(self, kind, questions, *, seconds):
            question = questions.get(VICTIM)
            number = question.fields["round"] if question else 0
            if (kind, number) == ("query.report", 1):
                seen["as if"] = as_if_settled(question)
            if (kind, number) == ("query.close", 1):
                questions = {client: other for client, other in questions.items() if client != VICTIM}
            if number == 2 and kind in ("query.open", "query.close"):
                questions = {**questions, VICTIM: hostile.with_fields(question, **seen["as if"])}
            answers = super().ask(kind, questions, seconds=seconds)
            if (kind, number) == ("query.report", 1):
                kept = {client: answer for client, answer in answers.given.items() if client != VICTIM}
                return Answers(given=kept, missing={VICTIM: NoAnswer(kind="absent", reason="dropped")})
            return answers

    toy = make_toy(tmp_path / "f", **{**RULES, "rounds": 2}, names=NAMES[:3])
    toy.transport = Dropping(toy.transport.members)
    toy.coordinate()
    assert "round 2: NO STATEMENT has come of round 1" in log(toy)
    assert "ERROR round 1: the statement says that it was settled without this member, which was told before" in log(
        toy
    )
