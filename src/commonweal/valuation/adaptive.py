"""Shapley values from the coalitions that say most about them: the default estimator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from commonweal.valuation.coalition import CoalitionValue, Members
from commonweal.valuation.measure import Contributions
from commonweal.valuation.prior import GamePrior
from commonweal.valuation.sampled import exact_if_affordable, generator, limited_game, shapley_measure
from commonweal.valuation.sampling import fresh_coalitions
from commonweal.valuation.surrogate import FITTING_LIMIT, fitted_prior, shapley_posterior

USEFUL_EVALUATION_LIMIT = 2000
"""No more evaluations than this are made, since the work grows with their cube; use shapley_leverage for more."""

BATCH_LIMIT = 100
CANDIDATES_PER_CHOICE = 10


def evaluation_minimum(client_count: int) -> int:
    return client_count + 1


def shapley_adaptive(
    clients: Sequence[str],
    coalition_value: CoalitionValue,
    *,
    evaluation_limit: int,
    seed: int | np.random.Generator,
) -> Contributions:
    """Shapley values of a Gaussian-process surrogate of the game, given the coalitions evaluated.

    Coalitions are evaluated in batches, each half as large as all earlier batches together. A third of a batch is
    drawn at random, with all sizes equally likely, so that no part of the game stays unseen, whatever the prior says.
    The rest are chosen one after another: each time the coalition that lowers the summed posterior variance of the
    Shapley values most. The prior is fitted again after each batch. The values are posterior means and sum to
    v(A) − v(∅); the standard errors are posterior standard deviations: how far the exact values may be off.
    """
    game = limited_game(clients, coalition_value, evaluation_limit, minimum=evaluation_minimum(len(clients)))
    exact = exact_if_affordable(game, measure="shapley_adaptive")
    if exact is not None:
        return exact
    rng = generator(seed)
    client_count = len(game.clients)
    evaluation_limit = min(evaluation_limit, USEFUL_EVALUATION_LIMIT)
    prior = GamePrior()
    members = np.array([np.zeros(client_count), np.ones(client_count)])
    values = game.values(members)
    batch_size = 3 * client_count // 2 - 2
    while len(members) < evaluation_limit:
        batch_size = min(max(batch_size, client_count // 2, 1), BATCH_LIMIT, evaluation_limit - len(members))
        known = np.vstack([members, fresh_coalitions(members, batch_size // 3, rng)])
        chosen = most_telling(prior, known, batch_size - batch_size // 3, rng)
        members = np.vstack([known, chosen])
        values = np.concatenate([values, game.values(members[len(values) :])])
        if len(members) - batch_size < FITTING_LIMIT:
            prior = fitted_prior(members, values)
        batch_size = len(members) // 2
    means, deviations = shapley_posterior(prior, members, values)
    return Contributions(
        measure="shapley_adaptive",
        values=dict(zip(game.clients, means.tolist(), strict=True)),
        standard_errors=dict(zip(game.clients, deviations.tolist(), strict=True)),
        evaluation_count=game.evaluation_count,
    )


def most_telling(prior: GamePrior, known: Members, count: int, rng: np.random.Generator) -> Members:
    """From ten times `count` random coalitions, greedily choose the `count` that add most to what is `known`.

    Knowing v(T) lowers the summed variance of the Shapley values by Σ_n cov(q_n, v(T))² / var(v(T)). No values
    are needed: under a Gaussian process the variances depend only on which coalitions are known.
    """
    unknown_count = (1 << known.shape[1]) - len(known)
    candidates = fresh_coalitions(known, min(CANDIDATES_PER_CHOICE * count, unknown_count), rng)
    gain = np.linalg.solve(prior.observed_covariance(known), prior.covariance(known, candidates))
    covariance = prior.covariance(candidates, candidates) - prior.covariance(candidates, known) @ gain
    link = prior.shapley_covariance(candidates) - prior.shapley_covariance(known) @ gain
    variances = np.diag(covariance) + prior.noise
    chosen: list[int] = []
    for _ in range(count):
        told = (link**2).sum(axis=0) / np.maximum(variances, 1e-7)
        told[chosen] = -1.0
        best = int(told.argmax())
        chosen.append(best)
        shift = covariance[best] / max(variances[best], 1e-7)
        link = link - np.outer(link[:, best], shift)
        variances = variances - shift * covariance[best]
        covariance = covariance - np.outer(covariance[best], shift)
    return candidates[chosen]


ADAPTIVE = shapley_measure("adaptive", shapley_adaptive, evaluation_minimum)
