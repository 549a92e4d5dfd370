"""Who can be in a round or silent in it, and from which round on amendments count, whatever was reversed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from commonweal.errors import LedgerError
from commonweal.federation.settlement import FederationLedger
from commonweal.ledger.amendments import amendment_body
from commonweal.ledger.entries import Posting
from commonweal.ledger.rounds import draft_round
from commonweal.records import Rules
from tests.ledger.sample_ledger import CLIENT_KEYS, next_document, signed_notice, verified
from tests.ledger.test_terms import AGREED, GAINS, a_round, amendment_of, open_with, rules_found, signed_by

FREE = replace(
    AGREED, round_count=None, grace_rounds=0, profit_bounds={}, most_samples={}, silence_charge=5000, silence_limit=9
)
TWO = {client: GAINS[client] for client in ("ann", "cyd")}
LOSING = {"ann": (0.3, 0.5, None), "bob": (-0.4, 0.01, None), "cyd": (0.1, 0.2, None)}
WITH_DAN = GAINS | {"dan": (0.05, 0.1, None)}
ONLY_WITH_THE_MODEL = "only members that get a round's model are silent in it"
STILL_ACTIVE = "only active members are absent from a round"
AFTER_ADMISSION = "members take part in the rounds after their admission"
CONTRIBUTIONS = "a round settled again under the same signatures has the same contributions"
IN_ORDER = "where rules are agreed, rounds are settled in order and without gaps"


@pytest.fixture
def sample(tmp_path):
    made = open_with(tmp_path, FREE)
    yield made
    made.store.close()


def settle(sample, number, rows=GAINS, silent=(), **options):
    settled = a_round(sample.ledger, number, rows, FREE, **options)
    return replace(settled, record=replace(settled.record, silent=silent))


def forged(sample, settled):
    """The rules that an entry of this round breaks, if the operator writes it by itself."""
    terms = sample.ledger.state.terms_of(settled.record.round_number).terms
    draft = draft_round(settled, sample.ledger.identity, terms)
    return rules_found(sample, next_document(sample.entries(), "round", draft.body, draft.postings))


def admit_dan(sample):
    amendment = amendment_of(sample.ledger.state, members={"dan": CLIENT_KEYS["dan"].public})
    signers = [client for client in ("ann", "bob") if client in sample.ledger.state.active(2)]
    sample.ledger.amend(amendment, signed_by(amendment, *signers, "dan"))


def withdrawn(sample):
    sample.ledger.settle(settle(sample, 1))
    sample.ledger.withdraw("bob", 1, signed_notice(sample.ledger.identity, "bob", 1))


def eliminated(sample):
    sample.ledger.settle(settle(sample, 1, LOSING))
    assert sample.ledger.state.eliminated == {"bob": 1}


def kept_out(sample):
    sample.ledger.settle(settle(sample, 1, TWO, absent=("bob",), silent=("bob",)))


@pytest.mark.parametrize("before", [withdrawn, eliminated, kept_out])
def test_who_does_not_get_the_model_is_not_silent(sample, before):
    before(sample)
    second = settle(sample, 2, TWO, absent=("bob",), silent=("bob",))
    with pytest.raises(LedgerError, match=r"'bob' cannot be silent in round 2: it .* did not get the round's model"):
        sample.ledger.settle(second)
    is_gone = "bob" not in sample.ledger.state.active(2)
    assert forged(sample, second) == [ONLY_WITH_THE_MODEL, *([STILL_ACTIVE] if is_gone else [])]
    absent = settle(sample, 2, TWO, absent=("bob",))
    if is_gone:
        with pytest.raises(LedgerError, match="'bob' left before round 2 and cannot be absent"):
            sample.ledger.settle(absent)
        assert forged(sample, absent) == [STILL_ACTIVE]
    sample.ledger.settle(settle(sample, 2, TWO) if is_gone else absent)
    assert not verified(sample.store).findings


def test_who_joined_later_was_not_silent_before(sample):
    sample.ledger.settle(settle(sample, 1))
    admit_dan(sample)
    sample.ledger.reverse_round(1, "an error")
    again = settle(sample, 1, absent=("dan",), silent=("dan",))
    with pytest.raises(LedgerError, match="'dan' cannot be silent in round 1"):
        sample.ledger.settle(again)
    assert forged(sample, again) == [ONLY_WITH_THE_MODEL, STILL_ACTIVE]
    sample.ledger.settle(settle(sample, 1))
    assert not verified(sample.store).findings


def test_who_joined_later_was_not_absent_before(sample):
    """Listed as absent, a newcomer would be planned with: the operator could choose who takes part next."""
    sample.ledger.settle(settle(sample, 1))
    admit_dan(sample)
    sample.ledger.reverse_round(1, "an error")
    again = settle(sample, 1, absent=("dan",))
    with pytest.raises(LedgerError, match="'dan' joined after round 1 and cannot be absent"):
        sample.ledger.settle(again)
    assert forged(sample, again) == [STILL_ACTIVE]


def test_a_newcomer_takes_no_part_in_rounds_before_its_admission(sample):
    sample.ledger.settle(settle(sample, 1))
    admit_dan(sample)
    sample.ledger.reverse_round(1, "measured again")
    again = settle(sample, 1, WITH_DAN)
    with pytest.raises(LedgerError, match="'dan' cannot take part in round 1: it was admitted from round 2 on"):
        sample.ledger.settle(again)
    assert forged(sample, again) == [AFTER_ADMISSION]


def test_who_was_absent_may_be_added_with_the_contributions_of_before(sample):
    sample.ledger.settle(settle(sample, 1, TWO, absent=("bob",)))
    sample.ledger.reverse_round(1, "bob's figures came late")
    others = settle(sample, 1, GAINS | {"ann": (0.3, 0.4, None)})
    with pytest.raises(LedgerError, match=r"expected ann 0\.5 as in entry 3, got 0\.4"):
        sample.ledger.settle(others)
    assert forged(sample, others) == [CONTRIBUTIONS]
    sample.ledger.settle(settle(sample, 1, GAINS))
    assert not verified(sample.store).findings


def test_rounds_are_numbered_without_gaps_where_rules_are_agreed(sample):
    """Grace rounds, planned rounds and odd cents go by the numbers."""
    for number in (2, 5, 20261231):
        with pytest.raises(LedgerError, match=f"Round {number} cannot be settled before round 1: .* numbered 1, 2, 3"):
            sample.ledger.settle(settle(sample, number))
        assert forged(sample, settle(sample, number)) == [IN_ORDER]
    sample.ledger.settle(settle(sample, 1))
    with pytest.raises(LedgerError, match="Round 3 cannot be settled before round 2"):
        sample.ledger.settle(settle(sample, 3))


def test_reversing_the_first_round_does_not_open_the_terms_again(sample):
    sample.ledger.settle(settle(sample, 1))
    sample.ledger.reverse_round(1, "again")
    with pytest.raises(LedgerError, match="cannot be admitted by the operator alone"):
        sample.ledger.admit({"dan": None})
    with pytest.raises(LedgerError, match="already states other rules"):
        sample.ledger.agree(replace(FREE, rules=Rules(mu=0.2)))


def test_nobody_becomes_silent_in_a_round_that_is_settled_again(sample):
    sample.ledger.settle(settle(sample, 1, TWO, absent=("bob",)))
    sample.ledger.reverse_round(1, "an error")
    again = settle(sample, 1, TWO, absent=("bob",), silent=("bob",))
    with pytest.raises(LedgerError, match="'bob' cannot be silent in round 1: it reported or was only absent"):
        sample.ledger.settle(again)
    assert forged(sample, again) == ["nobody becomes silent in a round that is settled again"]


def test_who_had_left_when_a_round_was_settled_does_not_become_silent_in_it(tmp_path):
    """It did not get the round's model, so it is neither charged for it nor excluded."""
    sample = open_with(tmp_path, replace(FREE, silence_limit=1))
    sample.ledger.settle(settle(sample, 1, TWO, absent=("bob",), silent=("bob",)))
    (exclusion,) = sample.ledger.end_memberships()
    sample.ledger.settle(settle(sample, 2, TWO))
    sample.ledger.reverse_round(2, "bob has a receipt for round 1")
    sample.ledger.reverse(exclusion.entry, "bob has a receipt for round 1")
    sample.ledger.reverse_round(1, "bob has a receipt for round 1")
    sample.ledger.settle(settle(sample, 1))
    again = settle(sample, 2, TWO, absent=("bob",), silent=("bob",))
    with pytest.raises(LedgerError, match=r"'bob' cannot be silent in round 2: .* or had no part in it"):
        sample.ledger.settle(again)
    assert forged(sample, again) == ["nobody becomes silent in a round that is settled again"]
    sample.ledger.settle(settle(sample, 2, TWO, absent=("bob",)))
    assert not verified(sample.store).findings
    sample.store.close()


def test_who_is_no_longer_silent_in_a_round_settled_again_is_noted(sample):
    sample.ledger.settle(settle(sample, 1, TWO, absent=("bob",), silent=("bob",)))
    sample.ledger.reverse_round(1, "bob has a receipt")
    sample.ledger.settle(settle(sample, 1, TWO, absent=("bob",)))
    outcome = verified(sample.store)
    assert not outcome.findings
    assert ["who was silent" in note.found for note in outcome.notes] == [True]


def test_a_charge_stays_while_its_client_takes_part_because_of_it(sample):
    sample.ledger.settle(settle(sample, 1, TWO, absent=("bob",), silent=("bob",)))
    entry = sample.ledger.charge("bob", 1).entry
    sample.ledger.settle(settle(sample, 2))
    with pytest.raises(LedgerError, match=r"because of it the client got the model of round 2.* Reverse round 2 first"):
        sample.ledger.reverse(entry, "a mistake")
    opposite = [Posting(account, -int(amount)) for account, amount in sample.ledger.document(entry)["postings"]]
    reversal = next_document(sample.entries(), "reversal", {"entry": entry, "reason": "a mistake"}, opposite)
    assert rules_found(sample, reversal) == ["nothing rests on what is reversed"]
    sample.ledger.reverse_round(2, "first")
    sample.ledger.reverse(entry, "a mistake")
    assert not verified(sample.store).findings


def test_the_smallest_quorum_is_one_member(tmp_path):
    sample = open_with(tmp_path, replace(FREE, quorum=1e-10))
    amendment = amendment_of(sample.ledger.state, rules=Rules(mu=9.0))
    with pytest.raises(LedgerError, match="signatures of 1 of 2 active members"):
        sample.ledger.amend(amendment, {})
    body = amendment_body(amendment, {})
    assert rules_found(sample, next_document(sample.entries(), "amendment", body)) == ["a quorum signs an amendment"]
    sample.store.close()


def test_a_federation_does_not_list_newcomers_as_absent_from_earlier_rounds(sample):
    sample.ledger.settle(settle(sample, 1))
    admit_dan(sample)
    sample.ledger.reverse_round(1, "an error")
    again = settle(sample, 1)
    members = dict(sample.ledger.state.members)
    federation = FederationLedger(sample.location, sample.keys, name="five banks", members=members, agreed=FREE)
    entry = federation.settle(again.record, again.sample_counts, again.signatures).entry
    federation.close()
    sample.ledger.refresh()
    assert sample.ledger.document(entry)["body"]["absent"] == []
