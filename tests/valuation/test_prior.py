from __future__ import annotations

import numpy as np
import pytest

from commonweal.valuation import shapley
from commonweal.valuation.coalition import all_coalitions
from commonweal.valuation.prior import GamePrior

PRIORS = [
    GamePrior(),
    GamePrior(likeness=0.5, growth=0.4, linear=0.0, size=0.0),
    GamePrior(likeness=0.98, growth=1.2, linear=3.0, size=10.0, noise=0.1),
    GamePrior(likeness=0.7, growth=1.0, linear=0.3, size=0.0),
]
CLIENTS = ("0", "1", "2", "3", "4")


def exact(table: np.ndarray) -> list[float]:
    return list(shapley(CLIENTS, lambda s: table[sum(1 << int(name) for name in s)]).values.values())


@pytest.mark.parametrize("prior", PRIORS)
def test_covariance_is_symmetric_and_positive(prior: GamePrior) -> None:
    members = all_coalitions(5)
    covariance = prior.covariance(members, members)
    assert covariance == pytest.approx(covariance.T)
    assert np.linalg.eigvalsh(covariance).min() > -1e-9


@pytest.mark.parametrize("prior", PRIORS)
def test_shapley_covariance_is_the_shapley_value_of_the_covariance(prior: GamePrior) -> None:
    """cov(q, v(T)) is linear in v: the exact Shapley values of the game S ↦ k(S, T)."""
    members = all_coalitions(5)
    covariance = prior.covariance(members, members)
    expected = np.array([exact(covariance[:, column]) for column in range(32)]).T
    assert prior.shapley_covariance(members) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("prior", PRIORS)
def test_shapley_variance_is_the_shapley_value_taken_twice(prior: GamePrior) -> None:
    link = prior.shapley_covariance(all_coalitions(5))
    for i in range(5):
        assert prior.shapley_variance(5) == pytest.approx(exact(link[i])[i], abs=1e-9)


def test_noise_lies_on_all_but_the_empty_and_the_full_coalition() -> None:
    members = all_coalitions(3)[[0, 7, 1, 2]]
    quiet, noisy = GamePrior(), GamePrior(noise=0.1)
    added = np.diag(noisy.observed_covariance(members) - quiet.observed_covariance(members))
    assert added == pytest.approx([0.0, 0.0, 0.1, 0.1])
