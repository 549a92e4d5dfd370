"""The measures computed in full: quantity, marginal and exact Shapley."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb

import numpy as np

from commonweal.errors import InputError
from commonweal.valuation.bootstrap import constant_draws, marginal_draws, shapley_draws
from commonweal.valuation.coalition import Coalition, CoalitionValue, Game, all_coalitions, checked_clients
from commonweal.valuation.measure import Contributions, Measure

EXACT_CLIENT_LIMIT = 20
"""Exact Shapley values of 20 clients take a million coalitions; each further client doubles that."""


def quantity(clients: Sequence[str], sample_counts: Mapping[str, int]) -> Contributions:
    """q(n) = s(n): new samples of the round."""
    names = checked_clients(clients)
    missing = [name for name in names if name not in sample_counts]
    if missing:
        raise InputError(f"every client needs a sample count, got none for {missing}; give 0 for no samples")
    for name in names:
        if not 0 <= sample_counts[name] < np.inf:
            raise InputError(
                f"sample count must be finite and >= 0, got {sample_counts[name]} for client {name!r}; correct it"
            )
    return Contributions(
        measure="quantity",
        values={name: float(sample_counts[name]) for name in names},
        standard_errors=dict.fromkeys(names, 0.0),
        evaluation_count=0,
    )


def marginal(clients: Sequence[str], coalition_value: CoalitionValue) -> Contributions:
    """q(n) = v(A) − v(A∖n), where A is the set of all clients: what is lost without the client. N + 1 evaluations."""
    game = Game(clients, coalition_value)
    everyone = frozenset(game.clients)
    total = game(everyone)
    return Contributions(
        measure="marginal",
        values={name: total - game(everyone - {name}) for name in game.clients},
        standard_errors=dict.fromkeys(game.clients, 0.0),
        evaluation_count=game.evaluation_count,
    )


def shapley(clients: Sequence[str], coalition_value: CoalitionValue) -> Contributions:
    """Exact Shapley values, 2^N evaluations:

    q(n) = Σ_{S ⊆ A∖n} |S|! (N − |S| − 1)! / N! · (v(S ∪ n) − v(S)).
    """
    game = Game(clients, coalition_value)
    client_count = len(game.clients)
    if client_count > EXACT_CLIENT_LIMIT:
        raise InputError(
            f"exact Shapley values are limited to {EXACT_CLIENT_LIMIT} clients, got {client_count}; "
            "use estimate_shapley with an evaluation limit"
        )
    return exact_contributions(game, measure="shapley")


def exact_contributions(game: Game, *, measure: str) -> Contributions:
    """The Shapley values of `game` from all its coalitions, with no error."""
    client_count = len(game.clients)
    members = all_coalitions(client_count)
    values = game.values(members)
    # Coalition number c contains client i if bit i of c is set, so c + 2^i is c with i added.
    numbers = np.arange(len(values))
    sizes = members.sum(axis=1).astype(np.intp)
    weights = np.array([1.0 / (client_count * comb(client_count - 1, size)) for size in range(client_count)])
    contributions = {}
    for i, name in enumerate(game.clients):
        without = numbers[members[:, i] == 0.0]
        gains = values[without + (1 << i)] - values[without]
        contributions[name] = float(np.sum(weights[sizes[without]] * gains))
    return Contributions(
        measure=measure,
        values=contributions,
        standard_errors=dict.fromkeys(game.clients, 0.0),
        evaluation_count=game.evaluation_count,
    )


def _all_but_one(clients: Sequence[str]) -> list[Coalition]:
    everyone = frozenset(clients)
    return [everyone - {client} for client in clients]


def _every_coalition(clients: Sequence[str]) -> list[Coalition]:
    names = np.array(clients, dtype=object)
    return [frozenset(names[row > 0]) for row in all_coalitions(len(clients))]


QUANTITY = Measure(
    name="quantity",
    description="quantity: new samples",
    compute=lambda inputs: quantity(inputs.clients, inputs.sample_counts),
    draws=lambda contributions, coalition_draws, client_stream: constant_draws(contributions.values),
)
MARGINAL = Measure(
    name="marginal",
    description="marginal: what the model loses without the client",
    compute=lambda inputs: marginal(inputs.clients, inputs.coalition_value),
    coalitions=_all_but_one,
    columns=marginal_draws,
)
SHAPLEY = Measure(
    name="shapley",
    description="exact Shapley value",
    compute=lambda inputs: shapley(inputs.clients, inputs.coalition_value),
    coalitions=_every_coalition,
    client_limit=12,  # 4,096 models per round; each further client doubles that
    columns=shapley_draws,
)
