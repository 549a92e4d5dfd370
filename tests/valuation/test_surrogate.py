from __future__ import annotations

import numpy as np
import pytest

from commonweal.valuation import shapley
from commonweal.valuation.coalition import all_coalitions
from commonweal.valuation.prior import GamePrior
from commonweal.valuation.surrogate import fitted_prior, shapley_posterior

CLIENTS = ("0", "1", "2", "3", "4", "5")
ALL = all_coalitions(6)


def exact(table: np.ndarray) -> np.ndarray:
    return np.array(list(shapley(CLIENTS, lambda s: table[sum(1 << int(name) for name in s)]).values.values()))


def drawn_games(prior: GamePrior, count: int) -> np.ndarray:
    root = np.linalg.cholesky(prior.covariance(ALL, ALL) + 1e-9 * np.eye(64))
    return (root @ np.random.default_rng(0).normal(size=(64, count))).T


def some_coalitions(count: int) -> np.ndarray:
    return np.concatenate(([0, 63], np.random.default_rng(1).permutation(np.arange(1, 63))[: count - 2]))


def test_everything_known_leaves_no_error() -> None:
    table = np.random.default_rng(3).normal(size=64)
    order = np.concatenate(([0, 63], np.arange(1, 63)))
    means, deviations = shapley_posterior(GamePrior(likeness=0.7), ALL[order], table[order])
    assert means == pytest.approx(exact(table), abs=1e-6)
    assert deviations.max() < 1e-3


def test_deviations_are_honest_on_games_drawn_from_the_prior() -> None:
    prior = GamePrior(likeness=0.8)
    chosen = some_coalitions(24)
    standardised = []
    for table in drawn_games(prior, 200):
        means, deviations = shapley_posterior(prior, ALL[chosen], table[chosen])
        standardised.append((means - exact(table)) / deviations)
    assert np.sqrt(np.mean(np.square(standardised))) == pytest.approx(1.0, abs=0.15)


def test_the_posterior_is_far_better_than_an_equal_split() -> None:
    prior = GamePrior(likeness=0.9)
    chosen = some_coalitions(24)
    games = drawn_games(prior, 50)
    errors = [shapley_posterior(prior, ALL[chosen], t[chosen])[0] - exact(t) for t in games]
    splits = [np.full(6, (t[63] - t[0]) / 6) - exact(t) for t in games]
    assert np.std(errors) < 0.25 * np.std(splits)


def test_a_smooth_game_is_fitted_as_smoother_than_a_rough_one() -> None:
    order = some_coalitions(50)
    smooth = ALL @ np.arange(1.0, 7.0) + 0.05 * (ALL @ np.ones(6)) ** 2
    rough = np.random.default_rng(5).normal(size=64)
    assert fitted_prior(ALL[order], smooth[order]).likeness > fitted_prior(ALL[order], rough[order]).likeness


def test_the_fit_of_a_saturating_game_has_decreasing_gains() -> None:
    order = some_coalitions(50)
    worth = np.array([0.5, 1.0, 1.5, 0.7, 0.9, 1.2])
    saturating = 1.0 - np.exp(-ALL @ worth)
    assert fitted_prior(ALL[order], saturating[order]).growth < 1.0


def test_a_constant_game_has_no_contributions_and_no_spread() -> None:
    chosen = some_coalitions(10)
    prior = fitted_prior(ALL[chosen], np.full(10, 0.4))
    means, deviations = shapley_posterior(prior, ALL[chosen], np.full(10, 0.4))
    assert means.tolist() == [0.0] * 6
    assert deviations.tolist() == [0.0] * 6
