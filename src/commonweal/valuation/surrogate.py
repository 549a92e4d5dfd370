"""A game estimated from some of its coalitions: the prior that fits them, and the Shapley values that follow."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from commonweal.valuation.coalition import Members
from commonweal.valuation.prior import GamePrior

Floats = NDArray[np.float64]

CHOICES: dict[str, tuple[float, ...]] = {
    "likeness": (0.5, 0.7, 0.8, 0.9, 0.95, 0.98),
    "growth": (0.4, 0.55, 0.7, 0.85, 1.0, 1.2),
    "linear": (0.0, 0.3, 3.0),
    "size": (0.0, 1.0, 10.0),
    "noise": (0.0, 0.001, 0.01, 0.1),
}
"""Few values, far apart: the Shapley values change little from one to the next."""

FITTING_LIMIT = 400
"""The prior is chosen on the first 400 coalitions; using more would take longer and change nothing."""


def fitted_prior(members: Members, values: Floats) -> GamePrior:
    """The prior among CHOICES under which the values are most likely, found by varying one parameter at a time."""
    members, scaled = members[:FITTING_LIMIT], _scaled(values[:FITTING_LIMIT])
    best = GamePrior()
    best_score = _log_likelihood(best, members, scaled)
    for _ in range(2):
        for field in fields(GamePrior):
            for choice in CHOICES[field.name]:
                change: dict[str, Any] = {field.name: choice}
                candidate = replace(best, **change)
                score = _log_likelihood(candidate, members, scaled)
                if score > best_score:
                    best, best_score = candidate, score
    return best


def shapley_posterior(prior: GamePrior, members: Members, values: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each client's Shapley value, given the values of some coalitions.

    The first two coalitions are ∅ and A; the means sum to v(A) − v(∅). The scale of the deviations is the
    larger of two estimates: from the likelihood, and from predicting each coalition from all others.
    """
    client_count = members.shape[1]
    scale = _scale(values)
    scaled = _scaled(values)
    precision = np.linalg.inv(prior.observed_covariance(members))
    weights = precision @ scaled
    link = prior.shapley_covariance(members)
    means = link @ weights * scale
    means += (values[1] - values[0] - means.sum()) / client_count
    variances = prior.shapley_variance(client_count) - np.sum(link @ precision * link, axis=1)
    likelihood_scale = float(scaled @ weights) / len(values)
    prediction_scale = float(np.mean(weights[2:] ** 2 / np.diag(precision)[2:]))
    spread = max(likelihood_scale, prediction_scale, 0.0)
    return means, np.sqrt(np.maximum(variances, 0.0) * spread) * scale


def _log_likelihood(prior: GamePrior, members: Members, scaled: Floats) -> float:
    """The log-likelihood up to a constant, with the game's variance set to its best value."""
    count = len(scaled)
    # The values are added as one more row: the same row of the Cholesky factor L is then L⁻¹·values, at no extra cost.
    bordered = np.full((count + 1, count + 1), 1e30)
    bordered[:count, :count] = prior.observed_covariance(members)
    bordered[count, :count] = bordered[:count, count] = scaled
    try:
        root = np.linalg.cholesky(bordered)
    except np.linalg.LinAlgError:
        return -np.inf
    variance = float(root[count, :count] @ root[count, :count]) / count
    return float(-0.5 * count * np.log(max(variance, 1e-300)) - np.log(np.diag(root)[:count]).sum())


def _scaled(values: Floats) -> Floats:
    scale = _scale(values)
    return (values - values.mean()) / scale if scale > 0.0 else np.zeros_like(values)


def _scale(values: Floats) -> float:
    """The standard deviation, without rounding error if all values are equal."""
    return float(np.std(values - values[0]))
