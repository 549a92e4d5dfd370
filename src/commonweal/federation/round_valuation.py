"""What each client contributed to a round, from the metrics of coalition models.

v(S) is the mean over the clients present of their metric of S's model: the same clients for every S. A metric
of which less is better counts with a minus sign, and clients at which it cannot be measured do not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from commonweal.errors import FederationError
from commonweal.federation.client_set import Coalition
from commonweal.records import Estimate
from commonweal.scenario.spec import FederationPlan
from commonweal.seeds import stream
from commonweal.task.measured import Measured
from commonweal.task.metrics import Metric
from commonweal.valuation.bootstrap import Draws, standard_error
from commonweal.valuation.measure import ValuationInputs
from commonweal.valuation.registry import MEASURES

CoalitionMeasures = Callable[[Sequence[Coalition]], Mapping[Coalition, Mapping[str, Measured]]]
"""From coalitions to the metric of their models at each client present; asked for in one batch where possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundValuation:
    """Contributions with all that is known of their uncertainty, and v(S) of all coalitions evaluated."""

    contributions: Mapping[str, float]
    contribution_errors: Mapping[str, float]  # of the validation samples and of the estimator together
    contribution_draws: Mapping[str, Draws]
    measures: Mapping[str, Measured]  # of everybody's model
    coalition_values: tuple[tuple[tuple[str, ...], Estimate], ...]


def value_round(
    clients: Sequence[str],
    plan: FederationPlan,
    *,
    round_number: int,
    measures: CoalitionMeasures,
    sample_counts: Mapping[str, int],
) -> RoundValuation:
    """Value the round of the clients present by the plan's contribution measure."""
    values = _Values(clients, plan.task.metric, measures)
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
        measures=values.measured(everyone),
        coalition_values=values.estimates(),
    )


def estimate(measured: Measured) -> Estimate:
    """A metric with its standard error; both unknown where it cannot be measured."""
    error = None if math.isnan(measured.value) else standard_error(measured.draws)
    return Estimate(value=measured.value, standard_error=error)


class _Values:
    """v(S) of coalitions, each evaluated once, as measured and in each bootstrap draw."""

    def __init__(self, clients: Sequence[str], metric: Metric, measures: CoalitionMeasures) -> None:
        self._clients = clients
        self._sign = 1.0 if metric.higher_is_better else -1.0
        self._measures = measures
        self._by_client: dict[Coalition, Mapping[str, Measured]] = {}
        self.draws: dict[Coalition, Draws] = {}

    def __call__(self, coalition: Coalition) -> float:
        self.fetch([coalition])
        return self._sign * float(np.mean([one.value for one in self._counted(coalition)]))

    def fetch(self, coalitions: Sequence[Coalition]) -> None:
        missing = [coalition for coalition in dict.fromkeys(coalitions) if coalition not in self._by_client]
        if not missing:
            return
        for coalition, by_client in self._measures(missing).items():
            self._by_client[coalition] = {client: by_client[client] for client in self._clients}
            self.draws[coalition] = self._sign * np.mean([one.draws for one in self._counted(coalition)], axis=0)

    def _counted(self, coalition: Coalition) -> list[Measured]:
        """At the clients where the metric can be measured."""
        counted = [one for one in self._by_client[coalition].values() if not math.isnan(one.value)]
        if not counted:
            raise FederationError(
                "The metric cannot be measured at any client, so contributions cannot be valued. Give clients more "
                "validation samples, or choose another metric."
            )
        return counted

    def measured(self, coalition: Coalition) -> Mapping[str, Measured]:
        return self._by_client[coalition]

    def estimates(self) -> tuple[tuple[tuple[str, ...], Estimate], ...]:
        return tuple(
            (
                tuple(client for client in self._clients if client in coalition),
                Estimate(value=self(coalition), standard_error=standard_error(self.draws[coalition])),
            )
            for coalition in self._by_client
        )
