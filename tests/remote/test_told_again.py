"""What the operator signs beside the lines that a member has already: it is kept, and so are changes of its key."""

import json
import shutil

import pytest

from commonweal.ledger.keys import SigningKey
from commonweal.ledger.signed_files import signed_content
from commonweal.remote.member import kept_statements
from commonweal.remote.messages.message import Message
from tests.remote.hostile import RULES, VICTIM, Hostile, files_with, key_change, log, operator_key
from tests.remote.toy import make_toy, open_toy


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    toy = make_toy(tmp_path_factory.mktemp("told") / "f", **{**RULES, "rounds": 1})
    toy.transport = Hostile(toy.transport.members, twist=lambda *asked: None)
    toy.coordinate()
    return toy


@pytest.fixture
def toy(finished, tmp_path):
    """A federation after its only round, whose last entry is number 3."""
    shutil.copytree(finished.folder, tmp_path / "f")
    copy = open_toy(tmp_path / "f", RULES["names"])
    copy.transport = Hostile(copy.transport.members, list(finished.transport.sent), twist=lambda *asked: None)
    return copy


def book(toy):
    return toy.transport.last("query.close").fields["book"]


def tell_again(toy, key=None, **changes):
    """Send the statement of the round once more with other fields; returns its text, the answer and the new log."""
    question, before = toy.transport.last("query.close"), len(log(toy))
    document = json.loads(question.fields["statement"])["document"]
    told = signed_content({**document, **changes}, key or operator_key(toy)).decode()
    answer = toy.transport.extra("query.close", statement=told, trail="")
    return told, answer, log(toy)[before:]


def bring(toy, **signed):
    """A question that brings only this; returns the new log."""
    before = len(log(toy))
    fields = {"client": VICTIM, "book": book(toy), "round": 1, "receipt": ""}
    toy.transport.extra("query.receipt", Message(fields=fields), **signed)
    return log(toy)[before:]


def head(toy, number, key, *rotations):
    document = json.loads(toy.transport.last("query.open").fields["ledger_head"])["document"]
    entry = {"number": number, "hash": f"{number:02d}" * 32}
    return signed_content({**document, "head": entry, "key_rotations": list(rotations)}, key).decode()


@pytest.mark.parametrize("has_room", [True, False])
def test_a_change_of_key_in_a_statement_that_is_told_again_is_kept_and_contradicts(toy, monkeypatch, has_room):
    """It proves a second ledger: entry 2 of the one that was shown admits the members."""
    if not has_room:
        monkeypatch.setitem(kept_statements.MOST_DOUBTFUL, kept_statements.OTHER, (0, 0))
    new = SigningKey.new()
    change = key_change(book(toy), operator_key(toy), new, 2)
    told, answer, said = tell_again(toy, new, key_rotations=[change])
    (kept,) = files_with(toy, json.loads(told)["signature"])
    assert (toy.home(VICTIM) / kept).read_text() == told
    assert kept.startswith("statements/doubtful/other-" if has_room else "trails/doubtful/contradicting-")
    assert "CONTRADICTION: the operator signed two different entries 2: " in said
    assert f"in a change of the operator's key in {kept}" in said
    assert "two different entries 2" in answer.fields["contradiction"]
    again = toy.transport.extra("query.close", statement=told, trail="")
    assert "contradiction 1 that" in again.fields["contradiction"], "it is the same one"
    assert files_with(toy, json.loads(told)["signature"]) == [kept]


@pytest.mark.parametrize(
    "change", [{"name": "another consortium"}, {"remark": "north owes 1,000"}, {"at": "by then you owed 1,000"}]
)
def test_whatever_else_a_statement_says_that_is_told_again_is_kept(toy, change):
    told, answer, said = tell_again(toy, **change)
    assert answer.fields["kept"]
    assert "it says more than those kept, or says it otherwise (kept as doubtful/other-" in said
    (kept,) = files_with(toy, json.loads(told)["signature"])
    assert (toy.home(VICTIM) / kept).read_text() == told


def test_a_statement_that_is_told_again_at_another_time_is_not_kept_twice(toy):
    """Nor one with less lines: a coordinator that is started again sends what it knows to be lacking, and that is
    nothing."""
    document = json.loads(toy.transport.last("query.close").fields["statement"])["document"]
    less = {"before": document["after"], "lines": [], "at": "2031-01-01T00:00:00.000000Z"}
    for changes in ({"at": "2030-01-01T00:00:00.000000Z"}, less):
        told, answer, said = tell_again(toy, **changes)
        assert answer.fields["kept"]
        assert "says more" not in said
        assert files_with(toy, json.loads(told)["signature"]) == []
    for year in (2030, 2031):
        tell_again(toy, at=f"{year}-01-01T00:00:00.000000Z", name="another consortium")
    assert len(list((toy.home(VICTIM) / "statements" / "doubtful").iterdir())) == 1, "one of each form"


def retire_by_told_again(toy, change, new):
    return tell_again(toy, new, key_rotations=[change])[2]


def retire_by_kept(toy, change, new):
    """A new statement by the old key, which ends before the change."""
    entry = {"number": 4, "hash": "44" * 32}
    return tell_again(toy, key_rotations=[change], head=entry)[2]


def retire_by_large_receipt(toy, change, new):
    receipt = json.loads(toy.transport.last("query.receipt").fields["receipt"])["document"]
    large = {**receipt, "key_rotations": [change], "pad": "x" * 1_100_000}
    return bring(toy, receipt=signed_content(large, new).decode())


@pytest.mark.parametrize("retire", [retire_by_told_again, retire_by_kept, retire_by_large_receipt])
def test_a_change_of_key_is_remembered_whatever_became_of_what_named_it(toy, retire):
    old, new, other = operator_key(toy), SigningKey.new(), SigningKey.new()
    change = key_change(book(toy), old, new, 9)
    said = retire(toy, change, new)
    assert "the operator's key is said to be changed by entry 9, in " in said
    (kept,) = (toy.home(VICTIM) / "trails" / "doubtful").glob("key-change-*.json")
    assert change["signature"] in kept.read_text()
    assert kept.stat().st_size < 3000
    said = bring(toy, ledger_head=head(toy, 12, old))
    assert f"DOUBTFUL HEAD of the ledger: it is signed with the key {old.public[:16]}…, which entry 9 replaced" in said
    said = bring(toy, ledger_head=head(toy, 14, other, key_change(book(toy), old, other, 8)))
    assert f"CONTRADICTION: the operator signed two different changes of its key {old.public[:16]}…" in said
    assert "is said to be changed" not in bring(toy, ledger_head=head(toy, 15, new, change)), "it is known"


def test_one_change_of_key_by_two_entries_is_a_contradiction(toy):
    old, new = operator_key(toy), SigningKey.new()
    assert "CONTRADICTION" not in bring(toy, ledger_head=head(toy, 12, new, key_change(book(toy), old, new, 9)))
    said = bring(toy, ledger_head=head(toy, 14, new, key_change(book(toy), old, new, 11)))
    assert (
        f"CONTRADICTION: the operator signed two different changes of its key {old.public[:16]}…: "
        f"to {new.public[:16]}… by entry 9 and to {new.public[:16]}… by entry 11, in trails/doubtful/key-change-"
    ) in said


def test_trails_that_find_no_room_are_an_error_and_are_compared(toy):
    """Those that fill the room alarm nobody."""
    genuine = json.loads(toy.transport.last("query.close").fields["trail"])["document"]

    def trail(first, digest):
        return signed_content({**genuine, "first": first, "hashes": [digest]}, operator_key(toy)).decode()

    for number in range(20):
        assert "ERROR" not in bring(toy, trail=trail(10**9 + number, "ab" * 32))
    said = bring(toy, trail=trail(9, "aa" * 32))
    assert "ERROR a trail that was not kept, SHA-256 " in said
    assert "CONTRADICTION: the operator signed two different entries 9" in bring(toy, trail=trail(9, "bb" * 32))
