"""Who had a round's model and did not report: counted, kept out, charged and excluded as the terms state."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from commonweal.cli.main import app
from commonweal.errors import LedgerError
from commonweal.ledger.entries import Posting, client_account
from commonweal.ledger.rounds import draft_round
from commonweal.ledger.silence import charge_postings, silent_in
from commonweal.ledger.state import LedgerState, TermsSince
from commonweal.ledger.statements import make_statement
from commonweal.ledger.terms import Terms
from tests.ledger.sample_ledger import next_document, signed_notice, verified
from tests.ledger.test_terms import AGREED, GAINS, a_round, open_with, rules_found

LIMITED = replace(AGREED, silence_charge=1001, silence_limit=3, round_count=9, profit_bounds={}, most_samples={})
WITHOUT_BOB = {client: row for client, row in GAINS.items() if client != "bob"}
OWED = "who was silent takes part again only after a late report or a charge"
ENDED = "membership ends after as many silences as the terms allow"


@pytest.fixture
def sample(tmp_path):
    made = open_with(tmp_path, LIMITED)
    yield made
    made.store.close()


@pytest.fixture
def unlimited(tmp_path):
    """A ledger whose terms say nothing of silence."""
    (tmp_path / "unlimited").mkdir()
    made = open_with(tmp_path / "unlimited", replace(LIMITED, silence_charge=None, silence_limit=None))
    yield made
    made.store.close()


def with_all(sample, number):
    return a_round(sample.ledger, number, GAINS, sample.ledger.terms.agreed)


def without_bob(sample, number, *, silent=True):
    settled = a_round(sample.ledger, number, WITHOUT_BOB, sample.ledger.terms.agreed, absent=("bob",))
    return replace(settled, record=replace(settled.record, silent=("bob",))) if silent else settled


def charge(sample, client, number, amount="1001", postings=None):
    """The document of a charge that its operator forged."""
    body = {"client": client, "round": number, "amount": amount}
    made = charge_postings(sample.ledger.state, client, number, int(amount)) if postings is None else postings
    return next_document(sample.entries(), "charge", body, made)


def test_silence_is_counted_and_shown_apart_from_absence(unlimited):
    unlimited.ledger.settle(without_bob(unlimited, 1, silent=False))
    unlimited.ledger.settle(without_bob(unlimited, 2))
    unlimited.ledger.settle(with_all(unlimited, 3))
    state = unlimited.ledger.state
    assert state.silences == {"bob": [2]}
    assert "silent" not in unlimited.ledger.document(state.rounds[1])["body"]
    assert silent_in(unlimited.ledger.document(state.rounds[2])["body"]) == ("bob",)
    assert not verified(unlimited.store).findings, "without terms on silence nothing follows from it"
    texts = [line.text for line in make_statement(unlimited.store, "bob", at="now").lines]
    assert texts[1:3] == [
        "round 1: absent",
        "round 2: silent; you had the round's model and did not report",
    ]
    shown = " ".join(CliRunner().invoke(app, ["ledger", "show", unlimited.location]).output.split())
    assert "absent: bob" in shown
    assert "silent at the report: bob" in shown
    assert "bob had the model of round 2 and did not report" in shown
    for number in (3, 2):
        unlimited.ledger.reverse_round(number, "bob has a receipt")
    assert unlimited.ledger.state.silences == {"bob": []}


def test_only_the_absent_are_silent(unlimited):
    settled = with_all(unlimited, 1)
    silent = replace(settled, record=replace(settled.record, silent=("bob",)))
    with pytest.raises(LedgerError, match="'bob' cannot be silent in round 1: it is not absent"):
        unlimited.ledger.settle(silent)
    unlimited.ledger.settle(without_bob(unlimited, 1))
    body = unlimited.ledger.document(unlimited.ledger.state.rounds[1])["body"]
    for wrong in (["ann"], [], ["bob", "bob"], ["bob", "zoe"]):
        forged = next_document(unlimited.entries(), "round", {**body, "round": 2, "silent": wrong})
        assert "who was silent is absent, and listed in the same order" in rules_found(unlimited, forged)


def test_who_was_silent_takes_no_part_until_it_is_charged(sample):
    sample.ledger.settle(without_bob(sample, 1))
    with pytest.raises(
        LedgerError, match="'bob' had the model of round 1 and did not report, so it takes no part in rou"
    ):
        sample.ledger.settle(with_all(sample, 2))
    sample.ledger.settle(without_bob(sample, 2, silent=False))
    receipt = sample.ledger.charge("bob", 1)
    assert receipt.fresh
    assert not sample.ledger.charge("bob", 1).fresh
    postings = sample.ledger.document(receipt.entry)["postings"]
    assert postings == [["clients/bob", "-1001"], ["clients/ann", "500"], ["clients/cyd", "501"]], "cyd's turn"
    sample.ledger.settle(with_all(sample, 3))
    assert not verified(sample.store).findings
    texts = {client: [line.text for line in make_statement(sample.store, client, at="now").lines] for client in GAINS}
    assert "charge for your silence in round 1" in texts["bob"]
    assert "charge for bob's silence in round 1" in texts["ann"]


def test_a_ledger_that_lets_the_silent_take_part_is_not_sound(sample):
    sample.ledger.settle(without_bob(sample, 1))
    settled = with_all(sample, 2)
    draft = draft_round(settled, sample.ledger.identity, sample.ledger.terms)
    forged = next_document(sample.entries(), "round", draft.body, draft.postings)
    assert rules_found(sample, forged) == [OWED]


def test_a_charge_can_be_reversed_and_the_silence_is_open_again(sample):
    sample.ledger.settle(without_bob(sample, 1))
    entry = sample.ledger.charge("bob", 1).entry
    with pytest.raises(LedgerError, match=f"while 'bob' is charged for it. Reverse entry {entry} first"):
        sample.ledger.reverse_round(1, "wrong")
    forged = next_document(
        sample.entries(),
        "reversal",
        {"entry": sample.ledger.state.rounds[1], "reason": "wrong"},
        [Posting(account, -int(amount)) for account, amount in sample.ledger.document(3)["postings"]],
    )
    assert rules_found(sample, forged) == ["nothing rests on what is reversed"]
    sample.ledger.reverse(entry, "charged too early")
    assert sample.ledger.state.balances["clients/bob"] == 0
    with pytest.raises(LedgerError, match="takes no part in round 2"):
        sample.ledger.settle(with_all(sample, 2))
    assert sample.ledger.charge("bob", 1).fresh
    assert not verified(sample.store).findings


@pytest.mark.parametrize(
    ("client", "number", "message"),
    [("ann", 1, "'ann' was not silent in round 1"), ("bob", 2, "'bob' was not silent in round 2"), ("zoe", 1, "'zoe'")],
)
def test_only_silence_is_charged(sample, client, number, message):
    sample.ledger.settle(without_bob(sample, 1))
    with pytest.raises(LedgerError, match=message):
        sample.ledger.charge(client, number)
    assert rules_found(sample, charge(sample, client, number, postings=[])) == [
        "a charge is for a silence, by the terms"
    ]


def test_only_the_charge_in_the_terms_is_charged(sample, unlimited):
    unlimited.ledger.settle(without_bob(unlimited, 1))
    with pytest.raises(LedgerError, match="state no charge for silence in round 1"):
        unlimited.ledger.charge("bob", 1)
    sample.ledger.settle(without_bob(sample, 1))
    assert rules_found(sample, charge(sample, "bob", 1, "5000")) == [
        "a charge follows from the terms",
        "the postings follow from the entry's inputs",
    ]
    to_ann = [Posting("clients/bob", -1001), Posting("clients/ann", 1001)]
    assert rules_found(sample, charge(sample, "bob", 1, postings=to_ann)) == [
        "the postings follow from the entry's inputs"
    ]
    sample.ledger.charge("bob", 1)
    assert "a charge is for a silence, by the terms" in rules_found(sample, charge(sample, "bob", 1))


def test_membership_ends_after_the_agreed_number_of_silences(sample):
    ledger = sample.ledger
    for number in (1, 2):
        ledger.settle(without_bob(sample, number))
        assert not ledger.end_memberships()
        ledger.charge("bob", number)
    ledger.settle(without_bob(sample, 3))
    with pytest.raises(
        LedgerError, match="membership of 'bob' has ended by the terms: it was silent in rounds 1, 2, 3"
    ):
        ledger.settle(without_bob(sample, 4, silent=False))
    draft_body = ledger.document(ledger.state.rounds[3])["body"]
    without_end = next_document(sample.entries(), "round", {**draft_body, "round": 4})
    assert ENDED in rules_found(sample, without_end)
    (receipt,) = ledger.end_memberships()
    assert ledger.document(receipt.entry)["body"] == {"client": "bob", "rounds": [1, 2, 3]}
    assert not ledger.end_memberships()
    assert ledger.state.active(4) == ("ann", "cyd")
    settled = a_round(ledger, 4, WITHOUT_BOB, ledger.terms.agreed)
    ledger.settle(settled)
    assert not verified(sample.store).findings
    with pytest.raises(LedgerError, match="membership of 'bob' ended after it was silent in round 3"):
        ledger.settle(with_all(sample, 5))
    assert make_statement(sample.store, "bob", at="now").lines[-1].text == (
        "membership ended: silent in rounds 1, 2, 3"
    )
    with pytest.raises(
        LedgerError, match=r"cannot be reversed: round 4 was settled without it\. Reverse round 4 first"
    ):
        ledger.reverse(receipt.entry, "bob had a receipt for round 3")
    ledger.reverse_round(4, "wrong")
    with pytest.raises(LedgerError, match="while the membership of 'bob' is ended for it"):
        ledger.reverse_round(3, "wrong")
    ledger.reverse(receipt.entry, "bob had a receipt for round 3")
    assert ledger.state.active(4) == ("ann", "bob", "cyd")


@pytest.mark.parametrize("rounds", [[1], [1, 2], [2, 3, 4]])
def test_nobody_is_excluded_otherwise(sample, rounds):
    for number in (1, 2):
        sample.ledger.settle(without_bob(sample, number))
        sample.ledger.charge("bob", number)
    forged = next_document(sample.entries(), "exclusion", {"client": "bob", "rounds": rounds})
    assert rules_found(sample, forged) == [ENDED]


def test_the_treasurer_charges_by_command(sample, monkeypatch):
    monkeypatch.setenv("COMMONWEAL_KEYS", str(sample.keys.path))
    sample.ledger.settle(without_bob(sample, 1))
    said = [CliRunner().invoke(app, ["ledger", "charge", sample.location, "bob", "--round", "1"]) for _ in range(2)]
    assert [one.exit_code for one in said] == [0, 0]
    assert "bob: -10.01" in said[0].output
    assert "was already charged for round 1" in said[1].output


@pytest.mark.parametrize("form", ["beancount", "hledger", "csv"])
def test_charges_and_exclusions_are_exported(sample, tmp_path, form):
    for number in (1, 2, 3):
        sample.ledger.settle(without_bob(sample, number))
        sample.ledger.charge("bob", number)
    sample.ledger.end_memberships()
    out = tmp_path / "exported"
    made = CliRunner().invoke(app, ["ledger", "export", sample.location, "--format", form, "--out", str(out)])
    assert made.exit_code == 0, made.output
    text = out.read_text() if out.is_file() else "".join(file.read_text() for file in out.iterdir())
    assert "charge for silence in round 1" in text
    assert form == "csv" or "exclusion" in text, "CSV has only postings"


@given(
    st.integers(1, 10**15),
    st.lists(st.sampled_from("abcdefghij"), min_size=1, unique=True),
    st.integers(1, 1000),
    st.sampled_from([1, 2]),
)
def test_every_unit_of_a_charge_arrives(amount, retained, number, version):
    state = LedgerState()
    terms = Terms(name="x", agreed=replace(LIMITED, settlement_version=version))
    state.terms_since = [TermsSince(first_round=0, terms=terms, hash="")]
    state.retained = {number: tuple(retained)}
    postings = charge_postings(state, "silent", number, amount)
    assert sum(posting.amount for posting in postings) == 0
    received = {posting.account: posting.amount for posting in postings[1:]}
    assert set(received) <= {client_account(client) for client in retained}
    parts = [received.get(client_account(client), 0) for client in retained]
    assert max(parts) - min(parts) <= 1


@pytest.mark.parametrize(("version", "favoured"), [(1, "aaaa"), (2, "bcab")])
def test_odd_units_of_a_charge_go_to_each_in_turn(version, favoured):
    """Beginning with the second of the retained in round 1, as docs/reference/ledger.md says."""
    state = LedgerState()
    terms = Terms(name="x", agreed=replace(LIMITED, settlement_version=version))
    state.terms_since = [TermsSince(first_round=0, terms=terms, hash="")]
    state.retained = dict.fromkeys((1, 2, 3, 4), ("a", "b", "c"))
    for number, client in enumerate(favoured, start=1):
        assert Posting(client_account(client), 4) in charge_postings(state, "silent", number, 10)


def test_a_notice_that_was_held_back_does_not_follow_silences(sample):
    """Who had left could not be silent, nor charged for it."""
    sample.ledger.settle(with_all(sample, 1))
    notice = signed_notice(sample.ledger.identity, "bob", 1)
    sample.ledger.settle(without_bob(sample, 2))
    sample.ledger.charge("bob", 2)
    with pytest.raises(LedgerError, match="'bob' cannot withdraw after round 1: round 2 calls it silent"):
        sample.ledger.withdraw("bob", 1, notice)
    body = {"client": "bob", "round": 1, "signature": notice}
    found = rules_found(sample, next_document(sample.entries(), "withdrawal", body))
    assert found == ["withdrawn clients are not silent in later rounds"]
    sample.ledger.withdraw("bob", 2, signed_notice(sample.ledger.identity, "bob", 2))
    assert not verified(sample.store).findings


OPEN = "by the terms, a silence is reported late or charged"


def noted(sample, rule):
    return [(note.entry, note.expected, note.found) for note in verified(sample.store).notes if note.rule == rule]


@pytest.mark.parametrize("leaves", [True, False])
def test_a_charge_that_is_never_made_or_taken_back_is_noted(sample, leaves):
    """Only the operator charges: it could spare a friend."""
    sample.ledger.settle(without_bob(sample, 1))
    for_round_1 = "a report or a charge of bob for round 1"
    assert noted(sample, OPEN) == [(3, for_round_1, "neither")]
    entry = sample.ledger.charge("bob", 1).entry
    assert noted(sample, OPEN) == []
    if leaves:
        sample.ledger.withdraw("bob", 1, signed_notice(sample.ledger.identity, "bob", 1))
        for_round_1 = "a report or a charge of bob, who left, for round 1"
    taken_back = sample.ledger.reverse(entry, "by agreement").entry
    assert noted(sample, OPEN) == [(taken_back, for_round_1, "a charge that was reversed")]
    sample.ledger.charge("bob", 1)
    assert noted(sample, OPEN) == []


def test_a_silence_without_a_charge_in_the_terms_stays_open_without_a_note(unlimited):
    unlimited.ledger.settle(without_bob(unlimited, 1))
    assert noted(unlimited, OPEN) == []


def test_an_exclusion_that_is_due_is_noted_and_so_is_a_withdrawal_in_its_place(tmp_path):
    sample = open_with(tmp_path, replace(LIMITED, silence_charge=None, silence_limit=1))
    sample.ledger.settle(without_bob(sample, 1))
    due = "an exclusion of bob, silent in rounds 1"
    assert noted(sample, ENDED) == [(3, due, "none so far")]
    (ended,) = sample.ledger.end_memberships()
    assert noted(sample, ENDED) == []
    sample.ledger.reverse(ended.entry, "by agreement")
    assert noted(sample, ENDED) == [(3, due, "none so far")]
    left = sample.ledger.withdraw("bob", 1, signed_notice(sample.ledger.identity, "bob", 1)).entry
    assert noted(sample, ENDED) == [(left, due, "a withdrawal")]
    sample.ledger.settle(a_round(sample.ledger, 2, WITHOUT_BOB, sample.ledger.terms.agreed))
    assert not verified(sample.store).findings
    sample.store.close()


@pytest.mark.parametrize("is_settled_again", [False, True])
def test_an_exclusion_that_a_withdrawal_replaces_is_noted(tmp_path, is_settled_again):
    """The notice is entered while the exclusion stands, which is reversed afterwards."""
    sample = open_with(tmp_path, replace(LIMITED, silence_charge=None, silence_limit=1))
    ledger = sample.ledger
    ledger.settle(without_bob(sample, 1))
    (ended,) = ledger.end_memberships()
    left = ledger.withdraw("bob", 1, signed_notice(ledger.identity, "bob", 1)).entry
    assert noted(sample, ENDED) == []
    ledger.reverse(ended.entry, "goodwill")
    if is_settled_again:
        ledger.reverse_round(1, "an error")
        ledger.settle(without_bob(sample, 1))
    ledger.settle(a_round(ledger, 2, WITHOUT_BOB, ledger.terms.agreed))
    assert noted(sample, ENDED) == [(left, "an exclusion of bob, silent in rounds 1", "a withdrawal")]
    assert not verified(sample.store).findings
    sample.store.close()


def test_a_notice_before_the_last_silence_is_noted_as_such(tmp_path):
    """Who has left cannot be excluded."""
    sample = open_with(tmp_path, replace(LIMITED, silence_charge=None, silence_limit=1))
    left = sample.ledger.withdraw("bob", 1, signed_notice(sample.ledger.identity, "bob", 1)).entry
    sample.ledger.settle(without_bob(sample, 1))
    assert not sample.ledger.end_memberships()
    found = "a withdrawal, entered before round 1 was settled"
    assert noted(sample, ENDED) == [(left, "an exclusion of bob, silent in rounds 1", found)]
    assert not verified(sample.store).findings
    sample.store.close()


def test_a_member_that_withdraws_below_the_limit_is_not_noted(sample):
    for number in (1, 2):
        sample.ledger.settle(without_bob(sample, number))
        sample.ledger.charge("bob", number)
    sample.ledger.withdraw("bob", 2, signed_notice(sample.ledger.identity, "bob", 2))
    assert noted(sample, ENDED) == []
