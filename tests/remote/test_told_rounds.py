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
    from commonweal.ledger.statement_parts import LinesSoFar, part_in

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


def test_a_report_that_was_late_is_no_error(toy):
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
    assert not errors(toy)
    assert verify(toy, *receipt_options(receipts(toy)))[0] == 0
