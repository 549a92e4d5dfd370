"""Uncertainty from resampled validation samples, against closed forms and against the measures applied draw by draw."""

from __future__ import annotations

import math
from itertools import chain, combinations

import numpy as np
import pytest

from commonweal.valuation import marginal, shapley
from commonweal.valuation.bootstrap import (
    DRAW_COUNT,
    marginal_draws,
    mean_draws,
    resampling_weights,
    shapley_draws,
    standard_error,
)

ERROR_OF_ERRORS = 1 / math.sqrt(2 * DRAW_COUNT)
"""Relative standard error of a standard deviation over the draws."""


def all_coalitions_of(clients):
    subsets = chain.from_iterable(combinations(clients, size) for size in range(len(clients) + 1))
    return [frozenset(subset) for subset in subsets]


def random_game(client_count, seed=0, draw_count=7):
    clients = [f"c{number}" for number in range(client_count)]
    random = np.random.default_rng(seed)
    return clients, {coalition: random.standard_normal(draw_count) for coalition in all_coalitions_of(clients)}


def additive_game(clients, seed=0, draw_count=7):
    random = np.random.default_rng(seed)
    worth = {client: random.standard_normal(draw_count) for client in clients}
    nothing = random.standard_normal(draw_count)
    return worth, {s: nothing + sum(worth[client] for client in sorted(s)) for s in all_coalitions_of(clients)}


# Weights


def test_weights_are_poisson_with_mean_one() -> None:
    """Against e⁻¹ / k!, within 4.5 deviations of a binomial count."""
    weights = resampling_weights(1, "ann", 500)
    assert weights.shape == (500, DRAW_COUNT)
    for k in range(5):
        share = math.exp(-1) / math.factorial(k)
        assert abs((weights == k).mean() - share) < 4.5 * math.sqrt(share * (1 - share) / weights.size)


def test_with_more_samples_the_weights_of_the_first_stay_as_they_are() -> None:
    longest = resampling_weights(3, "ann", 200)
    for count in (20, 21, 64, 199):  # of 20 samples a draw has none with probability e⁻²⁰
        assert np.array_equal(resampling_weights(3, "ann", count), longest[:count])


def test_clients_and_seeds_have_weights_of_their_own() -> None:
    first = resampling_weights(3, "ann", 100)
    for other in (resampling_weights(3, "bob", 100), resampling_weights(4, "ann", 100)):
        assert abs(np.corrcoef(first.ravel(), other.ravel())[0, 1]) < 4.5 / math.sqrt(first.size)


def test_samples_and_draws_are_independent_of_each_other() -> None:
    weights = resampling_weights(5, "ann", 60)
    for table, length in ((weights, DRAW_COUNT), (weights.T, 60)):
        correlations = np.corrcoef(table)[np.triu_indices(len(table), 1)]
        assert abs(correlations.mean()) < 0.02
        assert correlations.std() == pytest.approx(1 / math.sqrt(length), rel=0.1)


@pytest.mark.parametrize("sample_count", [1, 2, 3, 5])
def test_a_draw_without_samples_gives_the_plain_mean(sample_count) -> None:
    """Of n samples, a share of e⁻ⁿ of the draws has none."""
    weights = resampling_weights(0, "ann", sample_count)
    scores = np.arange(1.0, sample_count + 1)
    means = mean_draws(scores, weights)
    assert np.isfinite(means).all()
    assert (means >= 1).all()
    assert (means <= sample_count).all()
    even = (weights == 1).all(axis=0)
    np.testing.assert_allclose(means[even], scores.mean())
    expected = math.exp(-sample_count) * 2  # none at all, or once each
    assert abs(even.mean() - expected) < 4.5 * math.sqrt(expected / DRAW_COUNT)


def test_one_sample_has_an_unknown_spread() -> None:
    means = mean_draws(np.array([0.3]), resampling_weights(0, "ann", 1))
    np.testing.assert_allclose(means, 0.3)
    assert standard_error(means) == pytest.approx(0.0, abs=1e-12)


# Errors


def test_the_mean_in_each_draw_is_the_weighted_mean() -> None:
    scores = np.random.default_rng(0).random(30)
    weights = resampling_weights(2, "ann", 30)
    means = mean_draws(scores, weights)
    for d in (0, 17, DRAW_COUNT - 1):
        assert means[d] == pytest.approx(np.average(scores, weights=weights[:, d]), abs=1e-14)


@pytest.mark.parametrize(("sample_count", "hit_count"), [(50, 25), (100, 10), (400, 300), (1000, 980)])
def test_the_error_of_an_accuracy_is_the_binomial_one(sample_count, hit_count) -> None:
    """√(p (1 − p) / n), except for Monte Carlo error and for the 1/n by which the spread of a ratio exceeds it."""
    hits = np.repeat([1.0, 0.0], [hit_count, sample_count - hit_count])
    share = hit_count / sample_count
    errors = [standard_error(mean_draws(hits, resampling_weights(seed, "ann", sample_count))) for seed in range(20)]
    exact = math.sqrt(share * (1 - share) / sample_count)
    assert np.mean(errors) == pytest.approx(exact, rel=4 * ERROR_OF_ERRORS / math.sqrt(20) + 2 / sample_count)
    assert np.std(errors) / exact < 2 * ERROR_OF_ERRORS


def test_a_paired_difference_has_the_error_of_the_difference() -> None:
    """Two models right on mostly the same samples; unpaired, the error would be five times as large."""
    count = 200
    hits = (np.arange(count) < 140).astype(float)
    better = hits.copy()
    better[140:146] = 1.0  # right on six more
    weights = resampling_weights(1, "ann", count)
    paired = standard_error(mean_draws(better, weights) - mean_draws(hits, weights))
    difference = better - hits
    assert paired == pytest.approx(difference.std() / math.sqrt(count), rel=5 * ERROR_OF_ERRORS)
    unpaired = standard_error(mean_draws(better, weights) - mean_draws(hits, resampling_weights(1, "bob", count)))
    shares = (better.mean(), hits.mean())
    assert unpaired == pytest.approx(math.sqrt(sum(p * (1 - p) for p in shares) / count), rel=5 * ERROR_OF_ERRORS)
    assert unpaired > 3 * paired


def test_equal_models_differ_by_nothing_with_certainty() -> None:
    hits = (np.arange(40) % 3 == 0).astype(float)
    weights = resampling_weights(1, "ann", 40)
    assert standard_error(mean_draws(hits, weights) - mean_draws(hits.copy(), weights)) == 0.0


def test_the_standard_error_is_the_deviation_over_the_draws_less_one() -> None:
    draws = np.array([1.0, 2.0, 4.0])
    assert standard_error(draws) == pytest.approx(math.sqrt(sum((d - 7 / 3) ** 2 for d in (1, 2, 4)) / 2))


# Contributions


@pytest.mark.parametrize("client_count", [2, 3, 4, 5, 6])
@pytest.mark.parametrize(("in_draws", "measure"), [(marginal_draws, marginal), (shapley_draws, shapley)])
def test_contributions_in_draws_are_the_measure_of_each_draw(in_draws, measure, client_count) -> None:
    clients, values = random_game(client_count)
    found = in_draws(clients, values)
    assert list(found) == clients
    for d in range(7):
        alone = measure(clients, lambda coalition, d=d: float(values[coalition][d])).values
        assert [found[client][d] for client in clients] == pytest.approx(list(alone.values()), abs=1e-10)


def test_coalitions_may_be_known_in_any_order() -> None:
    clients, values = random_game(4)
    shuffled = {coalition: values[coalition] for coalition in reversed(list(values))}
    for draws in (shapley_draws, marginal_draws):
        for client, expected in draws(clients, values).items():
            np.testing.assert_allclose(draws(clients, shuffled)[client], expected, rtol=0, atol=1e-12)


def test_a_single_client_contributes_everything() -> None:
    values = {frozenset(): np.array([0.1, 0.2]), frozenset({"ann"}): np.array([0.5, 0.9])}
    np.testing.assert_allclose(shapley_draws(["ann"], values)["ann"], [0.4, 0.7])


def test_if_only_the_empty_and_full_coalitions_are_known_the_gain_is_shared_equally() -> None:
    values = {frozenset(): np.array([0.1, 0.2]), frozenset("abc"): np.array([0.4, 0.8])}
    for draws in shapley_draws(["a", "b", "c"], values).values():
        np.testing.assert_allclose(draws, [0.1, 0.2])


@pytest.mark.parametrize("client_count", [3, 5, 8])
def test_an_additive_game_is_recovered_from_a_part_of_its_coalitions(client_count) -> None:
    """From the coalitions without one client, or from random coalitions that tell the clients apart."""
    clients = [f"c{number}" for number in range(client_count)]
    worth, values = additive_game(clients)
    everyone = frozenset(clients)
    random = np.random.default_rng(client_count)
    drawn = random.permutation(len(values))[: 3 * client_count]
    ends = [frozenset(), everyone]
    for known in (
        [everyone - {client} for client in clients],
        [frozenset({client}) for client in clients],
        [list(values)[i] for i in drawn],
    ):
        found = shapley_draws(clients, {coalition: values[coalition] for coalition in [*ends, *known]})
        for client in clients:
            np.testing.assert_allclose(found[client], worth[client], rtol=0, atol=1e-10)


@pytest.mark.parametrize("known_count", [6, 11, 20, 32])
def test_from_any_coalitions_shares_sum_to_the_gain_and_are_linear_in_the_values(known_count) -> None:
    clients, first = random_game(5, seed=1)
    _, second = random_game(5, seed=2)
    coalitions = list(first)
    inner = np.random.default_rng(0).permutation(np.arange(1, 31))[: known_count - 2]
    known = [coalitions[0], coalitions[-1], *(coalitions[i] for i in inner)]
    combined = shapley_draws(clients, {s: 2 * first[s] - 3 * second[s] for s in known})
    parts = [shapley_draws(clients, {s: game[s] for s in known}) for game in (first, second)]
    for client in clients:
        np.testing.assert_allclose(combined[client], 2 * parts[0][client] - 3 * parts[1][client], rtol=0, atol=1e-9)
    gain = first[coalitions[-1]] - first[frozenset()]
    np.testing.assert_allclose(sum(parts[0].values()), gain, rtol=0, atol=1e-10)


def test_from_a_part_of_the_coalitions_the_fit_is_the_constrained_least_squares_one() -> None:
    """Solved a second time by its Lagrangian: weights (N − 1) / (C(N, s) s (N − s)), slopes that sum to the gain."""
    clients, values = random_game(5, seed=3)
    random = np.random.default_rng(5)
    inner = [s for s in values if 0 < len(s) < 5]
    inner = [inner[i] for i in random.permutation(30)[:17]]
    everyone = frozenset(clients)
    known = {s: values[s] for s in [frozenset(), everyone, *inner]}
    X = np.array([[float(client in s) for client in clients] for s in inner])
    W = np.diag([4 / (math.comb(5, len(s)) * len(s) * (5 - len(s))) for s in inner])
    ones = np.ones((5, 1))
    system = np.block([[X.T @ W @ X, ones], [ones.T, np.zeros((1, 1))]])
    targets = np.array([values[s] - values[frozenset()] for s in inner])
    gain = values[everyone] - values[frozenset()]
    solved = np.linalg.solve(system, np.vstack([X.T @ W @ targets, gain]))[:5]
    found = shapley_draws(clients, known)
    np.testing.assert_allclose([found[client] for client in clients], solved, rtol=0, atol=1e-10)


def test_from_too_few_coalitions_clients_that_look_alike_get_the_same_draws():
    known = {frozenset(): np.zeros(2), frozenset("abc"): np.array([3.0, 6.0]), frozenset("a"): np.array([0.5, 1.0])}
    draws = shapley_draws(["a", "b", "c"], known)
    np.testing.assert_allclose(draws["b"], draws["c"])
    np.testing.assert_allclose(draws["a"] + draws["b"] + draws["c"], [3.0, 6.0])
