"""What each client contributed to a round, from what coalition models score, or from gradients along the round's path.

v(S) is the mean over the clients present of their score of S's model: the same clients for every S. The score is the
metric of utility or, if the plan says so, the mean smooth score. A metric of which less is better counts with a minus
sign, and clients at which it cannot be measured do not count. Guarded scorers do not count equally: see
`valuation.scorers`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import FederationError
from commonweal.federation.client_set import Coalition, ScorerEffects
from commonweal.records import Estimate, Event
from commonweal.scenario.spec import FederationPlan
from commonweal.seeds import stream
from commonweal.task.measured import Measured
from commonweal.task.metrics import Metric
from commonweal.valuation.bootstrap import Draws, standard_error
from commonweal.valuation.measure import ValuationInputs
from commonweal.valuation.registry import MEASURES
from commonweal.valuation.scorers import FEWEST_GUARDED, LEAST_EFFECT, Effects, ScorersRule, is_guarded

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
    effects: Effects | None = None  # of each client (column) by the samples of each client (row); see RoundResult
    events: tuple[Event, ...] = ()


def value_round(
    clients: Sequence[str],
    plan: FederationPlan,
    *,
    round_number: int,
    measures: CoalitionMeasures,
    sample_counts: Mapping[str, int],
    path_effects: Callable[[], Mapping[str, ScorerEffects]] | None = None,
) -> RoundValuation:
    """Value the round of the clients present by the plan's contribution measure.

    `path_effects` asks for the effects of clients on scorers; only measures that use gradients need it.
    """
    mechanism = plan.mechanism
    measure = MEASURES[mechanism.measure]
    values = _Values(clients, plan.task.metric, measures, is_smooth=mechanism.scores_coalitions_smoothly)
    everyone = frozenset(clients)
    values.fetch([frozenset(), everyone, *measure.coalitions(clients)])
    effects = None
    if measure.uses_gradients:
        assert path_effects is not None, "gradients are asked for where they are needed"
        effects = _effects(clients, path_effects(), mechanism.scorers)
    inputs = ValuationInputs(
        clients=clients,
        coalition_value=values,
        sample_counts=sample_counts,
        evaluation_limit=mechanism.evaluation_limit,
        rng=stream(plan.seed, "shapley", round_number),
        effects=effects,
        scorers=mechanism.scorers,
    )
    scorer_count = len(clients) if measure.uses_gradients else values.scorer_count

    def client_stream(client: str) -> np.random.Generator:
        if measure.uses_gradients:  # the same in all rounds
            return stream(plan.seed, "scorer", client)
        return stream(plan.seed, "estimator", client, round_number)

    if is_guarded(mechanism.scorers, scorer_count) and not measure.uses_gradients:
        contributions, draws, effects = measure.value_guarded(
            inputs, values.by_scorer, values.draws_by_scorer, client_stream
        )
    else:
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
        effects=effects,
        events=_warnings(mechanism.scorers, scorer_count),
    )


def estimate(measured: Measured) -> Estimate:
    """A metric with its standard error; both unknown where it cannot be measured."""
    error = None if math.isnan(measured.value) else standard_error(measured.draws)
    return Estimate(value=measured.value, standard_error=error)


def _effects(clients: Sequence[str], answers: Mapping[str, ScorerEffects], scorers: ScorersRule) -> Effects:
    """One row per scorer; of guarded scorers, as if no gradient were longer than the median of all."""
    effects = np.array([answers[client].effects for client in clients])
    if is_guarded(scorers, len(clients)):
        norms = np.array([answers[client].gradient_norm for client in clients])
        usual = float(np.median(norms))
        effects *= np.divide(usual, norms, out=np.ones_like(norms), where=norms > usual)[:, None]
    effects[np.abs(effects) < LEAST_EFFECT] = 0.0
    return effects


def _warnings(scorers: ScorersRule, scorer_count: int) -> tuple[Event, ...]:
    if scorers == "all" or is_guarded(scorers, scorer_count):
        return ()
    text = (
        f"Contributions rest on the clients' word: with {scorer_count} of them, fewer than {FEWEST_GUARDED}, a false "
        "score cannot be told from a true one."
    )
    return (Event(kind="unguarded", client=None, text=text),)


class _Values:
    """v(S) of coalitions, each evaluated once, as measured and in each bootstrap draw."""

    def __init__(
        self, clients: Sequence[str], metric: Metric, measures: CoalitionMeasures, *, is_smooth: bool = False
    ) -> None:
        self._clients = clients
        self._is_smooth = is_smooth
        self._sign = 1.0 if metric.higher_is_better or is_smooth else -1.0
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

    def by_scorer(self) -> dict[Coalition, NDArray[np.float64]]:
        """The value of each coalition at each client; NaN where it cannot be measured."""
        return {c: self._sign * np.array([one.value for one in self._scored(c)]) for c in self._by_client}

    def draws_by_scorer(self) -> dict[Coalition, NDArray[np.float64]]:
        return {c: self._sign * np.array([one.draws for one in self._scored(c)]) for c in self._by_client}

    @property
    def scorer_count(self) -> int:
        return len(self._counted(frozenset(self._clients)))

    def _scored(self, coalition: Coalition) -> list[Measured]:
        """What contributions are measured on, at each client."""
        measured = self._by_client[coalition].values()
        return [one.smooth_score for one in measured] if self._is_smooth else list(measured)

    def _counted(self, coalition: Coalition) -> list[Measured]:
        """At the clients where the metric can be measured."""
        counted = [one for one in self._scored(coalition) if not math.isnan(one.value)]
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
