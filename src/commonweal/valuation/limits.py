"""What every estimator does with its evaluation limit before it samples anything."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from commonweal.errors import InputError
from commonweal.valuation.coalition import CoalitionValue, Game
from commonweal.valuation.estimate import Contributions
from commonweal.valuation.measures import EXACT_CLIENT_LIMIT, exact_contributions


def limited_game(
    clients: Sequence[str], coalition_value: CoalitionValue, evaluation_limit: int, *, minimum: int
) -> Game:
    """The game under its limit, refused when the estimator could not give an estimate within it."""
    if isinstance(evaluation_limit, bool) or not isinstance(evaluation_limit, int):
        raise InputError(f"evaluation_limit must be a whole number, got {evaluation_limit!r}; it counts coalitions")
    game = Game(clients, coalition_value, evaluation_limit=evaluation_limit)
    needed = min(minimum, 1 << len(game.clients))
    if evaluation_limit < needed:
        raise InputError(
            f"this estimator needs at least {needed} evaluations for {len(game.clients)} clients, "
            f"got a limit of {evaluation_limit}; raise evaluation_limit"
        )
    return game


def exact_if_affordable(game: Game, *, measure: str) -> Contributions | None:
    """Exact Shapley values when the limit covers all 2^N coalitions, else None."""
    client_count, limit = len(game.clients), game.evaluation_limit
    if client_count > EXACT_CLIENT_LIMIT or (limit is not None and limit < 1 << client_count):
        return None
    return exact_contributions(game, measure=measure)


def generator(seed: int | np.random.Generator) -> np.random.Generator:
    """The estimator's own stream of random numbers; the same seed gives the same estimate."""
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed must be a whole number >= 0 or a numpy Generator, got {seed!r}; choose a number")
    return np.random.default_rng(seed)
