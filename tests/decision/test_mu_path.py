"""The whole μ axis against the brute-force envelope, at, between and beyond its breakpoints."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import commonweal as cw
from commonweal.decision.decide import make_problem
from commonweal.decision.envelope import trace
from commonweal.decision.problem import choose
from tests.decision.families import KINDS, figures
from tests.decision.oracles import envelope, exhaustive
from tests.first_few import first_few

INF = math.inf


def traced(profits, contributions, rule="clip", **options):
    """The path by version 1 of the rules, whose breakpoints are those of the envelope."""
    return trace(make_problem(profits, contributions, rule, version=1), len(profits), **options)


def gone(mask):
    return tuple(np.flatnonzero(~mask).tolist())


def probes(breakpoints):
    """A μ inside each piece, and each breakpoint itself."""
    edges = [Fraction(0), *[b for b in breakpoints if b > 0]]
    inside = [(a + b) / 2 for a, b in pairwise(edges)] + [edges[-1] + 1, edges[-1] * 7 + 3]
    return inside + [b for b in edges if b > 0]


@pytest.mark.parametrize("rule", ["clip", "raw"])
@pytest.mark.parametrize("chunk", first_few(2, range(6)))
def test_equals_the_brute_force_envelope(rule, chunk):
    rng = np.random.default_rng([41, chunk, len(rule)])
    for trial in range(60):
        kind = KINDS[int(rng.integers(len(KINDS)))]
        count = int(rng.integers(1, 11 if trial % 6 == 0 else 7))
        profits, contributions = figures(rng, kind, count, int(rng.integers(0, 4)))
        if rule == "raw":
            contributions = contributions * rng.choice([-1.0, 1.0, 1.0], len(contributions))
        path = traced(profits, contributions, rule)
        assert path.complete
        assert [b for b in path.breakpoints if b > 0] == envelope(profits, contributions), (
            kind,
            profits,
            contributions,
        )
        for mu in probes(path.breakpoints):
            assert gone(path.retained(mu)) == exhaustive(profits, contributions, mu), (mu, profits, contributions)
        assert gone(path.retained(Fraction(0))) == exhaustive(profits, contributions, 0)


size = st.floats(1e-6, 1e6)
clients = st.lists(
    st.tuples(st.one_of(size, size.map(lambda x: -x)), st.one_of(size, st.just(0.0))), min_size=1, max_size=12
)


@given(clients)
def test_the_penalty_ratio_and_the_budget_never_rise_with_mu(figures_of_clients):
    profits = np.array([p for p, _ in figures_of_clients])
    contributions = np.array([q for _, q in figures_of_clients])
    problem = make_problem(profits, contributions, "clip", version=1)
    path = trace(problem, len(profits))
    # Where 0 is a breakpoint, the set before it may leave no contribution at all: the ratio is infinite there.
    sets = path.between[1:] if path.breakpoints[:1] == (Fraction(0),) else path.between
    lines = [problem.line(retained) for retained in sets]
    ratios, welfares = [line.ratio for line in lines], [line.welfare for line in lines]
    assert all(a > b for a, b in pairwise(ratios))
    assert all(a > b for a, b in pairwise(welfares))


@given(clients, st.tuples(size, size).filter(lambda mus: mus[0] < mus[1]))
def test_ties_within_rounding_change_that_by_no_more_than_rounding(figures_of_clients, mus):
    """Either set falls short of the other by at most the width δ where it is retained, so with μ < ν

    ratio(ν) − ratio(μ) ≤ 2δ/(ν − μ)   and   welfare(ν) − welfare(μ) ≤ δ + μ · 2δ/(ν − μ).
    """
    profits = np.array([p for p, _ in figures_of_clients])
    problem = make_problem(profits, np.array([q for _, q in figures_of_clients]), "clip")
    low, high = map(Fraction, mus)
    before, after = (problem.line(choose(problem, len(profits), mu).retained) for mu in (low, high))
    width = sum(abs(Fraction(p)) for p in profits) / 10**12
    assert after.ratio - before.ratio <= 2 * width / (high - low)
    assert after.welfare - before.welfare <= width + low * 2 * width / (high - low)


@given(clients)
def test_ranges_of_clients_agree_with_who_is_retained(figures_of_clients):
    names = [f"c{i}" for i in range(len(figures_of_clients))]
    arguments = {
        "profits": dict(zip(names, (p for p, _ in figures_of_clients), strict=True)),
        "contributions": dict(zip(names, (q for _, q in figures_of_clients), strict=True)),
    }
    path = cw.mu_path(**arguments)
    for mu in [0.0, INF, *path.breakpoints, *(b * 1.01 for b in path.breakpoints), 1e-9, 1e9]:
        decision = cw.decide(**arguments, mu=mu)
        assert path.at(mu).retained == decision.retained
        assert path.at(mu).payoffs == decision.payoffs
        for name in names:
            assert any(mu in range_ for range_ in path.stays(name)) == (name in decision.retained)
        assert [retained for range_, retained in path.pieces() if mu in range_] == [decision.retained]


@pytest.mark.slow
@pytest.mark.parametrize("correlated", [False, True])
def test_a_thousand_candidates_take_at_most_three_solves_per_breakpoint(correlated):
    rng = np.random.default_rng(43)
    contributions = rng.random(1000)
    losses = contributions + 0.1 if correlated else rng.random(1000)
    profits = np.concatenate([-losses, rng.random(100)])
    path = traced(profits, np.concatenate([contributions, rng.random(100)]))
    assert path.complete
    assert path.proven_gap == 0
    assert len(path.breakpoints) > 500
    assert path.solve_count <= 3 * len(path.breakpoints)


def test_sets_need_not_be_nested_and_a_client_may_come_back():
    """A client that leaves, stays and leaves again as μ grows: its ranges come in two pieces."""
    rng = np.random.default_rng(47)
    for _ in range(2000):
        count = int(rng.integers(4, 8))
        names = [f"c{i}" for i in range(count + 1)]
        contributions = dict(zip(names, rng.random(count + 1).tolist(), strict=True))
        profits = dict(zip(names, [*(-rng.random(count)).tolist(), 0.5], strict=True))
        path = cw.mu_path(profits=profits, contributions=contributions)
        again = [name for name in names if len(path.stays(name)) > 1]
        if again:
            first, second = path.stays(again[0])[:2]
            between = (first.upper + second.lower) / 2
            inside = (first.lower + first.upper) / 2
            assert again[0] in path.at(inside).retained
            assert again[0] not in path.at(between).retained
            return
    pytest.fail("no such round found")


def test_a_cut_path_says_so_and_still_decides():
    rng = np.random.default_rng(53)
    names = [f"c{i}" for i in range(9)]
    contributions = dict(zip(names, rng.random(9).tolist(), strict=True))
    profits = {name: -0.3 * q for name, q in contributions.items()} | {"c8": 0.2}
    whole = cw.mu_path(profits=profits, contributions=contributions)
    path = cw.mu_path(profits=profits, contributions=contributions, limit=5)
    assert not path.complete
    assert path.breakpoints == whole.breakpoints[:5]
    with pytest.raises(cw.IncompletePathError, match="raise the limit"):
        path.stays("c0")
    with pytest.raises(cw.IncompletePathError):
        path.pieces()
    for mu in (whole.breakpoints[2], whole.breakpoints[50], INF):
        assert path.at(mu).retained == whole.at(mu).retained


def test_without_a_contributing_profit_maker_mu_zero_is_a_piece_of_its_own():
    path = cw.mu_path(profits={"a": -1.0, "b": -2.0}, contributions={"a": 1.0, "b": 1.0})
    assert path.breakpoints[0] == 0.0
    assert path.at(0.0).retained == ()
    assert path.at(1e-9).retained == ("a",)
    assert [str(range_) for range_ in path.stays("a")] == ["> 0"]


def test_a_loss_maker_without_contribution_stays_only_at_infinity():
    path = cw.mu_path(profits={"a": -0.1, "b": 1.0}, contributions={"a": 0.0, "b": 1.0})
    (only,) = path.stays("a")
    assert tuple(only) == (INF, INF)
    assert INF in only
    assert 1e50 not in only


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"limit": -1}, "limit must be a whole number of at least 0"),
        ({"limit": 2.5}, "limit must be a whole number of at least 0"),
    ],
)
def test_bad_limits_are_refused(arguments, sentence):
    with pytest.raises(cw.InputError, match=sentence):
        cw.mu_path(profits={"a": 1.0}, contributions={"a": 1.0}, **arguments)


def test_an_unknown_client_has_no_range():
    with pytest.raises(cw.InputError, match="'zoe'"):
        cw.mu_path(profits={"a": 1.0}, contributions={"a": 1.0}).stays("zoe")
