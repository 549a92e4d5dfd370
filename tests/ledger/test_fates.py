"""Harm and the end of a federation in a ledger: settled, stated, and judged again from the entry alone."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from commonweal.decision.ending import find_ending
from commonweal.decision.mechanism import decide_round
from commonweal.decision.mechanisms import make_mechanism
from commonweal.decision.mechanisms.paper import Paper
from commonweal.errors import LedgerError
from commonweal.ledger.rounds import RoundToSettle, draft_round
from commonweal.ledger.statements import make_statement
from commonweal.records import Evidence, Figures, RoundRecord, Rules, Stability
from commonweal.valuation.harm import harm_evidence
from tests.ledger.sample_ledger import next_document, open_ledger, others_absent, sealed, tampering, undone, verified
from tests.ledger.test_terms import AGREED, open_with

NAMES = ("ann", "bob", "cyd", "dan", "eve", "poisoner")
PROFITS = {"ann": 0.2, "bob": 0.1, "cyd": -0.3, "dan": 0.05, "eve": 0.02, "poisoner": 0.0}
CONTRIBUTIONS = {"ann": 0.4, "bob": 0.3, "cyd": 0.01, "dan": 0.1, "eve": 0.1, "poisoner": -0.9}
EXPECTED = {"ann": -0.01, "bob": -0.02, "cyd": -0.3, "dan": 0.005, "eve": -0.02, "poisoner": -0.005}
EFFECTS = {"ann": -0.051, "bob": -0.043, "cyd": -0.047, "dan": -0.05, "eve": -0.04}
EVIDENCE = harm_evidence("poisoner", (1, 2), EFFECTS, 12 * len(NAMES), -0.01)


def round_of(number, *, harm=(), harmful=(), ends=None, grace=False, names=NAMES):
    """`ends` says whether the federation ends because it is finished; None: it is not."""
    figures = Figures(
        profits={name: PROFITS[name] for name in names},
        contributions={name: CONTRIBUTIONS[name] for name in names},
        expected=None if ends is None else {name: EXPECTED[name] for name in names},
    )
    decision, _ = decide_round(
        make_mechanism(Rules(mu=0.05)), figures, {}, harmful=harmful, finished=bool(ends), grace=grace
    )
    expected = figures.without(harmful).expected
    record = RoundRecord(
        round_number=number,
        decision=decision,
        harm=tuple(harm),
        ending=None if expected is None else find_ending(expected),
    )
    return RoundToSettle(record=record, rules_version=Paper.version)


@pytest.fixture
def sample(tmp_path):
    made = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "keys")
    made.ledger.admit(dict.fromkeys(NAMES))
    made.ledger.settle(round_of(1, grace=True))  # nobody leaves
    yield made
    made.store.close()


@pytest.fixture
def forge(sample):
    """What verification finds if the operator signs this body as the next entry."""

    def findings_of(settled, edit):
        draft = draft_round(settled, sample.ledger.identity, sample.ledger.terms)
        body = copy.deepcopy(dict(draft.body))
        edit(body)
        with tampering(sample.store) as attacker:
            document = next_document(attacker.entries(), "round", body, draft.postings)
            with undone(attacker):
                attacker.add(sealed(document, sample.operator))
                return {finding.rule for finding in verified(attacker).findings}

    return findings_of


def lines(sample, client):
    return [line.text for line in make_statement(sample.store, client, at="2026-02-01T00:00:00Z").lines]


HARM = {"harm": (EVIDENCE,), "harmful": ("poisoner",)}


def test_an_elimination_as_harmful_is_settled_stated_and_verified(sample):
    sample.ledger.settle(round_of(2, **HARM))
    assert verified(sample.store).findings == ()
    line = lines(sample, "poisoner")[-1]
    assert line.startswith("round 2: eliminated as harmful; ")
    assert (
        "over rounds 1 to 2 the model got worse by what you sent at 5 of 5 other clients (mean effect −0.046 ± 0.002)"
        in line
    )
    assert lines(sample, "cyd")[-1].startswith("round 2: eliminated; ")  # by the mechanism, for its loss
    assert "harmful" not in " ".join(lines(sample, "cyd") + lines(sample, "ann"))
    with pytest.raises(LedgerError, match="was eliminated in round 2"):
        sample.ledger.settle(others_absent(round_of(3, names=("ann", "poisoner")), sample.ledger))


def test_harm_that_is_only_reported_is_stated_too(sample):
    sample.ledger.settle(round_of(2, harm=(EVIDENCE,)))
    assert verified(sample.store).findings == ()
    assert "; reported as harmful: over rounds 1 to 2 the model" in lines(sample, "poisoner")[-1]
    assert lines(sample, "poisoner")[-1].startswith("round 2: retained")


def test_an_honest_entry_gives_no_finding(forge):
    assert forge(round_of(2, **HARM), lambda body: None) == set()
    assert forge(round_of(2, **HARM, ends=True), lambda body: None) == set()


NOT_BEYOND_DOUBT = "a client is harmful only if the test says so"


@pytest.mark.parametrize(
    ("edit", "rule"),
    [
        (lambda row: row["effects"][0].update(sum=0.2), NOT_BEYOND_DOUBT),
        (lambda row: [each.update(sum=-each["sum"]) for each in row["effects"]], NOT_BEYOND_DOUBT),
        (lambda row: row.update(test_count=10**9), NOT_BEYOND_DOUBT),
        (lambda row: row.update(test_count=11), "the chance of an error is divided among all tests"),
        (lambda row: row.update(rounds=[2, 3]), "harm is summed over settled rounds that the client took part in"),
        (lambda row: row.update(rounds=[2, 1]), "harm is summed over settled rounds that the client took part in"),
        (lambda row: row.update(margin=-0.04), NOT_BEYOND_DOUBT),
        (lambda row: row.update(margin=0.1), "evidence of harm is complete"),
        (lambda row: row["effects"][0].update(scorer="zoe"), "harm is between clients of the round"),
        (lambda row: row["effects"][0].update(scorer="poisoner"), "evidence of harm is complete"),
        (lambda row: row["effects"][0].update(scorer="bob"), "evidence of harm is complete"),
        (lambda row: row.update(effects=row["effects"][:2]), "evidence of harm is complete"),
        (lambda row: row["effects"][0].update(sum="-0.05"), "evidence of harm is complete"),
        (lambda row: row.pop("rounds"), "evidence of harm is complete"),
    ],
)
def test_evidence_that_does_not_hold_is_found(forge, edit, rule):
    findings = forge(round_of(2, **HARM), lambda body: edit(body["harm"]["found"][0]))
    assert rule in findings


def test_an_elimination_without_evidence_is_found(forge):
    assert "the decision follows from its inputs: retained" in forge(round_of(2, **HARM), lambda body: body.pop("harm"))
    spared = forge(round_of(2, **HARM), lambda body: body["harm"]["found"][0].update(is_eliminated=False))
    assert "the decision follows from its inputs: retained" in spared


def test_a_test_of_another_version_is_found(forge):
    assert "the test for harm can be made again" in forge(
        round_of(2, **HARM), lambda body: body["harm"].update(version="harm/9")
    )


def test_the_first_version_of_the_test_had_no_margin(forge):
    def as_before(body):
        body["harm"]["version"] = "harm/1"
        for row in body["harm"]["found"]:
            del row["margin"]

    assert not forge(round_of(2, **HARM), as_before)


def test_nobody_is_eliminated_as_harmful_in_a_grace_round(forge):
    assert "nobody is eliminated in a grace round" in forge(round_of(2, **HARM, grace=True), lambda body: None)


def test_half_of_the_clients_cannot_be_harmful(forge):
    three = [replace(EVIDENCE, client=name, by_scorer=EFFECTS) for name in ("ann", "bob", "poisoner")]
    for evidence in three:
        others = {name: -0.05 - place / 1000 for place, name in enumerate(NAMES) if name != evidence.client}
        three[three.index(evidence)] = replace(evidence, by_scorer=others)
    settled = round_of(2, harm=three, harmful=("ann", "bob", "poisoner"))
    assert "only a minority is harmful" in forge(settled, lambda body: None)


def test_a_finished_federation_ends_in_the_ledger(sample):
    settled = round_of(2, ends=True)
    doubt = Evidence(stability=Stability(same_count=39, draw_count=100))
    sample.ledger.settle(replace(settled, record=replace(settled.record, evidence=dict.fromkeys(NAMES, doubt))))
    assert verified(sample.store).findings == ()
    for client in NAMES:
        told = (
            "; the federation is finished: another round is expected to cost more than it brings; in 61 of 100 draws "
            "the federation would have gone on"
        )
        assert lines(sample, client)[-1].startswith("round 2: retained")
        assert told in lines(sample, client)[-1]
    with pytest.raises(LedgerError, match="was finished after round 2, so round 3 cannot be settled"):
        sample.ledger.settle(round_of(3))
    sample.ledger.reverse_round(2, "figures came late")
    sample.ledger.settle(round_of(2))
    assert verified(sample.store).findings == ()


def test_a_federation_that_goes_on_is_only_told(sample):
    sample.ledger.settle(round_of(2, ends=False))
    assert "; finished: another round is expected to cost more than it brings" in lines(sample, "ann")[-1]
    sample.ledger.settle(others_absent(round_of(3, ends=False, names=("ann", "dan")), sample.ledger))
    assert verified(sample.store).findings == ()


FINISHED = "a federation is finished if no further round is expected to pay"


def test_an_end_that_does_not_follow_from_the_expected_profits_is_found(forge, sample):
    assert FINISHED in forge(round_of(2), lambda body: body.update(ending={"ends": False}))

    def promise_a_profit(body):
        for row in body["inputs"]:
            row["expected_profit"] = 0.5

    assert FINISHED in forge(round_of(2, ends=True), promise_a_profit)
    assert "the decision follows from its inputs: retained" in forge(
        round_of(2, ends=True), lambda body: body.pop("ending")
    )
    sample.ledger.settle(round_of(2, ends=True))
    assert "no round follows the one that finished the federation" in forge(round_of(3), lambda body: None)


# Where rules are agreed.

ELIMINATED = replace(AGREED, harm="eliminate", grace_rounds=1, round_count=None, profit_bounds={}, most_samples={})


@pytest.fixture
def agreed(tmp_path):
    """A ledger with a grace round and three others."""
    made = open_with(tmp_path, ELIMINATED, members=dict.fromkeys(NAMES))
    for number in (1, 2, 3):
        made.ledger.settle(by_terms(round_of(number, grace=True) if number == 1 else together(number)))
    yield made
    made.store.close()


def together(number, **options):
    """A round in which nobody is eliminated for a loss."""
    made = round_of(number, grace=True, **options)
    rules = replace(made.record.decision.rules, version=2)
    figures = replace(made.record.decision.figures, profits=dict.fromkeys(NAMES, 0.1))
    harmful = options.get("harmful", ())
    decision, _ = decide_round(make_mechanism(rules), figures, {}, harmful=harmful)
    return replace(made, record=replace(made.record, decision=decision))


def by_terms(made):
    return replace(made, measured_by=ELIMINATED.measured_by, rules_version=ELIMINATED.rules_version)


def outcome_of(sample, made):
    draft = draft_round(by_terms(made), sample.ledger.identity, sample.ledger.terms)
    with tampering(sample.store) as attacker:
        attacker.add(sealed(next_document(attacker.entries(), "round", draft.body, draft.postings), sample.operator))
        return verified(attacker)


def test_who_is_harmful_is_not_spared_where_the_terms_say_so(agreed):
    evidence = harm_evidence("poisoner", (2, 3, 4), EFFECTS, 12 * len(NAMES), -0.01)
    spared = together(4, harm=(evidence,))
    with pytest.raises(LedgerError, match="harm is eliminate in the terms and no elimination of poisoner in the round"):
        agreed.ledger.settle(by_terms(spared))
    assert [each.rule for each in outcome_of(agreed, spared).findings] == ["rounds keep to the terms: harm"]
    agreed.ledger.settle(by_terms(together(4, harm=(evidence,), harmful=("poisoner",))))
    outcome = verified(agreed.store)
    assert not outcome.findings
    assert RULE_OF_ROUNDS not in [note.rule for note in outcome.notes]


def test_half_of_the_clients_are_not_eliminated(agreed):
    """It may be the scores that are wrong."""
    found = []
    for name in NAMES[:3]:
        effects = {other: EFFECTS.get(other, -0.045) for other in NAMES if other != name}
        found.append(harm_evidence(name, (2, 3, 4), effects, 12 * len(NAMES), -0.01))
    agreed.ledger.settle(by_terms(together(4, harm=found)))
    assert not verified(agreed.store).findings


RULE_OF_ROUNDS = "harm is summed over all rounds after grace"


@pytest.mark.parametrize(
    ("rounds", "is_finding"), [((1,), True), ((1, 4), True), ((2, 3), True), ((3, 4), False), ((4,), False)]
)
def test_harm_is_not_proven_by_chosen_rounds(agreed, rounds, is_finding):
    """That scorers could measure nothing in a round is the operator's word; grace rounds never count."""
    evidence = harm_evidence("poisoner", rounds, EFFECTS, 12 * len(NAMES), -0.01)
    outcome = outcome_of(agreed, together(4, harm=(evidence,), harmful=("poisoner",)))
    assert (RULE_OF_ROUNDS in [each.rule for each in outcome.findings]) == is_finding
    assert (RULE_OF_ROUNDS in [each.rule for each in outcome.notes]) != is_finding
