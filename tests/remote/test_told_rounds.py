"""What a statement tells of a round is compared with the member's own reports of it, whatever the messages say."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from commonweal.cli.main import app
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.receipts import receipt_document
from commonweal.ledger.signed_files import signed_content
from commonweal.ledger.statement_parts import LinesSoFar, part_in
from commonweal.remote.member.store import MemberStore
from commonweal.remote.transport import Answers, NoAnswer
from tests.remote.memory_transport import MemoryTransport
from tests.remote.toy import NAMES, make_toy

VICTIM = "south"
RULES = {"rounds": 3, "mechanism": 'mu = "inf"', "learning": "iteration_limit = 2", "names": NAMES[:3]}


@pytest.fixture
def toy(tmp_path):
    return make_toy(tmp_path / "f", **RULES)


def with_fields(question, **fields):
    return replace(question, fields={**question.fields, **fields})


def errors(toy, name=VICTIM):
    return [line for line in (toy.home(name) / "log.txt").read_text().splitlines() if "ERROR" in line]


def verify(toy, *options):
    found = CliRunner().invoke(app, ["ledger", "verify", str(toy.out / "ledger.db"), *map(str, options)])
    return found.exit_code, " ".join(found.output.split())


def receipts(toy, name=VICTIM, pattern="round-*.json"):
    return sorted((toy.home(name) / "receipts").glob(pattern))


def receipt_options(files):
    return [option for file in files for option in ("--receipt", file)]


class Operator(MemoryTransport):
    """Changes questions on their way, does not send those that `twist` makes None, and signs what it likes."""

    def __init__(self, toy):
        super().__init__(toy.transport.members)
        self.toy = toy

    def twist(self, kind, client, question):
        return question

    def ask(self, kind, questions, *, seconds):
        twisted = {client: self.twist(kind, client, question) for client, question in questions.items()}
        return super().ask(kind, {client: new for client, new in twisted.items() if new is not None}, seconds=seconds)

    def acknowledge(self, question, client, signature):
        fields = question.fields
        document = receipt_document(
            ledger=fields["book"], round_number=fields["round"], client=client, signature=signature, at="now"
        )
        content = signed_content(document, KeyDirectory(self.toy.folder / "operator-keys").current()).decode()
        receipt = with_fields(question, receipt=content, models=[])
        super().ask("query.receipt", {client: replace(receipt, groups={})}, seconds=1)


class HidesTheLastReport(Operator):
    """Has a second report of round 2 signed, on another model; acknowledges it, and settles on the first."""

    second = None

    def ask(self, kind, questions, *, seconds):
        answers = super().ask(kind, questions, seconds=seconds)
        if kind == "query.report" and self.second is None and questions[VICTIM].fields["round"] == 2:
            (opening,) = next(s.message for s in reversed(self.sent) if s.kind == "query.open" and s.to_member).fields[
                "models"
            ]
            question = replace(questions[VICTIM], groups={})
            self.second = self.toy.member(VICTIM).answer(
                kind, with_fields(question, valuation=2, adopted=opening, models=[])
            )
            assert self.second.fields["profit"] != answers.given[VICTIM].fields["profit"]
            self.acknowledge(questions[VICTIM], VICTIM, self.second.fields["signature"])
        return answers


@pytest.mark.parametrize("close", ["renamed", "lost"])
def test_a_hidden_last_report_is_an_error_whatever_the_message_says(toy, close):
    class Sly(HidesTheLastReport):
        def twist(self, kind, client, question):
            if kind == "query.close" and client == VICTIM and question.fields["round"] == 2:
                return with_fields(question, round=7) if close == "renamed" else None
            return question

    toy.transport = Sly(toy)
    _, said = toy.coordinate()
    if close == "renamed":
        (line,) = [line for line in errors(toy) if "a profit of" in line]
        assert "round 2: the statement says that a profit of" in line
        assert repr(toy.transport.second.fields["profit"]) in line
        assert any(
            line.startswith(f"{VICTIM} says that its statement is not what it reported: round 2") for line in said
        )
    else:  # it learns when round 3 is opened that round 2 was settled, on another model than it reported last
        (line,) = errors(toy)
        assert "ERROR Round 2 is said to be settled with model" in line
    first, second = receipts(toy, pattern="round-0002-*.json")
    code, found = verify(toy, *receipt_options(receipts(toy)))
    assert code == 1, "the receipt of the report that counts does not make up for the other"
    numbers = [json.loads(file.read_text())["document"]["at"] for file in (first, second)]
    hidden = (first, second)[numbers.index("now")].name
    assert f"the round has the report that {hidden} acknowledges" in found
    assert found.count("finding:") == 1


class Forgets(Operator):
    """Acknowledges the report of round 2 and calls the member silent."""

    def ask(self, kind, questions, *, seconds):
        answers = super().ask(kind, questions, seconds=seconds)
        if kind != "query.report" or VICTIM not in questions or questions[VICTIM].fields["round"] != 2:
            return answers
        given = dict(answers.given)
        self.acknowledge(questions[VICTIM], VICTIM, given.pop(VICTIM).fields["signature"])
        lost = NoAnswer(kind="absent", reason="its connection was lost")
        return Answers(given=given, missing={**answers.missing, VICTIM: lost})


@pytest.mark.parametrize(("close", "limit"), [("sent", None), ("lost", None), ("sent", 1)])
def test_a_member_called_silent_with_a_receipt_says_so(toy, close, limit):
    if limit is not None:
        file = toy.folder / "federation.toml"
        file.write_text(f"{file.read_text()}\n[terms]\nsilence_limit = {limit}\n")

    class Sly(Forgets):
        def twist(self, kind, client, question):
            is_lost = kind == "query.close" and client == VICTIM and question.fields["round"] == 2
            return None if is_lost and close == "lost" else question

    toy.transport = Sly(toy)
    report, said = toy.coordinate()
    assert report.rounds[1].record.silent == (VICTIM,)
    (line,) = errors(toy)
    assert "round 2: the statement calls this member absent or silent, but the operator signed a receipt" in line
    assert "receipts/round-0002-1.json" in line
    told = "silent: had the round's model, and no report of it counts"
    assert (told in (toy.home(VICTIM) / "log.txt").read_text()) == (close == "sent")
    assert any(line.startswith(f"{VICTIM} says that its statement is not what it reported: round 2") for line in said)


def test_a_round_that_is_left_out_of_a_statement_is_missed(toy):
    """The operator signs for the member a statement without the line that would call it absent."""

    class LeavesOut(Operator):
        def twist(self, kind, client, question):
            if kind != "query.close" or client != VICTIM or question.fields["round"] == 1:
                return question
            if question.fields["round"] == 2:
                return None
            signed = json.loads(question.fields["statement"])
            key = KeyDirectory(self.toy.folder / "operator-keys").key_of(signed["signer"])
            return with_fields(question, statement=without_round_2(signed["document"], key))

    toy.transport = LeavesOut(toy)
    toy.coordinate()
    (line,) = errors(toy)
    assert "round 2: the statement goes on to round 3 without a line about this one" in line


def without_round_2(document, key):
    """A part that adds up, as if round 2 had not moved any money."""
    left = [dict(line) for line in document["lines"] if line["round"] != 2]
    balance, accrued = int(document["before"]["balance"]), int(document["before"]["accrued"])
    for line in left:
        balance, accrued = balance + int(line["amount"]), accrued + int(line["accrued"])
        line |= {"balance": str(balance), "accrued_balance": str(accrued)}
    changed = {**document, "lines": left}
    part, _ = part_in(signed_content(changed, key), "it")
    before = LinesSoFar.from_document(document["before"])
    return signed_content({**changed, "after": before.then(part.statement.lines).to_document()}, key).decode()


def test_parts_name_the_round_and_whole_statements_stay_as_they_are(toy, tmp_path):
    toy.coordinate()
    (*_, file) = sorted((toy.home(VICTIM) / "statements").glob("*.json"))
    (line,) = json.loads(file.read_text())["document"]["lines"]
    assert (line["kind"], line["round"]) == ("round", 3)
    assert not errors(toy)
    assert verify(toy, "--against", file, *receipt_options(receipts(toy)))[0] == 0
    document = json.loads(file.read_text())["document"]
    key = KeyDirectory(toy.folder / "operator-keys").current()
    (tmp_path / "other.json").write_bytes(signed_content({**document, "lines": [{**line, "round": 7}]}, key))
    assert verify(toy, "--against", tmp_path / "other.json")[0] == 1


class Drops(Operator):
    """Loses the report of round 2 and sends no receipt for it; so the member is silent, and its membership ends."""

    def ask(self, kind, questions, *, seconds):
        answers = super().ask(kind, questions, seconds=seconds)
        if kind != "query.report" or VICTIM not in questions or questions[VICTIM].fields["round"] != 2:
            return answers
        given = {client: answer for client, answer in answers.given.items() if client != VICTIM}
        lost = NoAnswer(kind="absent", reason="its connection was lost")
        return Answers(given=given, missing={**answers.missing, VICTIM: lost})

    def twist(self, kind, client, question):
        if kind != "query.close" or client != VICTIM or question.fields["round"] != 2:
            return question
        signed = json.loads(question.fields["statement"])
        key = KeyDirectory(self.toy.folder / "operator-keys").key_of(signed["signer"])
        document = signed["document"] | {"lines": self.lines(signed["document"]["lines"])}
        part, _ = part_in(signed_content(document, key), "it")
        document["after"] = part.before.then(part.statement.lines).to_document()
        outcome = "retained, transfer +0.000000 in units of utility"
        return with_fields(question, outcome=outcome, statement=signed_content(document, key).decode())

    def lines(self, lines):
        return lines


def drop(toy, lines=None):
    """Run the federation with such an operator, which changes the lines of the statement that closes round 2."""
    file = toy.folder / "federation.toml"
    file.write_text(f"{file.read_text()}\n[terms]\nsilence_limit = 1\n")
    toy.transport = Drops(toy)
    if lines is not None:
        toy.transport.lines = lines
    report, _ = toy.coordinate()
    assert report.rounds[1].record.excluded == (VICTIM,)
    return (toy.home(VICTIM) / "log.txt").read_text()


def test_a_member_called_silent_without_a_receipt_says_so_whatever_it_is_told(toy):
    log = drop(toy)
    called, told = errors(toy)
    assert "round 2: the statement calls this member absent or silent, but it signed a report, in reports/" in called
    assert "no receipt came" in called
    assert "round 2: 'retained' was told with the statement, but its line says 'silent'" in told
    assert "round 2: NO RECEIPT came for the report" in log, "also if there is no next round"
    assert "the statement says of entry 5: membership ended: silent in rounds 2" in log


def test_a_closed_round_that_was_reported_needs_a_line(toy):
    drop(toy, lambda lines: [])
    (line,) = errors(toy)
    assert "round 2: the statement that closes this round has no line about it, but it signed a report" in line


def test_a_membership_that_ends_for_a_round_that_was_reported_is_an_error(toy):
    drop(toy, lambda lines: lines[1:])
    ended, left_out = errors(toy)
    assert "round 2: the statement says 'membership ended: silent in rounds 2', but it signed a report" in ended
    assert "round 2: the statement that closes this round has no line about it" in left_out


@pytest.mark.parametrize("change", ["no kind", "other words"])
def test_a_line_of_a_part_says_what_it_is_about(toy, change):
    """Without its kind, or with words of its own, the line would not be read as that of round 2."""

    def lines(lines):
        (line, *others) = lines
        line = line | {"text": line["text"].replace("round 2: ", "round 2 - ")}
        if change == "no kind":
            line = {name: value for name, value in line.items() if name not in ("kind", "round")}
        return [line, *others]

    log = drop(toy, lines)
    assert "DOUBTFUL STATEMENT in round-0002: the line about entry 4 " in log
    assert "told with it: round 2: retained" in log


def test_a_receipt_that_comes_after_the_round_was_closed_is_kept(toy):
    class Slow(Operator):
        def ask(self, kind, questions, *, seconds):
            if kind == "query.receipt":
                slow.update(questions)
                return Answers(given={}, missing={})
            answers = super().ask(kind, questions, seconds=seconds)
            if kind == "query.close":
                super().ask("query.receipt", dict(slow), seconds=seconds)
            return answers

    slow = {}
    toy.transport = Slow(toy)
    toy.coordinate()
    log = (toy.home(VICTIM) / "log.txt").read_text()
    assert log.count("NO RECEIPT came for the report") == 3
    assert "DOUBTFUL" not in log
    assert len(receipts(toy)) == 3


def test_a_round_that_a_statement_calls_missed_is_not_settled_by_a_message(toy, monkeypatch):
    """The baseline of the next utility would be that of a round without this member."""
    monkeypatch.setattr("commonweal.remote.coordinator.report_reading.check_baseline", lambda *given: None)
    seen = {}

    class Sly(Drops):
        def twist(self, kind, client, question):
            if (kind, client) == ("query.report", VICTIM) and question.fields["round"] == 2:
                fields = question.fields
                seen["as if"] = {"settled_attempt": fields["attempt"], "settled_model": fields["adopted"]}
            if (kind, client) == ("query.open", VICTIM) and question.fields["round"] == 3:
                seen["before"] = MemberStore(self.toy.home(VICTIM)).load()
                return with_fields(question, settled_round=2, **seen["as if"])
            return question

    toy.transport = Sly(toy)
    toy.coordinate()
    assert seen["before"].missed_rounds == [2]
    after = MemberStore(toy.home(VICTIM)).load()
    assert (after.settled_round, after.baseline) == (1, seen["before"].baseline)
    assert "Round 2 is said to be settled with this member, but the statements that are kept here" in errors(toy)[-1]


def test_a_report_of_a_missed_round_names_the_entry_that_says_so(toy):
    """Without it, it could be entered as one that came in time."""
    answers, asked = [], {}

    class Sly(Drops):
        def ask(self, kind, questions, *, seconds):
            given = super().ask(kind, questions, seconds=seconds)
            if VICTIM in questions and questions[VICTIM].fields["round"] == 2:
                asked[kind] = questions[VICTIM]
                if kind == "query.close":
                    again = {VICTIM: with_fields(asked["query.report"], valuation=2)}
                    answers.append(Operator.ask(self, "query.report", again, seconds=seconds))
            return given

    toy.transport = Sly(toy)
    toy.coordinate()
    (answer,) = answers
    assert "a late report must name the entry that says so" in answer.missing[VICTIM].reason
    reports = json.loads((toy.home(VICTIM) / "reports" / "round-0002.json").read_text())["reports"]
    assert [report["report"]["number"] for report in reports] == [1]


def test_a_report_that_was_lost_and_came_late_is_told_apart_from_one_with_a_receipt(toy):
    """The line that calls the member silent comes when the report is asked for: it signs no late report before."""
    file = toy.folder / "federation.toml"
    file.write_text(f"{file.read_text()}\n[terms]\nsilence_limit = 3\n")

    class Loses(Operator):
        def ask(self, kind, questions, *, seconds):
            answers = super().ask(kind, questions, seconds=seconds)
            is_lost = kind == "query.report" and len(questions) > 1 and VICTIM in questions
            if not is_lost or questions[VICTIM].fields["round"] != 2:
                return answers
            given = {client: answer for client, answer in answers.given.items() if client != VICTIM}
            no_answer = NoAnswer(kind="absent", reason="its connection was lost")
            return Answers(given=given, missing={**answers.missing, VICTIM: no_answer})

        def twist(self, kind, client, question):
            is_lost = kind == "query.close" and client == VICTIM and question.fields["round"] == 2 and not lost
            lost.extend([question] * is_lost)
            return None if is_lost else question

    lost = []
    toy.transport = Loses(toy)
    report, said = toy.coordinate()
    assert report.rounds[1].record.silent == (VICTIM,)
    assert any(f"{VICTIM} reported round 2 late" in line for line in said)
    assert len(receipts(toy, pattern="round-0002-*.json")) == 1
    (line,) = errors(toy)
    assert "it signed a report, in reports/round-0002.json, and no receipt came for that" in line
    assert verify(toy, *receipt_options(receipts(toy)))[0] == 0
