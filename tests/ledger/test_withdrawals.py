"""Who leaves of its own accord is in no later round, keeps what it accrued, and nobody can say it in its name."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from commonweal.errors import CommonwealError
from commonweal.ledger.export.exports import beancount_content, csv_content, hledger_content
from commonweal.ledger.ledger import Ledger, Receipt
from commonweal.ledger.notices import WithdrawalNotice
from commonweal.ledger.statements import make_statement
from tests.ledger.sample_book import (
    CLIENT_KEYS,
    FIRST_ROUND,
    MEMBERS,
    SECOND_ROUND,
    STRANGER,
    STRICT,
    audited,
    open_book,
    parsed,
    signed_notice,
    signed_round,
)

CLIENTS = ("ann", "bob", "cyd")  # with an Ed25519 key, with a node's, and without one


@pytest.fixture
def sample(tmp_path):
    """Round 1 is settled, with all three."""
    made = open_book(str(tmp_path / "book.db"), tmp_path / "keys", "accruals")
    made.book.admit(MEMBERS)
    made.book.settle(signed_round(made.book.identity, 1, FIRST_ROUND))
    yield made
    assert audited(made.store).findings == ()
    made.store.close()


@pytest.fixture
def book(sample):
    return sample.book


def notice(book, client, last):
    return signed_notice(book.identity, client, last) if client in CLIENT_KEYS else None


def round_of(book, number, *clients, **options):
    return signed_round(book.identity, number, {client: FIRST_ROUND[client] for client in clients}, **options)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_leaves_once(book, client):
    receipt = book.withdraw(client, 1, notice(book, client, 1))
    assert receipt == Receipt(entry=4, fresh=True)
    assert book.withdraw(client, 1, notice(book, client, 1)) == Receipt(entry=4, fresh=False)
    assert book.state.withdrawn == {client: 1}
    document = book.document(4)
    assert (document["kind"], document["postings"]) == ("withdrawal", [])
    assert document["body"] == {"client": client, "round": 1, "signature": notice(book, client, 1)}
    with pytest.raises(
        CommonwealError, match=f"withdraws once, got client '{client}' leaving after round 2, .*entry 4;"
    ):
        book.withdraw(client, 2, notice(book, client, 2))
    assert book.state.number == 4


@pytest.mark.parametrize("client", CLIENTS)
def test_it_is_in_no_later_round(book, client):
    book.withdraw(client, 2, notice(book, client, 2))
    book.settle(round_of(book, 2, *CLIENTS))
    with pytest.raises(
        CommonwealError, match=f"no later round, got client '{client}' in round 3 after it left with round 2"
    ):
        book.settle(round_of(book, 3, *CLIENTS))
    book.settle(round_of(book, 3, *(other for other in CLIENTS if other != client)))


def test_a_reader_who_comes_later_sees_it(sample, book):
    book.withdraw("bob", 1, notice(book, "bob", 1))
    assert Ledger(sample.store, None).state == book.state
    assert audited(sample.store).state == book.state


@pytest.mark.parametrize("client", CLIENTS)
def test_it_keeps_what_it_accrued(sample, book, client):
    """Income is divided as it would have been."""
    before = dict(book.state.weights())
    book.withdraw(client, 1, notice(book, client, 1))
    assert book.state.weights() == before
    paid = dict(book.document(book.realise(100_003, "invoice 1").entry)["postings"])
    assert (f"clients/{client}" in paid) == (client in before)
    assert "bob" in before
    lines = make_statement(sample.store, client, at="").lines
    assert [line.text for line in lines[:3]] == ["admitted", "round 1: stays", "withdrew after round 1"]
    assert (lines[2].amount, lines[2].accrued) == (0, 0)
    assert lines[2].accrued_balance == lines[1].accrued_balance
    others = [
        line.text for other in CLIENTS if other != client for line in make_statement(sample.store, other, at="").lines
    ]
    assert not any("withdrew" in text for text in others)


def test_a_reversal_brings_nobody_back(book):
    """The notice is the client's, not the operator's to undo."""
    book.withdraw("bob", 1, notice(book, "bob", 1))
    book.reverse_round(1, "figures came late")
    assert book.state.withdrawn == {"bob": 1}
    with pytest.raises(CommonwealError, match="'bob' in round 2"):
        book.settle(round_of(book, 2, *CLIENTS))
    book.settle(round_of(book, 1, *CLIENTS))
    with pytest.raises(CommonwealError, match="rounds and realisations can be reversed, got entry 4, a withdrawal"):
        book.reverse(4, "come back")


def test_one_who_left_may_still_be_let_go_before(book):
    """Its notice is for after round 3; round 2 lets it go."""
    book.withdraw("cyd", 3, None)
    book.settle(signed_round(book.identity, 2, SECOND_ROUND, STRICT, absent=("bob",)))
    assert book.state.eliminated == {"cyd": 2}
    with pytest.raises(CommonwealError, match="eliminated client takes part in no later round"):
        book.settle(round_of(book, 3, *CLIENTS))
    assert not book.withdraw("cyd", 3, None).fresh


NO_NOTICES = {
    "none": lambda notice: None,
    "empty": lambda notice: "",
    "of another client": lambda notice: notice.signed(CLIENT_KEYS["ann"]),
    "of a stranger": lambda notice: notice.signed(STRANGER),
    "for another round": lambda notice: replace(notice, round_number=2).signed(CLIENT_KEYS["bob"]),
    "for another book": lambda notice: replace(notice, book="0" * 64).signed(CLIENT_KEYS["bob"]),
    "for another client": lambda notice: replace(notice, client="ann").signed(CLIENT_KEYS["bob"]),
    "in capitals": lambda notice: notice.signed(CLIENT_KEYS["bob"]).upper(),
}


@pytest.mark.parametrize("which", NO_NOTICES)
def test_nobody_leaves_without_its_own_word(book, which):
    signature = NO_NOTICES[which](WithdrawalNotice(book.identity, "bob", 1))
    got = "no" if which == "none" else "another"
    said = f"signed with the key that the client was admitted with, got {got} signature from client 'bob'"
    with pytest.raises(CommonwealError, match=said):
        book.withdraw("bob", 1, signature)
    book.withdraw("bob", 1, notice(book, "bob", 1))
    with pytest.raises(CommonwealError, match=said):  # also where it has left already
        book.withdraw("bob", 1, signature)
    assert book.state.number == 4


def test_a_signature_that_nobody_could_check_is_refused(book):
    with pytest.raises(
        CommonwealError, match="admitted without a key signs nothing, got a signature from client 'cyd'"
    ):
        book.withdraw("cyd", 1, WithdrawalNotice(book.identity, "cyd", 1).signed(STRANGER))


def test_who_is_no_member_cannot_leave(book):
    with pytest.raises(CommonwealError, match="unknown client 'eve'; the members are ann, bob, cyd"):
        book.withdraw("eve", 1, None)


@pytest.mark.parametrize("last", [-1, 10**9 + 1, 1.0, True, "1", None])
def test_it_leaves_after_a_round(book, last):
    with pytest.raises(CommonwealError, match="a client leaves after a round, got"):
        book.withdraw("cyd", last, None)


def test_it_cannot_have_left_before_its_last_round(book):
    with pytest.raises(CommonwealError, match="'bob' leaving after round 0 and in round 1, which is settled"):
        book.withdraw("bob", 0, notice(book, "bob", 0))
    book.reverse_round(1, "bob was not there")
    assert book.withdraw("bob", 0, notice(book, "bob", 0)).fresh


def test_who_was_let_go_has_left(book):
    book.settle(signed_round(book.identity, 2, SECOND_ROUND, STRICT, absent=("bob",)))
    with pytest.raises(CommonwealError, match="who was eliminated has left, got a withdrawal of client 'cyd'"):
        book.withdraw("cyd", 2, None)
    book.reverse_round(2, "a wrong mu")
    assert book.withdraw("cyd", 2, None).fresh


def test_the_notice_is_for_one_book_client_and_round():
    first = WithdrawalNotice("b" * 64, "bob", 3)
    assert json.loads(first.message()) == {
        "format": "commonweal.withdrawal/1",
        "book": "b" * 64,
        "client": "bob",
        "round": 3,
    }
    others = [replace(first, book="c" * 64), replace(first, client="ann"), replace(first, round_number=4)]
    for key in (CLIENT_KEYS["ann"], CLIENT_KEYS["bob"]):
        signature = first.signed(key)
        assert first.is_signed(signature, key.public)
        assert not any(other.is_signed(signature, key.public) for other in others)


@pytest.mark.parametrize("content", [hledger_content, beancount_content])
def test_exports_remark_it(sample, book, content):
    book.withdraw("bob", 1, notice(book, "bob", 1))
    text = content(sample.store).decode()
    assert '; entry 4, 2026-01-01, withdrawal after round 1: "bob"\n' in text


def test_a_table_of_postings_has_none_of_it(sample, book):
    before = csv_content(sample.store)
    book.withdraw("bob", 1, notice(book, "bob", 1))
    assert csv_content(sample.store) == before
    assert parsed(sample.entries()[-1])["kind"] == "withdrawal"
