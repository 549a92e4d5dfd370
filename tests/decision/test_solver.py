"""The solver against brute force, against dynamic programming, and against its own promises."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import commonweal as cw
from commonweal.decision import solver
from commonweal.decision.instance import Instance
from commonweal.decision.problem import choose
from commonweal.decision.raw import make_problem
from commonweal.decision.reference import best_eliminated
from commonweal.decision.solver import solve
from tests.decision.families import KINDS, figures, leniency
from tests.decision.oracles import exhaustive, knapsack, tolerant
from tests.first_few import first_few

INSTANCES_PER_CHUNK = 1050


def eliminated(profits, contributions, mu, rule="clip", version=1):
    """By version 1 of the rules, under which nothing hides an error of rounding: sets differ if their objectives do."""
    choice = choose(make_problem(profits, contributions, rule, version=version), len(profits), mu)
    return tuple(np.flatnonzero(~choice.retained).tolist())


@pytest.mark.parametrize("chunk", first_few(2, range(20)))
def test_equals_brute_force_with_ties_on_21000_instances(chunk):
    rng = np.random.default_rng([7, chunk])
    for trial in range(INSTANCES_PER_CHUNK):
        count = int(rng.integers(1, 9)) if trial % 10 else int(rng.integers(9, 15 if trial % 50 == 0 else 12))
        kind = KINDS[int(rng.integers(len(KINDS)))]
        profits, contributions = figures(rng, kind, count, int(rng.integers(0, 5)))
        mu = leniency(rng)
        expected = () if mu == math.inf else exhaustive(profits, contributions, mu)
        assert eliminated(profits, contributions, mu) == expected, (kind, profits, contributions, mu)
        if trial % 4 == 0 and count <= 8:
            expected = () if mu == math.inf else tolerant(profits, contributions, mu)
            assert eliminated(profits, contributions, mu, version=2) == expected, (kind, profits, contributions, mu)


def test_the_plain_reference_agrees_with_the_integer_oracle():
    rng = np.random.default_rng(11)
    for _ in range(400):
        kind = KINDS[int(rng.integers(len(KINDS)))]
        profits, contributions = figures(rng, kind, int(rng.integers(1, 7)), int(rng.integers(0, 4)))
        mu = leniency(rng)
        plain, _ = best_eliminated(
            [Fraction(p) for p in profits],
            [Fraction(q) for q in contributions],
            mu if mu == math.inf else Fraction(mu),
        )
        assert plain == (() if mu == math.inf else exhaustive(profits, contributions, mu))


def test_raw_contributions_equal_brute_force():
    rng = np.random.default_rng(13)
    for _ in range(1500):
        kind = KINDS[int(rng.integers(len(KINDS)))]
        profits, contributions = figures(rng, kind, int(rng.integers(1, 8)), int(rng.integers(0, 4)))
        contributions = contributions * rng.choice([-1.0, 1.0, 1.0], len(contributions))
        mu = leniency(rng)
        expected = () if mu == math.inf else exhaustive(profits, contributions, mu)
        assert eliminated(profits, contributions, mu, "raw") == expected, (profits, contributions, mu)


sizes = st.floats(1e-9, 1e9, allow_nan=False)
client = st.tuples(st.one_of(sizes, sizes.map(lambda x: -x), st.just(0.0)), st.one_of(sizes, st.just(0.0)))


@given(st.lists(client, min_size=1, max_size=9), st.one_of(sizes, st.just(0.0)))
def test_equals_brute_force_on_any_doubles(clients, mu):
    profits = np.array([p for p, _ in clients])
    contributions = np.array([q for _, q in clients])
    assert eliminated(profits, contributions, mu) == exhaustive(profits, contributions, mu)


@given(st.lists(client, min_size=2, max_size=8), sizes, st.integers(-20, 20), st.integers(-20, 20))
def test_units_do_not_matter(clients, mu, utility_unit, contribution_unit):
    profits = np.array([p for p, _ in clients])
    contributions = np.array([q for _, q in clients])
    for version in (1, 2):
        in_other_units = eliminated(
            profits * 2.0**utility_unit,
            contributions * 2.0**contribution_unit,
            mu * 2.0**utility_unit,
            version=version,
        )
        assert in_other_units == eliminated(profits, contributions, mu, version=version)


def integer_instance(rng, count, kind):
    contributions = rng.integers(1, 60, count).astype(float)
    if kind == "independent":
        losses = rng.integers(1, 4000, count) / 1024
    elif kind == "correlated":
        losses = (contributions * 32 + rng.integers(-20, 21, count)) / 1024
        losses = np.maximum(losses, 1 / 1024)
    else:  # equal ratios
        losses = contributions / 32
    return losses, contributions, float(rng.integers(1, 500))


@pytest.mark.parametrize("kind", ["independent", "correlated", "equal ratios"])
@pytest.mark.parametrize("count", first_few(2, [30, 200, 60, 120]))
def test_agrees_with_dynamic_programming(kind, count):
    for seed in range(4):
        rng = np.random.default_rng([17, count, seed])
        losses, contributions, kept = integer_instance(rng, count, kind)
        total = kept + contributions.sum()
        mu = float(np.median(losses / contributions) * (total * rng.uniform(0.3, 0.9)) ** 2 / total)
        instance = Instance(losses=losses, contributions=contributions, kept=np.array([kept]))
        solution = solve(instance, mu)
        saved, ratio = instance.exact_line(solution.goes)
        best = knapsack(losses, contributions, kept, mu)
        reached = saved - Fraction(mu) * ratio
        assert reached <= best
        assert best - reached <= Fraction(solution.proven_gap)
        if kind != "equal ratios":
            assert solution.proven_gap == 0
        assert solution.proven_gap <= 1e-9 * losses.sum()


@pytest.mark.slow
def test_fixing_the_number_of_eliminated_clients_agrees_with_dynamic_programming(monkeypatch):
    """Contributions all about the same, and few left: the relaxation alone would take millions of states."""
    proofs = []
    plain = solver.best_by_count

    def counted(*arguments):
        finalists = plain(*arguments)
        proofs.append(finalists is not None)
        return finalists

    monkeypatch.setattr(solver, "best_by_count", counted)
    for seed in range(16):
        rng = np.random.default_rng([37, seed])
        contributions = rng.integers(180, 201, 150).astype(float)
        losses = (contributions + 20) / 1024
        kept = float(rng.integers(40, 4000))
        total = kept + contributions.sum()
        x = kept + rng.uniform(0.5, 8) * 190
        mu = float(losses.mean() / contributions.mean() * x**2 / total)
        instance = Instance(losses=losses, contributions=contributions, kept=np.array([kept]))
        solution = solve(instance, mu)
        saved, ratio = instance.exact_line(solution.goes)
        assert knapsack(losses, contributions, kept, mu) - (saved - Fraction(mu) * ratio) <= Fraction(
            solution.proven_gap
        )
        assert solution.proven_gap <= 1e-12 * losses.sum()
    assert sum(proofs) >= 3


@pytest.mark.parametrize("node_limit", [1, 10, 200])
def test_beyond_its_node_limit_it_returns_a_valid_gap(node_limit):
    reached_it = False
    for seed in range(12):
        rng = np.random.default_rng([19, seed])
        losses, contributions, kept = integer_instance(rng, 40, ["equal ratios", "correlated"][seed % 2])
        total = kept + contributions.sum()
        mu = float(np.median(losses / contributions) * (total * 0.6) ** 2 / total)
        instance = Instance(losses=losses, contributions=contributions, kept=np.array([kept]))
        solution = solve(instance, mu, node_limit=node_limit)
        saved, ratio = instance.exact_line(solution.goes)
        missing = knapsack(losses, contributions, kept, mu) - (saved - Fraction(mu) * ratio)
        assert 0 <= missing <= Fraction(solution.proven_gap)
        assert not solution.limit_reached or solution.proven_gap > 0
        reached_it |= solution.limit_reached
    assert reached_it


@pytest.mark.parametrize("seed", first_few(2, range(6)))
def test_many_candidates_in_hard_families_end_with_a_small_proven_gap(seed):
    rng = np.random.default_rng([23, seed])
    count = int(rng.choice([500, 3000, 20000]))
    contributions = rng.pareto(0.8, count) + 1e-3 if seed % 2 else rng.poisson(100, count) + 1.0
    losses = contributions * (rng.uniform(0.9, 1.1, count) if seed % 2 else 2e-4)
    kept = rng.random(count // 4) * contributions.mean()
    total = kept.sum() + contributions.sum()
    mu = float(np.median(losses / contributions) * (total * 0.6) ** 2 / total)
    solution = solve(Instance(losses=losses, contributions=contributions, kept=kept), mu)
    assert solution.proven_gap <= 1e-9 * losses.sum()


@pytest.mark.parametrize("chunk", first_few(1, range(4)))
def test_tiny_and_huge_figures_do_not_blur_each_other(chunk):
    """The contribution that stays may be 1e-50 among ordinary ones, or ordinary among huge ones that go."""
    rng = np.random.default_rng([59, chunk])
    for _ in range(500):
        count = int(rng.integers(2, 9))
        contributions = np.round(rng.random(count) + 0.1, int(rng.integers(1, 4)))
        losses = np.round(rng.random(count) + 0.1, int(rng.integers(1, 4)))
        for giant in range(int(rng.integers(0, 4))):
            size = float(10.0 ** rng.uniform(3, 20))
            contributions[giant % count] *= size
            losses[giant % count] *= size * float(10.0 ** rng.uniform(-1, 1))
        kept = float(10.0 ** rng.uniform(-50, 0)) * (rng.random() < 0.8)
        profits, contributions = np.append(-losses, 0.0), np.append(contributions, kept)
        mu = float(10.0 ** rng.uniform(-45, 5))
        assert eliminated(profits, contributions, mu) == exhaustive(profits, contributions, mu), (
            profits, contributions, mu,
        )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("exponent", first_few(1, [20, 40, 50, 60]))
def test_the_gap_holds_with_one_huge_candidate_among_many(exponent):
    """A huge candidate that goes must not hide what the others leave: dynamic programming with it, and without it."""
    for seed in range(12):
        rng = np.random.default_rng([67, exponent, seed])
        contributions = rng.integers(200, 1000, int(rng.integers(26, 50))).astype(float)
        losses = contributions.copy() if seed % 2 else contributions + rng.integers(0, 3, len(contributions))
        giant, kept = 2.0**exponent, float(rng.choice([0.0, 1000.0]))
        giant_loss = float(giant * rng.choice([0.5, 1.0, 2.0]))
        x = kept + contributions.sum() * rng.uniform(0.2, 0.9)
        total = kept + contributions.sum() + giant
        mu = float(x * x / total)
        instance = Instance(
            losses=np.append(losses, giant_loss), contributions=np.append(contributions, giant), kept=np.array([kept])
        )
        solution = solve(instance, mu)
        saved, ratio = instance.exact_line(solution.goes)
        stays = knapsack(losses, contributions, kept + giant, mu)
        goes = Fraction(giant_loss) + knapsack(losses, contributions, kept, mu, gone=giant)
        missing = max(stays, goes) - (saved - Fraction(mu) * ratio)
        assert 0 <= missing <= Fraction(solution.proven_gap)
        assert solution.proven_gap <= 1e-9 * (losses.sum() + giant_loss)


@pytest.mark.slow
def test_twenty_five_candidates_equal_except_for_the_last_bit_get_a_tiny_gap():
    rng = np.random.default_rng(0)
    contributions = 1 + np.arange(25) * 2.0**-52
    losses = 1 + rng.permutation(25) * 2.0**-52
    instance = Instance(losses=losses, contributions=contributions, kept=np.array([1.0]))
    solution = solve(instance, float(13.5**2 / (contributions.sum() + 1)))
    assert solution.proven_gap <= 1e-12 * losses.sum()


def test_small_candidates_are_compared_exactly_beside_a_huge_decided_one():
    """Once the huge one is decided, values start again from 0; otherwise all 2^24 sets of small ones would look equal.

    The huge candidate is too close to its break-even point for the price to decide it, so it is searched first. Without
    it, X is 1, and a small candidate goes if its ratio exceeds μT/X² = 11.
    """
    rng = np.random.default_rng(71)
    small = 1e-15 * (1 + rng.random(24))
    ratios = 11 * rng.choice([0.5, 0.7, 1.5, 2.0], 24)
    instance = Instance(
        losses=np.append(small * ratios, 10.5), contributions=np.append(small, 10.0), kept=np.array([1.0])
    )
    solution = solve(instance, 1.0)
    assert solution.goes.tolist() == [*(ratios > 11).tolist(), True]
    assert solution.proven_gap == 0
    assert solution.node_count < 10_000


def test_one_huge_candidate_does_not_blur_the_small_ones():
    """A difference that rounding could turn into zero: 1e9 leaves, and what is left differs by 1e-9."""
    profits = np.array([-1e9, -1e-9, -2e-9, -3e-9, 0.0])
    contributions = np.array([1e9, 1e-9, 1e-9, 2e-9, 1e-9])
    for mu in (1e-30, 1e-20, 1e-9, 1e-3, 1.0, 1e9):
        assert eliminated(profits, contributions, mu) == exhaustive(profits, contributions, mu)


@pytest.mark.parametrize("seed", first_few(1, range(4)))
def test_twenty_five_near_ties_are_decided_exactly(seed):
    """Cost in proportion to samples, no gain in accuracy: thousands of sets within rounding of the best."""
    rng = np.random.default_rng([29, seed])
    contributions = rng.poisson(100, 18).astype(float)
    profits = np.append(-2e-4 * contributions, 0.01)
    contributions = np.append(contributions, 50.0)
    total = contributions.sum()
    mu = float(2e-4 * (total * 0.6) ** 2 / total)
    assert eliminated(profits, contributions, mu) == exhaustive(profits, contributions, mu)


def test_the_same_question_gives_the_same_answer():
    rng = np.random.default_rng(31)
    profits, contributions = rng.uniform(-1, 0.2, 5000), rng.random(5000)
    first = cw.select(profits, contributions, mu=300.0)
    assert np.array_equal(first, cw.select(profits.copy(), contributions.copy(), mu=300.0))
