"""The record that every contribution measure returns."""

from __future__ import annotations

import math
from dataclasses import dataclass

from commonweal.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class Contributions:
    """What each client contributed in a round, how surely, and at what price.

    `values` and `standard_errors` are in the unit of the coalition value (samples for quantity), in the
    order in which the clients were given. A standard error is 0.0 where the measure was computed in full and
    infinite where too few evaluations were made to tell. `evaluation_count` counts distinct coalitions.
    """

    measure: str
    values: dict[str, float]
    standard_errors: dict[str, float]
    evaluation_count: int

    def __post_init__(self) -> None:
        if list(self.values) != list(self.standard_errors):
            raise InputError(
                f"values and standard errors must name the same clients in the same order, got "
                f"{list(self.values)} and {list(self.standard_errors)}; build both from one list"
            )
        for client, value in self.values.items():
            if not math.isfinite(value):
                raise InputError(f"a contribution must be finite, got {value} for client {client!r}; mend its source")
            if not self.standard_errors[client] >= 0.0:
                raise InputError(
                    f"a standard error must be >= 0, got {self.standard_errors[client]} "
                    f"for client {client!r}; give inf where it is unknown"
                )
        if self.evaluation_count < 0:
            raise InputError(f"evaluation count must be >= 0, got {self.evaluation_count}; count the evaluations")
