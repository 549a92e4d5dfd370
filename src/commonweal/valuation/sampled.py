"""What all Shapley estimators share: their signature, their limit on evaluations, and how they become measures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from commonweal.errors import InputError
from commonweal.valuation.bootstrap import Draws, shapley_draws
from commonweal.valuation.coalition import Coalition, CoalitionValue, Game
from commonweal.valuation.exact import EXACT_CLIENT_LIMIT, exact_contributions
from commonweal.valuation.measure import ClientStream, Contributions, Measure, ValuationInputs, with_own_error


class ShapleyEstimator(Protocol):
    """Estimates Shapley values from at most `evaluation_limit` distinct coalitions."""

    def __call__(
        self,
        clients: Sequence[str],
        coalition_value: CoalitionValue,
        *,
        evaluation_limit: int,
        seed: int | np.random.Generator,
    ) -> Contributions: ...


def shapley_measure(name: str, estimator: ShapleyEstimator, evaluation_minimum: Callable[[int], int]) -> Measure:
    """The registry's entry for an estimator."""

    def compute(inputs: ValuationInputs) -> Contributions:
        assert inputs.evaluation_limit is not None, "the scenario is validated"
        return estimator(
            inputs.clients, inputs.coalition_value, evaluation_limit=inputs.evaluation_limit, seed=inputs.rng
        )

    return Measure(
        name=name,
        description=f"Shapley value, estimated ({name})",
        compute=compute,
        evaluation_minimum=evaluation_minimum,
        columns=shapley_draws,
        draws=estimated_draws,
    )


def estimated_draws(
    contributions: Contributions, coalition_draws: Mapping[Coalition, Draws], client_stream: ClientStream
) -> dict[str, Draws]:
    """Draws of estimated Shapley values.

    The fit to the coalitions evaluated gives the spread; it is centred on the estimate, and the estimator's own error
    is added, so that everything derived from the contributions includes it.
    """
    return with_own_error(contributions, shapley_draws(list(contributions.values), coalition_draws), client_stream)


def limited_game(
    clients: Sequence[str], coalition_value: CoalitionValue, evaluation_limit: int, *, minimum: int
) -> Game:
    """The game with its limit; raises if the limit is too low for any estimate."""
    if isinstance(evaluation_limit, bool) or not isinstance(evaluation_limit, int):
        raise InputError(f"evaluation_limit must be a whole number, got {evaluation_limit!r}.")
    game = Game(clients, coalition_value, evaluation_limit=evaluation_limit)
    needed = min(minimum, 1 << len(game.clients))
    if evaluation_limit < needed:
        raise InputError(
            f"This estimator needs an evaluation_limit of at least {needed} for {len(game.clients)} clients, "
            f"got {evaluation_limit}."
        )
    return game


def exact_if_affordable(game: Game, *, measure: str) -> Contributions | None:
    """Exact Shapley values if the limit covers all 2^N coalitions, otherwise None."""
    client_count, limit = len(game.clients), game.evaluation_limit
    if client_count > EXACT_CLIENT_LIMIT or (limit is not None and limit < 1 << client_count):
        return None
    return exact_contributions(game, measure=measure)


def generator(seed: int | np.random.Generator) -> np.random.Generator:
    """The estimator's own random stream; the same seed gives the same estimate."""
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0 or a numpy Generator, got {seed!r}.")
    return np.random.default_rng(seed)
