"""Ties within rounding, version 2 of the rules, against the definition: every set, exact fractions, nothing clever."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import commonweal as cw
from commonweal.decision import near_best
from commonweal.decision.decide import decide_figures, mu_path_of_figures
from commonweal.decision.envelope import trace
from commonweal.decision.objective import objective
from commonweal.decision.problem import choose
from commonweal.decision.raw import make_problem
from commonweal.decision.reference import best_eliminated, score
from commonweal.decision.ties import negligible, sets_that_go
from commonweal.records import Figures, Rules
from commonweal.study.mu_sets import WHOLE_AXIS, MuGrid
from tests.decision.near_tie_rounds import near_tie_rounds, revealing_mus
from tests.decision.oracles import exhaustive, tolerant

BY_THE_LAST_BIT = {"profits": {"a": -0.05, "b": 0.15, "c": 0.02}, "contributions": {"a": 0.5, "b": 0.4, "c": 0.1}}


def eliminated(profits, contributions, mu, rule="clip", version=2):
    problem = make_problem(profits, contributions, rule, version=version)
    return gone(choose(problem, len(profits), mu).retained)


def gone(retained):
    return tuple(np.flatnonzero(~retained).tolist())


def named(values):
    return {f"c{n}": value for n, value in enumerate(values.tolist())}


def test_a_tie_is_not_decided_by_the_last_bit():
    """On paper, keeping everybody scores 0.12, and so does keeping b and c: 0.17 − 0.05 · 0.5/0.5."""
    assert Fraction(0.4) + Fraction(0.1) > Fraction(0.5)
    decision = cw.decide(**BY_THE_LAST_BIT, mu=0.05)
    assert decision.eliminated == ()
    figures = Figures(**BY_THE_LAST_BIT)
    assert decide_figures(figures, Rules(mu=0.05, version=1)).eliminated == ("a",)


def test_a_loss_below_rounding_lets_nobody_go():
    for mu in (0.0, 1e-9, 0.05, 1e9):
        decision = cw.decide(profits={"a": -2.2e-16, "b": 0.4}, contributions={"a": 0.0, "b": 0.1}, mu=mu)
        assert decision.eliminated == ()


@given(st.data(), st.sampled_from(["clip", "raw"]))
def test_decisions_follow_the_definition(data, rule):
    profits, contributions = data.draw(near_tie_rounds(rule))
    mu = data.draw(revealing_mus(profits, contributions))
    assert eliminated(profits, contributions, mu, rule) == tolerant(profits, contributions, mu)
    assert eliminated(profits, contributions, mu, rule, version=1) == exhaustive(profits, contributions, mu)


@given(st.data())
def test_where_many_sets_tie_the_largest_are_found(data):
    """The way that is taken after 16,384 states, here after the first ones."""
    profits, contributions = data.draw(near_tie_rounds())
    mu = data.draw(revealing_mus(profits, contributions))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(near_best, "_TIE_NODE_LIMIT", 1)
        assert eliminated(profits, contributions, mu) == tolerant(profits, contributions, mu)


def test_many_sets_of_equal_size_that_tie():
    """11 clients that differ in the last bit only: hundreds of sets tie, and the earliest clients stay."""
    rng = np.random.default_rng(5)
    profits = np.append(-1 - rng.permutation(11) * 2.0**-52, 1.0)
    contributions = np.append(1 + rng.permutation(11) * 2.0**-52, 1.0)
    for stay_count in (3, 5, 8):
        mu = (stay_count + 1.5) ** 2 / 12
        found = eliminated(profits, contributions, mu)
        assert found == tolerant(profits, contributions, mu)
        assert found == tuple(range(11 - len(found), 11))


@given(st.data(), st.sampled_from(["clip", "raw"]))
def test_the_mu_path_follows_the_definition_everywhere(data, rule):
    """At every breakpoint, just beside it (exactly, and one double away), between breakpoints, and at both ends."""
    profits, contributions = data.draw(near_tie_rounds(rule, most_candidates=6))
    path = trace(make_problem(profits, contributions, rule), len(profits))
    assert path.complete
    edges = sorted({Fraction(0), *path.breakpoints})
    mus = [*edges, edges[-1] * 1000 + 1]
    for lower, upper in pairwise(edges):
        mus += [(lower + upper) / 2, lower + (upper - lower) / 10**30, upper - (upper - lower) / 10**30]
    for edge in edges[1:]:
        mus += [Fraction(math.nextafter(float(edge), end)) for end in (0.0, math.inf)]
        mus += [Fraction(float(edge)), edge * (1 + Fraction(1, 10**12)), edge * (1 - Fraction(1, 10**12))]
    for mu in mus:
        assert gone(path.retained(mu)) == tolerant(profits, contributions, mu), mu


@given(st.data(), st.sampled_from(["clip", "raw"]))
def test_pieces_ranges_and_sweeps_agree_with_decisions(data, rule):
    profits, contributions = data.draw(near_tie_rounds(rule, most_candidates=5))
    figures = Figures(profits=named(profits), contributions=named(contributions))
    rules = Rules(mu=0.0, contribution_rule=rule)
    path = mu_path_of_figures(figures, rules)
    mus = {0.0, math.inf, data.draw(revealing_mus(profits, contributions))}
    for mu in path.breakpoints:
        mus |= {mu, math.nextafter(mu, 0.0), math.nextafter(mu, math.inf)}
    mus = sorted(mu for mu in mus if mu == 0 or mu >= 1e-50)
    followed = WHOLE_AXIS.split(figures, rules)
    for retained, grid in MuGrid(tuple(mus)).split(figures, rules).items():
        for range_ in grid.ranges:
            mu = range_.lower
            assert path.at(mu).retained == retained
            assert [kept for piece, kept in path.pieces() if mu in piece] == [retained]
            assert [kept for kept, axis in followed.items() if any(mu in part for part in axis.ranges)] == [retained]
            stays = [name for name in figures.clients if any(mu in part for part in path.stays(name))]
            assert tuple(stays) == retained


@given(st.data())
def test_the_plain_reference_agrees(data):
    profits, contributions = data.draw(near_tie_rounds(most_candidates=6))
    mu = data.draw(revealing_mus(profits, contributions))
    exact = [Fraction(p) for p in profits], [Fraction(q) for q in contributions]
    width = sum(map(abs, exact[0])) / 10**12
    plain, reached = best_eliminated(*exact, Fraction(mu), width=width)
    assert plain == tolerant(profits, contributions, mu)
    assert reached == score(*exact, plain, Fraction(mu))


@given(st.lists(st.integers(1, 9), max_size=6), st.integers(0, 20), st.data())
def test_sets_that_may_stay_come_in_tie_order(amounts, budget, data):
    needed = data.draw(st.lists(st.booleans(), min_size=len(amounts), max_size=len(amounts)))
    count = len(amounts)
    expected = [
        [n not in stays for n in range(count)]
        for stay_count in range(count, -1, -1)
        for stays in combinations(range(count), stay_count)
        if sum(amounts[n] for n in stays) <= budget and (not any(needed) or any(needed[n] for n in stays))
    ]
    found = sets_that_go(np.array(amounts, float), Fraction(budget), np.array(needed, bool))
    assert [goes.tolist() for goes in found] == expected


@example(count=25, kept=12)
@given(st.integers(2, 25), st.integers(0, 25))
def test_several_small_losses_add_up(count, kept):
    """At μ = 0 as many stay as fit into the width of a tie; of equal losses, the earlier ones."""
    kept = min(kept, count)
    big = 2.0**40
    width = (big + count * 2.0**-20) * 1e-12
    loss = width / (kept + 0.5)
    profits = np.append(np.full(count, -loss), big)
    for rule in ("clip", "raw") if count <= 12 else ("clip",):
        assert eliminated(profits, np.append(np.zeros(count), 1.0), 0.0, rule) == tuple(range(kept, count))


def test_noise_around_zero_keeps_everybody_however_many_sets_tie():
    """20 losses of some 1e-16 beside 5 real ones: 2^20 sets tie with the best, and the largest of them wins."""
    rng = np.random.default_rng(3)
    profits = np.concatenate([-1e-16 * (1 + rng.random(20)), -0.1 - 0.1 * rng.random(5), [1.0]])
    contributions = np.concatenate([rng.random(25), [1.0]])
    problem = make_problem(profits, contributions, "clip")
    real = np.arange(20, 25)
    for mu in (0.01, 0.1, 0.3, 1.0):
        choice = choose(problem, len(profits), mu)
        assert choice.retained[:20].all()
        assert not choice.limit_reached
        rest = np.append(real, 25)
        alone = make_problem(profits[rest], np.append(contributions[real], 1.0 + contributions[:20].sum()), "clip")
        assert choice.retained[20:].tolist() == choose(alone, 6, mu).retained.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_with_more_than_25_candidates_negligible_losses_stay(seed):
    """Within the width and the proven gap of the best objective, at every μ and along the path alike."""
    rng = np.random.default_rng([83, seed])
    count = 40
    profits = np.concatenate([-rng.random(count), [3.0]])
    profits[rng.choice(count, 5, replace=False)] = -1e-13 * rng.random(5)
    contributions = np.concatenate([rng.random(count) * (rng.random(count) < 0.8), [1.0]])
    width = 1e-12 * np.abs(profits).sum()
    small = np.flatnonzero((profits < 0) & (profits > -1e-12))
    problem, plain = (
        make_problem(profits, contributions, "clip"),
        make_problem(profits, contributions, "clip", version=1),
    )
    path = trace(problem, len(profits))
    for mu in (0.0, 1e-3, 0.05, 0.7, 30.0, *map(float, path.breakpoints[:20])):
        choice = choose(problem, len(profits), mu)
        assert choice.retained[small].all()
        found = objective(profits, contributions, choice.retained, mu)
        best = choose(plain, len(profits), mu)
        largest = objective(profits, contributions, best.retained, mu)
        assert found >= largest - 1.01 * width - choice.proven_gap
        assert np.array_equal(path.retained(mu), choice.retained)


def test_negligible_losses_are_the_smallest_and_of_equal_ones_the_first():
    losses = np.array([3.0, 1.0, 9.0, 1.0, 1.0, 2.0])
    assert sorted(negligible(losses, Fraction(5)).tolist()) == [1, 3, 4, 5]
    assert sorted(negligible(losses, Fraction(2)).tolist()) == [1, 3]
    assert negligible(losses, Fraction(0)).tolist() == []
