"""Reasons in words: what a client brought and earned, how sure that is, and never against its fate."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import commonweal as cw
from commonweal.decision.reasons import brought_and_earned, how_sure, in_figures, reason
from commonweal.records import Evidence, Stability

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
    assert "it stays in all 100 draws" in told("C3", sure)


@pytest.mark.parametrize(
    ("contribution", "error", "words"),
    [
        (-0.002, 0.004, "contributed nothing measurable (−0.002 ± 0.004)"),
        (0.003, 0.004, "contributed nothing measurable (0.003 ± 0.004)"),
        (0.012, 0.004, "contributed 0.012 ± 0.004 (25 % of the total)"),
        (-0.02, 0.004, "made the shared model worse (contribution −0.020 ± 0.004)"),
        (-0.02, None, "contributed less than nothing (−0.02)"),
        (0.0, None, "contributed nothing"),
        (0.0, 0.0, "contributed nothing"),
        (120.0, 0.0, "contributed 120 (25 % of the total)"),
    ],
)
def test_contributions_in_words(contribution, error, words):
    evidence = Evidence(contribution_error=error)
    said = brought_and_earned(profit=-0.005, contribution=contribution, evidence=evidence, part=0.25)
    assert said == f"{words} and lost 0.005"


def test_profits_in_words():
    def said(profit):
        return brought_and_earned(profit=profit, contribution=1.0, evidence=Evidence(profit_error=0.006), part=None)

    assert said(-0.005) == "contributed 1 and lost 0.005 ± 0.006"
    assert said(0.005) == "contributed 1 and earned 0.005 ± 0.006"
    assert said(0.0) == "contributed 1 and neither earned nor lost anything"


def test_how_sure_a_fate_is():
    def said(stays, same):
        return how_sure(stays, Stability(same_count=same, draw_count=20))

    assert said(True, 20) == "it stays in all 20 draws"
    assert said(False, 20) == "it is eliminated in all 20 draws"
    assert said(True, 0) == "in 20 of 20 draws it would have been eliminated"
    assert said(False, 7) == "in 13 of 20 draws it would have stayed"
    assert how_sure(True, None) == ""


@given(st.floats(-1e6, 1e6), st.floats(1e-12, 1e6))
def test_figures_with_errors_are_true_to_the_digits_shown(value, error):
    """The written value is within half a unit of its last digit of the true one, and never hides a value as zero."""
    shown, _, shown_error = in_figures(value, error).replace("−", "-").partition(" ± ")
    assert float(shown) == pytest.approx(value, abs=0.6 * error, rel=0.06)
    assert float(shown_error) == pytest.approx(error, rel=0.34)
    assert (float(shown) == 0) <= (abs(value) < 1e-9 or abs(value) < 0.6 * error)


def test_a_clients_own_name_is_not_taken_for_a_sentence():
    figures = {"profits": {"It": -0.1, "It stays": 0.2}, "contributions": {"It": 0.0, "It stays": 1.0}}
    assert told("It", figures=figures).startswith("It contributed nothing and lost 0.1. It is eliminated: ")
    assert told("It stays", figures=figures).startswith("It stays contributed 1 (100 % of the total) and earned 0.2. ")
