"""How sure a round was, in its entry and in the words of statements; and why a client bears a part of a loss."""

from __future__ import annotations

from dataclasses import replace

import pytest

from commonweal.errors import LedgerError
from commonweal.ledger.rounds import decision_of, draft_round, evidence_of
from commonweal.ledger.statements import SEPARATOR, make_statement
from commonweal.ledger.verification.members import contradictions
from commonweal.records import Evidence, Rules, Stability
from tests.ledger.sample_ledger import (
    FIRST_ROUND,
    LENIENT,
    MEMBERS,
    SECOND_ROUND,
    STRICT,
    THIRD_ROUND,
    open_ledger,
    parsed,
    settle_by_force,
    signed_round,
    verified,
)

AT = "2026-03-01T00:00:00.000000Z"
SURE = {
    "ann": Evidence(profit_error=0.02, contribution_error=0.03, stability=Stability(same_count=100, draw_count=100)),
    "bob": Evidence(profit_error=None, contribution_error=0.4),
    "cyd": Evidence(profit_error=0.4, contribution_error=0.09, stability=Stability(same_count=39, draw_count=100)),
}


@pytest.fixture
def sample(tmp_path):
    made = open_ledger(str(tmp_path / "ledger.db"), tmp_path / "keys")
    made.ledger.admit(MEMBERS)
    yield made
    made.store.close()


def with_evidence(settled, evidence):
    there = settled.record.decision.figures.profits
    known = {client: one for client, one in evidence.items() if client in there}
    return replace(settled, record=replace(settled.record, evidence=known))


def settle(sample, number, figures, rules=LENIENT, evidence=SURE, **options):
    settled = with_evidence(signed_round(sample.ledger.identity, number, figures, rules, **options), evidence)
    sample.ledger.settle(settled)
    return settled


def texts(sample, client):
    return [line.text for line in make_statement(sample.store, client, at=AT).lines if line.text != "admitted"]


def test_evidence_and_decision_come_back_as_they_were_settled(sample):
    settled = settle(sample, 1, SECOND_ROUND, STRICT, absent=("bob",))
    body = parsed(sample.entries()[-1])["body"]
    assert evidence_of(body) == settled.record.evidence
    decision = settled.record.decision
    # The entry names the version of the rules beside the decision.
    assert decision_of(body) == replace(decision, node_count=0, rules=replace(decision.rules, version=1))
    assert verified(sample.store).findings == ()


def test_a_round_without_evidence_is_the_same_entry_as_ever(sample):
    settled = signed_round(sample.ledger.identity, 1, FIRST_ROUND)
    assert "evidence" not in draft_round(settled, sample.ledger.identity, sample.ledger.terms).body
    assert evidence_of({}) == {}


def test_settling_again_with_other_evidence_changes_nothing(sample):
    """Another version may draw otherwise."""
    settled = settle(sample, 1, FIRST_ROUND)
    count = len(sample.entries())
    assert not sample.ledger.settle(with_evidence(settled, {})).fresh
    assert not sample.ledger.settle(with_evidence(settled, {"ann": Evidence(profit_error=1.0)})).fresh
    assert len(sample.entries()) == count
    with pytest.raises(LedgerError, match="already settled"):
        sample.ledger.settle(signed_round(sample.ledger.identity, 1, FIRST_ROUND | {"bob": (0.5, 0.5, None)}))


def test_statements_say_how_sure_a_fate_is(sample):
    settle(sample, 1, SECOND_ROUND, STRICT, absent=("bob",))
    assert texts(sample, "cyd") == [
        "round 1: eliminated; contributed 0.07 ± 0.09 (14 % of the total), which cannot be told from nothing, and lost "
        "0.3 ± 0.4; at mu = 0.05 the federation gains 0.2923 by eliminating you; in 61 of 100 draws you would have "
        "stayed"
    ]
    assert texts(sample, "ann") == [
        "round 1: retained; contributed 0.44 ± 0.03 (86 % of the total) and earned 0.18 ± 0.02; the same in all 100 "
        "draws"
    ]
    assert texts(sample, "bob") == ["round 1: absent"]


def test_errors_that_stay_private_are_left_out(sample):
    settle(sample, 1, FIRST_ROUND)
    (text,) = texts(sample, "bob")
    assert text.startswith(
        "round 1: retained; contributed 0.3 ± 0.4 (29 % of the total), which cannot be told from nothing, and earned "
        "0.1234; others lost 0.0507; "
    )
    sample.ledger.reverse_round(1, "again")
    settle(sample, 1, FIRST_ROUND, evidence={})
    assert texts(sample, "bob")[-1].startswith("round 1: retained; others lost 0.0507; ")


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (
            Rules(mu=float("inf")),
            "by the loss rule 'contribution' it is divided by contribution, and you contributed 47 %, so you bear "
            "0.08405; as you lost 0.2003, you receive 0.1163",
        ),
        (
            Rules(mu=float("inf"), loss_rule="equal"),
            "by the loss rule 'equal' it is divided equally among 3 clients, so you bear 0.06003; as you lost 0.2003, "
            "you receive 0.1403",
        ),
        (
            Rules(mu=float("inf"), loss_rule="cost", liability_cap=0.5),
            "by the loss rule 'cost' it is divided by cost, and you had 45 % of all costs, so you bear 0.08186; as you "
            "lost 0.2003, you receive 0.1184 (liability cap 0.5)",
        ),
        (
            Rules(mu=float("inf"), loss_rule="loss"),
            "by the loss rule 'loss' profits cover the others' losses first, and those who lost bear the rest, in "
            "proportion to their losses, of which you made 83 %, so you bear 0.1496; as you lost 0.2003, you receive "
            "0.05074",
        ),
    ],
)
def test_statements_say_which_rule_divided_a_loss_and_why_the_amount(sample, rules, words):
    """Σ profit = 0.0611 − 0.2003 − 0.0409; contributions 0.42 of 0.9, costs 0.35 of 0.77."""
    figures = {client: THIRD_ROUND[client] for client in ("ann", "bob")} | {"cyd": THIRD_ROUND["dan"]}
    settle(sample, 1, figures, rules, evidence={})
    assert texts(sample, "ann") == [f"round 1: retained; the federation made a loss of 0.1801; {words}"]


def test_by_the_rule_loss_who_earned_pays_no_more_than_that(sample):
    figures, rules = {"ann": (-0.3, 0.1, None), "bob": (0.1, 0.9, None)}, Rules(mu=9.0, loss_rule="loss")
    settle(sample, 1, figures, rules, evidence={}, absent=("cyd",))
    assert texts(sample, "bob") == [
        "round 1: retained; the federation made a loss of 0.2; by the loss rule 'loss' profits cover the others' "
        "losses first, and those who lost bear the rest; you earned 0.1, so you pay 0.1 and keep 0"
    ]


def test_where_nobody_contributed_a_loss_is_divided_equally(sample):
    settle(sample, 1, {"ann": (-0.3, 0.0, None), "bob": (0.1, -0.2, None)}, evidence={}, absent=("cyd",))
    assert texts(sample, "bob") == [
        "round 1: retained; the federation made a loss of 0.2; by the loss rule 'contribution' it is divided by "
        "contribution, and where nobody contributed anything, equally among 2, so you bear 0.1; as you earned 0.1, you "
        "pay 0.2"
    ]


@pytest.mark.parametrize("rules", [Rules(mu=float("inf")), Rules(mu=float("inf"), loss_rule="loss")])
def test_who_pays_for_the_losses_of_others_reads_by_which_rule(sample, rules):
    """What the federation made, 0.5 − 0.2 − 0.1, all belongs to the only contributor; it pays what others lost."""
    settle(sample, 1, {"ann": (0.5, 0.4, None), "bob": (-0.2, 0.0, None), "cyd": (-0.1, 0.0, None)}, rules, evidence={})
    assert texts(sample, "ann") == [
        "round 1: retained; others lost 0.3; what the federation made, 0.2, is divided by contribution, and you "
        "contributed 100 %, so your payoff is 0.2; as you earned 0.5, you pay 0.3"
    ]
    assert texts(sample, "bob") == ["round 1: retained"]


def test_the_only_contributor_reads_by_which_rule_it_bears_the_loss(sample):
    settle(sample, 1, {"ann": (0.1, 0.4, None), "bob": (-0.2, 0.0, None), "cyd": (-0.1, 0.0, None)}, evidence={})
    assert texts(sample, "ann") == [
        "round 1: retained; the federation made a loss of 0.2; by the loss rule 'contribution' it is divided by "
        "contribution, and you contributed 100 %, so you bear 0.2; as you earned 0.1, you pay 0.3"
    ]


def test_a_statement_that_explained_less_agrees_with_the_ledger(sample):
    settle(sample, 1, {"ann": (0.5, 0.4, None), "bob": (-0.2, 0.0, None), "cyd": (-0.1, 0.0, None)})
    statement = make_statement(sample.store, "ann", at=AT)
    admitted, line = statement.lines
    start, _, _ = line.text.partition("; others lost")
    assert start != "round 1: retained", "it has something else to say too"
    for text, is_same in ((start, True), ("round 1: retained", True), (start.replace("earned", "lost"), False)):
        told = replace(statement, lines=(admitted, replace(line, text=text)))
        assert (contradictions(sample.store, told, "it") == ()) == is_same


def test_payoffs_that_accrue_are_not_paid(tmp_path):
    accruing = open_ledger(str(tmp_path / "accruing.db"), tmp_path / "keys", "accruals")
    accruing.ledger.admit(MEMBERS)
    settle(accruing, 1, {"ann": (-0.3, 0.5, None), "bob": (0.1, 0.5, None)}, evidence={}, absent=("cyd",))
    assert texts(accruing, "bob")[0].endswith("and you contributed 50 %, so you bear 0.1")
    accruing.store.close()


def test_statements_that_explained_nothing_agree_with_the_ledger(sample):
    settle(sample, 1, SECOND_ROUND, STRICT, absent=("bob",))
    statement = make_statement(sample.store, "cyd", at=AT)
    assert contradictions(sample.store, statement, "new.json") == ()

    def telling(change):
        return replace(statement, lines=tuple(replace(line, text=change(line.text)) for line in statement.lines))

    older = telling(lambda text: text.partition(SEPARATOR)[0])
    assert contradictions(sample.store, older, "older.json") == ()
    false = telling(lambda text: text.replace("61 of 100", "1 of 100"))
    assert [finding.entry for finding in contradictions(sample.store, false, "false.json")] == [3]


@pytest.mark.parametrize(
    ("client", "evidence", "rule"),
    [
        ("ann", Evidence(profit_error=-0.1), "evidence has errors and counts of draws"),
        ("ann", Evidence(contribution_error="0.1"), "evidence has errors and counts of draws"),
        ("ann", Evidence(stability=Stability(same_count=7, draw_count=5)), "evidence has errors and counts of draws"),
        ("ann", Evidence(stability=Stability(same_count=0, draw_count=0)), "evidence has errors and counts of draws"),
        ("ann", Evidence(stability=Stability(same_count=0.5, draw_count=1)), "evidence has errors and counts of draws"),
        ("eve", Evidence(), "evidence is about clients of the round"),
    ],
)
def test_impossible_evidence_is_found_and_not_told(sample, client, evidence, rule):
    settled = signed_round(sample.ledger.identity, 1, FIRST_ROUND)
    settle_by_force(sample, replace(settled, record=replace(settled.record, evidence={client: evidence})))
    assert [finding.rule for finding in verified(sample.store).findings] == [rule]
    assert [text.partition("; others lost")[0] for text in texts(sample, "ann")] == ["round 1: retained"]
