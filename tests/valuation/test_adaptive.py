from __future__ import annotations

import numpy as np
import pytest

from commonweal.valuation import shapley, shapley_adaptive, shapley_gtg, shapley_leverage, shapley_tmc
from commonweal.valuation.adaptive import most_telling
from commonweal.valuation.prior import GamePrior
from commonweal.valuation.sampling import fresh_coalitions


def rms_error(estimator, federation, evaluation_limit: int) -> float:
    exact = np.array(list(shapley(federation.clients, federation).values.values()))
    errors = [
        np.array(
            list(
                estimator(federation.clients, federation, evaluation_limit=evaluation_limit, seed=seed).values.values()
            )
        )
        - exact
        for seed in range(20)
    ]
    return float(np.sqrt(np.mean(np.square(errors))))


def posterior_variance(prior: GamePrior, members: np.ndarray) -> float:
    """Summed variance of the Shapley values once `members` are known, straight from the definition."""
    link = prior.shapley_covariance(members)
    told = np.trace(link @ np.linalg.solve(prior.observed_covariance(members), link.T))
    return members.shape[1] * prior.shapley_variance(members.shape[1]) - float(told)


def test_the_most_informative_coalition_leaves_the_least_variance() -> None:
    prior = GamePrior(noise=0.01)
    ends = np.array([np.zeros(7), np.ones(7)])
    known = np.vstack([ends, fresh_coalitions(ends, 9, np.random.default_rng(0))])
    candidates = fresh_coalitions(known, 10, np.random.default_rng(1))
    left = [posterior_variance(prior, np.vstack([known, row])) for row in candidates]
    chosen = most_telling(prior, known, 1, np.random.default_rng(1))
    assert posterior_variance(prior, np.vstack([known, chosen])) == pytest.approx(min(left), abs=1e-9)
    assert min(left) < 0.99 * np.median(left)


def test_choosing_continues_from_earlier_choices() -> None:
    """The second choice is the best one, given the first."""
    prior = GamePrior(noise=0.01)
    known = np.array([np.zeros(7), np.ones(7)])
    candidates = fresh_coalitions(known, 20, np.random.default_rng(4))
    first, second = most_telling(prior, known, 2, np.random.default_rng(4))
    left = [posterior_variance(prior, np.vstack([known, first, row])) for row in candidates if (row != first).any()]
    both = np.vstack([known, first, second])
    assert posterior_variance(prior, both) == pytest.approx(min(left), abs=1e-9)


@pytest.mark.parametrize("evaluation_limit", [27, 45, 90])
def test_it_beats_the_others_at_equal_evaluations(federation, evaluation_limit: int) -> None:
    ours = rms_error(shapley_adaptive, federation, evaluation_limit)
    for rival in (shapley_tmc, shapley_gtg, shapley_leverage):
        assert ours < 0.5 * rms_error(rival, federation, evaluation_limit)


@pytest.mark.soak
@pytest.mark.slow
def test_more_evaluations_mean_smaller_errors(federation) -> None:
    errors = [rms_error(shapley_adaptive, federation, limit) for limit in (18, 45, 180)]
    assert errors[1] < 0.6 * errors[0]
    assert errors[2] < 0.6 * errors[1]


def test_units_do_not_matter(federation) -> None:
    """Powers of two scale floats without rounding, so the estimates scale to the bit."""
    plain = shapley_adaptive(federation.clients, federation, evaluation_limit=50, seed=3)
    scaled = shapley_adaptive(federation.clients, lambda s: 2.0**20 * federation(s), evaluation_limit=50, seed=3)
    assert scaled.values == {name: 2.0**20 * value for name, value in plain.values.items()}
    assert scaled.standard_errors == {name: 2.0**20 * error for name, error in plain.standard_errors.items()}


def test_many_clients() -> None:
    worth = {f"c{i}": 1.0 + i % 5 for i in range(60)}
    result = shapley_adaptive(
        list(worth), lambda s: sum(worth[name] for name in sorted(s)), evaluation_limit=240, seed=0
    )
    errors = np.array([result.values[name] - worth[name] for name in worth])
    assert np.abs(errors).max() < 0.05


def test_a_constant_game_gives_nothing() -> None:
    result = shapley_adaptive([f"c{i}" for i in range(8)], lambda s: 0.7, evaluation_limit=30, seed=0)
    assert set(result.values.values()) == {0.0}
