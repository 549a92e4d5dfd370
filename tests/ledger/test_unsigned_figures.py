"""What decides a round is signed by the clients that it is about: expected profits, and evidence of harm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from commonweal.decision.decide import decide_figures
from commonweal.errors import LedgerError
from commonweal.ledger.fates import harmful_in, is_finished
from commonweal.ledger.rounds import decision_document, draft_round, figures_of, round_postings
from commonweal.ledger.verification.recompute import recompute
from commonweal.ledger.verification.replay import RecordedInputs
from tests.ledger.sample_ledger import CLIENT_KEYS, next_document
from tests.ledger.test_terms import AGREED, GAINS, a_round, open_with, rules_found

FREE = replace(AGREED, round_count=None, grace_rounds=0, profit_bounds={}, most_samples={})
SIGNED_OR_NONE = "profits are expected by all clients, who sign them with a table of gains, or by none"


@pytest.fixture
def sample(tmp_path):
    made = open_with(tmp_path, FREE)
    yield made
    made.store.close()


def decided_again(sample, body):
    """A forged round whose decision and postings follow from its inputs, whatever they are."""
    figures, rules, grace = figures_of(body)
    inputs = RecordedInputs(
        round_number=body["round"],
        version=body["rules_version"],
        figures=figures,
        rules=rules,
        grace=grace,
        sample_counts={},
        active=None,
        state={},
        harmful=harmful_in(body),
        finished=is_finished(body),
    )
    decision = recompute(inputs).decision
    postings = round_postings(decision, sample.ledger.terms, body["round"])
    return next_document(sample.entries(), "round", {**body, "decision": decision_document(decision)}, postings)


def drafted(sample, settled):
    return dict(draft_round(settled, sample.ledger.identity, sample.ledger.terms).body)


@pytest.mark.parametrize("clients", [("ann", "bob", "cyd"), ("bob",)])
def test_expected_profits_that_nobody_signed_decide_nothing(sample, clients):
    body = drafted(sample, a_round(sample.ledger, 1, GAINS, FREE))
    assert rules_found(sample, decided_again(sample, body)) == []
    inputs = [row | ({"expected_profit": -5.0} if row["client"] in clients else {}) for row in body["inputs"]]
    forged = decided_again(sample, {**body, "inputs": inputs})
    assert ("ann" in clients) == bool(forged["body"]["decision"]["eliminated"])
    assert rules_found(sample, forged) == [SIGNED_OR_NONE]


def test_the_ledger_refuses_expected_profits_without_a_table_of_gains(sample):
    settled = a_round(sample.ledger, 1, GAINS, FREE)
    figures = replace(settled.record.decision.figures, expected={"ann": 0.1, "bob": -5.0, "cyd": 0.1})
    decision = decide_figures(figures, replace(FREE.rules, version=2))
    assert decision.eliminated == ("bob",)
    with pytest.raises(LedgerError, match="Round 1 has expected profits that its clients do not sign"):
        sample.ledger.settle(replace(settled, record=replace(settled.record, decision=decision)))


FIVE = dict.fromkeys(("ann", "bob", "cyd", "dan", "eve"), (0.2, 0.3, None))
EFFECTS = [{"scorer": client, "sum": -9.0 - place / 1e6} for place, client in enumerate(("ann", "cyd", "dan", "eve"))]
HARM_BY_BOB = {
    "client": "bob", "is_eliminated": True, "rounds": [1], "effects": EFFECTS, "test_count": 20, "margin": -0.5,
}  # fmt: skip


@pytest.fixture
def five(tmp_path):
    members = dict.fromkeys(FIVE) | {client: CLIENT_KEYS[client].public for client in ("ann", "bob")}
    made = open_with(tmp_path, replace(FREE, harm="eliminate", round_count=4), members=members)
    yield made
    made.store.close()


def harm_found(five, version, *found):
    body = drafted(five, a_round(five.ledger, 1, FIVE, five.ledger.terms.agreed))
    return rules_found(five, decided_again(five, {**body, "harm": {"version": version, "found": list(found)}}))


def test_evidence_of_harm_names_a_client_once(five):
    assert harm_found(five, "harm/2", HARM_BY_BOB) == []
    harmless = {**HARM_BY_BOB, "effects": [{**each, "sum": -each["sum"]} for each in EFFECTS]}
    tested = {**HARM_BY_BOB, "is_eliminated": False}
    assert harm_found(five, "harm/2", harmless, tested) == ["evidence of harm is complete"]


def test_new_rounds_are_tested_for_harm_with_a_margin(five):
    assert harm_found(five, "harm/1", HARM_BY_BOB) == ["rounds keep to the terms: the version of the test for harm"]


@pytest.mark.parametrize(("test_count", "is_enough"), [(20, True), (19, False), (5, False)])
def test_the_chance_of_an_error_is_divided_among_the_planned_rounds(five, test_count, is_enough):
    """Four rounds are planned, of which this is the first, for five clients."""
    found = harm_found(five, "harm/2", {**HARM_BY_BOB, "test_count": test_count})
    assert found == ([] if is_enough else ["the chance of an error is divided among all tests"])


def test_clients_that_are_no_longer_there_were_tested_too(five):
    """eve took part in round 1 and is absent from round 2, where bob is tested."""
    agreed = five.ledger.terms.agreed
    five.ledger.settle(a_round(five.ledger, 1, FIVE, agreed))
    there = {client: row for client, row in FIVE.items() if client != "eve"}
    settled = a_round(five.ledger, 2, there, agreed, absent=("eve",))
    by_bob = {**HARM_BY_BOB, "rounds": [2], "effects": EFFECTS[:3]}
    for test_count, expected in ((20, []), (16, ["the chance of an error is divided among all tests"])):
        harm = {"version": "harm/2", "found": [{**by_bob, "test_count": test_count}]}
        assert rules_found(five, decided_again(five, {**drafted(five, settled), "harm": harm})) == expected
