"""A statement agrees with the ledger, shows only its own client, and cannot be changed unnoticed."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sqlalchemy import text

from commonweal.errors import CommonwealError, LedgerError
from commonweal.ledger.canonical import parse
from commonweal.ledger.chain import key_rotations, keys_since
from commonweal.ledger.signed_files import signed_content
from commonweal.ledger.statements import SEPARATOR, faults_of, make_statement, read_statement, statement_document
from tests.ledger.sample_ledger import (
    CLIENT_KEYS,
    ENTRIES,
    FIRST_ROUND,
    LAST_OF_DAN,
    MEMBERS,
    POSTINGS,
    SECOND_ROUND,
    STRANGER,
    STRICT,
    make_sample,
    open_ledger,
    parsed,
    signed_round,
    tampering,
)

AT = "2026-03-01T00:00:00.000000Z"
CLIENTS = ("ann", "bob", "cyd", "dan")


@pytest.fixture(scope="module", params=["transfers", "accruals"])
def sample(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ledger")
    made = make_sample(str(folder / "ledger.db"), folder / "keys", request.param)
    yield made
    made.store.close()


def file_of(sample, client, key=None):
    """The content of the file that the operator sends."""
    statement = make_statement(sample.store, client, at=AT)
    return signed_content(statement_document(statement, sample.store), key or sample.operator)


def faults_in(content, key, folder):
    path = folder / "statement.json"
    path.write_bytes(content)
    return faults_of(*read_statement(path), key)


def texts(sample, client):
    """What happened, without its explanation."""
    return [line.text.partition(SEPARATOR)[0] for line in make_statement(sample.store, client, at=AT).lines]


# What it says.


@pytest.mark.parametrize("client", CLIENTS)
def test_a_statement_has_the_balances_of_the_ledger(sample, client):
    """The balances as the database adds them up."""
    statement = make_statement(sample.store, client, at=AT)
    query = text(f"SELECT account, sum(amount) FROM {POSTINGS} GROUP BY account")
    with sample.store.engine.connect() as connection:
        balances = {account: int(amount) for account, amount in connection.execute(query)}
    assert statement.balance == balances.get(f"clients/{client}", 0)
    assert statement.accrued == balances.get(f"accrued/{client}", 0)
    assert statement.balance == sum(line.amount for line in statement.lines)
    assert statement.accrued == sum(line.accrued for line in statement.lines)
    moved = statement.accrued if sample.ledger.terms.settlement == "accruals" else statement.balance
    assert moved != 0 or client == "dan"  # whose only round was reversed


def test_a_statement_names_the_head_of_the_ledger(sample):
    statement = make_statement(sample.store, "ann", at=AT)
    assert (statement.head_number, statement.head) == (sample.ledger.state.number, sample.ledger.state.head)
    assert statement.ledger == sample.ledger.identity
    assert statement.client_key == CLIENT_KEYS["ann"].public


def test_lines_say_what_happened(tmp_path):
    sample = make_sample(str(tmp_path / "ledger.db"), tmp_path / "keys", "accruals")
    assert texts(sample, "bob") == [
        "admitted",
        "round 1: retained",
        "income, invoice 1",
        "reversal of entry 3: figures came late",
        "round 1: retained",
        "round 2: absent",
        "round 3: retained",
        "income, invoice 2",
        "reversal of entry 12: booked too early",
    ]
    assert texts(sample, "dan") == [
        "admitted",
        f"withdrew after round {LAST_OF_DAN}",
        "round 3: retained",
    ]
    lines = make_statement(sample.store, "cyd", at=AT).lines
    (gone,) = [line for line in lines if line.text.startswith("round 2: eliminated; contributed 0.07 ")]
    assert (gone.profit, gone.contribution) == SECOND_ROUND["cyd"][:2]
    assert (gone.share, gone.payoff, gone.transfer, gone.amount, gone.accrued) == (None, None, None, 0, 0)
    sample.store.close()


def test_an_eliminated_client_sees_the_reversal_of_the_round(tmp_path):
    """No money moves, but the client is active again."""
    sample = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "keys")
    ledger = sample.ledger
    ledger.admit(MEMBERS)
    ledger.settle(signed_round(ledger.identity, 1, SECOND_ROUND, STRICT, absent=("bob",)))
    ledger.reverse_round(1, "a wrong mu")
    ledger.withdraw("cyd", 1, None)
    ledger.settle(signed_round(ledger.identity, 2, {"ann": FIRST_ROUND["ann"]}, absent=("bob",)))
    ledger.reverse_round(2, "not for cyd")
    told = ["round 1: eliminated", "reversal of entry 3: a wrong mu"]
    assert texts(sample, "cyd") == ["admitted", *told, "withdrew after round 1"]
    later = ["round 2: absent", "reversal of entry 6: not for cyd"]
    assert texts(sample, "bob") == ["admitted", "round 1: absent", told[1], *later]
    sample.store.close()


def test_a_statement_is_of_a_member(sample):
    with pytest.raises(LedgerError, match=r"Client 'eve' is not a member .*ann, bob, cyd"):
        make_statement(sample.store, "eve", at=AT)


def test_a_changed_ledger_gives_no_statement(sample):
    with tampering(sample.store) as attacker:
        attacker.run(f"UPDATE {ENTRIES} SET content = replace(content, '0.31', '0.32') WHERE number = 3")
        with pytest.raises(LedgerError, match=r"^Cannot make a statement: the ledger is not sound \(entry 3 was"):
            make_statement(attacker, "ann", at=AT)


# Who can check it.


@pytest.mark.parametrize("client", CLIENTS)
def test_a_statement_verifies_with_every_key_that_the_operator_has_had(sample, client, tmp_path):
    keys = [
        parsed(entry)["body"]["operator"]
        for entry in sample.entries()
        if parsed(entry)["kind"] in ("opening", "key-rotation")
    ]
    assert len(set(keys)) == 2
    content = file_of(sample, client)
    for key in keys:
        assert faults_in(content, key, tmp_path) == []


def test_many_key_rotations_are_followed(tmp_path):
    sample = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "keys")
    sample.ledger.admit(MEMBERS)
    keys, files = [sample.operator.public], [file_of(sample, "ann")]
    for _ in range(3):
        sample.ledger.rotate_key()
        keys.append(sample.operator.public)
        files.append(file_of(sample, "ann"))
    assert len(set(keys)) == 4
    for held, key in enumerate(keys):
        for made, content in enumerate(files):
            # A new key says nothing about what earlier keys signed.
            assert (faults_in(content, key, tmp_path) == []) == (made >= held)
    sample.store.close()


def test_a_statement_does_not_verify_with_another_key(sample, tmp_path):
    content = file_of(sample, "ann")
    for key in (STRANGER.public, CLIENT_KEYS["ann"].public, "", "x", sample.operator.public.upper()):
        assert faults_in(content, key, tmp_path) != []


def test_a_stranger_cannot_sign_for_a_node(sample, tmp_path):
    first = parsed(sample.entries()[0])["body"]["operator"]
    content = json.loads(file_of(sample, "ann", STRANGER))
    for signer in (STRANGER.public, sample.operator.public, first, ""):
        told = faults_in(json.dumps(content | {"signer": signer}).encode(), sample.operator.public, tmp_path)
        assert told != []


def test_a_forged_key_rotation_is_not_accepted(sample, tmp_path):
    """A rotation that a stranger wrote into the file does not make its key a successor of the operator's."""
    document = statement_document(make_statement(sample.store, "ann", at=AT), sample.store)
    rotation = document["key_rotations"][0]
    content = json.loads(rotation["content"])
    content["body"]["operator"] = STRANGER.public
    for forged in (
        {"content": json.dumps(content), "signature": rotation["signature"]},
        {"content": json.dumps(content), "signature": STRANGER.sign(b"x")},
        {"content": "\ud800", "signature": ""},
        {"content": '{"kind":"key-rotation","body":[]}', "signature": ""},
    ):
        file = json.loads(signed_content({**document, "key_rotations": []}, STRANGER))
        file["document"]["key_rotations"] = [rotation, forged]
        told = faults_in(json.dumps(file).encode(), sample.operator.public, tmp_path)
        assert any("nor one of its successors" in fault for fault in told)


@pytest.mark.parametrize("junk", [5, None, "x", [], {}, {"content": 5}, {"content": "{}", "signature": 5}])
def test_junk_is_not_a_key_rotation(sample, junk):
    first, later = STRANGER.public, sample.operator.public
    assert keys_since(first, sample.ledger.identity, [junk]) == [first]
    assert keys_since(later, sample.ledger.identity, [junk, *key_rotations(sample.store, "a test"), junk]) == [later]


# What nobody can change.


@pytest.fixture(scope="module")
def signed_file(sample):
    return file_of(sample, "cyd")


@given(data=st.data())
def test_every_changed_byte_is_found(sample, signed_file, tmp_path_factory, data):
    """Unless it says exactly the same: spaces between fields do not matter."""
    place = data.draw(st.integers(0, len(signed_file) - 1))
    byte = data.draw(st.binary(min_size=1, max_size=1))
    changed = signed_file[:place] + byte + signed_file[place + 1 :]
    assume(changed != signed_file)
    folder = tmp_path_factory.getbasetemp()
    with suppress(CommonwealError):  # no longer a statement
        if faults_in(changed, sample.operator.public, folder) == []:
            assert parse(changed.decode()) == parse(signed_file.decode())
            assert signed_file[place : place + 1].isspace() or byte in b"eE"


FIELDS = ["client", "balance", "accrued", "currency", "book", "at", "head", "lines", "worth"]


@pytest.mark.parametrize("name", FIELDS)
def test_a_statement_without_a_field_is_damaged(sample, signed_file, tmp_path, name):
    file = json.loads(signed_file)
    del file["document"][name]
    with pytest.raises(CommonwealError, match="incomplete or damaged"):
        faults_in(json.dumps(file).encode(), sample.operator.public, tmp_path)


@pytest.mark.parametrize("name", FIELDS)
def test_every_changed_field_is_found(sample, signed_file, tmp_path, name):
    file = json.loads(signed_file)
    other = json.loads(file_of(sample, "ann"))["document"]
    value = file["document"][name]
    file["document"][name] = (
        "1" if isinstance(value, str) else value[:-1] if isinstance(value, list) else other["client"]
    )
    with suppress(CommonwealError):
        assert faults_in(json.dumps(file).encode(), sample.operator.public, tmp_path) != []


def test_a_signed_statement_that_does_not_add_up_is_found(sample, tmp_path):
    def told(edit):
        document = json.loads(json.dumps(statement_document(make_statement(sample.store, "ann", at=AT), sample.store)))
        edit(document)
        return faults_in(signed_content(document, sample.operator), sample.operator.public, tmp_path)

    def a_line(document):
        document["lines"][1]["amount"] = str(int(document["lines"][1]["amount"]) + 1)

    def a_balance(document):
        document["lines"][-1]["balance"] = str(int(document["lines"][-1]["balance"]) + 1)

    def the_end(document):
        document["balance"] = str(int(document["balance"]) + 1)

    assert told(lambda document: None) == []
    assert any("does not follow from the lines" in fault for fault in told(a_line))
    assert any("does not follow from the lines" in fault for fault in told(a_balance))
    assert any("is not that of the last line" in fault for fault in told(the_end))


# Whom it concerns.


def leaves(value):
    """Every figure and text in a document, including documents inside texts."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from leaves(inner)
    elif isinstance(value, str) and value.startswith("{"):
        yield from leaves(json.loads(value))
    else:
        yield value


def figures_of(sample, client):
    """Everything that the ledger knows about a client."""
    found = set()
    for entry in sample.entries():
        document = parsed(entry)
        found |= {amount for account, amount in document["postings"] if account.endswith(f"/{client}")}
        if document["kind"] == "round":
            body, retained = document["body"], document["body"]["decision"]["retained"]
            for row in body["inputs"]:
                if row["client"] == client:
                    found |= {row["profit"], row["contribution"], row["sample_count"], row["cost"], row["signature"]}
            if client in retained:
                place = retained.index(client)
                found |= {body["decision"][name][place] for name in ("shares", "payoffs", "transfers")}
    return found - {None, "0", 0}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_statement_shows_only_its_own_client(sample, client):
    """No name, key or figure of another client."""
    content = file_of(sample, client)
    said = set(leaves(json.loads(content)))
    own = figures_of(sample, client)
    assert own & said  # the search does find figures
    for other in CLIENTS:
        if other == client:
            continue
        assert other.encode() not in content
        assert not (figures_of(sample, other) - own) & said
        if other in CLIENT_KEYS:
            assert CLIENT_KEYS[other].public.encode()[:16] not in content
