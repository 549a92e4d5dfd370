"""A member's statements are its evidence: nothing that the operator sends can erase them or pass for their sequel."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from commonweal.atomic_write import write_atomically
from commonweal.cli.main import app
from commonweal.ledger.entries import postings_of
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.keys import SigningKey, read_operator_key
from commonweal.ledger.ledger import Ledger
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.signed_files import signed_content
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.statements import make_statement, signed_statement
from commonweal.remote.member import kept_statements
from commonweal.remote.member.agent import MemberAgent
from commonweal.remote.member.member_file import read_member
from commonweal.remote.member.store import MemberStore
from commonweal.remote.messages.message import Message, QuestionError
from tests.ledger.sample_ledger import parsed, rewritten
from tests.remote.test_coordinator_killed import run_and_die
from tests.remote.toy import NAMES, TASK, make_toy, open_toy

AT = "2026-03-01T00:00:00.000000Z"
RULES = {"learning": "iteration_limit = 1", "mechanism": 'mu = "inf"'}
ROUNDS = 3


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    toy = make_toy(tmp_path_factory.mktemp("kept") / "f", names=NAMES[:2], rounds=ROUNDS, **RULES)
    toy.coordinate()
    return toy


@pytest.fixture
def toy(finished, tmp_path):
    """A federation after its last round, for one test to tamper with."""
    shutil.copytree(finished.folder, tmp_path / "f")
    copy = open_toy(tmp_path / "f", NAMES[:2])
    copy.transport.sent = list(finished.transport.sent)
    return copy


def keys_of(toy):
    return KeyDirectory(toy.folder / "operator-keys")


def close(toy, statement, round_number=ROUNDS, client="north"):
    """Ask the member's agent to keep a statement; returns what it answers about it."""
    member = read_member(toy.folder / "members" / client / "member.toml")
    agent = MemberAgent(member, TASK, NodeKey.read(member.key_file))
    (*_, asked) = (s for s in toy.transport.sent if (s.to_member, s.client, s.kind) == (True, client, "query.close"))
    fields = {**asked.message.fields, "statement": statement, "round": round_number}
    answer = agent.answer("query.close", Message(fields=fields)).fields
    return {name: value for name, value in answer.items() if name != "head"}


def statements(toy, client="north"):
    return {path.name: path.read_bytes() for path in (toy.home(client) / "statements").glob("*.json")}


def doubtful(toy, client="north"):
    return sorted((toy.home(client) / "statements" / "doubtful").glob("*.json"))


def logged(toy, client="north"):
    """The last line of the log."""
    return (toy.home(client) / "log.txt").read_text().splitlines()[-1]


def shouts(toy, client="north"):
    lines = (toy.home(client) / "log.txt").read_text().splitlines()
    return [line for line in lines if line.split(" ", 1)[1].startswith("DOUBTFUL STATEMENT")]


def fork(toy, entry_number, path):
    """The ledger told anew from this entry on, by its operator: only a time differs, and it verifies as sound."""

    def tell_another_time(document):
        *start, microsecond, zone = document["at"]
        document["at"] = "".join([*start, "1" if microsecond == "0" else "0", zone])

    with closing(open_store(str(toy.out / "ledger.db"))) as store, store.reading() as reading:
        entries = list(reading.entries())
    story = rewritten(entries, tell_another_time, entry_number, keys_of(toy).key_of)
    with closing(open_store(str(path), create=True)) as store, store.writing() as writing:
        for entry in story:
            writing.add(entry, postings_of(parsed(entry)))
    return path


def told(toy, ledger, client="north", entries=None):
    """A whole statement by a ledger, cut off after some of its entries."""
    with closing(open_store(str(ledger))) as store:
        if entries is None:
            return signed_statement(store, client, keys_of(toy), at=AT).decode()
        shorter = ledger.with_name(f"first-{entries}-of-{ledger.name}")
        with closing(open_store(str(shorter), create=True)) as copy:
            with store.reading() as reading, copy.writing() as writing:
                for entry in list(reading.entries())[:entries]:
                    writing.add(entry, postings_of(parsed(entry)))
            return signed_statement(copy, client, keys_of(toy), at=AT).decode()


def verify(ledger, *files):
    against = [word for file in files for word in ("--against", str(file))]
    return CliRunner().invoke(app, ["ledger", "verify", str(ledger), *against])


def test_a_rewritten_ledger_erases_no_statement_and_is_found_by_them(toy, tmp_path):
    before = statements(toy)
    assert len(before) == ROUNDS
    ledger = fork(toy, 3, tmp_path / "fork.db")
    assert verify(ledger).exit_code == 0, verify(ledger).output
    answers = [close(toy, told(toy, ledger, entries=2 + number), number) for number in range(1, ROUNDS + 1)]
    assert statements(toy) == before
    assert all(answer["kept"] is False and answer["doubt"] for answer in answers)
    assert len(shouts(toy)) == len(doubtful(toy)) == ROUNDS
    files = sorted((toy.home("north") / "statements").glob("*.json"))
    found = verify(ledger, *files)
    assert found.exit_code == 1
    for number in range(1, ROUNDS + 1):
        assert f"the hash that round-{number:04d}.json names" in found.output
    assert verify(toy.out / "ledger.db", *files).exit_code == 0
    assert verify(toy.out / "ledger.db", *doubtful(toy)).exit_code == 1, "they are evidence, too"


def test_a_rewritten_ledger_with_a_later_head_does_not_continue_the_statements(toy, tmp_path):
    before, ledger = statements(toy), fork(toy, 4, tmp_path / "fork.db")
    with closing(open_store(str(ledger))) as store:
        Ledger(store, keys_of(toy)).reverse_round(ROUNDS, "told anew")
    answer = close(toy, told(toy, ledger), ROUNDS + 1)
    assert "its first 4 lines are not those of the statements kept here" in answer["doubt"]
    assert statements(toy) == before


def test_a_statement_that_continues_the_others_is_kept_under_a_new_name(toy):
    before = statements(toy)
    with closing(open_store(str(toy.out / "ledger.db"))) as store:
        Ledger(store, keys_of(toy)).reverse_round(ROUNDS, "a mistake")
    statement = told(toy, toy.out / "ledger.db")
    answer = close(toy, statement)
    assert answer == {"kept": True, "line_count": 5}
    now = statements(toy)
    assert {name: now[name] for name in before} == before
    (new,) = set(now) - set(before)
    assert new == "round-0003-entry-6.json"
    assert now[new].decode() == statement
    assert close(toy, statement) == answer
    assert statements(toy) == now, "a repeat changes nothing"
    assert not shouts(toy)


def edited(toy, **changes):
    """The newest whole statement, changed and signed by the operator."""
    document = json.loads(told(toy, toy.out / "ledger.db"))["document"]
    with closing(open_store(str(toy.out / "ledger.db"))) as store:
        key = keys_of(toy).key_of(Ledger(store, None).state.operator)
    return signed_content(document | changes, key).decode()


LATER = {"number": 9, "hash": "ab" * 32}
CONTRADICTIONS = {
    "an earlier head": ({"head": {"number": 4, "hash": "ab" * 32}}, "it ends with entry 4, but entry 5 is in the"),
    "another head": ({"head": {"number": 5, "hash": "ab" * 32}}, "entry 5 is abababababababab…, but "),
    "another currency": ({"head": LATER, "currency": "EUR"}, "currency is 'EUR', but 'XTS' in the statements kept"),
    "another worth": ({"head": LATER, "worth": "5"}, "worth is 5, but 100000 in the statements kept here"),
    "another key of the member": ({"head": LATER, "client_key": None}, "client_key is None, but 'p384:"),
    "another client": ({"head": LATER, "client": "south"}, "it is for 'south' in ledger "),
    "another ledger": ({"head": LATER, "book": "cd" * 32}, "in ledger cdcdcdcdcdcdcdcd…, not for this member"),
    "an absurd head": ({"head": {"number": 1e300, "hash": "ab" * 32}}, "is incomplete or damaged"),
    "no lines": ({"head": LATER, "lines": [], "balance": "0", "accrued": "0"}, "its first 4 lines are not those"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_what_contradicts_the_statements_is_kept_aside(toy, name):
    changes, message = CONTRADICTIONS[name]
    before = statements(toy)
    answer = close(toy, edited(toy, **changes), ROUNDS + 1)
    assert message in answer["doubt"]
    assert answer["kept"] is False
    assert answer["line_count"] == 4
    assert statements(toy) == before
    (shout,) = shouts(toy)
    assert message in shout
    assert len(doubtful(toy)) == 1


def test_a_new_line_about_an_entry_told_before_is_doubted(toy):
    document = json.loads(told(toy, toy.out / "ledger.db"))["document"]
    lines = [*document["lines"], document["lines"][-1] | {"entry": 4, "amount": "0", "accrued": "0"}]
    assert (
        "a line about entry 4 does not lie between entry 5 and entry 9"
        in close(toy, edited(toy, head=LATER, lines=lines), ROUNDS + 1)["doubt"]
    )


@pytest.mark.parametrize("words", ["round 3: eliminated", "round 9: retained"])
@pytest.mark.parametrize("head", [{}, {"head": {"number": 9, "hash": "ab" * 32}}], ids=["again", "later"])
def test_lines_that_are_told_again_in_words_that_say_something_else_are_doubted(toy, head, words):
    """The running hash over the lines does not cover their words."""
    before, home = statements(toy), MemberStore(toy.home("north"))
    known, document = home.load(), json.loads(told(toy, toy.out / "ledger.db"))["document"]
    lines = [*document["lines"][:-1], document["lines"][-1] | {"text": words}]
    assert (
        f"the line about entry 5 says '{words}', but 'round 3: retained"
        in (close(toy, edited(toy, lines=lines, **head))["doubt"])
    )
    assert statements(toy) == before
    assert len(doubtful(toy)) == len(shouts(toy)) == 1
    assert home.load() == known, "nothing is adopted of what is not kept"


def test_lines_that_are_told_again_without_explanations_or_in_words_of_version_0_1_are_not_doubted(toy):
    document = json.loads(told(toy, toy.out / "ledger.db"))["document"]
    for fate in ("retained", "stays"):
        lines = [*document["lines"][:-1], document["lines"][-1] | {"text": f"round 3: {fate}"}]
        assert close(toy, edited(toy, lines=lines))["kept"]
    assert shouts(toy) == []


def test_a_statement_that_is_told_again_in_other_words_is_kept_and_logged(toy):
    """What explains a line may be what an operator denies later."""
    document = json.loads(told(toy, toy.out / "ledger.db"))["document"]
    lines = [*document["lines"][:-1], document["lines"][-1] | {"text": "round 3: retained; you harmed the others"}]
    other = edited(toy, lines=lines)
    assert close(toy, other)["kept"]
    assert "; it tells entry 5 in other words than before (kept as doubtful/other-" in logged(toy)
    assert other in [file.read_text() for file in (toy.home("north") / "statements" / "doubtful").iterdir()]
    assert close(toy, told(toy, toy.out / "ledger.db"))["kept"]
    assert "in other words" not in logged(toy)


def test_a_stranger_is_doubted_and_so_is_a_retired_key(toy):
    document = json.loads(edited(toy, head=LATER))["document"]
    stranger = signed_content(document, SigningKey.new()).decode()
    assert "nor one of its successors" in close(toy, stranger, ROUNDS + 1)["doubt"]
    with closing(open_store(str(toy.out / "ledger.db"))) as store:
        ledger = Ledger(store, keys_of(toy))
        retired = keys_of(toy).key_of(ledger.state.operator)
        ledger.rotate_key()
    assert close(toy, told(toy, toy.out / "ledger.db"), ROUNDS + 1)["kept"]
    assert "which entry 6 replaced" in close(toy, signed_content(document, retired).decode(), ROUNDS + 2)["doubt"]
    short = json.loads(told(toy, toy.out / "ledger.db"))["document"] | {"key_rotations": []}
    assert not close(toy, signed_content(short, keys_of(toy).current()).decode(), ROUNDS + 3)["kept"]
    assert "kept as doubtful/other-" in shouts(toy)[-1], "who signs with the key in use is no stranger"


class Killed(BaseException):
    """The member's process, at once."""


def test_the_first_statement_is_not_on_the_disk_before_the_key_that_is_trusted_from_it_on(toy, tmp_path, monkeypatch):
    """Else the next thing that comes could make the member trust another key, and doubt the statement."""

    def write(path, content, *, what):
        if what == "a statement":
            raise Killed
        write_atomically(path, content, what=what)

    member = replace(read_member(toy.folder / "members" / "north" / "member.toml"), home=tmp_path / "new")
    statement = told(toy, toy.out / "ledger.db")
    book = json.loads(statement)["document"]["book"]
    monkeypatch.setattr(kept_statements, "write_atomically", write)
    with MemberStore(member.home).locked(), pytest.raises(Killed):
        kept_statements.keep_statement(MemberStore(member.home), member, statement, ledger=book, round_number=1)
    assert read_operator_key(member.home / "operator.pub.pem") == keys_of(toy).current().public


def test_the_room_for_doubtful_statements_is_limited_and_rubbish_does_not_fill_it(toy):
    for number in range(25):
        close(toy, f"no JSON {number}")
        close(toy, f"no JSON {number}")
    assert len(doubtful(toy)) == 20
    assert len(shouts(toy)) == 50
    assert "not kept, since there are 20 unsigned ones in doubtful; SHA-256 " in shouts(toy)[-1]
    for number in range(80):  # as if they had been kept before
        (doubtful(toy)[0].parent / f"round-0001-{number}.json").write_text("{}")
    for number in range(25):
        close(toy, edited(toy, at=f"{number}", head={"number": 1, "hash": "ab" * 32}))
    assert len(doubtful(toy)) == 120
    assert "not kept, since there are 100 in doubtful" in shouts(toy)[-1]


def test_statements_that_prove_nothing_leave_room_for_those_that_do(toy):
    """The operator can sign any number of statements for somebody else."""
    for number in range(105):
        if not doubtful(toy) or number > 100:
            close(toy, edited(toy, client=f"guest {number}"))
        else:  # as if they had been kept before
            (doubtful(toy)[0].parent / f"other-round-0001-{number}.json").write_text("{}")
    assert "not kept, since there are 101 other ones in doubtful" in shouts(toy)[-1]
    close(toy, edited(toy, head={"number": 1, "hash": "ab" * 32}))
    assert "kept as doubtful/round-0003-" in shouts(toy)[-1]


def test_bad_statements_are_doubted_without_a_traceback(toy):
    good = json.loads(told(toy, toy.out / "ledger.db"))
    part = json.loads(statements(toy)["round-0002.json"])
    for whole in (good, part):
        for name in whole["document"]:
            for value in (None, [], {}, "x", -1, 1e300, True, "\ud800"):
                if value == whole["document"][name]:
                    continue
                document = whole["document"] | {name: value}
                answer = close(toy, json.dumps(whole | {"document": document}), ROUNDS + 1)
                assert answer["kept"] is False, (name, value)
        for name in whole["document"]["lines"][0]:
            for value in (float("nan"), -float("inf"), [], "x"):
                document = whole["document"] | {"lines": [whole["document"]["lines"][0] | {name: value}]}
                assert close(toy, json.dumps(whole | {"document": document}), ROUNDS + 1)["kept"] is False
    for number in (-1, 10**30, "../x", None):
        with pytest.raises(QuestionError, match="A round must be a whole number"):
            close(toy, "no JSON", number)
    assert "DOUBTFUL STATEMENT in round-unknown" in shouts(toy)[-1], "but what came with it was looked at"
    assert len(statements(toy)) == ROUNDS


def test_an_account_that_is_lost_or_damaged_is_made_again_from_the_statements(toy):
    account = toy.home("north") / "account.json"
    expected = account.read_bytes()
    statement = told(toy, toy.out / "ledger.db")
    for content in (None, b"", b"{}", b"[]", expected.replace(b'"file_count": 3', b'"file_count": 2')):
        account.unlink() if content is None else account.write_bytes(content)
        assert close(toy, statement) == {"kept": True, "line_count": 4}
        assert account.read_bytes() == expected
    assert not shouts(toy)


# Only new lines are sent.


def sent_statements(toy, client):
    closings = (s for s in toy.transport.sent if (s.to_member, s.client, s.kind) == (True, client, "query.close"))
    return [(s.message.fields["round"], json.loads(s.message.fields["statement"])["document"]) for s in closings]


def lines_at_home(toy, client):
    documents = [json.loads(content)["document"] for _, content in sorted(statements(toy, client).items())]
    return [line for document in documents for line in document["lines"]]


def lines_by_the_ledger(toy, client):
    with closing(open_store(str(toy.out / "ledger.db"))) as store:
        return [(line.entry, line.text) for line in make_statement(store, client, at=AT).lines]


def test_each_round_sends_only_what_is_new(finished):
    for client in finished.names:
        sent = sent_statements(finished, client)
        assert [number for number, _ in sent] == [1, 2, 3]
        assert [len(document["lines"]) for _, document in sent] == [2, 1, 1], "admitted, then one per round"
        found = [(line["entry"], line["text"]) for line in lines_at_home(finished, client)]
        assert found == lines_by_the_ledger(finished, client)


def test_a_member_that_missed_a_statement_gets_its_lines_with_the_next(tmp_path):
    toy = make_toy(tmp_path / "f", rounds=4, **RULES)
    member = toy.member("east")

    def answer(kind, question, original=member.answer):
        if question.fields["round"] == 3 or (question.fields["round"], kind) == (2, "query.close"):
            raise ConnectionError
        return original(kind, question)

    member.answer = answer
    toy.coordinate()
    assert [len(document["lines"]) for _, document in sent_statements(toy, "east")] == [2, 1, 3]
    assert sorted(statements(toy, "east")) == ["round-0001.json", "round-0004.json"]
    assert [(line["entry"], line["text"]) for line in lines_at_home(toy, "east")] == lines_by_the_ledger(toy, "east")


def test_a_member_that_lost_its_statements_says_so_and_gets_all_lines(tmp_path):
    toy = make_toy(tmp_path / "f", names=NAMES[:2], rounds=4, **RULES)

    def before_answer(client, kind):
        if (client, kind) == ("north", "query.close") and toy.transport.sent[-1].message.fields["round"] == 3:
            for file in (toy.home("north") / "statements").glob("*.json"):
                file.unlink()

    toy.transport.before_answer = before_answer
    _, said = toy.coordinate()
    sent = [(number, len(document["lines"])) for number, document in sent_statements(toy, "north")]
    assert sent == [(1, 2), (2, 1), (3, 1), (3, 4), (4, 1)]
    assert [(line["entry"], line["text"]) for line in lines_at_home(toy, "north")] == lines_by_the_ledger(toy, "north")
    assert not any("doubts" in line for line in said)


def test_a_coordinator_that_was_killed_knows_what_members_have(tmp_path):
    toy = make_toy(tmp_path / "f", names=NAMES[:2], rounds=ROUNDS, **RULES)
    run_and_die(toy, ("tell", "before"))  # in the second round
    again = open_toy(tmp_path / "f", NAMES[:2])
    again.coordinate()
    for client in again.names:
        sent = [(number, len(document["lines"])) for number, document in sent_statements(again, client)]
        assert sent == [(2, 1), (3, 1)]


def test_the_coordinator_says_who_doubts_its_statement(tmp_path):
    toy = make_toy(tmp_path / "f", names=NAMES[:2], rounds=2, **RULES)

    def before_answer(client, kind):
        question = toy.transport.sent[-1].message
        if (client, kind) == ("north", "query.close") and question.fields["round"] == 2:
            question.fields["statement"] = question.fields["statement"].replace("retained", "eliminated")

    toy.transport.before_answer = before_answer
    _, said = toy.coordinate()
    told = "north doubts its statement and did not accept it: the signature does not match"
    assert any(line.startswith(told) for line in said)
