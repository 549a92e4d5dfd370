"""What the conductor knows of a round once it is held: the decision, and what was measured on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from commonweal.records import Estimate, Event, RoundRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One client in a held round, apart from the figures of the decision."""

    sample_count: int
    training_count: int
    validation_count: int
    step_count: int | None  # None: kept private
    accuracy: Estimate
    previous_accuracy: float
    utility: Estimate | None  # None: kept private, as the cost
    cost: float | None
    profit_error: float | None  # standard errors of the decision's figures; None: not known
    contribution_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """One round. `draws` are the decision's figures in each bootstrap draw, a row a client of the decision."""

    record: RoundRecord
    measured: Mapping[str, Measured]
    iteration_accuracies: tuple[Mapping[str, float], ...]  # of the incoming model, then after each iteration
    coalition_values: tuple[tuple[tuple[str, ...], Estimate], ...]
    events: tuple[Event, ...]
    signatures: Mapping[str, str]  # under the clients' reports, where they sign for themselves
    withdrawals: Mapping[str, str]  # signed notices of those who leave after this round
    profit_draws: NDArray[np.float64]
    contribution_draws: NDArray[np.float64]
