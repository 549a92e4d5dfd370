"""What other mechanisms than the paper's add to entries cannot be forged: further figures, charges, plans, rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from commonweal.decision.mechanism import RoundDecider
from commonweal.decision.mechanisms import make_mechanism
from commonweal.errors import LedgerError
from commonweal.ledger.keys import SigningKey
from commonweal.ledger.rounds import RoundToSettle, draft_round, figures_of
from commonweal.ledger.verification.plans import check_plan, check_resting
from commonweal.ledger.verification.replay import LedgerReplay
from commonweal.records import Figures, Instructions, RoundRecord, Rules
from tests.ledger.sample_ledger import CLIENT_KEYS, next_document, sealed, settle_by_force, signed_notice, verified
from tests.ledger.test_taking_part import FREE, settle
from tests.ledger.test_terms import forged_round, open_with, rules_found


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
        ({"decision": {"external": None}}, "the decision follows from its inputs: external"),
        ({"decision": {"charges": None}}, "the decision follows from its inputs: charges"),
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


# Whom the next round is planned with. By FMore, the three lowest bids take part.

BIDS = {"ann": 0.01, "bob": 0.02, "cyd": 0.03, "dan": 0.09}
CYD = SigningKey.from_seed(b"cyd".ljust(32, b"."))
FMORE = replace(
    FREE,
    rules=Rules(mu=float("inf"), mechanism="fmore", parameters=(("winners", 3.0),)),
    rules_version="fmore/1",
    silence_limit=1,
)
WITH_ALL = "the next round is planned with all who stay"
FOLLOWS = "the plan for the next round follows from this one"


@pytest.fixture
def fmore(tmp_path, monkeypatch):
    monkeypatch.setitem(CLIENT_KEYS, "cyd", CYD)
    made = open_with(tmp_path, FMORE, members={name: CLIENT_KEYS[name].public for name in BIDS})
    yield made
    made.store.close()


def by_fmore(
    sample, number, clients=tuple(BIDS), *, active=tuple(BIDS), after=None, silent=(), withdrawn=(), absent=()
):
    """A round in which these clients take part, planned with `active`, and the decider after it."""
    resting = tuple(c for c in sample.ledger.state.listed_in(number) if c not in (*clients, *silent, *absent))
    figures = Figures(
        profits=dict.fromkeys(clients, 0.1),
        contributions=dict.fromkeys(clients, 0.2),
        costs={client: BIDS[client] for client in clients},
    )
    decider, counts = RoundDecider(make_mechanism(FMORE.rules)), dict.fromkeys(clients, 100)
    decider.state = {} if after is None else after.state
    decision = decider.decide(figures, sample_counts=counts, round_number=number)
    planned = Instructions() if active is None else decider.plan(decision, active, sample_counts=counts)
    made = RoundToSettle(
        record=RoundRecord(
            round_number=number,
            decision=decision,
            absent=(*absent, *silent),
            silent=silent,
            resting=resting,
            withdrawn=withdrawn,
            instructions=planned,
        ),
        rules_version="fmore/1",
        measured_by=FMORE.measured_by,
        sample_counts=counts,
        with_costs=True,
        active=active,
    )
    signatures = {c: made.report(sample.ledger.identity, c).signed(CLIENT_KEYS[c]) for c in clients}
    return replace(made, signatures=signatures), decider


def test_a_plan_with_all_who_stay_is_sound(fmore):
    first, after = by_fmore(fmore, 1)
    fmore.ledger.settle(first)
    second, _ = by_fmore(fmore, 2, ("ann", "bob", "cyd"), after=after)
    assert second.record.resting == ("dan",)
    fmore.ledger.settle(second)
    assert not verified(fmore.store).findings


def test_the_operator_does_not_choose_whom_a_round_is_planned_with(fmore):
    """Ann bids least; left out of the plan, she would have to rest."""
    first, after = by_fmore(fmore, 1, active=("bob", "cyd", "dan"))
    with pytest.raises(LedgerError, match="The round after round 1 was planned without 'ann', which stays"):
        fmore.ledger.settle(first)
    draft = draft_round(first, fmore.ledger.identity, fmore.ledger.terms)
    told = next_document(fmore.entries(), "round", draft.body, draft.postings)
    assert not rules_found(fmore, told), "she may withdraw"
    fmore.ledger.settle(replace(first, record=replace(first.record, withdrawn=("ann",))))
    second, _ = by_fmore(fmore, 2, ("bob", "cyd", "dan"), after=after)
    assert second.record.resting == ("ann",)
    settle_by_force(fmore, second)
    assert [finding.rule for finding in verified(fmore.store).findings] == [WITH_ALL]


def test_who_withdraws_is_not_planned_with(fmore):
    first, after = by_fmore(fmore, 1, active=("bob", "cyd", "dan"), withdrawn=("ann",))
    fmore.ledger.settle(first)
    fmore.ledger.withdraw("ann", 1, signed_notice(fmore.ledger.identity, "ann", 1))
    fmore.ledger.settle(by_fmore(fmore, 2, ("bob", "cyd", "dan"), after=after, active=("bob", "cyd", "dan"))[0])
    assert not verified(fmore.store).findings


@pytest.mark.parametrize(
    ("client", "last", "told"),
    [
        ("ann", 1, "planned with ann, whose notice is entry 4: dan rests because of it"),
        ("ann", 2, None),
        ("dan", 1, None),
    ],
)
def test_a_plan_with_somebody_whose_notice_follows_it_is_noted_if_others_rest_by_it(fmore, client, last, told):
    """Ann takes the place of dan, who bids most; dan takes nobody's place."""
    first, _ = by_fmore(fmore, 1)
    fmore.ledger.settle(first)
    fmore.ledger.withdraw(client, last, signed_notice(fmore.ledger.identity, client, last))
    result = verified(fmore.store)
    assert not result.findings
    assert [(note.entry, note.rule, note.found) for note in result.notes] == ([(3, WITH_ALL, told)] if told else [])


def test_every_plan_with_somebody_who_had_left_is_noted(fmore):
    """Ann's notice is held back for a round, from which she is absent."""
    first, after = by_fmore(fmore, 1)
    fmore.ledger.settle(first)
    second, _ = by_fmore(fmore, 2, ("bob", "cyd"), after=after, absent=("ann",))
    assert second.record.resting == ("dan",)
    fmore.ledger.settle(second)
    fmore.ledger.withdraw("ann", 1, signed_notice(fmore.ledger.identity, "ann", 1))
    result = verified(fmore.store)
    assert not result.findings
    assert [note.entry for note in result.notes if note.rule == WITH_ALL] == [3, 4]


def test_a_plan_made_again_without_who_left_is_not_noted(fmore):
    fmore.ledger.settle(by_fmore(fmore, 1)[0])
    fmore.ledger.withdraw("ann", 1, signed_notice(fmore.ledger.identity, "ann", 1))
    fmore.ledger.reverse_round(1, "planned with ann")
    fmore.ledger.settle(by_fmore(fmore, 1, active=("bob", "cyd", "dan"))[0])
    result = verified(fmore.store)
    assert not result.findings
    assert WITH_ALL not in [note.rule for note in result.notes]


def test_who_is_known_to_leave_is_not_planned_with(fmore):
    """If it were asked to take part, and nobody else, everybody would be asked."""
    fmore.ledger.withdraw("ann", 1, signed_notice(fmore.ledger.identity, "ann", 1))
    with_ann, _ = by_fmore(fmore, 1)
    assert forged_round(fmore, with_ann) == [f"{WITH_ALL}, in the order of admission"]
    with pytest.raises(LedgerError, match=WITH_ALL):
        fmore.ledger.settle(with_ann)
    fmore.ledger.settle(by_fmore(fmore, 1, active=("bob", "cyd", "dan"))[0])
    assert not verified(fmore.store).findings


@pytest.mark.parametrize("active", [("bob", "ann", "cyd", "dan"), ("ann", "bob", "cyd", "dan", "dan")])
def test_a_plan_is_made_in_the_order_of_admission(fmore, active):
    made, _ = by_fmore(fmore, 1, active=active)
    with pytest.raises(LedgerError, match=WITH_ALL):
        fmore.ledger.settle(made)
    assert f"{WITH_ALL}, in the order of admission" in forged_round(fmore, made)


def test_whoever_is_excluded_is_not_planned_with(fmore):
    there = ("ann", "bob", "cyd")
    with_dan, _ = by_fmore(fmore, 1, there, silent=("dan",))
    assert f"{WITH_ALL}, in the order of admission" in forged_round(fmore, with_dan)
    made, _ = by_fmore(fmore, 1, there, silent=("dan",), active=there)
    fmore.ledger.settle(made)
    assert not verified(fmore.store).findings


@pytest.mark.parametrize("has_rules", [True, False])
def test_a_plan_cannot_be_left_out_where_rules_are_agreed(tmp_path, fmore, has_rules):
    (tmp_path / "other").mkdir()
    sample = fmore if has_rules else open_with(tmp_path / "other", None, members=fmore.ledger.state.members)
    made, _ = by_fmore(sample, 1, active=None)
    if not has_rules:
        made = replace(made, measured_by=None)
    assert forged_round(sample, made) == ([FOLLOWS] if has_rules else [])
    if has_rules:
        with pytest.raises(LedgerError, match=FOLLOWS):
            sample.ledger.settle(made)
    else:
        sample.store.close()


def test_a_plan_that_was_reversed_does_not_count(fmore):
    first, after = by_fmore(fmore, 1)
    fmore.ledger.settle(first)
    fmore.ledger.reverse_round(1, "an error")
    draft = draft_round(by_fmore(fmore, 1, active=None)[0], fmore.ledger.identity, fmore.ledger.terms)
    without_plan = next_document(fmore.entries(), "round", draft.body, draft.postings)
    with fmore.store.writing() as writing:
        writing.add(sealed(without_plan, fmore.operator), draft.postings)
    fmore.ledger.refresh()
    second, _ = by_fmore(fmore, 2, ("ann", "bob", "cyd"), after=after)
    rule = "those rest whom the plan of the round before did not ask to take part"
    assert rule in forged_round(fmore, second), "nobody was asked to rest"
