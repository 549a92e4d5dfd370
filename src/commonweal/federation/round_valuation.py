"""What each client contributed to a round, from the scores of coalition models.

v(S) is the mean of the mean scores that the clients present give to the model of S: the same clients for every S.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from commonweal.federation.client_set import Coalition, Scores
from commonweal.records import Estimate
from commonweal.scenario.spec import FederationPlan
from commonweal.seeds import stream
from commonweal.valuation.bootstrap import Draws, mean_draws, resampling_weights, standard_error
from commonweal.valuation.measure import ValuationInputs
from commonweal.valuation.registry import MEASURES

CoalitionScores = Callable[[Sequence[Coalition]], Mapping[Coalition, Mapping[str, Scores]]]
"""From coalitions to the scores of their models by each client present; asked for in one batch where possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundValuation:
    """Contributions with all that is known of their uncertainty, and v(S) of all coalitions evaluated."""

    contributions: Mapping[str, float]
    contribution_errors: Mapping[str, float]  # of the validation samples and of the estimator together
    contribution_draws: Mapping[str, Draws]
    accuracies: Mapping[str, Estimate]  # of everybody's model
    coalition_values: tuple[tuple[tuple[str, ...], Estimate], ...]


def value_round(
    clients: Sequence[str],
    plan: FederationPlan,
    *,
    round_number: int,
    scores: CoalitionScores,
    sample_counts: Mapping[str, int],
) -> RoundValuation:
    """Value the round of the clients present by the plan's contribution measure."""
    values = _Values(clients, plan.seed, scores)
    everyone = frozenset(clients)
    measure = MEASURES[plan.mechanism.measure]
    values.fetch([frozenset(), everyone, *measure.coalitions(clients)])
    inputs = ValuationInputs(
        clients=clients,
        coalition_value=values,
        sample_counts=sample_counts,
        evaluation_limit=plan.mechanism.evaluation_limit,
        rng=stream(plan.seed, "shapley", round_number),
    )

    def client_stream(client: str) -> np.random.Generator:
        return stream(plan.seed, "estimator", client, round_number)

    contributions, draws = measure.value(inputs, values.draws, client_stream)
    return RoundValuation(
        contributions=contributions.values,
        contribution_errors={
            client: standard_error(draws[client]) if math.isfinite(contributions.standard_errors[client]) else math.inf
            for client in clients
        },
        contribution_draws=draws,
        accuracies=values.accuracies(everyone),
        coalition_values=values.estimates(),
    )


class _Values:
    """v(S) of coalitions, each evaluated once, as measured and in each bootstrap draw."""

    def __init__(self, clients: Sequence[str], seed: int, scores: CoalitionScores) -> None:
        self._clients = clients
        self._seed = seed
        self._scores = scores
        self._weights: dict[str, np.ndarray] = {}
        self._by_client: dict[Coalition, dict[str, tuple[float, Draws]]] = {}
        self.draws: dict[Coalition, Draws] = {}

    def __call__(self, coalition: Coalition) -> float:
        self.fetch([coalition])
        return float(np.mean([value for value, _ in self._by_client[coalition].values()]))

    def fetch(self, coalitions: Sequence[Coalition]) -> None:
        missing = [coalition for coalition in dict.fromkeys(coalitions) if coalition not in self._by_client]
        if not missing:
            return
        for coalition, by_client in self._scores(missing).items():
            self._by_client[coalition] = {
                client: (float(by_client[client].mean()), self._mean_draws(client, by_client[client]))
                for client in self._clients
            }
            self.draws[coalition] = np.mean([draws for _, draws in self._by_client[coalition].values()], axis=0)

    def _mean_draws(self, client: str, scores: Scores) -> Draws:
        if client not in self._weights:
            self._weights[client] = resampling_weights(self._seed, client, len(scores))
        return mean_draws(scores, self._weights[client])

    def accuracies(self, coalition: Coalition) -> dict[str, Estimate]:
        return {
            client: Estimate(value=value, standard_error=standard_error(draws))
            for client, (value, draws) in self._by_client[coalition].items()
        }

    def estimates(self) -> tuple[tuple[tuple[str, ...], Estimate], ...]:
        return tuple(
            (
                tuple(client for client in self._clients if client in coalition),
                Estimate(value=self(coalition), standard_error=standard_error(self.draws[coalition])),
            )
            for coalition in self._by_client
        )
