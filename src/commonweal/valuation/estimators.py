"""Shapley values from a limited number of coalitions, by the estimator of your choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from commonweal.errors import InputError
from commonweal.valuation.adaptive import shapley_adaptive
from commonweal.valuation.coalition import CoalitionValue
from commonweal.valuation.leverage import shapley_leverage
from commonweal.valuation.measure import Contributions
from commonweal.valuation.permutations import shapley_gtg, shapley_tmc
from commonweal.valuation.sampled import ShapleyEstimator

ShapleyMethod = Literal["adaptive", "leverage", "tmc", "gtg"]


SHAPLEY_ESTIMATORS: dict[ShapleyMethod, ShapleyEstimator] = {
    "adaptive": shapley_adaptive,
    "leverage": shapley_leverage,
    "tmc": shapley_tmc,
    "gtg": shapley_gtg,
}


def estimate_shapley(
    clients: Sequence[str],
    coalition_value: CoalitionValue,
    *,
    evaluation_limit: int,
    seed: int | np.random.Generator,
    method: ShapleyMethod = "adaptive",
) -> Contributions:
    """Shapley values with standard errors, from at most `evaluation_limit` distinct coalitions.

    A limit that covers all 2^N coalitions gives the exact values (except in rounds that `gtg` truncates). The same
    seed gives the same result.
    """
    if method not in SHAPLEY_ESTIMATORS:
        raise InputError(
            f"method must be one of {', '.join(SHAPLEY_ESTIMATORS)}, got {method!r}; adaptive is the most accurate."
        )
    estimator = SHAPLEY_ESTIMATORS[method]
    return estimator(clients, coalition_value, evaluation_limit=evaluation_limit, seed=seed)
