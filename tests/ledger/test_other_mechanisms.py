"""What other mechanisms than the paper's add to entries cannot be forged: further figures, charges, plans, rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from commonweal.ledger.rounds import draft_round, figures_of
from commonweal.ledger.verification.plans import check_plan, check_resting
from commonweal.ledger.verification.replay import LedgerReplay
from commonweal.records import Instructions
from tests.ledger.sample_ledger import next_document
from tests.ledger.test_taking_part import FREE, settle
from tests.ledger.test_terms import open_with, rules_found


@pytest.fixture
def sample(tmp_path):
    made = open_with(tmp_path, FREE)
    yield made
    made.store.close()


def found(sample, settled, **changes):
    """The rules that a round breaks if the operator changes its body like this and signs it."""
    draft = draft_round(settled, sample.ledger.identity, sample.ledger.terms)
    body = dict(draft.body)
    for name, value in changes.items():
        body[name] = {**body[name], **value} if isinstance(body.get(name), dict) else value
    return rules_found(sample, next_document(sample.entries(), "round", body, draft.postings))


def test_a_round_of_the_papers_mechanism_has_none_of_the_fields(sample):
    body = draft_round(settle(sample, 1), sample.ledger.identity, sample.ledger.terms).body
    assert not {"resting", "plan"} & set(body)
    assert not {"external", "charges"} & set(body["decision"])
    assert all("further" not in row for row in body["inputs"])
    assert not found(sample, settle(sample, 1))


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"decision": {"external": 0.1}}, "the decision follows from its inputs: external"),
        ({"decision": {"charges": [-0.1]}}, "the decision follows from its inputs: charges"),
        ({"resting": ["bob"]}, "those rest whom the plan of the round before did not ask to take part"),
        ({"resting": []}, "those rest whom the plan of the round before did not ask to take part"),
        (
            {"plan": {"active": ["ann", "bob"], "instructions": {"participants": ["ann"]}}},
            "the plan for the next round follows from this one",
        ),
    ],
)
def test_what_the_mechanism_does_not_decide_is_a_finding(sample, changes, rule):
    assert rule in found(sample, settle(sample, 1), **changes)


def test_further_figures_are_signed_by_clients_and_read_back(sample):
    settled = settle(sample, 1)
    decision = settled.record.decision
    clients = decision.figures.clients
    further = {"utility": dict.fromkeys(clients, 0.5), "similarity:ann": dict.fromkeys(clients, 0.25)}
    rich = replace(decision, figures=replace(decision.figures, further=further))
    settled = replace(settled, record=replace(settled.record, decision=rich))
    body = draft_round(settled, sample.ledger.identity, sample.ledger.terms).body
    assert figures_of(body)[0].further == further
    report = settled.report(sample.ledger.identity, "ann")
    assert report.document()["further"] == {"utility": 0.5}, "similarities are the operator's, as contributions are"
    rule = "a report is signed by its client"
    assert rule in rules_found(sample, next_document(sample.entries(), "round", body, ())), "they signed without it"


@pytest.mark.parametrize(
    ("participants", "resting", "is_sound"),
    [
        (("ann", "bob"), ["cyd"], True),
        (("ann", "bob"), ["bob"], False),
        (("ann", "bob"), None, False),
        (None, None, True),
        (None, ["cyd"], False),
        (("zoe",), None, True),  # if nobody of the plan is left, everybody takes part
    ],
)
def test_those_rest_who_were_not_asked(participants, resting, is_sound):
    replay = LedgerReplay(recompute=lambda inputs: pytest.fail("nothing is decided here"))
    replay.state.members = dict.fromkeys(("ann", "bob", "cyd"))
    replay.state.rounds = {1: 3}
    replay.plans[1] = Instructions(participants=participants)
    check_resting(4, 2, {} if resting is None else {"resting": resting}, replay)
    assert (replay.findings.all() == ()) == is_sound


def test_a_plan_is_compared_with_the_one_that_follows():
    planned = Instructions(participants=("ann",), data_shares={"ann": 0.5})
    stated = {"active": ["ann", "bob"], "instructions": {"participants": ["ann"], "data_shares": {"ann": 0.5}}}
    for body, is_sound in (
        ({"plan": stated}, True),
        ({}, False),
        ({"plan": {**stated, "instructions": {"participants": ["bob"]}}}, False),
    ):
        replay = LedgerReplay(recompute=lambda inputs: pytest.fail("nothing is decided here"))
        check_plan(4, body, planned, replay)
        assert (replay.findings.all() == ()) == is_sound
