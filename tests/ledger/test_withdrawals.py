"""A client that withdraws is in no later round and keeps what it accrued; nobody can withdraw in its name."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from commonweal.errors import InputError, LedgerError
from commonweal.ledger.export.exports import beancount_content, csv_content, hledger_content
from commonweal.ledger.ledger import Ledger, Receipt
from commonweal.ledger.member_documents import WithdrawalNotice
from commonweal.ledger.statements import make_statement
from tests.ledger.sample_ledger import (
    CLIENT_KEYS,
    FIRST_ROUND,
    MEMBERS,
    SECOND_ROUND,
    STRANGER,
    STRICT,
    open_ledger,
    parsed,
    signed_notice,
    signed_round,
    verified,
)

CLIENTS = ("ann", "bob", "cyd")  # with an Ed25519 key, with a node's, and without one


@pytest.fixture
def sample(tmp_path):
    """A ledger in which round 1 is settled, with all three."""
    made = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "keys", "accruals")
    made.ledger.admit(MEMBERS)
    made.ledger.settle(signed_round(made.ledger.identity, 1, FIRST_ROUND))
    yield made
    assert verified(made.store).findings == ()
    made.store.close()


@pytest.fixture
def ledger(sample):
    return sample.ledger


def notice(ledger, client, last):
    return signed_notice(ledger.identity, client, last) if client in CLIENT_KEYS else None


def round_of(ledger, number, *clients, **options):
    return signed_round(ledger.identity, number, {client: FIRST_ROUND[client] for client in clients}, **options)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_withdraws_once(ledger, client):
    receipt = ledger.withdraw(client, 1, notice(ledger, client, 1))
    assert receipt == Receipt(entry=4, fresh=True)
    assert ledger.withdraw(client, 1, notice(ledger, client, 1)) == Receipt(entry=4, fresh=False)
    assert ledger.state.withdrawn == {client: 1}
    document = ledger.document(4)
    assert (document["kind"], document["postings"]) == ("withdrawal", [])
    assert document["body"] == {"client": client, "round": 1, "signature": notice(ledger, client, 1)}
    with pytest.raises(LedgerError, match=rf"Client '{client}' already withdrew after round . \(entry 4\)"):
        ledger.withdraw(client, 2, notice(ledger, client, 2))
    assert ledger.state.number == 4


@pytest.mark.parametrize("client", CLIENTS)
def test_a_withdrawn_client_is_in_no_later_round(ledger, client):
    ledger.withdraw(client, 2, notice(ledger, client, 2))
    ledger.settle(round_of(ledger, 2, *CLIENTS))
    with pytest.raises(LedgerError, match=f"Client '{client}' withdrew after round 2 and cannot take part in round 3"):
        ledger.settle(round_of(ledger, 3, *CLIENTS))
    ledger.settle(round_of(ledger, 3, *(other for other in CLIENTS if other != client)))


def test_state_is_the_same_for_a_later_reader(sample, ledger):
    ledger.withdraw("bob", 1, notice(ledger, "bob", 1))
    assert Ledger(sample.store, None).state == ledger.state
    assert verified(sample.store).state == ledger.state


@pytest.mark.parametrize("client", CLIENTS)
def test_a_withdrawn_client_keeps_what_it_accrued(sample, ledger, client):
    """Income is divided as it would have been."""
    before = dict(ledger.state.weights())
    ledger.withdraw(client, 1, notice(ledger, client, 1))
    assert ledger.state.weights() == before
    paid = dict(ledger.document(ledger.realise(100_003, "invoice 1").entry)["postings"])
    assert (f"clients/{client}" in paid) == (client in before)
    assert "bob" in before
    lines = make_statement(sample.store, client, at="").lines
    assert [line.text for line in lines[:3]] == ["admitted", "round 1: retained", "withdrew after round 1"]
    assert (lines[2].amount, lines[2].accrued) == (0, 0)
    assert lines[2].accrued_balance == lines[1].accrued_balance
    others = [
        line.text for other in CLIENTS if other != client for line in make_statement(sample.store, other, at="").lines
    ]
    assert not any("withdrew" in text for text in others)


def test_a_reversal_does_not_undo_a_withdrawal(ledger):
    """The operator cannot undo a client's notice."""
    ledger.withdraw("bob", 1, notice(ledger, "bob", 1))
    ledger.reverse_round(1, "figures came late")
    assert ledger.state.withdrawn == {"bob": 1}
    with pytest.raises(LedgerError, match=r"'bob' .* round 2"):
        ledger.settle(round_of(ledger, 2, *CLIENTS))
    ledger.settle(round_of(ledger, 1, *CLIENTS))
    with pytest.raises(LedgerError, match="Entry 4 is a withdrawal; only rounds, realisations, charges and exclusions"):
        ledger.reverse(4, "come back")


def test_a_withdrawn_client_can_be_eliminated_in_an_earlier_round(ledger):
    """Its notice is for after round 3, but round 2 eliminates it."""
    ledger.withdraw("cyd", 3, None)
    ledger.settle(signed_round(ledger.identity, 2, SECOND_ROUND, STRICT, absent=("bob",)))
    assert ledger.state.eliminated == {"cyd": 2}
    with pytest.raises(LedgerError, match=r"cannot be eliminated in round|was eliminated in round"):
        ledger.settle(round_of(ledger, 3, *CLIENTS))
    assert not ledger.withdraw("cyd", 3, None).fresh


NO_NOTICES = {
    "none": lambda notice: None,
    "empty": lambda notice: "",
    "of another client": lambda notice: notice.signed(CLIENT_KEYS["ann"]),
    "of a stranger": lambda notice: notice.signed(STRANGER),
    "for another round": lambda notice: replace(notice, round_number=2).signed(CLIENT_KEYS["bob"]),
    "for another ledger": lambda notice: replace(notice, ledger="0" * 64).signed(CLIENT_KEYS["bob"]),
    "for another client": lambda notice: replace(notice, client="ann").signed(CLIENT_KEYS["bob"]),
    "in capitals": lambda notice: notice.signed(CLIENT_KEYS["bob"]).upper(),
}


@pytest.mark.parametrize("which", NO_NOTICES)
def test_a_withdrawal_needs_the_clients_own_signature(ledger, which):
    signature = NO_NOTICES[which](WithdrawalNotice(ledger.identity, "bob", 1))
    fault = "is not signed" if which == "none" else "is not signed with the key it was admitted with"
    said = rf"The withdrawal of client 'bob' after round 1 {fault}\."
    with pytest.raises(LedgerError, match=said):
        ledger.withdraw("bob", 1, signature)
    ledger.withdraw("bob", 1, notice(ledger, "bob", 1))
    with pytest.raises(LedgerError, match=said):  # even if it has already withdrawn
        ledger.withdraw("bob", 1, signature)
    assert ledger.state.number == 4


def test_a_signature_that_nobody_could_check_is_refused(ledger):
    with pytest.raises(LedgerError, match="Client 'cyd' was admitted without a key"):
        ledger.withdraw("cyd", 1, WithdrawalNotice(ledger.identity, "cyd", 1).signed(STRANGER))


def test_only_members_can_withdraw(ledger):
    with pytest.raises(LedgerError, match=r"Client 'eve' is not a member .*ann, bob, cyd"):
        ledger.withdraw("eve", 1, None)


@pytest.mark.parametrize("last", [-1, 10**9 + 1, 1.0, True, "1", None])
def test_a_withdrawal_needs_a_round_number(ledger, last):
    with pytest.raises(InputError, match=r"cannot withdraw after round .*the last round it takes part in"):
        ledger.withdraw("cyd", last, None)


def test_a_client_cannot_withdraw_before_its_last_round(ledger):
    with pytest.raises(
        LedgerError, match="'bob' cannot withdraw after round 0: it takes part in round 1, which is settled"
    ):
        ledger.withdraw("bob", 0, notice(ledger, "bob", 0))
    ledger.reverse_round(1, "bob was not there")
    assert ledger.withdraw("bob", 0, notice(ledger, "bob", 0)).fresh


def test_an_eliminated_client_cannot_withdraw(ledger):
    ledger.settle(signed_round(ledger.identity, 2, SECOND_ROUND, STRICT, absent=("bob",)))
    with pytest.raises(LedgerError, match=r"Client 'cyd' was eliminated in round . and cannot withdraw"):
        ledger.withdraw("cyd", 2, None)
    ledger.reverse_round(2, "a wrong mu")
    assert ledger.withdraw("cyd", 2, None).fresh


def test_the_notice_is_for_one_ledger_client_and_round():
    first = WithdrawalNotice("b" * 64, "bob", 3)
    assert json.loads(first.message()) == {
        "format": "commonweal.withdrawal/1",
        "book": "b" * 64,
        "client": "bob",
        "round": 3,
    }
    others = [replace(first, ledger="c" * 64), replace(first, client="ann"), replace(first, round_number=4)]
    for key in (CLIENT_KEYS["ann"], CLIENT_KEYS["bob"]):
        signature = first.signed(key)
        assert first.is_signed(signature, key.public)
        assert not any(other.is_signed(signature, key.public) for other in others)


@pytest.mark.parametrize("content", [hledger_content, beancount_content])
def test_exports_mention_it_in_comments(sample, ledger, content):
    ledger.withdraw("bob", 1, notice(ledger, "bob", 1))
    text = content(sample.store).decode()
    assert '; entry 4, 2026-01-01, withdrawal after round 1: "bob"\n' in text


def test_the_csv_export_has_no_rows_without_postings(sample, ledger):
    before = csv_content(sample.store)
    ledger.withdraw("bob", 1, notice(ledger, "bob", 1))
    assert csv_content(sample.store) == before
    assert parsed(sample.entries()[-1])["kind"] == "withdrawal"
