"""Whatever the operator signs, a member keeps it, and compares what it says of the ledger with what it was shown."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from commonweal.cli.main import app
from commonweal.errors import CommonwealError, FederationError
from commonweal.ledger.canonical import hash_of
from commonweal.ledger.chain import keys_since
from commonweal.ledger.entries import signed_message
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.keys import public_pem
from commonweal.ledger.signed_files import known_head_in, signed_content
from commonweal.ledger.statement_parts import part_in
from commonweal.remote.member import incoming, kept_statements, receipts
from commonweal.remote.member.member_file import read_member
from commonweal.remote.member.seen_entries import SeenEntries
from commonweal.remote.member.store import MemberStore
from commonweal.remote.messages.message import Message
from tests.remote.hostile import VICTIM, files_with, log, resigned, run, state, with_fields
from tests.remote.test_shown_heads import Killed, in_round
from tests.remote.toy import NAMES, make_toy, open_toy

FORK = "dd" * 32  # the hash of entry 4 in a ledger that only the victim is shown; the others have another entry 4
FEW = {"names": NAMES[:3]}
TWO_LEDGERS = f"CONTRADICTION: the operator signed two different entries 4: {FORK[:16]}…"


def operator_key(toy):
    return KeyDirectory(toy.folder / "operator-keys").current()


def crafted_rotation(key):
    """A change of key, signed by the operator, to a key that is no text that can be encoded."""
    body = {"operator": "\ud800", "proof": "00"}
    content = json.dumps({"kind": "key-rotation", "number": 3, "body": body})
    return {"content": content, "signature": key.sign(signed_message(hash_of(content.encode())))}


def forked(toy, question, *, rotations=(), trail=True):
    """The statement that closes round 2, and its trail, with another last entry."""

    def last_entry(document):
        document["head"]["hash"] = FORK

    def last_hash(document):
        document["hashes"][-1] = FORK
        document["key_rotations"] = list(rotations)

    statement = resigned(toy, question.fields["statement"], last_entry)
    shown = resigned(toy, question.fields["trail"], last_hash) if trail else ""
    return with_fields(question, statement=statement, trail=shown)


def run_until_stopped(tmp_path, twist):
    """The victim refuses to open round 3 on the ledger of the others, and proves that it was shown another one."""
    with pytest.raises(FederationError, match=f"{VICTIM} saw round 2 settled, and can prove it"):
        run(tmp_path, twist, **FEW)
    return open_toy(tmp_path / "f", FEW["names"])


def test_a_crafted_change_of_key_in_a_trail_hides_no_second_ledger(tmp_path):
    def close(toy, operator, question, questions):
        return {**questions, VICTIM: forked(toy, question, rotations=[crafted_rotation(operator_key(toy))])}

    toy = run_until_stopped(tmp_path, in_round(2, "query.close", close))
    assert TWO_LEDGERS in log(toy)
    assert "the operator shows two ledgers" in log(toy, "south")


def test_a_trail_that_makes_the_program_fail_is_kept_and_the_last_entry_of_its_statement_counts(tmp_path, monkeypatch):
    def fail(*given, **options):
        raise ZeroDivisionError

    def close(toy, operator, question, questions):
        with monkeypatch.context() as patch:
            patch.setattr(incoming, "hashes_in_trail", fail)
            operator.extra("query.close", forked(toy, question))
        return {name: question for name, question in questions.items() if name != VICTIM}

    toy = run_until_stopped(tmp_path, in_round(2, "query.close", close))
    assert "DOUBTFUL TRAIL of the ledger's entries: it cannot be read (ZeroDivisionError) (trails/doubtful/" in log(toy)
    (kept,) = toy.home(VICTIM).glob("trails/doubtful/doubtful-*.json")
    assert FORK in kept.read_text()
    assert TWO_LEDGERS in log(toy)


def test_a_member_killed_before_it_notes_a_last_entry_knows_it_by_its_files(tmp_path, monkeypatch):
    def kill(*given, **options):
        raise Killed

    def close(toy, operator, question, questions):
        with monkeypatch.context() as patch:
            patch.setattr(incoming.Incoming, "learn", kill)
            with pytest.raises(Killed):
                operator.extra("query.close", forked(toy, question))
        return {name: question for name, question in questions.items() if name != VICTIM}

    toy = run_until_stopped(tmp_path, in_round(2, "query.close", close))
    assert f"{TWO_LEDGERS} in statements/round-0002.json" in log(toy)


def test_a_member_killed_between_a_trail_and_the_list_of_its_entries_knows_them_by_the_file(tmp_path, monkeypatch):
    def kill(*given, **options):
        raise Killed

    def close(toy, operator, question, questions):
        with monkeypatch.context() as patch:
            patch.setattr(SeenEntries, "_append", kill)
            with pytest.raises(Killed):
                operator.extra("query.close", forked(toy, question))
        (toy.home(VICTIM) / "statements" / "round-0002.json").unlink()  # only the trail is left
        return {name: question for name, question in questions.items() if name != VICTIM}

    toy = run_until_stopped(tmp_path, in_round(2, "query.close", close))
    assert f"{TWO_LEDGERS} in trails/000004-000004-" in log(toy)


def test_a_member_killed_while_it_lists_the_entries_of_a_trail_knows_them_by_the_file(tmp_path, monkeypatch):
    """Another trail with the entries that are not listed contradicts it, and the same one completes the list."""
    append = SeenEntries._append

    def torn(seen, entries, name):
        append(seen, entries[:3], name)
        raise Killed

    def longer(toy, question, first):
        def last_entry(document):
            document["head"] = {"number": 10, "hash": FORK}

        def entries(document):
            document["hashes"] += [f"{number:064x}" for number in range(first, first + 6)] + [FORK]

        changes = {"statement": last_entry, "trail": entries}
        return with_fields(
            question, **{name: resigned(toy, question.fields[name], change) for name, change in changes.items()}
        )

    def close(toy, operator, question, questions):
        with monkeypatch.context() as patch:
            patch.setattr(SeenEntries, "_append", torn)
            with pytest.raises(Killed):
                operator.extra("query.close", longer(toy, question, 100))
        operator.extra("query.close", longer(toy, question, 200))
        assert "CONTRADICTION: the operator signed two different entries 4" in log(toy)
        operator.extra("query.close", longer(toy, question, 100))
        raise Killed

    with pytest.raises(Killed):
        run(tmp_path, in_round(1, "query.close", close), **FEW)
    home = next(tmp_path.glob(f"**/{VICTIM}/home"))
    numbers = [int(line.split()[0]) for line in (home / "heads.txt").read_text().splitlines()]
    assert set(numbers) == set(range(1, 11))


def test_every_statement_and_trail_is_listed_once(tmp_path):
    toy = make_toy(tmp_path / "f", rounds=2, **FEW)
    toy.coordinate()
    home = toy.home(VICTIM)
    listed = {line.split()[2] for line in (home / "heads.txt").read_text().splitlines()}
    kept = [*home.glob("statements/*.json"), *home.glob("trails/*.json")]
    assert listed == {str(file.relative_to(home)) for file in kept}
    seen = SeenEntries(MemberStore(home), read_member(toy.member(VICTIM).file), state(toy).book)
    assert not list(seen.unlisted())


def odd(name, value):
    def change(document):
        document["head"][name] = value

    return change


ODD_HEADS = [
    odd("hash", FORK.upper()),
    odd("hash", FORK + "\n"),
    odd("hash", FORK[:10]),
    odd("hash", None),
    odd("number", "4"),
    odd("number", "1" + "0" * 400),
    odd("number", 3.7),
    odd("number", 1e300),
    odd("number", True),
    odd("number", 0),
]


def test_a_last_entry_that_is_written_otherwise_than_in_ledgers_is_refused_by_all_readers(tmp_path):
    """Members and auditors must not remember two different entries by the same file."""
    toy = make_toy(tmp_path / "f", rounds=1, **FEW)
    toy.coordinate()
    closing = toy.transport.sent
    question = next(s.message for s in closing if (s.to_member, s.client, s.kind) == (True, VICTIM, "query.close"))
    home, file = toy.home(VICTIM), tmp_path / "odd.json"
    for number, change in enumerate(ODD_HEADS, start=1):
        statement = resigned(toy, question.fields["statement"], change)
        fields = {"statement": statement, "trail": "", "number": "00", "round": 2}
        answer = toy.member(VICTIM).answer("query.close", with_fields(question, **fields))
        assert answer.fields["kept"] is False
        assert len(list(home.glob("statements/doubtful/other-*.json"))) == number, "the operator signed it"
        for read in (part_in, known_head_in):
            with pytest.raises(CommonwealError):
                read(statement.encode(), "it")
        file.write_text(statement)
        found = CliRunner().invoke(app, ["ledger", "verify", str(toy.out / "ledger.db"), "--against", str(file)])
        assert isinstance(found.exception, CommonwealError), found.output
    assert log(toy).count("DOUBTFUL STATEMENT") == len(ODD_HEADS)
    assert [file.name for file in home.glob("statements/*.json")] == ["round-0001.json"]


def test_a_head_of_an_opening_that_cannot_be_read_is_kept_and_does_not_stand_in_the_way(tmp_path):
    def opened(toy, operator, question, questions):
        for change in (odd("number", 1e300), odd("hash", FORK.upper())):
            head = resigned(toy, question.fields["ledger_head"], change)
            answer = operator.extra("query.open", question, ledger_head=head)
            assert "sample_count" in answer.fields

    toy = run(tmp_path, in_round(2, "query.open", opened), rounds=2, **FEW)
    assert log(toy).count("DOUBTFUL HEAD of the ledger") == 2
    assert len(list(toy.home(VICTIM).glob("trails/doubtful/doubtful-*.json"))) == 2
    assert state(toy).settled_round == 2


def test_what_makes_the_program_fail_is_kept_and_doubted(tmp_path, monkeypatch):
    """A statement and a receipt, whatever it is that goes wrong while they are read."""

    def fail(*given, **options):
        raise ZeroDivisionError

    toy = make_toy(tmp_path / "f", rounds=1, **FEW)
    toy.coordinate()
    home = toy.home(VICTIM)
    asked = {s.kind: s.message for s in toy.transport.sent if s.to_member and s.client == VICTIM}

    def ask(kind, **fields):
        return toy.member(VICTIM).answer(kind, with_fields(asked[kind], number="00", **fields)).fields

    statement = resigned(toy, asked["query.close"].fields["statement"], odd("hash", FORK))
    with monkeypatch.context() as patch:
        patch.setattr(kept_statements, "faults_of_part", fail)
        assert "it cannot be read (ZeroDivisionError)" in ask("query.close", statement=statement, round=2)["doubt"]
        patch.setattr(receipts, "signed_in", fail)
        ask("query.receipt")
    assert "DOUBTFUL RECEIPT in doubtful-0001-1.json: it cannot be read (ZeroDivisionError)" in log(toy)
    (kept,) = home.glob("statements/doubtful/other-*.json")
    assert kept.read_text() == statement


def test_a_crafted_change_of_key_is_no_change_of_key_for_any_reader(tmp_path):
    toy = make_toy(tmp_path / "f", rounds=1, **FEW)
    toy.coordinate()
    key, home, file = operator_key(toy), toy.home(VICTIM), tmp_path / "crafted.json"
    crafted = crafted_rotation(key)
    assert keys_since(key.public, state(toy).book, [crafted]) == [key.public]
    ledger, public = str(toy.out / "ledger.db"), next((toy.folder / "operator-keys").glob("*.pub.pem"))
    for name, command in (
        ("statements/round-0001.json", ["ledger", "verify", ledger, "--against"]),
        ("receipts/round-0001-1.json", ["ledger", "verify", ledger, "--receipt"]),
        ("statements/round-0001.json", ["verify-statement", "--key", str(public)]),
    ):
        document = json.loads((home / name).read_text())["document"] | {"key_rotations": [crafted]}
        file.write_bytes(signed_content(document, key))
        found = CliRunner().invoke(app, [*command, str(file)])
        assert (found.exit_code, found.exception) == (0, None), found.output


def test_an_early_statement_is_an_error_and_its_last_entry_is_compared(tmp_path):
    """It starts after lines that were never sent; what it says of the ledger is signed all the same."""

    def early(document):
        document["head"]["hash"] = FORK
        for end in ("before", "after"):
            document[end]["count"] += 5
        part, _ = part_in(json.dumps({"document": document, "signer": "", "signature": ""}).encode(), "it")
        document["after"] = part.before.then(part.statement.lines).to_document()

    def close(toy, operator, question, questions):
        statement = resigned(toy, question.fields["statement"], early)
        return {**questions, VICTIM: with_fields(question, statement=statement, trail="")}

    toy = run(tmp_path, in_round(2, "query.close", close), **FEW)
    assert "ERROR the statement starts after line 7, but only 2 lines are kept here" in log(toy)
    assert f"{TWO_LEDGERS} in statements/doubtful/early-round-0002-" in log(toy)


def test_whatever_question_brings_a_statement_it_is_kept_and_compared(tmp_path):
    """One for another ledger or client, one without a number, and one that closes no round."""

    def close(toy, operator, question, questions):
        operator.extra("query.close", question)
        home = toy.home(VICTIM)
        closing = {"book": "0" * 64}, {"client": "south"}, {"client": None}, {"number": None}
        asked = [("query.close", {**question.fields, "number": "00", **change}) for change in closing]
        others = ("query.open", "query.report", "query.receipt", "query.nothing")
        last = {kind: operator.last("query.open" if kind == others[-1] else kind, 2) for kind in others}
        asked += [(kind, {**question.fields, "number": "00"}) for kind, question in last.items()]
        for place, (kind, fields) in enumerate(asked, start=1):
            before, digest = len(log(toy)), f"{place:064x}"
            statement = resigned(toy, question.fields["statement"], odd("hash", digest))
            operator._ask_one(VICTIM, kind, Message(fields={**fields, "statement": statement}, groups={}))
            said = log(toy)[before:]
            assert "DOUBTFUL STATEMENT in round-0002: entry 4 is" in said
            assert ("ERROR refused a question" in said) == (place <= 4 or kind == "query.nothing"), (kind, fields)
            assert [file for file in home.glob("statements/doubtful/*.json") if digest in file.read_text()]

    run(tmp_path, in_round(2, "query.close", close), rounds=2, **FEW)


OTHER = "ab" * 32  # a ledger of the same operator that this member has no part in
ANOTHER_ENTRY = {"number": 100, "hash": "cd" * 32}


def of_another_ledger(key, kind):
    """What the operator signs for this member of another ledger."""
    heading = {"book": OTHER, "name": "other", "at": "2026-01-01T00:00:00.000000Z", "key_rotations": []}
    if kind == "head":
        head = {"format": "commonweal.head/1", "head": ANOTHER_ENTRY, **heading}
        return {"ledger_head": signed_content(head, key).decode()}
    facts = {"client": VICTIM, "client_key": None, "currency": "EUR", "minor_digits": 2, "worth": "1"}
    sums = {"settlement": "transfers", "lines": [], "balance": "0", "accrued": "0"}
    statement = {"format": "commonweal.statement/1", "head": ANOTHER_ENTRY, **facts, **sums, **heading}
    trail = {"format": "commonweal.trail/1", "first": 1, "hashes": ["cd" * 32] * 100, **heading}
    return {
        name: signed_content(document, key).decode() for name, document in (("statement", statement), ("trail", trail))
    }


@pytest.mark.parametrize("kind", ["head", "statement"])
def test_before_a_round_was_opened_nothing_of_another_ledger_is_kept(tmp_path, kind):
    """It would contradict all that is told of the member's own ledger, and prove nothing."""

    def first(toy, operator, question, questions):
        folder, key = toy.folder / "members" / VICTIM, operator_key(toy)
        (folder / "operator.pem").write_bytes(public_pem(key.public))
        with (folder / "member.toml").open("a") as file:
            file.write('operator_key_file = "operator.pem"\n')
        given = of_another_ledger(key, kind)
        operator.extra("query.open", question, book=OTHER, models=["00" * 32], **given)

    toy = run(tmp_path, in_round(1, "query.open", first), rounds=1, **FEW)
    home = toy.home(VICTIM)
    assert sorted(file.name for file in home.glob("statements/*.json")) == ["round-0001.json"]
    assert "operator-head.json" in {file.name for file in home.iterdir()}, "of the opening, once it succeeded"
    assert not any(OTHER in file.read_text(errors="replace") for file in home.rglob("*.json"))
    assert not any(word in log(toy) for word in ("CONTRADICTION", "DOUBTFUL", "refused to go back"))


@pytest.mark.parametrize(("field", "kind"), [("ledger_head", "query.open"), ("trail", "query.close")])
def test_heads_and_trails_of_known_entries_that_say_more_are_kept(tmp_path, field, kind):
    """Whatever it promises, the operator may deny it later."""
    toy, promise = run(tmp_path, lambda *asked: None, names=NAMES[:2], rounds=2), "round 2 is paid twice"
    assert not (toy.home(VICTIM) / "trails" / "doubtful").exists()
    text = resigned(toy, toy.transport.last(kind).fields[field], lambda document: document.update(note=promise))
    for _ in range(2):
        toy.transport.extra("train.iteration", **{field: text})
    (place,) = files_with(toy, promise)
    assert f"a head or trail says more than others of its format ({place})" in log(toy)
