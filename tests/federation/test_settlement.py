"""The ledger of a federation: opening it when needed, settling with the clients' own signatures, and withdrawals."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from commonweal.cli.main import app
from commonweal.decision.decide import decide_figures
from commonweal.decision.mechanisms.paper import Paper
from commonweal.errors import CommonwealError
from commonweal.federation.settlement import FederationLedger
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.keys import SigningKey
from commonweal.ledger.ledger import Ledger, Receipt
from commonweal.ledger.member_documents import WithdrawalNotice
from commonweal.ledger.node_keys import NodeKey
from commonweal.ledger.rounds import RoundToSettle
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.statements import faults_of, read_statement
from commonweal.ledger.verification.recompute import recompute
from commonweal.ledger.verification.verify import verify_ledger
from commonweal.records import Figures, RoundRecord, Rules

KEYS = {"ann": SigningKey.from_seed(b"a" * 32), "bob": NodeKey.new()}
MEMBERS = {"ann": KEYS["ann"].public, "bob": KEYS["bob"].public, "cyd": None}
PROFITS = {"ann": 0.31, "bob": 0.12, "cyd": -0.05}
LENIENT = Rules(mu=float("inf"))
AT = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def new_federation_ledger(tmp_path):
    """Makes objects for the same ledger, as processes that run one after another would."""
    made = []

    def new(members=MEMBERS, **options):
        given = {"name": "three", "members": members, "clock": lambda: AT} | options
        made.append(FederationLedger(str(tmp_path / "book.db"), KeyDirectory(tmp_path / "keys"), **given))
        return made[-1]

    yield new
    for federation_ledger in made:
        federation_ledger.close()
    if (tmp_path / "book.db").exists():
        with closing(open_store(str(tmp_path / "book.db"))) as store:
            assert verify_ledger(store, recompute).findings == ()


def decided(number, *clients, rules=LENIENT, profits=PROFITS):
    figures = Figures(
        profits={client: profits[client] for client in clients}, contributions=dict.fromkeys(clients, 1.0)
    )
    return RoundRecord(round_number=number, decision=decide_figures(figures, rules))


def by_the_last_bit(version, number=1):
    """Retaining everybody and letting ann go tie on paper. As doubles, the latter is better by 1e-17."""
    figures = Figures(
        profits={"ann": -0.05, "bob": 0.15, "cyd": 0.02}, contributions={"ann": 0.5, "bob": 0.4, "cyd": 0.1}
    )
    return RoundRecord(round_number=number, decision=decide_figures(figures, Rules(mu=0.05, version=version)))


def signatures(record, book, counts=None):
    """The signatures of the reports, as the clients send them."""
    settled = RoundToSettle(record=record, rules_version=Paper.version, sample_counts=counts or {})
    clients = record.decision.figures.clients
    return {client: settled.report(book, client).signed(KEYS[client]) for client in clients if client in KEYS}


def settle(federation_ledger, number, *clients, **options):
    record = decided(number, *clients, **options)
    return federation_ledger.settle(record, None, signatures(record, federation_ledger.open()))


def notice(federation_ledger, client, last):
    return WithdrawalNotice(federation_ledger.open(), client, last).signed(KEYS[client])


def bodies(tmp_path):
    with closing(open_store(str(tmp_path / "book.db"))) as store:
        book = Ledger(store, None)
        return [book.document(entry) for entry in range(1, book.state.number + 1)]


# Opening.


def test_opening_creates_the_ledger_with_its_members(new_federation_ledger, tmp_path):
    federation_ledger = new_federation_ledger()
    assert federation_ledger.settled_rounds == frozenset()
    assert not (tmp_path / "book.db").exists(), "asking makes no book"
    identity = federation_ledger.open()
    assert federation_ledger.has_opened
    assert [document["kind"] for document in bodies(tmp_path)] == ["opening", "admission"]
    with closing(open_store(str(tmp_path / "book.db"))) as store:
        assert identity == Ledger(store, None).identity
        assert Ledger(store, None).state.members == MEMBERS


def test_a_receipt_is_dated_no_earlier_than_the_last_entry(new_federation_ledger):
    """Else the clock of another machine, which is behind, would date a receipt before a charge that came first."""
    new_federation_ledger().open()
    behind, ahead = (new_federation_ledger(clock=lambda at=AT + timedelta(minutes=m): at) for m in (-1, 1))
    dates = [json.loads(each.receipt(1, "ann", "00"))["document"]["at"] for each in (behind, ahead)]
    assert dates == ["2026-05-01T12:00:00.000000Z", "2026-05-01T12:01:00.000000Z"]


def test_opening_again_changes_nothing(new_federation_ledger, tmp_path):
    first, second = new_federation_ledger(), new_federation_ledger()
    assert len({first.open(), first.open(), second.open(), new_federation_ledger().open()}) == 1
    assert not second.has_opened
    assert len(bodies(tmp_path)) == 2


def test_a_member_with_another_key_is_refused_each_time(new_federation_ledger):
    new_federation_ledger().open()
    other = new_federation_ledger(MEMBERS | {"bob": NodeKey.new().public})
    for _ in range(2):
        with pytest.raises(CommonwealError, match=r"'bob' was admitted to the ledger .* with another key"):
            other.open()
    with pytest.raises(CommonwealError, match=r"'bob' was admitted to the ledger .* with another key"):
        other.check()


# Versions of rules.


def test_rounds_of_both_versions_stand_in_one_ledger(new_federation_ledger, tmp_path):
    """The fixture verifies the ledger, and so decides each round again by its own version."""
    federation_ledger = new_federation_ledger(dict.fromkeys(PROFITS))
    federation_ledger.settle(by_the_last_bit(version=2, number=1))
    federation_ledger.settle(by_the_last_bit(version=1, number=2))
    rounds = [document["body"] for document in bodies(tmp_path) if document["kind"] == "round"]
    assert [body["rules_version"] for body in rounds] == ["2", "1"]
    assert [body["decision"]["eliminated"] for body in rounds] == [[], ["ann"]]
    assert all("version" not in body["rules"] for body in rounds), "it is stated once"


def test_a_round_that_was_settled_by_version_1_is_not_settled_again(new_federation_ledger):
    federation_ledger = new_federation_ledger(dict.fromkeys(PROFITS))
    old, new = decided(1, *PROFITS, rules=replace(LENIENT, version=1)), decided(1, *PROFITS)
    assert old.decision.rules != new.decision.rules
    first = federation_ledger.settle(old)
    assert federation_ledger.settle(new) == replace(first, fresh=False)


def test_a_round_that_version_2_decides_differently_is_refused(new_federation_ledger):
    federation_ledger = new_federation_ledger(dict.fromkeys(PROFITS))
    federation_ledger.settle(by_the_last_bit(version=1))
    with pytest.raises(CommonwealError, match=r"already settled as entry 3 with different content: decision"):
        federation_ledger.settle(by_the_last_bit(version=2))


# Signatures.


def test_signatures_that_clients_gave_are_taken_as_they_are(new_federation_ledger, tmp_path):
    federation_ledger = new_federation_ledger(sign=lambda report: pytest.fail("nobody signs here"))
    record, counts = decided(1, *PROFITS), {"ann": 10, "bob": 20}
    given = signatures(record, federation_ledger.open(), counts)
    assert federation_ledger.settle(record, counts, given) == Receipt(entry=3, fresh=True)
    assert federation_ledger.settle(record, counts, given) == Receipt(entry=3, fresh=False)
    rows = bodies(tmp_path)[2]["body"]["inputs"]
    assert {row["client"]: row["signature"] for row in rows} == given | {"cyd": None}
    assert {row["client"]: row["sample_count"] for row in rows} == counts | {"cyd": None}


def test_without_given_signatures_sign_is_called(new_federation_ledger, tmp_path):
    federation_ledger = new_federation_ledger(
        sign=lambda report: report.signed(KEYS[report.client]) if report.client in KEYS else None
    )
    record = decided(1, *PROFITS)
    federation_ledger.settle(record)
    rows = bodies(tmp_path)[2]["body"]["inputs"]
    assert {row["client"]: row["signature"] for row in rows if row["signature"]} == signatures(
        record, federation_ledger.open()
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "The report of client 'ann' for round 1 is not signed"),
        ({"ann": "00" * 64, "bob": "00" * 96}, "expected a signature by ann, got another signature"),
    ],
)
def test_other_signatures_are_refused(new_federation_ledger, given, message):
    """Also if there are none: an empty mapping is what the clients gave, and the ledger does not sign for them."""
    federation_ledger = new_federation_ledger(sign=lambda report: pytest.fail("nobody signs here"))
    with pytest.raises(CommonwealError, match=message):
        federation_ledger.settle(decided(1, *PROFITS), None, given)
    assert federation_ledger.settled_rounds == frozenset()


# Who leaves.


def test_a_withdrawn_client_is_not_reported_missing(new_federation_ledger, tmp_path):
    federation_ledger = new_federation_ledger()
    settle(federation_ledger, 1, *PROFITS)
    settle(federation_ledger, 2, "ann", "cyd")
    assert federation_ledger.withdraw("bob", 2, notice(federation_ledger, "bob", 2)) == Receipt(entry=5, fresh=True)
    assert federation_ledger.withdraw("bob", 2, notice(federation_ledger, "bob", 2)) == Receipt(entry=5, fresh=False)
    settle(federation_ledger, 3, "ann", "cyd")
    federation_ledger.withdraw("cyd", 3, None)
    settle(federation_ledger, 4, "ann")
    rounds = [document["body"] for document in bodies(tmp_path) if document["kind"] == "round"]
    assert [held["absent"] for held in rounds] == [[], ["bob"], [], []]
    with pytest.raises(CommonwealError, match="'bob' withdrew after round 2 and cannot take part in round 5"):
        settle(federation_ledger, 5, "ann", "bob")


def test_a_settled_round_does_not_change_when_clients_leave_later(new_federation_ledger):
    """bob's notice comes late: round 2, from which he was absent, is settled, and a resumed run settles it again."""
    federation_ledger = new_federation_ledger()
    settle(federation_ledger, 1, *PROFITS)
    second = settle(federation_ledger, 2, "ann", "cyd")
    federation_ledger.withdraw("bob", 1, notice(federation_ledger, "bob", 1))
    assert settle(new_federation_ledger(), 2, "ann", "cyd") == replace(second, fresh=False)
    with pytest.raises(CommonwealError, match="Round 2 is already settled as entry 4 with different content"):
        settle(federation_ledger, 2, "ann", "bob", "cyd")


def test_eliminated_clients_are_not_reported_missing_either(new_federation_ledger, tmp_path):
    federation_ledger = new_federation_ledger()
    settle(federation_ledger, 1, *PROFITS, rules=Rules(mu=0.0), profits=PROFITS | {"cyd": -5.0})
    settle(federation_ledger, 2, "ann")
    rounds = [document["body"] for document in bodies(tmp_path) if document["kind"] == "round"]
    assert rounds[0]["decision"]["eliminated"] == ["cyd"]
    assert rounds[1]["absent"] == ["bob"]


# What it reports.


def test_settled_rounds_are_those_of_the_current_ledger(new_federation_ledger, tmp_path):
    federation_ledger, other = new_federation_ledger(), new_federation_ledger()
    settle(federation_ledger, 1, *PROFITS)
    assert other.settled_rounds == {1}
    settle(other, 2, *PROFITS)
    assert federation_ledger.settled_rounds == {1, 2}
    with closing(open_store(str(tmp_path / "book.db"))) as store:
        Ledger(store, KeyDirectory(tmp_path / "keys")).reverse_round(1, "figures came late")
    assert federation_ledger.settled_rounds == {2}


def test_the_statement_is_the_one_that_the_command_writes(new_federation_ledger, tmp_path, monkeypatch):
    federation_ledger = new_federation_ledger()
    settle(federation_ledger, 1, *PROFITS)
    federation_ledger.withdraw("bob", 1, notice(federation_ledger, "bob", 1))
    content = federation_ledger.statement("bob")
    monkeypatch.setattr("commonweal.ledger.ledger.system_clock", lambda: AT)
    arguments = ["ledger", "statement", str(tmp_path / "book.db"), "bob", "--format", "json"]
    options = ["--keys", str(tmp_path / "keys"), "--out", str(tmp_path / "bob.json")]
    assert CliRunner().invoke(app, [*arguments, *options]).exit_code == 0
    assert (tmp_path / "bob.json").read_bytes() == content
    statement, signed = read_statement(tmp_path / "bob.json")
    assert faults_of(statement, signed, federation_ledger.operator_key) == []
    assert statement.client_key == KEYS["bob"].public
    assert [line.text for line in statement.lines] == ["admitted", "round 1: retained", "withdrew after round 1"]
    with pytest.raises(CommonwealError, match="Client 'eve' is not a member"):
        federation_ledger.statement("eve")


def test_the_signing_key_is_that_of_the_current_ledger(new_federation_ledger, tmp_path):
    federation_ledger, keys = new_federation_ledger(), KeyDirectory(tmp_path / "keys")
    first = federation_ledger.operator_key
    assert first == keys.current().public
    with closing(open_store(str(tmp_path / "book.db"))) as store:
        Ledger(store, keys).rotate_key()
    later = federation_ledger.operator_key
    assert later == keys.current().public != first
    assert json.loads(federation_ledger.statement("ann"))["signer"] == later


@pytest.mark.parametrize("command", ["show", "verify", "statement"])
def test_the_commands_know_nodes_keys_and_withdrawals(new_federation_ledger, tmp_path, command):
    federation_ledger = new_federation_ledger()
    settle(federation_ledger, 1, *PROFITS)
    federation_ledger.withdraw("bob", 1, notice(federation_ledger, "bob", 1))
    federation_ledger.close()
    KEYS["bob"].write(tmp_path / "node")
    book, public = str(tmp_path / "book.db"), str(tmp_path / "node.pub")
    arguments, said = {
        "show": ([book], "withdrawn after round 1: bob"),
        "verify": ([book, "--member", f"bob={public}"], "2 reports signed by clients"),
        "statement": ([book, "bob"], f"reports signed by: {KEYS['bob'].public}"),
    }[command]
    done = CliRunner().invoke(app, ["ledger", command, *arguments], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert said in done.output


def test_a_node_key_is_not_an_operator_key(new_federation_ledger, tmp_path):
    federation_ledger = new_federation_ledger()
    settle(federation_ledger, 1, *PROFITS)
    (tmp_path / "ann.json").write_bytes(federation_ledger.statement("ann"))
    KEYS["bob"].write(tmp_path / "node")
    for arguments in (
        ["ledger", "verify", str(tmp_path / "book.db")],
        ["verify-statement", str(tmp_path / "ann.json")],
    ):
        done = CliRunner().invoke(app, [*arguments, "--key", str(tmp_path / "node.pub")])
        assert done.exit_code != 0
        told = done.output + str(done.exception)
        assert "does not contain an Ed25519 public key in PEM" in " ".join(told.split())


def test_a_ledger_is_opened_with_the_key_of_a_node(tmp_path):
    KEYS["bob"].write(tmp_path / "node")
    location, keys = str(tmp_path / "new.db"), str(tmp_path / "keys")
    member = f"bob={tmp_path / 'node.pub'}"
    done = CliRunner().invoke(app, ["ledger", "init", location, "--member", member, "--keys", keys])
    assert done.exit_code == 0, done.output
    with closing(open_store(location)) as store:
        assert Ledger(store, None).state.members == {"bob": KEYS["bob"].public}
