"""Reasons in words: what a client brought and earned, how sure that is, and never against its fate."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import commonweal as cw
from commonweal.decision.mechanism import decide_round
from commonweal.decision.mechanisms import make_mechanism
from commonweal.decision.reasons import (
    brought_and_earned,
    how_sure,
    how_sure_of_the_end,
    in_figures,
    loss_reason,
    reason,
    reported_as_harmful,
)
from commonweal.records import Evidence, Figures, Rules, Stability
from commonweal.valuation.harm import harm_evidence

ROUND = {"profits": {"C1": -0.05, "C2": -0.05, "C3": 0.15}, "contributions": {"C1": 0.5, "C2": 0.1, "C3": 0.4}}


def told(client, evidence=None, *, mu=0.06, figures=ROUND):
    decision = cw.decide(**figures, mu=mu)
    return reason(decision, client, evidence, cw.explain(decision, client).sentence)


def test_a_reason_says_first_what_the_client_brought_and_lost():
    evidence = Evidence(profit_error=0.06, contribution_error=0.04, stability=Stability(same_count=39, draw_count=100))
    assert told("C2", evidence) == (
        "C2 contributed 0.10 ± 0.04 (10 % of the total) and lost 0.05 ± 0.06; in 61 of 100 draws it would have stayed. "
        "It is eliminated: eliminating it gains 0.0433333; the best set with it (C1, C2, C3) scores 0.05."
    )
    assert told("C1", evidence).startswith(
        "C1 contributed 0.50 ± 0.04 (50 % of the total) and lost 0.05 ± 0.06; in 61 of 100 draws it would have been "
        "eliminated. It stays: keeping it gains"
    )


def test_errors_that_are_not_known_are_left_out():
    assert told("C2").startswith("C2 contributed 0.1 (10 % of the total) and lost 0.05. It is eliminated: ")
    assert told("C3") == "C3 contributed 0.4 (40 % of the total) and earned 0.15. It stays: it makes no loss."


def test_where_nobody_can_be_eliminated_no_draw_is_mentioned():
    sure = Evidence(profit_error=0.01, contribution_error=0.01, stability=Stability(same_count=100, draw_count=100))
    assert "draws" not in told("C1", sure, mu=math.inf)
    assert "; the same in all 100 draws. It stays: " in told("C3", sure)


@pytest.mark.parametrize(
    ("contribution", "error", "words"),
    [
        (-0.002, 0.004, "contributed −0.002 ± 0.004 (0 % of the total), which cannot be told from nothing,"),
        (0.003, 0.004, "contributed 0.003 ± 0.004 (25 % of the total), which cannot be told from nothing,"),
        (0.012, 0.004, "contributed 0.012 ± 0.004 (25 % of the total)"),
        (-0.02, 0.004, "made the shared model worse (contribution −0.020 ± 0.004)"),
        (-0.02, None, "contributed less than nothing (−0.02)"),
        (0.0, None, "contributed nothing"),
        (0.0, 0.0, "contributed nothing"),
        (120.0, 0.0, "contributed 120 (25 % of the total)"),
    ],
)
def test_contributions_in_words(contribution, error, words):
    others = 3 * contribution if contribution > 0 else 1.0  # a quarter of the total
    decision = cw.decide(profits={"a": -0.005, "b": 1.0}, contributions={"a": contribution, "b": others}, mu=math.inf)
    said = brought_and_earned(decision, "a", Evidence(contribution_error=error))
    assert said == f"{words} and lost 0.005"


def test_profits_in_words():
    def said(profit):
        decision = cw.decide(profits={"a": profit}, contributions={"a": 1.0}, mu=math.inf)
        return brought_and_earned(decision, "a", Evidence(profit_error=0.006))

    assert said(-0.005) == "contributed 1 (100 % of the total) and lost 0.005 ± 0.006"
    assert said(0.005) == "contributed 1 (100 % of the total) and earned 0.005 ± 0.006"
    assert said(0.0) == "contributed 1 (100 % of the total) and neither earned nor lost anything"


def test_the_expected_profit_has_its_error_and_is_named_where_it_decides():
    """Selection goes by what is expected of the next round, so this is the figure a reader must be able to judge."""
    expected = {"C1": -0.05, "C2": -0.05, "C3": 0.15}
    figures = {**ROUND, "profits": dict.fromkeys(expected, 0.01), "expected": expected}
    evidence = Evidence(profit_error=0.02, contribution_error=0.04, expected_error=0.03)
    said = told("C2", evidence, figures=figures)
    assert "; it is expected to lose 0.05 ± 0.03 in the next round. " in said
    assert "It is eliminated: by expected profits, eliminating it gains 0.0433333; " in said
    assert "by expected profits" not in told("C2")


def test_a_finished_federation_says_how_often_it_would_have_gone_on():
    mechanism, figures = make_mechanism(Rules(mu=0.06)), Figures(**ROUND)
    decision, _ = decide_round(mechanism, figures, {}, finished=True)

    def said(same):
        evidence = Evidence(stability=Stability(same_count=same, draw_count=100))
        return reason(decision, "C1", evidence, cw.explain(decision, "C1").sentence)

    assert said(39).endswith(
        " and lost 0.05; in 61 of 100 draws the federation would have gone on. It stays: the federation is finished, "
        "and nobody is eliminated for a loss."
    )
    assert "; the same in all 100 draws. It stays: the federation is finished" in said(100)
    assert how_sure_of_the_end(Stability(same_count=39, draw_count=100)) == "in 61 of 100 draws it would have gone on"
    assert how_sure_of_the_end(Stability(same_count=39, draw_count=100), is_advice=True) == (
        "in 61 of 100 draws another round would have paid"
    )
    assert how_sure_of_the_end(None) == ""


@pytest.mark.parametrize("who", ["it", "you"])
def test_a_finding_of_harm_says_why_it_is_another_figure_than_the_contribution(who):
    whose = "your" if who == "you" else "its"
    said = reported_as_harmful(harm_evidence("x", [1, 2], {"a": -0.3, "b": -0.4, "c": -0.35}, 10, 0.0), who=who)
    assert said == (
        f"reported as harmful: over rounds 1 to 2 the model got worse by what {who} sent at 3 of 3 other clients "
        f"(mean effect −0.35 ± 0.03), which is another figure than {whose} contribution to this round: it is summed "
        f"over rounds, {whose} own score does not count, and all others weigh the same"
    )


def test_profits_cover_the_losses_of_others_first():
    """By the loss rule "loss" a client with a profit pays it, and is left with nothing."""
    figures = {"profits": {"a": 0.04, "b": -0.05, "c": 0.0}, "contributions": {"a": 1.0, "b": 1.0, "c": 1.0}}
    decision = cw.decide(**figures, mu=math.inf, loss_rule="loss")
    first = "the federation made a loss of 0.01; by the loss rule 'loss' profits cover the others' losses first, and "
    assert loss_reason(decision, "a", who="a") == (
        f"{first}those who lost bear the rest; a earned 0.04, so a pays 0.04 and keeps 0"
    )
    assert loss_reason(decision, "b", who="you") == (
        f"{first}those who lost bear the rest, in proportion to their losses, of which you made 100 %, so you bear "
        "0.01; as you lost 0.05, you receive 0.04"
    )
    assert loss_reason(decision, "c", who="c") == ""


def test_how_sure_a_fate_is():
    def said(stays, same):
        return how_sure(stays, Stability(same_count=same, draw_count=20))

    assert said(True, 20) == said(False, 20) == "the same in all 20 draws"
    assert said(True, 0) == "in 20 of 20 draws it would have been eliminated"
    assert said(False, 7) == "in 13 of 20 draws it would have stayed"
    assert how_sure(True, None) == ""


@given(st.floats(-1e6, 1e6), st.floats(1e-12, 1e6))
def test_figures_with_errors_are_true_to_the_digits_shown(value, error):
    """The written value is within half a unit of its last digit, and both have the same decimals."""
    shown, _, shown_error = in_figures(value, error).replace("−", "-").partition(" ± ")
    assert float(shown) == pytest.approx(value, abs=0.6 * error, rel=0.06)
    assert float(shown_error) == pytest.approx(error, rel=0.34)
    assert (float(shown) == 0) <= (abs(value) < 1e-9 or abs(value) < 0.6 * error)
    if "e" not in shown + shown_error:
        assert len(shown.partition(".")[2]) == len(shown_error.partition(".")[2])


def test_a_clients_own_name_is_not_taken_for_a_sentence():
    figures = {"profits": {"It": -0.1, "It stays": 0.2}, "contributions": {"It": 0.0, "It stays": 1.0}}
    assert told("It", figures=figures).startswith("It contributed nothing and lost 0.1. It is eliminated: ")
    assert told("It stays", figures=figures).startswith("It stays contributed 1 (100 % of the total) and earned 0.2. ")
