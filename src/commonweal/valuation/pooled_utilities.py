"""Profits from utilities that are pooled over the clients of a round, where their standard errors are known.

Utilities are pooled, not profits: costs are known exactly, and pooling profits would hide that they differ. The
utilities must be comparable, so a gain in the model must be worth the same to all clients.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import InputError
from commonweal.records import Figures
from commonweal.valuation.pooling import FEWEST_POOLED, random_effects
from commonweal.valuation.profit import profit


def with_pooled_utilities(figures: Figures, newcomers: Collection[str] = ()) -> Figures:
    """The figures with utility = profit + cost shrunk to the mean of all, by the standard errors of the profits.

    The new errors are those of the pooled utilities, with the weights as they are. Newcomers stay out of the pool:
    their first utility counts from another model than that of the others. Fewer than three clients are not pooled.
    """
    costs, errors = figures.costs, figures.profit_errors
    if costs is None or errors is None:
        missing = "costs" if costs is None else "standard errors"
        raise InputError(
            f"Pooling needs the utility of each client with its standard error, and its cost, got no {missing}; add a "
            "column for them, or use the figures as measured."
        )
    members = [client for client in figures.clients if client not in newcomers]
    if len(members) < FEWEST_POOLED:
        return figures
    utilities = [figures.profits[client] + costs[client] for client in members]
    spreads = [errors[client] for client in members]
    effects = random_effects(utilities, [spread**2 for spread in spreads])
    profits = profit(np.array(effects.values), np.array([costs[client] for client in members]))
    of_mean = math.fsum((part * spread) ** 2 for part, spread in zip(effects.precisions, spreads, strict=True))
    pooled_errors = [
        _error(weight, part, spread, of_mean)
        for weight, part, spread in zip(effects.weights, effects.precisions, spreads, strict=True)
    ]
    return replace(
        figures,
        profits={**figures.profits, **dict(zip(members, profits.tolist(), strict=True))},
        profit_errors={**errors, **dict(zip(members, pooled_errors, strict=True))},
    )


def pooled_draws(figures: Figures, newcomers: Collection[str], draws: NDArray[np.float64]) -> NDArray[np.float64]:
    """Draws of the measured profits, each pooled like the figures themselves: one row per client."""
    pooled = (
        with_pooled_utilities(
            replace(figures, profits=dict(zip(figures.clients, drawn, strict=True))), newcomers
        ).profits.values()
        for drawn in draws.T.tolist()
    )
    return np.array([list(values) for values in pooled]).T


def _error(weight: float, precision: float, spread: float, of_mean: float) -> float:
    """Of B g + (1 − B) ḡ, where the client's own g is part of ḡ; `of_mean` is the variance of ḡ."""
    own, common = weight * spread, (1 - weight) ** 2 * of_mean
    return math.sqrt(own**2 + common + 2 * weight * (1 - weight) * precision * spread**2)
