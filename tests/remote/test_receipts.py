"""A member gets a receipt for its report before anything is decided; with it, "absent" can be answered."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from typer.testing import CliRunner

from commonweal.cli.main import app
from commonweal.errors import LedgerError
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.keys import SigningKey
from commonweal.ledger.ledger import Ledger
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.receipts import read_receipt, receipt_document
from commonweal.ledger.signed_files import signed_content
from commonweal.ledger.sql.store import open_store
from commonweal.remote.coordinator.client_set import RemoteClients
from commonweal.remote.member.agent import MemberAgent
from commonweal.remote.member.kept_statements import _Keeper
from commonweal.remote.member.member_file import read_member
from commonweal.remote.member.receipts import KeptReceipts
from commonweal.remote.member.report_book import ReportBook
from commonweal.remote.messages.message import Message, QuestionError
from commonweal.remote.transport import NoAnswer
from tests.remote.toy import NAMES, TASK, make_toy

RULES = {"learning": "iteration_limit = 1", "mechanism": 'mu = "inf"', "names": NAMES[:3]}


class Crash(BaseException):
    """The member's process, at once."""


@pytest.fixture
def toy(tmp_path):
    return make_toy(tmp_path / "f", rounds=2, **RULES)


def receipts(toy, name):
    return sorted(file.name for file in (toy.home(name) / "receipts").glob("*-*.json"))


def log(toy, name):
    return (toy.home(name) / "log.txt").read_text()


def verify(toy, *receipts, ledger=None):
    arguments = [argument for file in receipts for argument in ("--receipt", str(file))]
    found = CliRunner().invoke(app, ["ledger", "verify", str(ledger or toy.out / "ledger.db"), *arguments])
    return found.exit_code, found.output


def agent_of(toy, name):
    member = read_member(toy.folder / "members" / name / "member.toml")
    return MemberAgent(member, TASK, NodeKey.read(member.key_file))


def asked(toy, name, kind, **fields):
    question = [s for s in toy.transport.sent if (s.to_member, s.client, s.kind) == (True, name, kind)][-1].message
    return Message(fields={**question.fields, **fields}, groups=question.groups)


def test_every_report_gets_a_receipt_before_the_round_is_settled(toy):
    toy.coordinate()
    for name in toy.names:
        kinds = [sent.kind for sent in toy.transport.sent if sent.to_member and sent.client == name]
        after = [kinds[place + 1] for place, kind in enumerate(kinds) if kind == "query.report"]
        assert after == ["query.receipt", "query.receipt"]
        assert receipts(toy, name) == ["round-0001-1.json", "round-0002-1.json"]
        assert "RECEIPT" not in log(toy, name)
        code, said = verify(toy, *(toy.home(name) / "receipts").glob("round-*.json"))
        assert code == 0, said


def test_a_member_with_a_receipt_is_not_absent(toy, monkeypatch):
    """The operator's program takes the report, signs the receipt, and then calls the member absent."""
    honest = RemoteClients.report

    def forgetful(self, round_number, clients, told, rates):
        found = dict(honest(self, round_number, clients, told, rates))
        if round_number == 2 and "east" in found:
            del found["east"]
            self._exchange.note("east", NoAnswer(kind="absent", reason="it did not answer in time"))
        return found

    monkeypatch.setattr(RemoteClients, "report", forgetful)
    run_report, _ = toy.coordinate()
    assert run_report.rounds[1].record.absent == ("east",)
    assert verify(toy)[0] == 0, "without the receipt nobody can tell"
    kept = toy.home("east") / "receipts"
    code, said = verify(toy, kept / "round-0001-1.json", kept / "round-0002-1.json")
    assert code == 1
    assert "the round has the report that round-0002-1.json acknowledges: expected a report of east, found silent" in (
        " ".join(said.split())
    )
    assert said.count("finding:") == 1, "the receipt of round 1 agrees with the ledger"


def test_a_receipt_for_another_report_than_the_one_settled_is_a_finding(toy):
    toy.coordinate()
    keys = KeyDirectory(toy.folder / "operator-keys")
    made = toy.folder / "made.json"
    ledger = json.loads((toy.home("east") / "receipts" / "round-0001-1.json").read_text())["document"]["book"]

    def receipt(signature, key=None, **other):
        given = {"ledger": ledger, "round_number": 1, "client": "east", "signature": signature, "at": "now", **other}
        made.write_bytes(signed_content(receipt_document(**given), key or keys.current()))
        return verify(toy, made)

    assert "another report, or none" in receipt("00")[1]
    assert "the operator signed made.json" in receipt("00", SigningKey.new())[1]
    assert "made.json is about this ledger" in receipt("00", ledger="0" * 64)[1]
    code, said = receipt("00", round_number=3)
    assert code == 0
    assert "note: " in said
    assert "expected round 3, found not in the ledger" in " ".join(said.split())
    for content in ("{}", "no JSON", '{"document": {"format": "commonweal.receipt/1"}}'):
        made.write_text(content)
        with pytest.raises(LedgerError, match="Use the file exactly as the operator sent it"):
            read_receipt(made)


def test_a_report_without_a_receipt_is_logged_once(toy, monkeypatch):
    honest = RemoteClients._acknowledge
    monkeypatch.setattr(
        RemoteClients, "_acknowledge", lambda self, signed: honest(self, signed) if self._round > 1 else None
    )
    toy.coordinate()
    assert log(toy, "north").count("NO RECEIPT") == 1
    assert "round 1: NO RECEIPT came for the report" in log(toy, "north")


def test_a_member_killed_before_it_gives_up_on_a_receipt_has_logged_that(toy, monkeypatch):
    def give_up(self, before, honest=KeptReceipts.give_up):
        def crash(self, awaited):
            raise Crash

        with monkeypatch.context() as patch:
            patch.setattr(KeptReceipts, "_save", crash)
            yield from honest(self, before)

    monkeypatch.setattr(RemoteClients, "_acknowledge", lambda self, signed: None)
    monkeypatch.setattr(KeptReceipts, "give_up", give_up)
    with pytest.raises(Crash):
        toy.coordinate()
    assert "round 1: NO RECEIPT came for the report" in log(toy, "north")


@pytest.mark.parametrize("wrong", [{"models": "none"}, {"round": "two"}, {"client": "south"}])
def test_a_receipt_leaves_a_trace_however_wrong_its_question_is(toy, wrong):
    toy.coordinate()
    folder = toy.home("north") / "receipts"
    (folder / "round-0002-1.json").rename(toy.folder / "kept-elsewhere.json")
    with pytest.raises(QuestionError):
        agent_of(toy, "north").answer("query.receipt", asked(toy, "north", "query.receipt", **wrong))
    name = "doubtful-0000-1.json" if "round" in wrong else "round-0002-1.json"
    assert name in receipts(toy, "north")
    assert name in log(toy, "north").splitlines()[-2]
    assert "refused a question query.receipt" in log(toy, "north").splitlines()[-1]


def test_a_report_that_is_asked_for_again_needs_no_second_receipt(toy):
    """The question comes again after the receipt: the report is the same, and nothing is missing."""
    member, again = toy.member("north"), []

    def answer(kind, question, original=member.answer):
        given = original(kind, question)
        if kind == "query.receipt" and question.fields["round"] == 1 and not again:
            again.append(original("query.report", asked(toy, "north", "query.report")))
        return given

    member.answer = answer
    toy.coordinate()
    assert "round 1: sends report 1 again, as it was signed" in log(toy, "north")
    assert "NO RECEIPT" not in log(toy, "north")
    assert receipts(toy, "north") == ["round-0001-1.json", "round-0002-1.json"]


def test_a_second_receipt_for_a_report_is_neither_doubtful_nor_kept(toy):
    toy.coordinate()
    folder = toy.home("north") / "receipts"
    good = (folder / "round-0002-1.json").read_text()
    later = {**json.loads(good)["document"], "at": "2099-01-01T00:00:00.000000Z"}
    again = signed_content(later, KeyDirectory(toy.folder / "operator-keys").current()).decode()
    for content in (good, again):
        agent_of(toy, "north").answer("query.receipt", asked(toy, "north", "query.receipt", receipt=content))
        date = json.loads(content)["document"]["at"]
        line = f"the operator has signed a receipt for the report again, dated {date}; round-0002-1.json is kept"
        assert log(toy, "north").splitlines()[-1].endswith(line)
    assert receipts(toy, "north") == ["round-0001-1.json", "round-0002-1.json"]


def test_doubtful_receipts_are_kept_aside_and_nothing_is_overwritten(toy):
    toy.coordinate()
    folder = toy.home("north") / "receipts"
    good = (folder / "round-0002-1.json").read_text()
    others = (toy.home("south") / "receipts" / "round-0002-1.json").read_text()
    document = json.loads(good)["document"]
    never_sent = signed_content({**document, "report": "0" * 64}, KeyDirectory(toy.folder / "operator-keys").current())
    forged = signed_content(document, SigningKey.new()).decode()
    changed = json.dumps({**json.loads(good), "document": {**document, "report": "0" * 64}})
    before = {file.name: file.read_bytes() for file in folder.glob("round-*")}
    doubts = {
        forged: "the operator did not sign it",
        changed: "the operator did not sign it",
        others: "it is for another member",
        "{}": "is not a signed file",
        never_sent.decode(): "not waiting to have acknowledged",
    }
    for content, doubt in doubts.items():
        agent_of(toy, "north").answer("query.receipt", asked(toy, "north", "query.receipt", receipt=content))
        line = log(toy, "north").splitlines()[-1]
        assert "DOUBTFUL RECEIPT in doubtful-0002-" in line
        assert doubt in line
    assert {file.name: file.read_bytes() for file in folder.glob("round-*")} == before
    assert len(list(folder.glob("doubtful-*"))) == len(doubts)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_receipt_by_a_key_that_the_operator_replaced_is_doubtful(toy, monkeypatch, is_killed):
    """The member knows of the change from its statements; whoever has the old key leaves it out."""
    toy.coordinate()
    keys = KeyDirectory(toy.folder / "operator-keys")
    old = keys.current()
    store = open_store(str(toy.out / "ledger.db"))
    Ledger(store, keys).rotate_key()
    store.close()
    genuine = json.loads((toy.home("north") / "receipts" / "round-0002-1.json").read_text())["document"]
    forged = signed_content({**genuine, "at": "2099-01-01T00:00:00.000000Z", "key_rotations": []}, old).decode()

    def told():
        agent_of(toy, "north").answer("query.receipt", asked(toy, "north", "query.receipt", receipt=forged))
        return log(toy, "north").splitlines()[-1]

    def crash(*given):
        raise Crash

    assert "DOUBTFUL" not in told(), "nobody has told it yet"
    if is_killed:  # right after it kept the statement
        monkeypatch.setattr(_Keeper, "_save", crash)
        with pytest.raises(Crash):
            toy.coordinate()
        monkeypatch.undo()
    else:
        toy.coordinate()  # sends the last statements again, under the new key
    assert f"DOUBTFUL RECEIPT in doubtful-0002-1.json: it is signed with the key {old.public[:16]}…, which" in told()


def test_who_reports_twice_because_another_was_lost_has_two_receipts(toy):
    member = toy.member("east")

    def answer(kind, question, original=member.answer):
        if kind == "query.report" and question.fields["round"] == 2:
            raise ConnectionError
        return original(kind, question)

    member.answer = answer
    toy.coordinate()
    assert receipts(toy, "north") == ["round-0001-1.json", "round-0002-1.json", "round-0002-2.json"]
    for name in receipts(toy, "north"):
        code, said = verify(toy, toy.home("north") / "receipts" / name)
        assert code == 0, f"the entry lists both reports: {said}"


def test_a_receipt_that_comes_again_after_a_crash_is_no_doubt(toy, monkeypatch):
    """The receipt was written, but not yet that it has come."""
    honest, crashed = KeptReceipts._save, []

    def save(self, awaited):
        if not awaited and not crashed:
            crashed.append(True)
            raise Crash
        honest(self, awaited)

    member = toy.member("north")

    def answer(kind, question, original=member.answer):
        with suppress(Crash):
            return original(kind, question)
        return original(kind, question)

    member.answer = answer
    monkeypatch.setattr(KeptReceipts, "_save", save)
    toy.coordinate()
    assert crashed
    assert "DOUBTFUL" not in log(toy, "north")
    assert "NO RECEIPT" not in log(toy, "north")
    assert receipts(toy, "north") == ["round-0001-1.json", "round-0002-1.json"]


def test_how_a_profit_was_computed_is_logged_before_it_is_signed(toy, monkeypatch):
    """After a crash in between it is logged again; never is a report signed without it."""
    written = []
    honest = ReportBook._write
    monkeypatch.setattr(
        ReportBook, "_write", lambda self, reports: (written.append(log(toy, "north")), honest(self, reports))
    )
    toy.coordinate()
    assert "round 1: will report a profit of" in written[0]
