"""Explanations against brute force: the best set with the opposite fate."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

import commonweal as cw
from commonweal.decision.reference import score

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
    assert "nobody can be eliminated" in cw.explain(cw.decide(**ROUND, mu=math.inf), "C1").sentence
    assert "nobody can be eliminated" in cw.explain(cw.decide(**ROUND, mu=1.0, grace=True), "C1").sentence


def test_a_tie_is_called_a_tie():
    figures = {"profits": {"x": 1.0, "a": -1.0, "b": -1.0}, "contributions": {"x": 1.0, "a": 1.0, "b": 1.0}}
    decision = cw.decide(**figures, mu=1.5)
    assert decision.eliminated == ("b",)
    sentence = cw.explain(decision, "b").sentence
    assert sentence.startswith(
        "b is eliminated: two sets tie, and ties go to the larger set, then to clients earlier in the order; "
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
