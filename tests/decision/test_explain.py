"""Explanations against brute force: the best set with the opposite fate."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import commonweal as cw
from commonweal.decision.decide import decide_figures
from commonweal.decision.mechanism import decide_round
from commonweal.decision.mechanisms import make_mechanism
from commonweal.decision.reference import score
from commonweal.records import Figures, MuRange, Rules
from tests.decision.near_tie_rounds import near_tie_rounds, revealing_mus

ROUND = {"profits": {"C1": -0.05, "C2": -0.05, "C3": 0.15}, "contributions": {"C1": 0.5, "C2": 0.1, "C3": 0.4}}


def best_score(profits, contributions, mu, must_contain=(), must_lack=()):
    """Largest objective over all sets E of loss-makers with the given members and without the given others."""
    candidates = [n for n, p in enumerate(profits) if p < 0]
    exact = [Fraction(p) for p in profits], [Fraction(q) for q in contributions]
    return max(
        score(*exact, chosen, Fraction(mu))
        for size in range(len(candidates) + 1)
        for chosen in combinations(candidates, size)
        if set(must_contain) <= set(chosen) and not set(must_lack) & set(chosen)
    )


@pytest.mark.parametrize("rule", ["clip", "raw"])
def test_the_runner_up_is_the_best_set_with_the_opposite_fate(rule):
    rng = np.random.default_rng(61)
    for _ in range(80):
        count = int(rng.integers(2, 7))
        names = [f"c{i}" for i in range(count)]
        profits = np.round(rng.uniform(-1, 0.4, count), 3)
        contributions = np.round(rng.random(count), 3)
        mu = float(10 ** rng.uniform(-2, 1))
        decision = cw.decide(
            profits=dict(zip(names, profits.tolist(), strict=True)),
            contributions=dict(zip(names, contributions.tolist(), strict=True)),
            mu=mu,
            contribution_rule=rule,
        )
        for position, name in enumerate(names):
            fate = cw.explain(decision, name)
            assert fate.stays == (name in decision.retained)
            if not fate.may_go:
                assert profits[position] >= 0
                continue
            opposite = {"must_contain": [position]} if fate.stays else {"must_lack": [position]}
            expected = best_score(profits, contributions, mu, **opposite)
            if expected == -math.inf:
                assert fate.gain is None
                continue
            assert fate.runner_up_objective == pytest.approx(float(expected))
            assert fate.gain == pytest.approx(decision.objective - float(expected))
            assert fate.gain >= -1e-12
            assert (name in fate.runner_up_retained) != fate.stays


def test_sentences_answer_what_a_member_asks():
    decision = cw.decide(**ROUND, mu=0.06)
    path = cw.mu_path(**ROUND)
    leaves = cw.explain(decision, "C2", path).sentence
    assert leaves == (
        "C2 is eliminated: eliminating it gains 0.0433333; the best set with it (C1, C2, C3) scores 0.05. "
        "It would stay for mu >= 0.45."
    )
    stays = cw.explain(decision, "C1", path).sentence
    assert stays.startswith("C1 stays: keeping it gains 0.0333333; the best set without it (C3) scores 0.06.")
    assert cw.explain(decision, "C3").sentence == "C3 stays: it makes no loss."


def test_why_nobody_can_be_eliminated():
    def said(decision):
        return cw.explain(decision, "C1").sentence

    assert said(cw.decide(**ROUND, mu=math.inf)) == "C1 stays: at mu = inf nobody is ever eliminated."
    assert said(cw.decide(**ROUND, mu=1.0, grace=True)) == "C1 stays: in a grace round nobody can be eliminated."
    finished, _ = decide_round(make_mechanism(Rules(mu=1.0)), Figures(**ROUND), {}, finished=True)
    assert said(finished) == "C1 stays: the federation is finished, and nobody is eliminated for a loss."


def test_ranges_of_mu_read_as_a_sentence():
    def range_of(lower, upper, **closed):
        return MuRange(exact_lower=lower, exact_upper=upper, **{"closed_below": True, "closed_above": True} | closed)

    fate = cw.explain(cw.decide(**ROUND, mu=0.06), "C2")

    def said(*ranges):
        return replace(fate, ranges=ranges).sentence.rpartition(" It would stay ")[2]

    assert said(range_of(0.0, math.inf)) == "at any mu."
    assert said(range_of(math.inf, math.inf)) == "only at mu = inf."
    assert (
        said(range_of(0.1, 0.2, closed_above=False), range_of(0.5, math.inf))
        == "for mu in [0.1, 0.2) or for mu >= 0.5."
    )
    assert said(range_of(0.1, 0.1), range_of(0.5, math.inf)) == "at mu = 0.1 or for mu >= 0.5."
    assert said() == "at no mu."


def test_a_tie_is_called_a_tie():
    figures = {"profits": {"x": 1.0, "a": -1.0, "b": -1.0}, "contributions": {"x": 1.0, "a": 1.0, "b": 1.0}}
    decision = cw.decide(**figures, mu=1.5)
    assert decision.eliminated == ("b",)
    sentence = cw.explain(decision, "b").sentence
    assert sentence.startswith(
        "b is eliminated: two sets of equal size tie, and ties go to clients earlier in the order; "
    )


LARGER, EARLIER = "ties go to the larger set", "ties go to clients earlier in the order"


@given(st.data(), st.sampled_from(["clip", "raw"]), st.sampled_from([1, 2]))
def test_a_sentence_never_contradicts_the_fate(data, rule, version):
    """Ties, zero contributions, μ = 0, infinity: what a sentence says about a tie is checked against both sets."""
    profits, contributions = data.draw(near_tie_rounds(rule, most_candidates=5))
    mu = data.draw(st.one_of(revealing_mus(profits, contributions), st.sampled_from([0.0, math.inf])))
    names = [f"c{n}" for n in range(len(profits))]
    figures = Figures(
        profits=dict(zip(names, profits.tolist(), strict=True)),
        contributions=dict(zip(names, contributions.tolist(), strict=True)),
    )
    decision = decide_figures(figures, Rules(mu=mu, contribution_rule=rule, version=version))
    width = math.fsum(abs(profits)) * 1e-12
    for name in names:
        fate = cw.explain(decision, name)
        sentence = fate.sentence
        assert sentence.startswith(f"{name} stays: " if name in decision.retained else f"{name} is eliminated: ")
        if fate.runner_up_retained is None:
            assert LARGER not in sentence
            assert EARLIER not in sentence
            continue
        assert (name in fate.runner_up_retained) != (name in decision.retained)
        this, other = len(decision.retained), len(fate.runner_up_retained)
        if LARGER in sentence:
            assert this > other
        if EARLIER in sentence:
            assert this == other
            first = next(n for n in names if (n in decision.retained) != (n in fate.runner_up_retained))
            assert first in decision.retained
        if "gains" in sentence:
            assert fate.gain > 0
        if version == 2 and mu < math.inf:
            used = np.maximum(contributions, 0.0) if rule == "clip" else contributions
            gone = [n for n, name in enumerate(names) if name not in fate.runner_up_retained]
            exact = [Fraction(p) for p in profits], [Fraction(q) for q in used]
            shortfall = float(best_score(profits, used, mu) - score(*exact, gone, Fraction(mu)))
            if not 0.999 < shortfall / width < 1.001:
                assert (LARGER in sentence or EARLIER in sentence) == (shortfall < width)


def test_who_goes_by_the_last_bit_of_version_1_is_not_told_of_a_tie():
    figures = Figures(profits={"a": -0.05, "b": 0.15, "c": 0.02}, contributions={"a": 0.5, "b": 0.4, "c": 0.1})
    decision = decide_figures(figures, Rules(mu=0.05, version=1))
    assert decision.eliminated == ("a",)
    assert cw.explain(decision, "a").sentence == (
        "a is eliminated: no other set is better by more than rounding; the best set with it (a, b, c) scores 0.12."
    )
    decision = decide_figures(figures, Rules(mu=0.05))
    assert cw.explain(decision, "a").sentence == (
        "a stays: two sets tie, and ties go to the larger set; the best set without it (b, c) scores 0.12."
    )


def test_the_last_contributor_has_no_alternative():
    decision = cw.decide(profits={"a": -1.0}, contributions={"a": 1.0}, mu=1.0)
    fate = cw.explain(decision, "a")
    assert fate.stays
    assert fate.runner_up_retained is None
    assert fate.sentence == "a stays: there is no alternative."


def test_unknown_clients_cannot_be_explained():
    with pytest.raises(cw.InputError, match="'zoe'"):
        cw.explain(cw.decide(**ROUND, mu=0.05), "zoe")
