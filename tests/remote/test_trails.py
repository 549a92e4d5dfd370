"""What an operator may try with trails, heads and rubbish, so that a second ledger is not found or not proved."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, replace

import pytest
import rfc8785
from typer.testing import CliRunner

from commonweal.cli.main import app
from commonweal.ledger.chain import key_rotations
from commonweal.ledger.entries import Draft
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.ledger import Ledger
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.seen_heads import SeenHead, trail_document
from commonweal.ledger.signed_files import signed_content
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.statement_parts import part_in
from commonweal.remote.member.contradictions import Contradictions
from commonweal.remote.member.entry_comparison import EntryComparison
from commonweal.remote.member.incoming import Incoming
from commonweal.remote.member.kept_aside import KeptAside
from commonweal.remote.member.store import MemberStore
from commonweal.remote.messages.message import Message, QuestionError
from commonweal.task.models import fingerprint
from tests.first_few import first_few
from tests.ledger.sample_ledger import enter_by_force
from tests.remote.memory_transport import MemoryTransport
from tests.remote.test_two_faces import DECEIVED, TwoFacedOperator
from tests.remote.toy import INITIAL, NAMES, make_toy, open_toy

OTHER = "cd" * 32  # the hash of an entry of another ledger
AT = "2026-03-01T00:00:00.000000Z"
RULES = {"learning": "iteration_limit = 1", "mechanism": 'mu = "inf"'}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    toy = make_toy(tmp_path_factory.mktemp("trails") / "f", rounds=1, **RULES)
    toy.coordinate()
    return toy


@pytest.fixture
def toy(finished, tmp_path):
    """A federation after its only round, whose last entry is number 3."""
    shutil.copytree(finished.folder, tmp_path / "f")
    copy = open_toy(tmp_path / "f")
    copy.transport.sent = list(finished.transport.sent)
    return copy


def log(toy, name="north"):
    return (toy.home(name) / "log.txt").read_text()


def sent(toy, kind, name="north"):
    return [s.message for s in toy.transport.sent if (s.to_member, s.kind, s.client) == (True, kind, name)][-1]


def close(toy, **fields):
    """Close the round once more with other fields; returns the head that the member signs, if it does, and its log."""
    before = len(log(toy))
    question = sent(toy, "query.close")
    answer = toy.member("north").answer("query.close", replace(question, fields={**question.fields, **fields}))
    return json.loads(answer.fields.get("head", "null")), log(toy)[before:]


def open_again(toy, **fields):
    """Open a second round; returns what the member logs."""
    before, digest = len(log(toy)), fingerprint(INITIAL)
    state = MemberStore(toy.home("north")).load()
    settled = {"settled_round": state.settled_round, "settled_attempt": state.settled_attempt}
    question = sent(toy, "query.open").fields
    amended = {"terms": "ab" * 32, "ledger_head": ""}  # or there would be no second round; the old head would go back
    asked = {**question, "round": 2, "attempt": "b" * 16, "models": [digest], **amended, **settled, **fields}
    toy.member("north").answer("query.open", Message(fields=asked, groups={f"model/{digest}": INITIAL}))
    return log(toy)[before:]


def operator_key(toy):
    return KeyDirectory(toy.folder / "operator-keys").key_of(
        json.loads(sent(toy, "query.close").fields["trail"])["signer"]
    )


def trail(toy, first, hashes):
    document = trail_document(ledger=sent(toy, "query.close").fields["book"], first=first, hashes=hashes, at=AT)
    return signed_content(document, operator_key(toy)).decode()


def statement(toy, number, digest):
    """The statement of the round, said to be of another entry of the ledger."""
    document = json.loads(sent(toy, "query.close").fields["statement"])["document"]
    document["head"] = {"number": number, "hash": digest}
    return signed_content(document, operator_key(toy)).decode()


def head(toy, number, digest):
    """The operator's head of the ledger, as when it opens a round."""
    document = json.loads(sent(toy, "query.open").fields["ledger_head"])["document"]
    return signed_content(document | {"head": {"number": number, "hash": digest}}, operator_key(toy)).decode()


def head_of(toy, name, number, digest):
    ledger = sent(toy, "query.open").fields["book"]
    head = SeenHead(ledger=ledger, client=name, number=number, hash=digest, round_number=1)
    signed = head.signed(NodeKey.read(toy.folder / "members" / name / "node-key"))
    return json.dumps({name: dict(signed.to_document())})


def hashes(toy):
    return json.loads(sent(toy, "query.close").fields["trail"])["document"]["hashes"]


def on_disk(toy, text):
    return [file for file in toy.home("north").rglob("*.json") if text in file.read_text(errors="replace")]


@dataclass
class PoisoningOperator(TwoFacedOperator):
    """The first trail names an entry that will never come; no trails after it."""

    def _ask_one(self, client, kind, question):
        if kind == "query.close":
            other = ""
            if question.fields["round"] == 1:
                real = json.loads(question.fields["trail"])
                key = KeyDirectory(self.folder / "operator-keys").key_of(real["signer"])
                document = {**real["document"], "first": 999_999_999_999_998, "hashes": ["ab" * 32]}
                other = signed_content(document, key).decode()
            question = replace(question, fields={**question.fields, "trail": other})
        return super()._ask_one(client, kind, question)


def test_a_trail_of_a_far_entry_does_not_keep_a_second_ledger_from_being_found(tmp_path):
    toy = make_toy(tmp_path / "f", rounds=3, **RULES)
    toy.transport = PoisoningOperator(toy.transport.members, folder=toy.folder)
    toy.coordinate()
    for name in NAMES:
        assert "ERROR a trail of the ledger's entries is not learned: it ends with entry 999999999999998" in log(
            toy, name
        )
        assert len(list((toy.home(name) / "trails" / "doubtful").iterdir())) == 1
        assert not [line for line in (toy.home(name) / "heads.txt").read_text().splitlines() if line.startswith("9999")]
    assert "the operator shows two ledgers" in log(toy, DECEIVED)


def test_a_trail_with_a_gap_is_an_error_and_is_not_learned(toy):
    before = (toy.home("north") / "heads.txt").read_text()
    content = trail(toy, 5, ["cd" * 32])
    head, lines = close(toy, trail=content, statement=statement(toy, 5, "cd" * 32), round=2)
    assert head["number"] == 3
    assert (
        "ERROR a trail of the ledger's entries is not learned: it starts with entry 5, but entry 3 is the last" in lines
    )
    assert [file.read_text() for file in (toy.home("north") / "trails" / "doubtful").iterdir()] == [content]
    assert "trails/" not in (toy.home("north") / "heads.txt").read_text().removeprefix(before)


def test_a_trail_that_does_not_end_with_its_statement_is_an_error_and_is_not_learned(toy):
    head, lines = close(toy, trail=trail(toy, 4, ["cd" * 32]))
    assert head["number"] == 3
    assert "it ends with entry 4, but the statement that came with it ends with entry 3" in lines
    assert "4 cdcd" not in (toy.home("north") / "heads.txt").read_text()


def test_a_statement_without_the_trail_to_it_is_an_error_until_the_trail_comes(toy):
    later = {"statement": statement(toy, 5, "cd" * 32), "round": 2}
    head, lines = close(toy, trail="", **later)
    assert head["number"] == 3
    assert "ERROR no trail came of entries 4 to 5" in lines
    head, lines = close(toy, trail=trail(toy, 4, ["bc" * 32, "cd" * 32]), **later)
    assert (head["number"], head["hash"]) == (5, "cd" * 32)
    assert "ERROR" not in lines


@pytest.mark.parametrize("shown", ["trail", "head", "apart"])
def test_a_trail_that_was_not_learned_is_compared_with_what_is_shown_later(toy, shown):
    close(toy, trail=trail(toy, 4, ["bc" * 32, "dd" * 32]))
    if shown == "trail":
        later = {"statement": statement(toy, 5, "cd" * 32), "trail": trail(toy, 4, ["bc" * 32, "cd" * 32])}
        _, lines = close(toy, **later, round=2)
        assert "5 cdcd" in (toy.home("north") / "heads.txt").read_text()
    elif shown == "head":
        lines = open_again(toy, ledger_head=head(toy, 5, "cd" * 32))
        assert "round 2: opened" in lines
    else:
        _, lines = close(toy, trail=trail(toy, 5, ["cd" * 32]))
    found = f"CONTRADICTION: the operator signed two different entries 5: {'dd' * 8}… in trails/doubtful/apart-"
    assert found in lines
    assert f"{'cd' * 8}… in " in lines


class Killed(BaseException):
    """The member's process, at once."""


@pytest.mark.parametrize("shown", ["head", "apart"])
def test_what_is_not_learned_is_compared_before_it_is_kept(toy, monkeypatch, shown):
    def kill_after(step):
        def killing(*given, **options):
            step(*given, **options)
            raise Killed

        return killing

    close(toy, trail=trail(toy, 4, ["bc" * 32, "dd" * 32]))
    owner, step = (Incoming, "_keep_head") if shown == "head" else (KeptAside, "keep")
    monkeypatch.setattr(owner, step, kill_after(getattr(owner, step)))
    told = {"ledger_head": head(toy, 5, "cd" * 32)} if shown == "head" else {"trail": trail(toy, 5, ["cd" * 32])}
    with pytest.raises(Killed):
        close(toy, **told)
    (contradiction,) = (toy.home("north") / "contradictions").iterdir()
    assert json.loads(contradiction.read_text())["evidence"]["entry"] == 5


@pytest.mark.parametrize(("owner", "step"), [(Incoming, "learn"), (EntryComparison, "compare")])
def test_a_member_killed_before_it_compared_a_statement_does_so_at_the_next_question(toy, monkeypatch, owner, step):
    def kill(*given):
        raise Killed

    open_again(toy, ledger_head=head(toy, 4, "dd" * 32))
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, kill)
        with pytest.raises(Killed):
            close(toy, statement=statement(toy, 4, "cd" * 32), trail="", round=2)
    assert "CONTRADICTION" not in log(toy)
    found = (
        f"CONTRADICTION: the operator signed two different entries 4: {'dd' * 8}… in operator-head.json and "
        f"{'cd' * 8}… in statements/round-0002.json"
    )
    assert found in open_again(toy, attempt="c" * 16)
    assert found not in open_again(toy, attempt="d" * 16), "it is done"


def interrupted(toy, ask, monkeypatch):
    """Ask in copies of the federation whose member is killed when it writes for the first, second, ... time."""
    for count in itertools.count(1):
        copy = open_toy(toy.folder.parent / f"killed-{count}")
        shutil.copytree(toy.folder, copy.folder)
        copy.transport.sent = toy.transport.sent
        left = iter(range(count - 1))

        def kill_at_last(step, left=left):
            def steps(*given):
                if next(left, None) is None:
                    raise Killed
                return step(*given)

            return steps

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", kill_at_last(lambda descriptor: None))
            patch.setattr(MemberStore, "log", kill_at_last(MemberStore.log))
            try:
                ask(copy)
                return
            except Killed:
                pass
        yield copy


CONTRADICTING = {
    "head": lambda toy: open_again(toy, ledger_head=head(toy, 4, "cd" * 32), attempt="c" * 16),
    "doubtful": lambda toy: close(toy, statement=statement(toy, 3, "cd" * 32), trail="", round=2),
    "statement": lambda toy: close(
        toy, statement=statement(toy, 4, "cd" * 32), trail=trail(toy, 4, ["cd" * 32]), round=2
    ),
    "told again": lambda toy: close(toy, statement=statement(toy, 3, hashes(toy)[2]), trail=trail(toy, 2, ["cd" * 32])),
    "apart": lambda toy: close(toy, trail=trail(toy, 6, ["cd" * 32])),
    "learned": lambda toy: close(
        toy, statement=statement(toy, 7, "ef" * 32), trail=trail(toy, 4, ["dd" * 32, "bc" * 32, "cd" * 32, "ef" * 32])
    ),
    "key": lambda toy: open_again(toy, ledger_head=with_new_key(toy, head(toy, 8, "cd" * 32), "fork.db")),
}


@pytest.mark.parametrize("what", first_few(3, CONTRADICTING))
def test_a_member_killed_between_any_two_writes_logs_the_contradiction_all_the_same(toy, monkeypatch, what):
    open_again(toy, ledger_head=head(toy, 4, "dd" * 32))
    close(toy, trail=trail(toy, 6, ["dd" * 32]))
    if what == "learned":  # a statement that came without its trail, which comes with it again
        close(toy, statement=statement(toy, 7, "ef" * 32), trail="", round=2)
    before, found, kills = len(log(toy)), "DOUBTFUL STATEMENT" if what == "doubtful" else "CONTRADICTION", 0
    for killed in interrupted(toy, CONTRADICTING[what], monkeypatch):
        if not on_disk(killed, "cd" * 32):
            continue  # it was killed before it had anything of it
        kills += 1
        open_again(killed, attempt="e" * 16, round=3)
        assert found in log(killed)[before:], f"killed with {on_disk(killed, 'cd' * 32)}"
        assert not (killed.home("north") / "incoming.json").exists()
    assert kills > 1


def test_the_head_of_the_first_opening_is_not_lost_to_a_crash(toy, monkeypatch):
    def open_first(toy, digest="cd" * 32):
        question = next(s.message for s in toy.transport.sent if (s.kind, s.client) == ("query.open", "north"))
        asked = {**question.fields, "ledger_head": head(toy, 4, digest), "attempt": digest[:8]}
        model = {f"model/{fingerprint(INITIAL)}": INITIAL}
        toy.member("north").answer("query.open", replace(question, fields=asked, groups=model))

    shutil.rmtree(toy.home("north"))
    kills = 0
    for killed in interrupted(toy, open_first, monkeypatch):
        is_open = (killed.home("north") / "state.json").exists()
        open_first(killed, "dd" * 32)
        if is_open:  # until then, no ledger is the member's
            kills += 1
            assert "CONTRADICTION: the operator signed two different entries 4" in log(killed)
    assert kills > 1


def with_new_key(toy, document, fork):
    """The document, signed with a key that replaced the operator's in entry 4 of a ledger that only it knows of."""
    keys, copy = KeyDirectory(toy.folder / "operator-keys"), toy.folder / fork
    shutil.copy(toy.out / "ledger.db", copy)
    with closing(open_store(str(copy))) as store:
        Ledger(store, keys).rotate_key()
        rotations, key = list(key_rotations(store, "it")), keys.key_of(Ledger(store, keys).state.operator)
    return signed_content({**json.loads(document)["document"], "key_rotations": rotations}, key).decode()


@pytest.mark.parametrize("shown", ["head", "receipt"])
@pytest.mark.parametrize("later", ["trail", "head", "apart"])
def test_a_change_of_the_operators_key_is_compared_with_what_is_shown_later(toy, shown, later):
    """Whatever named it first: it is an entry like any other."""
    if shown == "head":
        open_again(toy, ledger_head=with_new_key(toy, head(toy, 5, "ee" * 32), "one.db"))
    else:
        question = sent(toy, "query.receipt")
        receipt = with_new_key(toy, question.fields["receipt"], "one.db")
        toy.member("north").answer("query.receipt", replace(question, fields={**question.fields, "receipt": receipt}))
    assert "CONTRADICTION" not in log(toy)
    if later == "trail":
        told = {"statement": statement(toy, 5, "ee" * 32), "trail": trail(toy, 4, ["bc" * 32, "ee" * 32])}
        _, lines = close(toy, **told, round=2)
    elif later == "head":
        fork = with_new_key(toy, head(toy, 6, "ff" * 32), "two.db")
        lines = open_again(toy, ledger_head=fork, attempt="c" * 16)
    else:
        _, lines = close(toy, trail=trail(toy, 4, ["bc" * 32]))
    assert "CONTRADICTION: the operator signed two different entries 4: " in lines
    (kept,) = (toy.home("north") / "trails" / "doubtful").glob("key-change-*.json")
    assert f"trails/doubtful/{kept.name}" in lines


@pytest.mark.parametrize("is_before", [True, False])
def test_the_last_entry_of_a_doubtful_statement_is_compared(toy, is_before):
    """What is wrong with its lines does not make it less of a proof of another ledger."""
    document = json.loads(statement(toy, 4, "cd" * 32))["document"]
    document["lines"][-1]["text"] = "round 1: in other words"
    doubtful = {"statement": signed_content(document, operator_key(toy)).decode(), "trail": "", "round": 2}
    before = len(log(toy))
    if is_before:
        close(toy, **doubtful)
    open_again(toy, ledger_head=head(toy, 4, "dd" * 32))
    if not is_before:
        close(toy, **doubtful)
    lines = log(toy)[before:]
    assert "DOUBTFUL STATEMENT in round-0002: the line about entry 3" in lines
    (kept,) = on_disk(toy, "in other words")
    assert lines.count("CONTRADICTION: the operator signed two different entries 4: ") == 1
    assert f"{'cd' * 8}… in statements/doubtful/{kept.name}" in lines


def test_a_statement_after_a_gap_is_compared_also_if_there_is_no_room_for_it(toy):
    def early(number, digest):
        document = json.loads(statement(toy, number, digest))["document"]
        document["before"]["count"] = 5
        for line in document["lines"]:
            line["entry"] = number
        whole, _ = part_in(json.dumps({"document": document, "signer": "", "signature": ""}).encode(), "it")
        document["after"] = whole.before.then(whole.statement.lines).to_document()
        return {"statement": signed_content(document, operator_key(toy)).decode(), "trail": "", "round": 2}

    for number in range(20):
        close(toy, **early(10 + number, f"{number:02d}" * 32))
    _, lines = close(toy, **early(12, "dd" * 32))
    assert "not kept, since there are 20 early ones" in lines
    assert f"CONTRADICTION: the operator signed two different entries 12: {'02' * 8}… in statements/doubtful/" in lines
    _, lines = close(toy, **early(40, "dd" * 32))
    assert "CONTRADICTION" not in lines
    lines = open_again(toy, ledger_head=head(toy, 40, "cd" * 32))
    assert f"CONTRADICTION: the operator signed two different entries 40: {'dd' * 8}… in " in lines


@pytest.mark.parametrize("is_before", [True, False])
def test_a_head_is_kept_beside_a_trail_that_names_its_entry(toy, is_before):
    """`commonweal ledger verify` reads heads and no trails."""
    fork = {"ledger_head": head(toy, 4, "dd" * 32)}
    if is_before:
        open_again(toy, **fork)
    close(toy, statement=statement(toy, 5, "cd" * 32), trail=trail(toy, 4, ["dd" * 32, "cd" * 32]), round=2)
    if not is_before:
        assert "refused to go back to round 2" in open_again(toy, **fork)
    open_again(toy, ledger_head=head(toy, 6, "ef" * 32), attempt="c" * 16)
    home = toy.home("north")
    (kept,) = (file for file in on_disk(toy, "dd" * 32) if file.parent.name == "operator-heads")
    assert json.loads((home / "operator-head.json").read_text())["document"]["head"]["number"] == 6
    found = CliRunner().invoke(app, ["ledger", "verify", str(toy.out / "ledger.db"), "--against", str(kept)])
    assert found.exit_code == 1
    assert "the ledger has the entry that" in " ".join(found.output.split())


def test_a_member_that_lost_its_folder_starts_with_the_first_trail(toy):
    (toy.home("north") / "heads.txt").unlink()
    head, lines = close(toy, trail=trail(toy, 3, hashes(toy)[2:]))
    assert head["number"] == 3
    assert "ERROR the first trail seen here starts with entry 3; entries before it cannot be compared. Unless " in lines


def test_a_folder_restored_from_a_backup_catches_up(tmp_path):
    """What was seen since the backup is missing in one trail, and the next one brings it."""
    toy = make_toy(tmp_path / "f", rounds=4, **RULES)
    heads = toy.home("north") / "heads.txt"
    old = []

    def restore(client, kind):
        if (client, kind) == ("north", "query.close"):
            old.append(heads.read_text() if heads.exists() else "")
            if len(old) == 3:
                heads.write_text(old[1])

    toy.transport.before_answer = restore
    toy.coordinate()
    errors = [line for line in log(toy).splitlines() if " ERROR " in line]
    assert len(errors) == 1
    assert "it starts with entry 5, but entry 3 is the last one seen here" in errors[0]
    numbers = [int(line.split()[0]) for line in heads.read_text().splitlines()]
    assert list(dict.fromkeys(numbers)) == [1, 2, 3, 5, 4, 6]
    assert "CONTRADICTION" not in log(toy)


def test_a_trail_ends_with_its_statement_though_others_enter_more_in_the_meantime(tmp_path):
    toy = make_toy(tmp_path / "f", rounds=2, **RULES)

    def enter(client, kind):
        if kind == "query.close" and client == "north":
            with closing(open_store(str(toy.out / "ledger.db"))) as store:
                guest = Draft(kind="admission", body={"members": [{"client": f"guest {len(entered)}", "key": None}]})
                enter_by_force(store, KeyDirectory(toy.folder / "operator-keys").current(), guest)
            entered.append(client)

    entered = []
    toy.transport.before_answer = enter
    toy.coordinate()
    assert len(entered) == 2
    for name in NAMES:
        assert "ERROR" not in log(toy, name)
        assert "round 2: 3 of 3 other members saw the same ledger" in log(toy, name)


def test_two_trails_with_the_same_ends_are_both_kept(toy):
    second = trail(toy, 1, ["cd" * 32] * (len(hashes(toy)) - 1) + hashes(toy)[-1:])
    _, lines = close(toy, trail=second)
    assert "CONTRADICTION: the operator signed two different entries 1" in lines
    (kept,) = (toy.home("north") / "contradictions").iterdir()
    evidence = json.loads(kept.read_text())["evidence"]
    assert (toy.home("north") / evidence["second"][1]).read_text() == second
    assert (toy.home("north") / evidence["first"][1]).read_text() != second


@dataclass
class HidingOperator(MemoryTransport):
    """From round 2 on, one member is named to nobody, and nobody to it."""

    def ask(self, kind, questions, *, seconds):
        if kind == "query.open" and next(iter(questions.values())).fields["round"] > 1:
            questions = {client: self._hiding(client, question) for client, question in questions.items()}
        return super().ask(kind, questions, seconds=seconds)

    def _hiding(self, client, question):
        tables = {name: json.loads(question.fields[name]) for name in ("peers", "heads")}
        for table in tables.values():
            for name in [name for name in table if DECEIVED in (name, client)]:
                del table[name]
        return replace(
            question, fields={**question.fields, **{name: json.dumps(table) for name, table in tables.items()}}
        )


def test_members_who_are_no_longer_named_are_missed(tmp_path):
    toy = make_toy(tmp_path / "f", rounds=2, **RULES)
    toy.transport = HidingOperator(toy.transport.members)
    toy.coordinate()
    assert "round 2: 2 of 3 other members saw the same ledger up to its last entry; NO HEAD of west, and the " in log(
        toy
    )
    assert (
        "round 2: 0 of 3 other members saw the same ledger up to its last entry; NO HEAD of north, south, east, "
        in (log(toy, DECEIVED))
    )


def test_a_member_to_whom_nobody_was_ever_named_is_told_so(toy):
    (toy.home("north") / "peers.json").unlink()
    assert "the operator names no other members, so NO HEAD can be compared" in open_again(toy, peers="{}", heads="{}")


def test_those_who_left_are_still_named_with_their_last_heads(tmp_path):
    toy = make_toy(tmp_path / "f", rounds=3, **RULES)
    home = toy.home(DECEIVED)
    home.mkdir()
    (home / "withdraw").touch()
    toy.coordinate()
    assert "withdrawn" in log(toy, DECEIVED)
    assert "NO HEAD" not in log(toy).partition("round 3: 2 of 3")[0]
    assert "round 3: 2 of 3 other members saw the same ledger up to its last entry; NO HEAD of west since round 2" in (
        log(toy)
    ), "it has signed none since, but is not hidden"


def test_a_head_of_an_entry_that_is_shown_later_is_compared_then(toy):
    assert "CONTRADICTION" not in open_again(toy, heads=head_of(toy, "west", 4, "ee" * 32))
    later = {"statement": statement(toy, 4, "dd" * 32), "round": 2}
    _, lines = close(toy, trail=trail(toy, 4, ["dd" * 32]), **later)
    assert "CONTRADICTION: entry 4 of the ledger is dddd" in lines
    assert "by the head that west signed" in lines
    (kept,) = (toy.home("north") / "contradictions").iterdir()
    assert json.loads(kept.read_text())["evidence"]["signed"]["hash"] == "ee" * 32
    assert json.loads((toy.home("north") / "peer-heads.json").read_text()) == {}


def test_a_head_that_agrees_with_what_is_shown_later_is_no_contradiction(toy):
    open_again(toy, heads=head_of(toy, "west", 4, "dd" * 32))
    later = {"statement": statement(toy, 4, "dd" * 32), "round": 2}
    _, lines = close(toy, trail=trail(toy, 4, ["dd" * 32]), **later)
    assert "CONTRADICTION" not in lines
    assert not (toy.home("north") / "contradictions").exists()


def test_false_keys_do_not_use_up_the_room_for_heads(toy):
    for number in range(34):
        open_again(toy, peers=json.dumps(dict.fromkeys(NAMES[1:], f"false key {number}")))
    lines = open_again(toy, heads=head_of(toy, "west", 3, "ee" * 32))
    assert "the operator shows two ledgers" in lines
    assert on_disk(toy, json.loads(head_of(toy, "west", 3, "ee" * 32))["west"]["signature"])
    assert len(list((toy.home("north") / "contradictions").iterdir())) == 101


def test_contradictions_are_not_overwritten_if_the_member_moves_one_away(toy):
    kept, folder = Contradictions(MemberStore(toy.home("north"))), toy.home("north") / "contradictions"
    for text in "abc":
        kept.keep(text, {})
    min(folder.iterdir()).unlink()
    kept.keep("d", {})
    kept.keep("b", {})
    assert [json.loads(file.read_text())["text"] for file in sorted(folder.iterdir())] == ["b", "c", "d"]


def test_large_unsigned_statements_leave_room_for_signed_ones(toy):
    for number in range(4):
        close(toy, round=number + 10, trail="", statement=f"{number}" + "x" * (32 * 2**20 - 1))
    contradicting = statement(toy, 3, "ee" * 32)
    _, lines = close(toy, trail="", statement=contradicting)
    assert "(kept as doubtful/round-0001-" in lines
    folder = toy.home("north") / "statements" / "doubtful"
    assert [file.read_text() for file in folder.iterdir()] == [contradicting]


def test_rubbish_leaves_room_for_heads_and_trails_that_the_operator_signed(toy):
    for number in range(25):
        close(toy, trail=f"no JSON {number}")
    _, lines = close(toy, trail=trail(toy, 4, ["no hash"]))
    assert "it must list hashes of entries (trails/doubtful/doubtful-" in lines
    lines = open_again(toy, ledger_head=head(toy, 0, "cd" * 32))
    assert "does not name the ledger's last entry" in lines
    assert "(trails/doubtful/doubtful-" in lines


def test_what_a_question_can_write_is_limited(toy):
    head, lines = close(toy, trail=trail(toy, 4, ["cd" * 32] * 120_000), outcome="x" * 5_000_000)
    assert head["number"] == 3
    assert "at most 8000000 are read" in lines
    assert len(lines) < 5000
    assert not (toy.home("north") / "trails" / "doubtful").exists()


def test_doubtful_statements_with_long_texts_are_logged_in_short(toy):
    document = json.loads(sent(toy, "query.close").fields["statement"])["document"]
    content = signed_content({**document, "client": "x" * 1_000_000}, operator_key(toy)).decode()
    _, lines = close(toy, trail="", statement=content)
    assert "DOUBTFUL STATEMENT" in lines
    assert len(lines) < 5000


@pytest.mark.parametrize("given", [5, ["a"], "\ud800", "{}", {"a": 1}])
def test_what_is_no_trail_is_doubted_without_a_traceback(toy, given):
    before = len(log(toy))
    with nullcontext() if isinstance(given, str) else pytest.raises(QuestionError, match=r"^trail must be a text"):
        head, _ = close(toy, trail=given)
        assert head["number"] == 3
    assert "DOUBTFUL TRAIL" in log(toy)[before:]


def test_more_members_than_a_federation_has_are_not_learned(toy):
    before = (toy.home("north") / "peers.json").read_text()
    lines = open_again(toy, peers=json.dumps({f"member {number}": "a key" for number in range(2000)}))
    assert "ERROR the operator names 2000 more members; at most 1000 are known here" in lines
    assert (toy.home("north") / "peers.json").read_text() == before


def test_a_first_trail_that_does_not_start_with_the_first_entry_is_an_error(toy):
    """A second ledger with other numbers: nothing in it can be compared with what the others see."""
    (toy.home("north") / "heads.txt").unlink()
    shutil.rmtree(toy.home("north") / "trails")
    shutil.rmtree(toy.home("north") / "statements")
    (toy.home("north") / "account.json").unlink()
    digest = "ab" * 32
    _, lines = close(toy, statement=statement(toy, 1003, digest), trail=trail(toy, 1003, [digest]))
    assert "ERROR the first trail seen here starts with entry 1003; entries before it cannot be compared" in lines
    lines = open_again(toy, heads=head_of(toy, "south", 3, hashes(toy)[2]))
    assert "NO HEAD of south that can be compared: it is of an entry never shown here" in lines


def test_a_statement_that_is_nested_deeply_hides_nothing_that_came_with_it(toy, monkeypatch):
    """It can be parsed, and has no canonical form, since Python follows nesting only so far: here, 50 lists."""
    real = rfc8785.dumps

    def dumps(document):
        if "[" * 50 in json.dumps(document):
            raise RecursionError
        return real(document)

    def nested(depth):
        deep = json.loads("[" * depth + "]" * depth)
        signed = json.loads(statement(toy, 4, OTHER))
        return json.dumps({**signed, "document": {**signed["document"], "x": deep}})

    monkeypatch.setattr(rfc8785, "dumps", dumps)
    brought = {"statement": nested(50), "trail": trail(toy, 1, [OTHER] * 3), "ledger_head": head(toy, 3, OTHER)}
    question, before = sent(toy, "query.close"), len(log(toy))
    toy.member("north").answer("query.close", replace(question, fields={**question.fields, **brought}))
    said = log(toy)[before:]
    assert "DOUBTFUL STATEMENT" in said
    assert "CONTRADICTION: the operator signed two different entries 1" in said, "by the trail"
    assert "CONTRADICTION: the operator signed two different entries 3" in said, "by the head"


def test_a_document_that_makes_the_program_fail_hides_no_other_and_is_kept(toy, monkeypatch):
    def fail(*given):
        raise ZeroDivisionError

    question = sent(toy, "query.close")
    odd = {"statement": statement(toy, 4, OTHER), "ledger_head": head(toy, 3, OTHER), "receipt": "rubbish", "round": 2}
    with monkeypatch.context() as patch:
        patch.setattr(Incoming, "learn", fail)
        for _ in range(2):  # the second question takes in again what came with the first
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                toy.member("north").answer("query.close", replace(question, fields={**question.fields, **odd}))
    assert "CONTRADICTION: the operator signed two different entries 3" in log(toy)
    assert "DOUBTFUL RECEIPT" in log(toy)
    assert (toy.home("north") / "statements" / "round-0002.json").read_text() == odd["statement"]
    (failed,) = (toy.home("north") / "failed").glob("*.json")
    assert json.loads(failed.read_text())["ledger_head"] == odd["ledger_head"]
    assert f"(ZeroDivisionError()); what came is kept as failed/{failed.name}" in log(toy)


@pytest.mark.parametrize("name", ["statement", "trail", "ledger_head", "receipt"])
def test_what_is_no_text_is_refused_doubted_and_kept(toy, name):
    before = len(log(toy))
    signed = {"statement": statement, "trail": lambda *entry: trail(toy, 1, [OTHER] * 3)}.get(name, head)(toy, 4, OTHER)
    with pytest.raises(QuestionError, match=f"^{name} must be a text"):
        close(toy, **{name: [signed]})
    assert "DOUBTFUL " in log(toy)[before:]
    assert on_disk(toy, OTHER)


@pytest.mark.parametrize("shown", ["receipt", "statement", "trail"])
def test_a_key_that_was_replaced_is_not_in_use_whatever_file_says_so(toy, shown):
    """Else the member would keep what the old key signs later, and that proves nothing to others."""
    kind = "query.receipt" if shown == "receipt" else "query.close"
    question, old = sent(toy, kind), operator_key(toy)
    documents = {"receipt": question.fields.get("receipt"), "statement": statement(toy, 2, OTHER)}
    given = with_new_key(toy, documents.get(shown) or trail(toy, 1, hashes(toy)), "one.db")
    toy.member("north").answer(kind, replace(question, fields={**question.fields, shown: given}))
    before = len(log(toy))
    with suppress(KeyError):
        close(
            toy,
            statement=statement(toy, 5, "ee" * 32),
            trail=trail(toy, 3, [hashes(toy)[-1], OTHER, "ee" * 32]),
            round=2,
        )
    open_again(toy, ledger_head=head(toy, 7, "dd" * 32))
    said = log(toy)[before:]
    for what in ("DOUBTFUL STATEMENT", "DOUBTFUL TRAIL", "DOUBTFUL HEAD"):
        assert any(what in line and f"{old.public[:16]}…, which entry 4 replaced" in line for line in said.splitlines())
    assert "refused to go back to round 2: the head of the ledger cannot be the operator's" in said
    assert not (toy.home("north") / "statements" / "round-0002.json").exists()


def test_a_document_that_names_the_change_of_its_own_key_is_doubted(toy):
    changed = json.loads(with_new_key(toy, head(toy, 5, "ee" * 32), "one.db"))["document"]
    assert "DOUBTFUL HEAD" in open_again(toy, ledger_head=signed_content(changed, operator_key(toy)).decode())


@pytest.mark.parametrize("is_shown", [True, False])
def test_a_member_without_a_statement_compares_heads_too(toy, is_shown):
    """It was shown only heads of openings; another member signed what the ledger of the others has there."""
    shutil.rmtree(toy.home("north"))
    opening, digest = sent(toy, "query.open"), fingerprint(INITIAL)
    key = NodeKey.read(toy.folder / "members" / "south" / "node-key").public

    def open_round(number, **fields):
        asked = {
            **opening.fields,
            "round": number,
            "attempt": f"{number}" * 16,
            "rounds": 5,
            "models": [digest],
            **fields,
        }
        toy.member("north").answer("query.open", Message(fields=asked, groups={f"model/{digest}": INITIAL}))

    open_round(1, ledger_head=head(toy, 2, hashes(toy)[1]))
    peers = {"peers": json.dumps({"south": key}), "heads": head_of(toy, "south", 3, OTHER)}
    open_round(2, ledger_head=head(toy, 3 if is_shown else 2, hashes(toy)[2 if is_shown else 1]), **peers)
    said = log(toy)
    assert ("CONTRADICTION: entry 3 of the ledger is" in said) == is_shown
    assert "round 2: 0 of " in said
    assert ("NO HEAD of south that can be compared: it was shown entry 3" in said) != is_shown


def test_a_settled_round_without_a_statement_is_logged(toy):
    said = open_again(toy, settled_round=1)
    assert "NO STATEMENT" not in said
    state = MemberStore(toy.home("north")).load()
    state.told_round = 0
    MemberStore(toy.home("north")).save(state)
    said = open_again(toy, attempt="c" * 16)
    assert "round 2: NO STATEMENT has come of round 1, which is said to be settled with this member" in said


@pytest.mark.parametrize("is_waiting", [False, True])
def test_a_contradiction_is_logged_also_if_the_program_was_killed_before_that(toy, monkeypatch, is_waiting):
    """The head of another member is passed on once, and never again."""
    real = MemberStore.log

    def die(store, line):
        if "CONTRADICTION" in line:
            raise Killed
        real(store, line)

    def bring_it():
        if is_waiting:
            close(toy, statement=statement(toy, 4, "dd" * 32), trail=trail(toy, 4, ["dd" * 32]), round=2)
        else:
            open_again(toy, heads=head_of(toy, "south", 3, OTHER))

    if is_waiting:
        open_again(toy, heads=head_of(toy, "south", 4, OTHER))
    with monkeypatch.context() as patch:
        patch.setattr(MemberStore, "log", die)
        with pytest.raises(Killed):
            bring_it()
    assert "CONTRADICTION" not in log(toy)
    if is_waiting:
        assert json.loads((toy.home("north") / "peer-heads.json").read_text())["south"], "until it is logged"
    open_again(toy, heads="{}", attempt="e" * 16, round=3)
    assert "CONTRADICTION: entry " in log(toy)
    count = log(toy).count("CONTRADICTION")
    open_again(toy, heads="{}", attempt="f" * 16, round=3)
    assert log(toy).count("CONTRADICTION") == count, "once"


def test_what_is_told_otherwise_than_a_statement_says_is_logged_also_after_a_crash(toy, monkeypatch):
    real, question = MemberStore.log, sent(toy, "query.close")
    shutil.rmtree(toy.home("north") / "statements")
    (toy.home("north") / "account.json").unlink()

    def die(store, line):
        if "The statement counts" in line:
            raise Killed
        real(store, line)

    with monkeypatch.context() as patch:
        patch.setattr(MemberStore, "log", die)
        with pytest.raises(Killed):
            close(toy, outcome="eliminated, without a transfer")
    assert (toy.home("north") / "statements" / "round-0001.json").read_text() == question.fields["statement"]
    open_again(toy)
    assert "ERROR round 1: 'eliminated' was told with the statement, but its line says 'retained'" in log(toy)
