"""Rounds keep to the terms of their ledger; terms and members change only by amendments that members signed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from commonweal.decision.decide import decide_figures
from commonweal.decision.mechanisms import make_mechanism
from commonweal.errors import InputError, LedgerError
from commonweal.ledger.agreed_rules import AgreedRules
from commonweal.ledger.amendments import Amendment, amendment_body
from commonweal.ledger.canonical import canonical, parse
from commonweal.ledger.entries import Posting
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.ledger.ledger import Ledger
from commonweal.ledger.rounds import RoundToSettle, draft_round
from commonweal.ledger.sql.store import open_store
from commonweal.ledger.state import LedgerState
from commonweal.ledger.statements import make_statement
from commonweal.ledger.terms import Terms
from commonweal.records import Figures, PairedGain, RoundRecord, Rules
from commonweal.valuation.used_gains import used_gains
from tests.ledger.sample_ledger import (
    CLIENT_KEYS,
    FIRST_ROUND,
    MEMBERS,
    SECOND_ROUND,
    STRANGER,
    SampleLedger,
    next_document,
    parsed,
    rewritten,
    sealed,
    signed_notice,
    steady_clock,
    tampering,
    verified,
)

STRICT = Rules(mu=0.05)
GAINS = {"ann": (0.3, 0.5, None), "bob": (0.2, 0.3, None), "cyd": (0.1, 0.2, None)}  # nobody is eliminated
AGREED = AgreedRules(
    rules=STRICT,
    rules_version=make_mechanism(STRICT).version_in_ledgers,
    round_count=4,
    grace_rounds=1,
    measure="marginal",
    contribution_score="metric",
    scorers="all",
    utility="gain",
    metric="accuracy",
    profit_bounds={"ann": (-1.0, 1.0), "bob": (-0.5, 0.5)},
    most_samples={"ann": 200},
)


def open_with(tmp_path, agreed: AgreedRules | None = AGREED, members=MEMBERS, **terms: Any) -> SampleLedger:
    keys = KeyDirectory(tmp_path / "keys")
    location = str(tmp_path / "ledger.db")
    store = open_store(location, create=True)
    ledger = Ledger.start(store, Terms(name="five banks", agreed=agreed, **terms), keys, clock=steady_clock())
    ledger.admit(members)
    return SampleLedger(location, store, ledger, keys)


@pytest.fixture
def sample(tmp_path):
    made = open_with(tmp_path)
    yield made
    made.store.close()


def a_round(
    ledger: Ledger, number: int, rows=FIRST_ROUND, agreed: AgreedRules = AGREED, **changed: Any
) -> RoundToSettle:
    """A round by the agreed rules, signed by its clients."""
    rules = changed.pop("rules", agreed.rules)
    grace = changed.pop("grace", number <= agreed.grace_rounds)
    figures = Figures(
        profits={client: row[0] for client, row in rows.items()},
        contributions={client: row[1] for client, row in rows.items()},
    )
    settled = RoundToSettle(
        record=RoundRecord(
            round_number=number,
            decision=decide_figures(figures, replace(rules, version=2), grace=grace),
            absent=changed.pop("absent", ()),
        ),
        rules_version=make_mechanism(replace(rules, version=2)).version_in_ledgers,
        measured_by=agreed.measured_by,
        sample_counts=dict.fromkeys(rows, 100),
    )
    settled = replace(settled, **changed)
    signatures = {
        client: settled.report(ledger.identity, client).signed(CLIENT_KEYS[client])
        for client in rows
        if client in CLIENT_KEYS and ledger.state.members.get(client, "unknown") is not None
    }
    return replace(settled, signatures=signatures)


def rules_found(sample: SampleLedger, *documents: dict[str, Any]) -> list[str]:
    """The rules broken by a ledger that continues with these documents, signed by its operator."""
    with tampering(sample.store) as forger:
        for document in documents:
            forger.add(sealed(document, sample.operator))
        return [finding.rule for finding in verified(forger).findings]


def forged_round(sample: SampleLedger, settled: RoundToSettle, **body: Any) -> list[str]:
    draft = draft_round(settled, sample.ledger.identity, sample.ledger.terms)
    return rules_found(sample, next_document(sample.entries(), "round", {**draft.body, **body}, draft.postings))


def test_rounds_by_the_terms_are_settled_and_verify_without_a_note(sample):
    sample.ledger.settle(a_round(sample.ledger, 1))
    sample.ledger.settle(a_round(sample.ledger, 2, SECOND_ROUND, absent=("bob",)))
    result = verified(sample.store)
    assert not result.findings
    assert not [note for note in result.notes if "agreed" in note.rule]
    assert not sample.ledger.settle(a_round(sample.ledger, 1)).fresh


BY_COUNT = replace(AGREED, measure="quantity")
DEPARTURES = {
    "mu": {"rules": replace(STRICT, mu=0.2)},
    "loss_rule": {"rules": replace(STRICT, loss_rule="equal")},
    "contribution_rule": {"rules": replace(STRICT, contribution_rule="raw")},
    "liability_cap": {"rules": replace(STRICT, liability_cap=0.1)},
    "grace": {"number": 2, "grace": True},
    "the last round": {"number": 5},
    "measure": {"measured_by": BY_COUNT.measured_by},
    "measured_by": {"measured_by": None},
    "the order of inputs": {"rows": {client: FIRST_ROUND[client] for client in ("bob", "ann", "cyd")}},
    "the order of absent": {"rows": {"bob": FIRST_ROUND["bob"]}, "absent": ("cyd", "ann")},
    "the profit of bob": {"rows": {**FIRST_ROUND, "bob": (0.51, 0.3, None)}},
    "the number of new samples of ann": {"sample_counts": {"ann": 201}},
    "the number of new samples of ann ": {"sample_counts": {}},
}


@pytest.mark.parametrize("what", DEPARTURES)
def test_a_round_that_departs_from_the_terms_is_refused_and_found(sample, what):
    given = {"number": 1, **DEPARTURES[what]}
    for earlier in range(1, given["number"]):
        sample.ledger.settle(a_round(sample.ledger, earlier, GAINS))
    settled = a_round(sample.ledger, **given)
    with pytest.raises(LedgerError, match=f"departs from the terms.*{what.strip()} is"):
        sample.ledger.settle(settled)
    assert f"rounds keep to the terms: {what.strip()}" in forged_round(sample, settled)


def test_figures_harm_and_endings_that_were_not_agreed_on_are_found(sample):
    settled = a_round(sample.ledger, 2)
    assert "rounds keep to the terms: ending" in forged_round(sample, settled, ending={"ends": False})
    harm = {"version": "harm/2", "found": [{"client": "ann", "is_eliminated": False}]}
    assert "rounds keep to the terms: harm" in forged_round(sample, settled, harm=harm)
    gains = {"table": {"version": "pooled/1"}}
    assert forged_round(sample, settled, gains=gains)
    assert "rounds keep to the terms: terms" in forged_round(sample, settled, terms="0" * 64)
    assert "rounds keep to the terms: rules_version" in forged_round(sample, settled, rules_version="paper/1")


def test_contributions_by_quantity_are_the_new_samples(tmp_path):
    """Clients sign how many there are, so nobody takes the operator's word for it."""
    sample = open_with(tmp_path, BY_COUNT)
    others = {"ann": (0.3, 100.0, None), "bob": (0.2, 100.0, None), "cyd": (0.1, 998.0, None)}
    settled = a_round(sample.ledger, 1, others, BY_COUNT)
    match = "contribution of cyd is 100, the number of its new samples in the terms and 998"
    with pytest.raises(LedgerError, match=match):
        sample.ledger.settle(settled)
    assert forged_round(sample, settled) == ["rounds keep to the terms: the contribution of cyd"]
    unknown = replace(settled, sample_counts={"ann": 100, "bob": 100})
    assert "rounds keep to the terms: the contribution of cyd" in forged_round(sample, unknown)
    sample.ledger.settle(a_round(sample.ledger, 1, {c: (row[0], 100.0, None) for c, row in others.items()}, BY_COUNT))
    assert not verified(sample.store).findings
    sample.store.close()


def test_an_end_that_was_agreed_on_cannot_be_hidden(tmp_path):
    agreed = replace(AGREED, ending="advise")
    sample = open_with(tmp_path, agreed)
    settled = a_round(sample.ledger, 2, agreed=agreed)
    draft = draft_round(settled, sample.ledger.identity, sample.ledger.terms)
    losing = [{**row, "expected_profit": -0.1} for row in draft.body["inputs"]]
    assert "rounds keep to the terms: ending" in forged_round(sample, settled, inputs=losing)
    gaining = [{**row, "expected_profit": 0.1} for row in draft.body["inputs"]]
    assert "rounds keep to the terms: ending" not in forged_round(sample, settled, inputs=gaining)
    sample.store.close()


@pytest.mark.parametrize("expected", [0.5, 0.51, -0.51])
def test_expected_profits_keep_to_the_bounds_too(sample, expected):
    """They decide who stays."""
    draft = draft_round(a_round(sample.ledger, 2), sample.ledger.identity, sample.ledger.terms)
    rows = [{**row, "expected_profit": expected if row["client"] == "bob" else 0.1} for row in draft.body["inputs"]]
    rules = forged_round(sample, a_round(sample.ledger, 2), inputs=rows)
    assert ("rounds keep to the terms: the expected profit of bob" in rules) == (abs(expected) > 0.5)


@pytest.mark.parametrize("count", [400, 401])
def test_validation_samples_are_among_those_that_a_client_may_have(sample, count):
    """They weigh its gain where gains are pooled. Ann may declare 200 new samples per round."""
    table = {"ann": PairedGain(gain=0.1, sample_count=count, squared_change=9.0)}
    gains = used_gains("pooled/1", [table]).to_document(2)
    rules = forged_round(sample, a_round(sample.ledger, 2), gains=gains)
    assert ("rounds keep to the terms: the number of validation samples of ann" in rules) == (count > 400)


def test_statements_tell_of_amendments(sample):
    amendment = amendment_of(sample.ledger.state, rules=LENIENT.rules)
    sample.ledger.amend(amendment, signed_by(amendment, "ann", "bob"))
    for client in MEMBERS:
        line = make_statement(sample.store, client, at="").lines[-1]
        assert line.text == "amendment 1: the terms change from round 1 on"


def test_a_ledger_without_agreed_rules_takes_any_rules_with_a_note(tmp_path):
    sample = open_with(tmp_path, None)
    sample.ledger.settle(a_round(sample.ledger, 1))
    sample.ledger.settle(a_round(sample.ledger, 2, rules=replace(STRICT, mu=3.0)))
    result = verified(sample.store)
    assert not result.findings
    assert "rules are agreed on before the first round" in [note.rule for note in result.notes]
    assert "terms" not in sample.ledger.document(3)["body"]
    with pytest.raises(LedgerError, match="settled rounds without agreed rules"):
        sample.ledger.agree(AGREED)
    sample.store.close()


def test_rules_can_be_stated_once_before_the_first_round(tmp_path):
    sample = open_with(tmp_path, None)
    before = sample.ledger.state.terms_hash
    assert sample.ledger.agree(AGREED).fresh
    assert not sample.ledger.agree(AGREED).fresh
    assert sample.ledger.state.terms_hash != before
    with pytest.raises(LedgerError, match="states other rules"):
        sample.ledger.agree(BY_COUNT)
    sample.ledger.settle(a_round(sample.ledger, 1))
    result = verified(sample.store)
    assert not result.findings
    assert not [note for note in result.notes if "agreed" in note.rule]
    other = replace(sample.ledger.terms, agreed=BY_COUNT).to_document()
    found = rules_found(sample, next_document(sample.entries(), "terms", {"terms": other}))
    assert "rules are agreed on before the first round" in found
    assert "agreed rules change only by an amendment" in found
    sample.store.close()


def test_terms_survive_canonical_json_and_old_ones_keep_their_hash():
    terms = Terms(name="x", agreed=replace(AGREED, rules=Rules(mu=math.inf), silence_charge=10**15, quorum=0.5))
    again = Terms.from_document(parse(canonical(terms.to_document()).decode()))
    assert again == terms
    assert again.digest() == terms.digest()
    assert "agreed" not in Terms(name="x").to_document()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("quorum", 0.0), ("quorum", 1.5), ("quorum", True), ("round_count", 0), ("grace_rounds", -1), ("figures", "x"),
        ("harm", "x"), ("ending", "x"), ("silence_charge", 0), ("silence_limit", 0), ("settlement_version", 3),
        ("measure", 3), ("profit_bounds", {"ann": (1.0, 1.0)}), ("most_samples", {"ann": 0}), ("rules_version", None),
        ("rules", Rules(mu=-1.0)), ("rules", Rules(mu=1.0, liability_cap=-1.0)),
    ],
)  # fmt: skip
def test_rules_that_nobody_can_keep_are_refused(name, value):
    with pytest.raises(InputError, match=r"must be|knows"):
        replace(AGREED, **{name: value})


# The odd cent.


ONE_CENT = {client: (0.00001 if client == "cyd" else 0.0, 1.0, None) for client in MEMBERS}


@pytest.mark.parametrize(("version", "accrued"), [(1, [6, 0, 0]), (2, [2, 2, 2])])
def test_the_odd_cent_rotates(tmp_path, version, accrued):
    """Each round, three equal clients share a budget of one cent."""
    agreed = replace(AGREED, settlement_version=version, round_count=None, grace_rounds=0)
    sample = open_with(tmp_path, agreed, settlement="accruals")
    for number in range(1, 7):
        sample.ledger.settle(a_round(sample.ledger, number, ONE_CENT, agreed))
    assert not verified(sample.store).findings
    assert [sample.ledger.state.balances[f"accrued/{client}"] for client in MEMBERS] == accrued
    sample.store.close()


def test_a_round_paid_in_the_old_way_is_found(sample):
    agreed = replace(AGREED, settlement_version=1)
    sample.ledger.settle(a_round(sample.ledger, 1, GAINS))
    settled = a_round(sample.ledger, 2, ONE_CENT)
    new = draft_round(settled, sample.ledger.identity, sample.ledger.terms)
    old = draft_round(settled, sample.ledger.identity, replace(sample.ledger.terms, agreed=agreed))
    assert new.postings != old.postings
    assert Counter(each.amount for each in new.postings) == Counter(each.amount for each in old.postings)
    document = next_document(sample.entries(), "round", new.body, old.postings)
    assert rules_found(sample, document) == ["the postings follow from the entry's inputs"]


def test_odd_cents_of_income_rotate_too(tmp_path):
    agreed = replace(AGREED, round_count=None, grace_rounds=0)
    sample = open_with(tmp_path, agreed, settlement="accruals")
    rows = dict.fromkeys(MEMBERS, (0.3, 1.0, None))
    sample.ledger.settle(a_round(sample.ledger, 1, rows, agreed))
    for number in range(6):
        sample.ledger.realise(1, f"invoice {number}")
    assert [sample.ledger.state.balances[f"clients/{client}"] for client in MEMBERS] == [2, 2, 2]
    assert not verified(sample.store).findings
    sample.store.close()


UNEQUAL = {"ann": (0.36, 1.0, None), "bob": (0.32, 1.0, None), "cyd": (0.32, 1.0, None)}


@pytest.mark.parametrize("reversed_before", [0, 1, 2])
def test_many_small_incomes_come_to_the_same_as_a_large_one(tmp_path, reversed_before):
    agreed = replace(AGREED, round_count=None, grace_rounds=0, rules=Rules(mu=math.inf))
    sample = open_with(tmp_path, agreed, settlement="accruals", worth=1000)
    equal = {client: (profit, profit, None) for client, (profit, _, _) in UNEQUAL.items()}
    sample.ledger.settle(a_round(sample.ledger, 1, equal, agreed))
    weights = sample.ledger.state.weights()
    assert weights == {"ann": 360, "bob": 320, "cyd": 320}
    for number in range(reversed_before):
        sample.ledger.reverse(sample.ledger.realise(1, f"a mistake {number}").entry, "a mistake")
    for number in range(100):
        sample.ledger.realise(1, f"part {number}")
    assert {client: sample.ledger.state.balances[f"clients/{client}"] for client in weights} == {
        "ann": 36,
        "bob": 32,
        "cyd": 32,
    }
    assert not verified(sample.store).findings
    sample.store.close()


def test_income_that_is_divided_again_by_other_payoffs_is_noted(tmp_path):
    agreed = replace(AGREED, round_count=None, grace_rounds=0)
    sample = open_with(tmp_path, agreed, settlement="accruals")
    sample.ledger.settle(a_round(sample.ledger, 1, GAINS, agreed))
    at_once = sample.ledger.realise(1000, "invoice 1").entry
    sample.ledger.reverse(at_once, "a wrong invoice")
    later = sample.ledger.realise(1000, "invoice 2").entry
    assert not verified(sample.store).notes
    sample.ledger.settle(a_round(sample.ledger, 2, GAINS, agreed))
    sample.ledger.reverse(later, "a wrong invoice")
    sample.ledger.realise(1000, "invoice 3")
    result = verified(sample.store)
    assert not result.findings
    note, again = result.notes
    assert (again.rule, again.found) == (
        "income that is reversed is divided again before further rounds",
        "with round 2",
    )
    assert note.found == "round 2 settled since: if the income is divided again, it is by other payoffs"
    sample.store.close()


# Amendments and newcomers.


def amendment_of(state: LedgerState, *, members=None, **changed: Any) -> Amendment:
    assert state.terms is not None
    assert state.terms.agreed is not None
    return Amendment(
        ledger=state.identity,
        number=state.amendment_count + 1,
        terms_before=state.terms_hash,
        terms=replace(state.terms, agreed=replace(state.terms.agreed, **changed)),
        first_round=state.next_round,
        members=members or {},
    )


def signed_by(amendment: Amendment, *clients: str) -> dict[str, str]:
    return {client: amendment.signed(client, CLIENT_KEYS[client]) for client in clients}


LENIENT = replace(AGREED, rules=Rules(mu=0.2))


def test_an_amendment_is_in_force_from_the_next_round_on(sample):
    ledger = sample.ledger
    ledger.settle(a_round(ledger, 1))
    amendment = amendment_of(ledger.state, rules=LENIENT.rules)
    before = ledger.state.terms_hash
    ledger.amend(amendment, signed_by(amendment, "ann", "bob"))
    assert ledger.state.terms_hash == amendment.terms.digest()
    assert ledger.state.terms_of(1).hash == before
    with pytest.raises(LedgerError, match=r"mu is 0\.2 in the terms and 0\.05 in the round"):
        ledger.settle(a_round(ledger, 2))
    ledger.settle(a_round(ledger, 2, agreed=LENIENT))
    # A round from before the amendment is settled again by the terms of its time.
    for number in (2, 1):
        ledger.reverse_round(number, "figures came late")
    assert ledger.state.terms_hash == before
    with pytest.raises(LedgerError, match="departs from the terms"):
        ledger.settle(a_round(ledger, 1, agreed=LENIENT))
    ledger.settle(a_round(ledger, 1))
    ledger.settle(a_round(ledger, 2, agreed=LENIENT))
    assert not verified(sample.store).findings


def test_more_rounds_than_planned_are_an_amendment(sample):
    ledger = sample.ledger
    for number in range(1, 5):
        ledger.settle(a_round(ledger, number, GAINS))
    with pytest.raises(LedgerError, match="the last round is 4"):
        ledger.settle(a_round(ledger, 5, GAINS))
    amendment = amendment_of(ledger.state, round_count=6)
    ledger.amend(amendment, signed_by(amendment, "ann", "bob"))
    ledger.settle(a_round(ledger, 5, GAINS))
    assert not verified(sample.store).findings


@pytest.mark.parametrize(
    ("signers", "quorum", "enough"),
    [
        (("ann", "bob"), None, True),
        (("ann",), None, False),
        ((), None, False),
        (("bob",), 0.5, True),
        (("bob",), 0.51, False),
        ((), 0.5, False),
    ],
)
def test_an_amendment_needs_its_quorum(tmp_path, signers, quorum, enough):
    """cyd has no key, so that ann and bob are all who sign."""
    sample = open_with(tmp_path, replace(AGREED, quorum=quorum))
    amendment = amendment_of(sample.ledger.state, rules=LENIENT.rules)
    signatures = signed_by(amendment, *signers)
    body = amendment_body(amendment, signatures)
    found = rules_found(sample, next_document(sample.entries(), "amendment", body))
    if enough:
        assert not found
        sample.ledger.amend(amendment, signatures)
        assert not verified(sample.store).findings
    else:
        assert found == ["a quorum signs an amendment"]
        with pytest.raises(LedgerError, match="a quorum signs an amendment"):
            sample.ledger.amend(amendment, signatures)
    sample.store.close()


def test_signatures_of_one_amendment_fit_no_other(sample):
    ledger = sample.ledger
    first = amendment_of(ledger.state, rules=LENIENT.rules)
    signatures = signed_by(first, "ann", "bob")
    ledger.amend(first, signatures)
    with pytest.raises(LedgerError, match="amendments are numbered"):
        ledger.amend(first, signatures)
    back = amendment_of(ledger.state, rules=STRICT)
    ledger.amend(back, signed_by(back, "ann", "bob"))
    again = amendment_of(ledger.state, rules=LENIENT.rules)  # the same change of the same terms, once more
    with pytest.raises(LedgerError, match="another signature"):
        ledger.amend(again, signatures)
    document = next_document(sample.entries(), "amendment", amendment_body(again, signatures))
    assert "an amendment is signed by active members and newcomers" in rules_found(sample, document)


def test_a_draft_expires_with_the_round_that_it_is_for(sample):
    ledger = sample.ledger
    ledger.settle(a_round(ledger, 1, GAINS))
    draft = amendment_of(ledger.state, rules=LENIENT.rules)
    signatures = signed_by(draft, "ann", "bob")
    ledger.settle(a_round(ledger, 2, GAINS))
    with pytest.raises(LedgerError, match="in force from the next round on; expected round 3, got round 2"):
        ledger.amend(draft, signatures)
    document = next_document(sample.entries(), "amendment", amendment_body(draft, signatures))
    assert rules_found(sample, document) == ["an amendment is in force from the next round on"]
    postponed = amendment_body(replace(draft, first_round=3), signatures)
    found = rules_found(sample, next_document(sample.entries(), "amendment", postponed))
    assert "an amendment is signed by active members and newcomers" in found


@pytest.mark.parametrize("reversed_for_the_vote", [True, False])
def test_who_was_silent_too_often_has_no_vote(tmp_path, reversed_for_the_vote):
    agreed = replace(AGREED, silence_limit=1, quorum=0.3, grace_rounds=0)
    sample = open_with(tmp_path, agreed)
    settled = a_round(sample.ledger, 1, {c: GAINS[c] for c in ("ann", "cyd")}, agreed, absent=("bob",))
    sample.ledger.settle(replace(settled, record=replace(settled.record, silent=("bob",))))
    if reversed_for_the_vote:
        (exclusion,) = sample.ledger.end_memberships()
        sample.ledger.reverse(exclusion.entry, "a mistake")
    amendment = amendment_of(sample.ledger.state, rules=LENIENT.rules)
    with pytest.raises(LedgerError, match="expected an exclusion, got bob, silent in rounds 1"):
        sample.ledger.amend(amendment, signed_by(amendment, "bob"))
    document = next_document(sample.entries(), "amendment", amendment_body(amendment, signed_by(amendment, "bob")))
    assert "memberships that have ended by silence are ended before an amendment" in rules_found(sample, document)
    sample.store.close()


def test_who_has_no_key_is_noted(sample):
    amendment = amendment_of(sample.ledger.state, rules=LENIENT.rules)
    sample.ledger.amend(amendment, signed_by(amendment, "ann", "bob"))
    (note,) = verified(sample.store).notes
    assert note.found == "cyd without one: the operator vouches for their agreement"


def test_an_amendment_changes_only_the_agreed_rules_and_something(sample):
    state = sample.ledger.state
    same = amendment_of(state)
    with pytest.raises(LedgerError, match="changes something"):
        sample.ledger.amend(same, signed_by(same, "ann", "bob"))
    rich = replace(same, terms=replace(same.terms, worth=7))
    with pytest.raises(LedgerError, match="only the agreed rules"):
        sample.ledger.amend(rich, signed_by(rich, "ann", "bob"))
    strange = amendment_of(state, rules=LENIENT.rules)
    forged = {**signed_by(strange, "ann", "bob"), "eve": strange.signed("eve", STRANGER)}
    with pytest.raises(LedgerError, match="no such member"):
        sample.ledger.amend(strange, forged)


@pytest.mark.parametrize("field", ["book", "amendment", "terms_before", "first_round", "signatures", "members"])
def test_a_damaged_amendment_is_a_finding(sample, field):
    amendment = amendment_of(sample.ledger.state, rules=LENIENT.rules)
    body = amendment_body(amendment, signed_by(amendment, "ann", "bob"))
    other: Any = {"amendment": 7, "first_round": 9, "signatures": [], "members": [{"client": "ann", "key": None}]}
    document = next_document(sample.entries(), "amendment", {**body, field: other.get(field, "0" * 64)})
    assert rules_found(sample, document)


def test_members_without_keys_leave_amendments_to_the_operator_with_a_note(tmp_path):
    sample = open_with(tmp_path, members=dict.fromkeys(MEMBERS))
    sample.ledger.amend(amendment_of(sample.ledger.state, rules=LENIENT.rules), {})
    result = verified(sample.store)
    assert not result.findings
    assert "an amendment is signed by members" in [note.rule for note in result.notes]
    sample.store.close()


def test_eliminated_members_do_not_sign(sample):
    ledger = sample.ledger
    ledger.settle(a_round(ledger, 1))
    losing = {"ann": (0.3, 0.5, None), "bob": (-0.4, 0.01, None), "cyd": (0.1, 0.2, None)}
    ledger.settle(a_round(ledger, 2, losing))
    assert "bob" in ledger.state.eliminated
    amendment = amendment_of(ledger.state, rules=LENIENT.rules)
    with pytest.raises(LedgerError, match="no such member"):
        ledger.amend(amendment, signed_by(amendment, "ann", "bob"))
    ledger.amend(amendment, signed_by(amendment, "ann"))
    assert not verified(sample.store).findings


BACK_SINCE = "an amendment is signed by the members that were active when it was entered"
LOSING = {"ann": (0.3, 0.5, None), "bob": (-0.4, 0.01, None), "cyd": (0.1, 0.2, None)}  # bob is eliminated


def notes_on_who_is_back(sample: SampleLedger) -> list[str]:
    result = verified(sample.store)
    assert not result.findings
    return [note.found for note in result.notes if note.rule == BACK_SINCE]


def test_who_comes_back_under_an_amendment_is_asked_before_the_next_round(sample):
    """Otherwise, a false elimination that is taken back would decide a vote."""
    ledger = sample.ledger
    ledger.settle(a_round(ledger, 1))
    ledger.settle(a_round(ledger, 2, LOSING))
    amendment = amendment_of(ledger.state, rules=LENIENT.rules)
    ledger.amend(amendment, signed_by(amendment, "ann"))
    assert not notes_on_who_is_back(sample)
    ledger.reverse_round(2, "the figures of bob were wrong")
    assert notes_on_who_is_back(sample) == ["bob, who had left in round 2, is a member again by a reversal since"]
    with pytest.raises(LedgerError, match="departs"):
        ledger.settle(a_round(ledger, 2, GAINS, rules=LENIENT.rules))
    ledger.settle(a_round(ledger, 2, LOSING | {"bob": (0.2, 0.01, None)}))  # by the terms of its time
    third = a_round(ledger, 3, GAINS, rules=LENIENT.rules)
    with pytest.raises(LedgerError, match="expected signatures of 2 of 2 members under entry 5, got 1: bob had left"):
        ledger.settle(third)
    assert forged_round(sample, third) == [BACK_SINCE]
    absent = a_round(ledger, 3, {c: GAINS[c] for c in ("ann", "cyd")}, rules=LENIENT.rules, absent=("bob",))
    assert forged_round(sample, absent) == [BACK_SINCE]
    further = amendment_of(ledger.state, rules=STRICT)
    with pytest.raises(LedgerError, match="missing: bob"):
        ledger.amend(further, signed_by(further, "ann"))
    ledger.amend(further, signed_by(further, "ann", "bob"))
    ledger.settle(a_round(ledger, 3, GAINS))
    assert not notes_on_who_is_back(sample), "and no finding"


def test_who_comes_back_under_an_amendment_is_not_needed_if_the_quorum_holds_without_it(tmp_path):
    agreed = replace(AGREED, quorum=0.5)
    sample = open_with(tmp_path, agreed)
    ledger = sample.ledger
    ledger.settle(a_round(ledger, 1, agreed=agreed))
    ledger.settle(a_round(ledger, 2, LOSING, agreed))
    amendment = amendment_of(ledger.state, rules=LENIENT.rules)
    ledger.amend(amendment, signed_by(amendment, "ann"))
    ledger.reverse_round(2, "the figures of bob were wrong")
    ledger.settle(a_round(ledger, 2, LOSING | {"bob": (0.2, 0.01, None)}, agreed))
    ledger.settle(a_round(ledger, 3, GAINS, agreed, rules=LENIENT.rules))
    assert len(notes_on_who_is_back(sample)) == 1
    sample.store.close()


def test_no_vote_by_a_silence_that_is_taken_back(tmp_path):
    """Bob is called silent and excluded, and ann alone amends the terms; then bob's report turns up."""
    agreed = replace(AGREED, silence_limit=1, grace_rounds=0)
    sample = open_with(tmp_path, agreed)
    ledger = sample.ledger
    alone = a_round(ledger, 1, {c: GAINS[c] for c in ("ann", "cyd")}, agreed, absent=("bob",))
    ledger.settle(replace(alone, record=replace(alone.record, silent=("bob",))))
    (exclusion,) = ledger.end_memberships()
    amendment = amendment_of(ledger.state, rules=LENIENT.rules, quorum=0.25)
    ledger.amend(amendment, signed_by(amendment, "ann"))
    ledger.reverse(exclusion.entry, "overlooked")
    ledger.reverse_round(1, "overlooked")
    ledger.settle(a_round(ledger, 1, GAINS, agreed))
    second = a_round(ledger, 2, GAINS, agreed, rules=LENIENT.rules)
    with pytest.raises(LedgerError, match="got 1: bob had left before it"):
        ledger.settle(second)
    assert forged_round(sample, second) == [BACK_SINCE]
    further = amendment_of(ledger.state, rules=STRICT)
    ledger.amend(further, signed_by(further, "ann"))  # by the quorum of the first
    second = a_round(ledger, 2, GAINS, agreed)
    assert forged_round(sample, second) == [BACK_SINCE]
    sample.store.close()


def test_who_is_back_and_leaves_before_the_amendment_is_in_force_is_not_under_it(sample):
    ledger = sample.ledger
    ledger.settle(a_round(ledger, 1))
    ledger.settle(a_round(ledger, 2, LOSING))
    amendment = amendment_of(ledger.state, rules=LENIENT.rules)
    ledger.amend(amendment, signed_by(amendment, "ann"))
    ledger.reverse_round(2, "the figures of bob were wrong")
    ledger.settle(a_round(ledger, 2, LOSING | {"bob": (0.2, 0.01, None)}))
    assert len(notes_on_who_is_back(sample)) == 1
    ledger.withdraw("bob", 2, signed_notice(ledger.identity, "bob", 2))
    assert not notes_on_who_is_back(sample)


def test_who_is_eliminated_again_is_not_back(sample):
    ledger = sample.ledger
    ledger.settle(a_round(ledger, 1))
    ledger.settle(a_round(ledger, 2, LOSING))
    amendment = amendment_of(ledger.state, rules=LENIENT.rules)
    ledger.amend(amendment, signed_by(amendment, "ann"))
    ledger.reverse_round(2, "the figures of ann were wrong")
    ledger.settle(a_round(ledger, 2, {**LOSING, "ann": (0.31, 0.5, None)}))
    assert not notes_on_who_is_back(sample)


@pytest.mark.parametrize(("last", "gone"), [(1, True), (2, True), (3, False)])
def test_the_vote_of_a_member_whose_notice_is_entered_after_it_is_noted(tmp_path, last, gone):
    """Without dan, ann's signature is one of two. He may also have decided to leave after he signed."""
    agreed = replace(AGREED, quorum=0.6, profit_bounds={}, most_samples={})
    rows = {"ann": (0.3, 0.5, None), "bob": (0.1, 0.3, None), "dan": (0.2, 0.2, None)}
    sample = open_with(tmp_path, agreed, members={client: CLIENT_KEYS[client].public for client in rows})
    ledger = sample.ledger
    ledger.settle(a_round(ledger, 1, rows, agreed))
    ledger.settle(a_round(ledger, 2, {c: rows[c] for c in ("ann", "bob")}, agreed, absent=("dan",)))
    amendment = amendment_of(ledger.state, rules=LENIENT.rules)
    entry = ledger.amend(amendment, signed_by(amendment, "ann", "dan")).entry
    assert not verified(sample.store).notes
    ledger.withdraw("dan", last, signed_notice(ledger.identity, "dan", last))
    result = verified(sample.store)
    assert not result.findings
    told = [(note.entry, note.rule, note.found) for note in result.notes]
    lacking = (entry, "a quorum signs an amendment", "1: dan had left before it by these entries")
    assert told == ([lacking] if gone else [])
    sample.store.close()


def test_newcomers_need_the_members_after_the_first_round(sample):
    ledger, dan = sample.ledger, {"dan": CLIENT_KEYS["dan"].public}
    ledger.settle(a_round(ledger, 1))
    with pytest.raises(LedgerError, match="cannot be admitted by the operator alone"):
        ledger.admit(dan)
    rows = [{"client": "dan", "key": dan["dan"]}]
    found = rules_found(sample, next_document(sample.entries(), "admission", {"members": rows}))
    assert found == ["newcomers are admitted by an amendment"]
    joining = amendment_of(ledger.state, members=dan)
    with pytest.raises(LedgerError, match="a newcomer signs its admission"):
        ledger.amend(joining, signed_by(joining, "ann", "bob"))
    with pytest.raises(LedgerError, match="a quorum signs"):
        ledger.amend(joining, signed_by(joining, "ann", "dan"))
    ledger.amend(joining, signed_by(joining, "ann", "bob", "dan"))
    assert list(ledger.state.members) == ["ann", "bob", "cyd", "dan"]
    ledger.settle(a_round(ledger, 2, {**FIRST_ROUND, "dan": (0.1, 0.2, None)}))
    assert not verified(sample.store).findings


def test_a_newcomer_needs_a_key_that_only_it_can_sign_with(sample):
    ledger = sample.ledger
    weak = "01" + "00" * 31  # of small order: one signature fits every message
    joining = amendment_of(ledger.state, members={"dan": weak})
    with pytest.raises(InputError, match="key"):
        ledger.amend(joining, signed_by(joining, "ann", "bob"))
    body = amendment_body(joining, signed_by(joining, "ann", "bob"))
    found = rules_found(sample, next_document(sample.entries(), "amendment", body))
    assert "members have keys that only they can sign with" in found


def test_in_a_ledger_without_agreed_rules_a_late_admission_is_a_note(tmp_path):
    sample = open_with(tmp_path, None)
    sample.ledger.settle(a_round(sample.ledger, 1))
    sample.ledger.admit({"dan": CLIENT_KEYS["dan"].public})
    result = verified(sample.store)
    assert not result.findings
    assert "newcomers are admitted by an amendment" in [note.rule for note in result.notes]
    sample.store.close()


def agree_by_an_amendment(ledger: Ledger) -> None:
    amendment = Amendment(
        ledger=ledger.identity,
        number=1,
        terms_before=ledger.state.terms_hash,
        terms=replace(ledger.terms, agreed=AGREED),
        first_round=ledger.state.next_round,
    )
    ledger.amend(amendment, signed_by(amendment, "ann", "bob"))


def test_an_old_ledger_gets_rules_by_an_amendment(tmp_path):
    sample = open_with(tmp_path, None)
    sample.ledger.settle(a_round(sample.ledger, 1, rules=Rules(mu=7.0)))
    agree_by_an_amendment(sample.ledger)
    sample.ledger.settle(a_round(sample.ledger, 2, GAINS))
    with pytest.raises(LedgerError, match="departs"):
        sample.ledger.settle(a_round(sample.ledger, 3, GAINS, rules=Rules(mu=7.0)))
    result = verified(sample.store)
    assert not result.findings
    assert any("before round 2" in note.found for note in result.notes)
    sample.store.close()


def test_rules_by_an_amendment_before_the_first_round_are_for_all_rounds(tmp_path):
    sample = open_with(tmp_path, None)
    agree_by_an_amendment(sample.ledger)
    sample.ledger.settle(a_round(sample.ledger, 1))
    result = verified(sample.store)
    assert not result.findings
    assert [note.rule for note in result.notes] == ["an amendment is signed by members"], "cyd has no key"
    sample.store.close()


def test_an_amendment_moves_no_money(sample):
    amendment = amendment_of(sample.ledger.state, rules=LENIENT.rules)
    body = amendment_body(amendment, signed_by(amendment, "ann", "bob"))
    moved = (Posting("clients/ann", 5), Posting("clients/bob", -5))
    found = rules_found(sample, next_document(sample.entries(), "amendment", body, moved))
    assert found == ["the postings follow from the entry's inputs"]


# An operator that rewrites a ledger with an amendment and signs it again.


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values that contain no others."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if isinstance(value, dict | list) and value:
        for key, one in inner:
            yield from leaves(one, (*path, key))
    else:
        yield path


OTHER: dict[str, Any] = {"mu": 0.07, "contribution_rule": "raw", "loss_rule": "equal", "figures": "pooled"}


def other(value: Any, name: Any) -> Any:
    """Another value that is as well formed."""
    if name in OTHER:
        return OTHER[name]
    if name in ("harm", "ending"):
        return "advise"
    if isinstance(value, str):
        return f"{value}x" if len(value) < 60 else ("1" if value[0] == "0" else "0") + value[1:]
    if name == "quorum":
        return 0.9
    return {None: 1, True: False, False: True}.get(value) if value is None or type(value) is bool else value + 1


def test_no_field_of_terms_and_amendments_can_be_rewritten(sample):
    """Rewritten in one entry only, everything that rounds and signatures rest on is found."""
    ledger = sample.ledger
    ledger.settle(a_round(ledger, 1))
    amendment = amendment_of(ledger.state, rules=LENIENT.rules, quorum=0.5, members={"dan": CLIENT_KEYS["dan"].public})
    ledger.amend(amendment, signed_by(amendment, "ann", "bob", "dan"))
    ledger.settle(a_round(ledger, 2, agreed=LENIENT, absent=("dan",)))
    assert not verified(sample.store).findings
    entries = sample.entries()
    parts = [(1, ("terms", "agreed")), (4, ()), (5, ("terms",)), (5, ("measured_by",))]
    changed = 0
    for number, start in parts:
        part = parsed(entries[number - 1])["body"]
        for name in start:
            part = part[name]
        for path in leaves(part):
            whole = ("body", *start, *path)

            def edit(document: dict[str, Any], whole: tuple[Any, ...] = whole) -> None:
                *outer, last = whole
                inner: Any = document
                for name in outer:
                    inner = inner[name]
                inner[last] = other(inner[last], last)

            with tampering(sample.store) as forger:
                for entry in rewritten(entries, edit, number, lambda public: sample.keys.key_of(public)):
                    forger.put(entry)
                assert verified(forger).findings, f"entry {number}: {whole}"
            changed += 1
    assert changed > 60


@pytest.mark.parametrize("is_named", [True, False])
def test_a_member_that_is_admitted_after_the_others_before_the_first_round_is_noted(tmp_path, is_named):
    """It may come after their reports of the round, which sign the terms, and not who is a member."""
    bounds = {"dan": (-1.0, 1.0)} if is_named else {}
    sample = open_with(tmp_path, replace(AGREED, profit_bounds=bounds))
    sample.ledger.admit({"dan": CLIENT_KEYS["dan"].public})
    result = verified(sample.store)
    assert not result.findings
    rule = "members of the first round are admitted at once"
    found = [] if is_named else [(3, "another one of dan, whom no terms name")]
    assert [(note.entry, note.found) for note in result.notes if note.rule == rule] == found
    sample.store.close()
