"""What a contribution measure is, what it is given, and what it returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from commonweal.errors import InputError
from commonweal.valuation.bootstrap import DRAW_COUNT, Draws
from commonweal.valuation.coalition import Coalition, CoalitionValue
from commonweal.valuation.scorers import Effects, ScorersRule, combine, scorer_draws

ClientStream = Callable[[str], "np.random.Generator"]  # in quotes: numpy loads its generators on demand
"""Returns the random stream of a client, for the error that an estimator adds to the draws."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contributions:
    """What each client contributed in a round, with standard errors and the number of coalitions evaluated.

    `values` and `standard_errors` are in the unit of the coalition value (samples for quantity), in the order in which
    the clients were given. A standard error is 0.0 where the measure was computed in full and infinite where there were
    too few evaluations to estimate it. `evaluation_count` counts distinct coalitions.
    """

    measure: str
    values: dict[str, float]
    standard_errors: dict[str, float]
    evaluation_count: int

    def __post_init__(self) -> None:
        if list(self.values) != list(self.standard_errors):
            raise InputError(
                f"values and standard_errors must name the same clients in the same order, got "
                f"{list(self.values)} and {list(self.standard_errors)}."
            )
        for client, value in self.values.items():
            if not math.isfinite(value):
                raise InputError(f"A contribution must be finite, got {value} for client {client!r}.")
            if not self.standard_errors[client] >= 0.0:
                raise InputError(
                    f"A standard error must be at least 0, got {self.standard_errors[client]} for client {client!r}; "
                    "use inf where it is unknown."
                )
        if self.evaluation_count < 0:
            raise InputError(f"evaluation_count must be at least 0, got {self.evaluation_count}.")


@dataclass(frozen=True, kw_only=True, slots=True)
class ValuationInputs:
    """What a measure may use to value one round."""

    clients: Sequence[str]
    coalition_value: CoalitionValue
    sample_counts: Mapping[str, int]  # new samples of the round
    evaluation_limit: int | None  # set if and only if the measure has an `evaluation_minimum`
    rng: np.random.Generator  # of this round's valuation, for measures that sample
    effects: Effects | None = None  # of clients on scorers; set if and only if the measure `uses_gradients`
    scorers: ScorersRule = "all"


MeasureFunction = Callable[[ValuationInputs], Contributions]
MeasureDraws = Callable[[Contributions, Mapping[Coalition, Draws], ClientStream], dict[str, Draws]]
"""From contributions and the bootstrap draws of all coalitions evaluated to draws of the contributions."""
Columns = Callable[[Sequence[str], Mapping[Coalition, Draws]], dict[str, Draws]]
"""From clients and columns of coalition values to the contributions in each column."""
ByScorer = Callable[[], Mapping[Coalition, NDArray[np.float64]]]
"""What every coalition that was evaluated is worth at every client; asked for after the evaluations."""


def no_coalitions(clients: Sequence[str]) -> list[Coalition]:
    """For measures that choose their coalitions while they run, or use none."""
    return []


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """A contribution measure, as the registry holds it; only the first three fields are required.

    - `name` is what a scenario writes after `contribution =`; `description` is what a run report shows.
    - `compute` values a round.
    - `coalitions` lists the coalitions that `compute` will ask for, as far as they are known in advance: they are then
      evaluated in one go, which on Flower means one exchange of messages instead of many.
    - `client_limit` is the largest number of clients that the measure can handle.
    - `evaluation_minimum` takes the number of clients and returns the fewest evaluations that give an estimate. A
      measure that has it samples coalitions: scenarios must then set `evaluation_limit`. Without it, scenarios must not
      set that key.
    - `columns` computes contributions from many columns of coalition values at once: one for each bootstrap draw, or
      one for each scorer. If it is left out, `compute` is repeated on each column, which is right for every measure
      that asks for the same coalitions whatever their values.
    - `draws` is for measures with an error of their own: it turns the bootstrap draws of coalition values into draws of
      contributions that have it too.
    - `uses_gradients` says that `compute` needs the effects of clients on scorers, and no coalitions.
    """

    name: str
    description: str
    compute: MeasureFunction
    coalitions: Callable[[Sequence[str]], Sequence[Coalition]] = no_coalitions
    client_limit: int | None = None
    evaluation_minimum: Callable[[int], int] | None = None
    columns: Columns | None = None
    draws: MeasureDraws | None = None
    uses_gradients: bool = False

    @property
    def is_sampled(self) -> bool:
        return self.evaluation_minimum is not None

    def fewest_evaluations(self, client_count: int) -> int:
        """The smallest `evaluation_limit` of a sampled measure; never more than there are coalitions."""
        assert self.evaluation_minimum is not None, "only sampled measures have a minimum"
        return min(self.evaluation_minimum(client_count), 1 << client_count)

    def value(
        self, inputs: ValuationInputs, coalition_draws: Mapping[Coalition, Draws], client_stream: ClientStream
    ) -> tuple[Contributions, dict[str, Draws]]:
        """Contributions of a round and their bootstrap draws.

        `coalition_draws` may be filled while `inputs.coalition_value` is called; it is read afterwards.
        """
        contributions = self.compute(inputs)
        if inputs.effects is not None:
            return contributions, scorer_draws(inputs.clients, inputs.effects, inputs.scorers, client_stream)
        if self.draws is not None:
            return contributions, self.draws(contributions, coalition_draws, client_stream)
        return contributions, self._by_column(inputs, coalition_draws)

    def value_guarded(
        self,
        inputs: ValuationInputs,
        scorer_values: ByScorer,
        scorer_draws: ByScorer,
        client_stream: ClientStream,
    ) -> tuple[Contributions, dict[str, Draws], Effects]:
        """The same with guarded scorers (see `valuation.scorers`), and the effects on each scorer.

        Of each coalition that was evaluated, `scorer_values` gives one value per client and `scorer_draws` one row of
        draws per client. NaN is a client that cannot score. What an estimator adds to the fit of its coalitions is
        added to the effects on every scorer.
        """
        estimated = self.compute(inputs)
        clients = list(estimated.values)
        at_scorers = scorer_values()
        is_scorer = ~np.isnan(np.array(list(at_scorers.values()))).any(axis=0)
        effects = np.full((len(clients), len(clients)), np.nan)
        of_scorers = {coalition: values[is_scorer] for coalition, values in at_scorers.items()}
        effects[is_scorer] = np.array(list(self._by_column(inputs, of_scorers).values())).T
        shift = np.array(list(estimated.values.values())) - effects[is_scorer].mean(axis=0)
        if self.is_sampled:
            effects += shift
        in_draws = np.full((len(clients), len(clients), DRAW_COUNT), np.nan)
        draws_at_scorers = scorer_draws()
        for scorer in np.flatnonzero(is_scorer):
            own = {coalition: draws[scorer] for coalition, draws in draws_at_scorers.items()}
            in_draws[scorer] = np.array(list(self._by_column(inputs, own).values()))
        values = dict(zip(clients, combine(effects, "guarded").tolist(), strict=True))
        draws = dict(zip(clients, combine(in_draws, "guarded"), strict=True))
        contributions = replace(estimated, values=values)
        if self.is_sampled:
            draws = with_own_error(contributions, draws, client_stream)
        return contributions, draws, effects

    def _by_column(self, inputs: ValuationInputs, columns: Mapping[Coalition, Draws]) -> dict[str, Draws]:
        if self.columns is not None:
            return self.columns(list(inputs.clients), columns)
        count = len(next(iter(columns.values())))
        found = {client: np.empty(count) for client in inputs.clients}
        for number in range(count):
            values = {coalition: float(of_coalition[number]) for coalition, of_coalition in columns.items()}
            computed = self.compute(replace(inputs, coalition_value=values.__getitem__))
            for client in inputs.clients:
                found[client][number] = computed.values[client]
        return found


def with_own_error(contributions: Contributions, draws: Mapping[str, Draws], stream: ClientStream) -> dict[str, Draws]:
    """Draws centred on the contributions, with the estimator's own error added to their spread."""

    def centred(client: str) -> Draws:
        own_error = contributions.standard_errors[client]
        spread = draws[client].copy()
        if math.isfinite(own_error):
            spread += own_error * stream(client).standard_normal(DRAW_COUNT)
        return np.asarray(contributions.values[client] + spread - spread.mean())

    return {client: centred(client) for client in contributions.values}
