"""What a contribution measure is, what it is given, and what it returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from commonweal.errors import InputError
from commonweal.valuation.bootstrap import DRAW_COUNT, Draws
from commonweal.valuation.coalition import Coalition, CoalitionValue

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


MeasureFunction = Callable[[ValuationInputs], Contributions]
MeasureDraws = Callable[[Contributions, Mapping[Coalition, Draws], ClientStream], dict[str, Draws]]
"""From contributions and the bootstrap draws of all coalitions evaluated to draws of the contributions."""


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
    - `draws` turns bootstrap draws of coalition values into draws of contributions. If it is left out, `compute` is
      repeated on each draw, which is right for every measure that asks for the same coalitions whatever their values.
    """

    name: str
    description: str
    compute: MeasureFunction
    coalitions: Callable[[Sequence[str]], Sequence[Coalition]] = no_coalitions
    client_limit: int | None = None
    evaluation_minimum: Callable[[int], int] | None = None
    draws: MeasureDraws | None = None

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
        if self.draws is not None:
            return contributions, self.draws(contributions, coalition_draws, client_stream)
        return contributions, self._computed_on_each_draw(inputs, coalition_draws)

    def _computed_on_each_draw(
        self, inputs: ValuationInputs, coalition_draws: Mapping[Coalition, Draws]
    ) -> dict[str, Draws]:
        draws = {client: np.empty(DRAW_COUNT) for client in inputs.clients}
        for number in range(DRAW_COUNT):
            values = {coalition: float(of_coalition[number]) for coalition, of_coalition in coalition_draws.items()}
            computed = self.compute(
                ValuationInputs(
                    clients=inputs.clients,
                    coalition_value=values.__getitem__,
                    sample_counts=inputs.sample_counts,
                    evaluation_limit=inputs.evaluation_limit,
                    rng=inputs.rng,
                )
            )
            for client in inputs.clients:
                draws[client][number] = computed.values[client]
        return draws
