"""Shapley values by weighted regression on paired coalitions (Leverage SHAP, Musco and Witter 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np

from commonweal.valuation.coalition import CoalitionValue
from commonweal.valuation.measure import Contributions
from commonweal.valuation.sampled import exact_if_affordable, generator, limited_game, shapley_measure
from commonweal.valuation.sampling import distinct_pairs


def evaluation_minimum(client_count: int) -> int:
    return 2 * client_count


def shapley_leverage(
    clients: Sequence[str],
    coalition_value: CoalitionValue,
    *,
    evaluation_limit: int,
    seed: int | np.random.Generator,
) -> Contributions:
    """The additive game nearest to v on the coalitions drawn, in a norm for which the Shapley value is nearest on all.

    q minimises Σ_S w(|S|) (v(S) − v(∅) − Σ_{n∈S} q(n))² with w(s) = 1/(C(N,s) s (N − s)), subject to
    Σ q = v(A) − v(∅); over all S, this q is the Shapley value (Charnes et al. 1988). Here S runs over coalitions drawn
    without replacement, with all sizes equally likely, each together with its complement. The standard error comes from
    the residuals (sandwich estimator), corrected for sampling from a finite set; it tends to be too large, because the
    draws are more even than independent ones.
    """
    game = limited_game(clients, coalition_value, evaluation_limit, minimum=evaluation_minimum(len(clients)))
    exact = exact_if_affordable(game, measure="shapley_leverage")
    if exact is not None:
        return exact
    client_count = len(game.clients)
    pair_count = (evaluation_limit - 2) // 2
    members, fractions = distinct_pairs(client_count, pair_count, generator(seed))
    ends = game.values(np.array([np.zeros(client_count), np.ones(client_count)]))
    total = ends[1] - ends[0]
    # A pair is one observation: half of v(S) − v(A∖S), less what an equal split of the total would give.
    sizes = members.sum(axis=1)
    excess = (game.values(members) - game.values(1.0 - members)) / 2 - total * (2 * sizes / client_count - 1) / 2
    features = members - sizes[:, None] / client_count
    binomials = np.array([comb(client_count, int(size)) for size in sizes], dtype=np.float64)
    weights = 1.0 / (binomials * sizes * (client_count - sizes) * fractions)
    inverse = np.linalg.pinv(features.T @ (weights[:, None] * features), hermitian=True)
    deviations = inverse @ (features.T @ (weights * excess))
    deviations -= deviations.mean()
    errors = np.full(client_count, np.inf)
    spare_count = pair_count - (client_count - 1)
    if spare_count > 0:
        residuals = excess - features @ deviations
        influences = (inverse @ (features * (weights * residuals)[:, None]).T) ** 2
        errors = np.sqrt(influences @ (1.0 - fractions) * pair_count / spare_count)
    values = total / client_count + deviations
    return Contributions(
        measure="shapley_leverage",
        values=dict(zip(game.clients, values.tolist(), strict=True)),
        standard_errors=dict(zip(game.clients, errors.tolist(), strict=True)),
        evaluation_count=game.evaluation_count,
    )


LEVERAGE = shapley_measure("leverage", shapley_leverage, evaluation_minimum)
