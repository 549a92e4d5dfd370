"""Only the ledger is restored from a backup: the checkpoint and the members know of entries that it has lost."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from dataclasses import replace

import pytest

from commonweal.errors import FederationError
from commonweal.ledger.amendments import Amendment
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.ledger import Ledger
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.seen_heads import SeenHead
from commonweal.ledger.sql.store import open_store
from commonweal.remote.messages.message import Message
from tests.remote.test_faults import signed_again
from tests.remote.toy import NAMES, make_toy, settled

RULES = {"rounds": 2, "mechanism": 'mu = "inf"', "learning": "iteration_limit = 1", "names": NAMES[:3]}


@pytest.fixture
def toy(tmp_path):
    return make_toy(tmp_path / "f", **RULES)


def ledger_of(toy):
    return closing(open_store(str(toy.out / "ledger.db")))


def rotate_key(toy):
    with ledger_of(toy) as store:
        Ledger(store, KeyDirectory(toy.folder / "operator-keys")).rotate_key()


def amend(toy, **changed):
    with ledger_of(toy) as store:
        ledger = Ledger(store, KeyDirectory(toy.folder / "operator-keys"))
        amendment = Amendment(
            ledger=ledger.identity,
            number=1,
            terms_before=ledger.state.terms_hash,
            terms=replace(ledger.terms, agreed=replace(ledger.terms.agreed, **changed)),
            first_round=ledger.state.next_round,
        )
        keys = {name: NodeKey.read(toy.folder / "members" / name / "node-key") for name in toy.names}
        ledger.amend(amendment, {name: amendment.signed(name, key) for name, key in keys.items()})


def back_up(toy):
    shutil.copy(toy.out / "ledger.db", toy.folder / "ledger.backup")


def restore(toy):
    shutil.move(toy.out / "ledger.db", toy.folder / "newer.db")
    shutil.copy(toy.folder / "ledger.backup", toy.out / "ledger.db")


def homes(toy):
    """Everything that members keep."""
    files = [file for name in toy.names for file in toy.home(name).rglob("*") if file.is_file()]
    return {file: file.read_bytes() for file in files}


def stopped(toy):
    """What the federation says when it stops; members hear nothing of it, and it goes on with the newer ledger."""
    before, count = homes(toy), len(toy.transport.sent)
    with pytest.raises(FederationError) as caught:
        toy.coordinate()
    assert len(toy.transport.sent) == count
    assert homes(toy) == before
    shutil.move(toy.folder / "newer.db", toy.out / "ledger.db")
    toy.coordinate()
    assert "DOUBTFUL" not in "".join((toy.home(name) / "log.txt").read_text() for name in toy.names)
    return str(caught.value)


@pytest.mark.parametrize("enter", [rotate_key, lambda toy: amend(toy, quorum=0.5)], ids=["key", "amendment"])
def test_an_entry_after_the_last_round(toy, enter):
    toy.coordinate()
    back_up(toy)
    enter(toy)
    toy.coordinate()  # members see the entry, with the last statements again
    restore(toy)
    said = stopped(toy)
    assert "north signed that it saw entry 5, which the ledger had then, and now the ledger has no entry 5" in said
    assert "Put back the newer ledger" in said
    assert "new ledger, another results folder and new member folders" in said


def backed_up_before(toy, number, enter):
    """Run it, with the ledger backed up when this round is opened, and something entered right after that."""
    done = []

    def before_answer(client, kind):
        if kind == "train.iteration" and toy.transport.sent[-1].message.fields["round"] == number and not done:
            done.append(number)
            back_up(toy)
            enter(toy)

    toy.transport.before_answer = before_answer
    toy.coordinate()
    restore(toy)


def test_an_entry_before_the_last_round(toy):
    """The round could be settled again, as another entry than the members saw."""
    backed_up_before(toy, 2, rotate_key)
    assert "the ledger has no entry 5" in stopped(toy)


def test_an_amendment_without_which_the_ledger_refuses_the_last_round(toy):
    toy.coordinate()
    back_up(toy)
    amend(toy, round_count=3)
    toy.coordinate()
    assert len(settled(toy.out)) == 3
    restore(toy)
    assert "the ledger has no entry 6" in stopped(toy)


def test_a_lost_round_is_settled_again_and_nothing_stops(toy):
    backed_up_before(toy, 2, lambda toy: None)
    newer = (toy.folder / "newer.db").read_bytes()
    toy.coordinate()
    with ledger_of(toy) as store, store.reading() as reading:
        hashes = [entry.hash for entry in reading.entries()]
    (toy.out / "ledger.db").write_bytes(newer)
    with ledger_of(toy) as store, store.reading() as reading:
        assert hashes == [entry.hash for entry in reading.entries()]


def test_a_member_that_signs_a_head_of_its_own_stops_nobody(toy):
    liar = "east"

    def twist(kind, question, answer):
        if kind != "query.close":
            return answer
        key = NodeKey.read(toy.folder / "members" / liar / "node-key")
        false = SeenHead(ledger=question.fields["book"], client=liar, number=99, hash="0" * 64).signed(key)
        fields = {**answer.fields, "head": json.dumps(false.to_document())}
        return signed_again(toy, kind, question, Message(fields=fields), signer=liar)

    toy.member(liar).twist = twist
    toy.coordinate()
    toy.coordinate()
    assert len(settled(toy.out)) == 2


def test_a_ledger_that_is_missing_is_not_opened_anew(toy):
    toy.coordinate()
    (toy.out / "ledger.db").rename(toy.folder / "newer.db")
    before = {file.name: file.read_bytes() for file in toy.out.iterdir() if file.is_file()}
    for _ in range(2):
        with pytest.raises(FederationError, match=r"The ledger '.*ledger\.db' is missing, but .* Put the ledger back"):
            toy.coordinate()
        assert {file.name: file.read_bytes() for file in toy.out.iterdir() if file.is_file()} == before
    shutil.move(toy.folder / "newer.db", toy.out / "ledger.db")
    run_report, _ = toy.coordinate()
    assert len(run_report.rounds) == 2
