"""Every line of a statement is in words of its kind, and fits what the member did and the lines kept before."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.line_texts import (
    ABSENT,
    ADMITTED,
    RESTING,
    SILENT,
    amendment_text,
    charge_text,
    exclusion_text,
    income_text,
    late_report_text,
    reversal_text,
    round_text,
    told_in,
    withdrawal_text,
)
from commonweal.ledger.signed_files import signed_content
from commonweal.ledger.statement_parts import StatementPart, part_document, part_in
from commonweal.records.statement import StatementLine
from commonweal.remote.member.store import MemberStore
from tests.remote.hostile import RULES, VICTIM, Hostile, log, reports, with_fields
from tests.remote.test_shown_heads import Killed
from tests.remote.toy import NAMES, make_toy, open_toy

FEW = NAMES[:3]
FEDERATION = {**RULES, "names": FEW}


def play(folder, *, until, away=()):
    """A federation until a round is to be closed at the victim, who is away in some; returns that question."""
    toy = make_toy(folder, **FEDERATION)
    found = []

    def twist(operator, kind, questions):
        if kind == "query.close" and VICTIM in questions and questions[VICTIM].fields["round"] == until:
            found.append(questions[VICTIM])
            raise Killed

    class Away(Hostile):
        opened = 0

        def locate(self, clients, **options):
            self.opened += 1
            return super().locate(clients, **options) - ({VICTIM} if self.opened in away else set())

    toy.transport = Away(toy.transport.members, twist=twist)
    with pytest.raises(Killed):
        toy.coordinate()
    return found[0]


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """The victim reported rounds 1 to 3 and has receipts; the statements of rounds 1 and 2 are kept."""
    folder = tmp_path_factory.mktemp("reported") / "f"
    return folder, play(folder, until=3)


@pytest.fixture
def told(reported, tmp_path):
    """Close round 3 with more lines; returns the answer and what is new in the log."""
    folder, question = reported
    shutil.copytree(folder, tmp_path / "f")
    return closing(open_toy(tmp_path / "f", FEW), question)


def closing(toy, question):
    def close(*lines):
        before = len(log(toy))
        fields = forged(toy, question, lines)
        answer = toy.member(VICTIM).answer("query.close", with_fields(question, number="00", **fields))
        return answer.fields, log(toy)[before:]

    close.toy = toy
    return close


def forged(toy, question, more):
    """A statement with more lines, in entries after its last one."""
    part, signed = part_in(question.fields["statement"].encode(), "it")
    statement, lines = part.statement, list(part.statement.lines)
    for number, line in enumerate(more, start=statement.head_number + 1):
        given = {"amount": 0, "accrued": 0, **line}
        lines.append(StatementLine(entry=number, at=statement.at, balance=0, accrued_balance=0, **given))
    balance, accrued = part.before.balance, part.before.accrued
    for place, line in enumerate(lines):
        balance, accrued = balance + line.amount, accrued + line.accrued
        lines[place] = replace(line, balance=balance, accrued_balance=accrued)
    hashes = [f"{number:064x}" for number in range(1000, 1000 + len(more))]
    end = {"head_number": statement.head_number + len(more), "head": [statement.head, *hashes][-1]}
    new = replace(statement, lines=tuple(lines), **end)
    whole = StatementPart(statement=new, before=part.before, after=part.before.then(lines))
    key = KeyDirectory(toy.folder / "operator-keys").key_of(signed.signer)
    return {"statement": signed_content(part_document(whole, []), key).decode(), "trail": ""}


def loud(text):
    """What the log calls an error or doubtful, except that no trail came with the forged entries."""
    marked = [line for line in text.splitlines() if "ERROR" in line or "DOUBTFUL" in line]
    return [line for line in marked if "no trail came" not in line]


def test_what_a_ledger_says_is_read_as_it_was_written():
    texts = {
        "round": [round_text(3, fate) for fate in (ABSENT, SILENT, RESTING, "retained", "eliminated as harmful; why")],
        "realisation": [income_text("invoice 7")],
        "reversal": [reversal_text(12, "a wrong report")],
        "withdrawal": [withdrawal_text(3)],
        "charge": [charge_text(3, None), charge_text(3, "a'b: c")],
        "exclusion": [exclusion_text([2, 3, 10])],
        "late-report": [late_report_text(3)],
        "admission": [ADMITTED],
        "amendment": [ADMITTED, amendment_text(1, 4)],
    }
    money = {"amount": 0, "accrued": 0, "balance": 0, "accrued_balance": 0}
    for kind, written in texts.items():
        for text in written:
            read = told_in(StatementLine(entry=5, at="now", text=text, kind=kind, **money))
            assert read.kind == kind
            assert (3 in read.rounds) == ("round 3" in text or "rounds 2, 3, 10" in text)
            assert told_in(StatementLine(entry=5, at="now", text=f"{text}\n", kind=kind, **money)) is None


ODD_LINES = [
    {"kind": "charge", "round_number": 2, "text": "charge for silence in round 2", "amount": -5000},
    {"kind": "charge", "round_number": 2, "text": "charge for your silence in  round 2", "amount": -5000},
    {"kind": "charge", "round_number": 3, "text": "charge for your silence in round 2", "amount": -5000},
    {"kind": "charge", "round_number": 2, "text": "charge for south's silence in round 2", "amount": -5000},
    {"kind": "charge", "round_number": 2, "text": "charge for your silence in round 2", "amount": 5000},
    {"kind": "exclusion", "text": "membership ended: silent in rounds two"},
    {"kind": "exclusion", "text": "membership ended: silent in rounds  2"},
    {"kind": "exclusion", "round_number": 2, "text": "membership ended: silent in rounds 2"},
    {"kind": "exclusion", "text": "membership ended: silent in rounds 2", "amount": -1},
    {"kind": "realisation", "text": "income, negative", "amount": -700000},
    {"kind": "withdrawal", "round_number": 2, "text": "withdrew after round 2 ", "amount": 0},
    {"kind": "late-report", "round_number": 2, "text": "reported round 2 late"},
    {"kind": "admission", "text": "admitted for a fee", "amount": -100},
    {"kind": "admission", "text": "admitted", "amount": -100},
    {"kind": "round", "round_number": 4, "text": "round 4: absent", "amount": -900000},
    {"kind": "round", "round_number": 4, "text": "round 4: retained"},
    {"kind": "round", "round_number": 4, "text": "round 4: fined; you pay", "profit": 1.0, "amount": -5},
    {"kind": "fine", "text": "fine", "amount": -5},
]


@pytest.mark.parametrize("line", ODD_LINES, ids=lambda line: line["text"])
def test_a_line_in_other_words_or_with_money_that_it_cannot_move_is_doubted(told, line):
    answer, said = told(line)
    assert answer["kept"] is False
    assert "DOUBTFUL STATEMENT in round-0003: the line about entry 6" in said


UNTRUE_LINES = [
    ({"kind": "charge", "round_number": 3, "text": "charge for your silence in round 3", "amount": -5000}, "receipt"),
    ({"kind": "charge", "round_number": 2, "text": "charge for your silence in round 2", "amount": -5000}, "receipt"),
    ({"kind": "charge", "round_number": 9, "text": "charge for your silence in round 9", "amount": -5}, "calls this"),
    ({"kind": "exclusion", "text": "membership ended: silent in rounds 2, 3"}, "receipt"),
    ({"kind": "withdrawal", "round_number": 2, "text": "withdrew after round 2"}, "no notice of that was signed"),
    ({"kind": "late-report", "round_number": 2, "text": late_report_text(2)}, "reports has no late report"),
    ({"kind": "round", "round_number": 2, "text": "round 2: absent"}, "and no line reverses that"),
    ({"kind": "reversal", "text": "reversal of entry 999: because", "amount": -100}, "not among the lines here"),
    ({"kind": "reversal", "text": "reversal of entry 2: because"}, "not among the lines here"),
    ({"kind": "reversal", "text": "reversal of entry 4: because", "amount": -100}, "but moves -100"),
]


@pytest.mark.parametrize(("line", "reason"), UNTRUE_LINES, ids=lambda value: str(value)[:40])
def test_a_line_that_does_not_fit_what_was_done_or_told_before_is_an_error(told, line, reason):
    answer, said = told(line)
    found = loud(said)
    assert found
    assert all("ERROR" in line for line in found)
    assert any(reason in line for line in found)
    assert answer["difference"]


def test_a_round_told_twice_with_the_reported_profit_is_an_error(told):
    profit = reports(told.toy, 2)[-1]["profit"]
    _, said = told({"kind": "round", "round_number": 2, "text": "round 2: retained", "profit": profit, "amount": -9})
    (line,) = loud(said)
    assert "round 2: the line about entry 6 says 'round 2: retained', but entry 4 said 'round 2: retained; " in line


def test_an_honest_statement_with_a_reversal_a_second_settlement_and_a_withdrawal_is_quiet(told):
    store = MemberStore(told.toy.home(VICTIM))
    state = store.load()
    state.notices.append(3)
    store.save(state)
    part, _ = part_in((told.toy.home(VICTIM) / "statements" / "round-0002.json").read_bytes(), "it")
    (line,) = part.statement.lines
    again = {"kind": "round", "round_number": 2, "text": "round 2: retained; again", "profit": line.profit}
    answer, said = told(
        {"kind": "reversal", "text": f"reversal of entry {line.entry}: because", "amount": -line.amount},
        again,
        {"kind": "withdrawal", "round_number": 3, "text": "withdrew after round 3"},
        {"kind": "realisation", "text": "income, invoice 7", "amount": 700},
        {"kind": "charge", "round_number": 2, "text": "charge for south's silence in round 2", "amount": 50},
    )
    assert (answer["kept"], loud(said)) == (True, [])


@pytest.mark.parametrize(
    ("until", "expected"), [(2, "no report of this round"), (3, "but entry 3 said 'round 1: absent'")]
)
def test_a_line_of_a_round_before_the_first_report_is_compared(tmp_path, until, expected):
    """With the reports, and with what was told of that round before."""
    question = play(tmp_path / "f", until=until, away=(1,))
    close = closing(open_toy(tmp_path / "f", FEW), question)
    line = {"kind": "round", "round_number": 1, "text": "round 1: retained; you pay", "profit": 3.0, "amount": -900000}
    _, said = close(line)
    found = loud(said)
    assert any(expected in line for line in found)
    assert any("round 1: the statement says that a profit of 3.0 was reported" in line for line in found)
