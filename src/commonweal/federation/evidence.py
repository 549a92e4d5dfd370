"""How sure a round's figures and fates are: from bootstrap draws if it was measured here, or from errors as stated."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from commonweal.decision.mechanism import Mechanism, State, view_of
from commonweal.decision.stability import draw_count_for, stabilities
from commonweal.federation.round_result import ClientMeasurement
from commonweal.records import Decision, Evidence
from commonweal.seeds import stream


def measured_evidence(
    decision: Decision,
    mechanism: Mechanism,
    state: State,
    measured: Mapping[str, ClientMeasurement],
    *,
    round_number: int,
    profit_draws: NDArray[np.float64],
    contribution_draws: NDArray[np.float64],
    expected_draws: NDArray[np.float64] | None = None,
) -> dict[str, Evidence]:
    """Of a measured round; `state` is the mechanism's before it. Without the error of every profit, no stability."""
    counts = {client: one.sample_count for client, one in measured.items()}
    own = decision.without_harmful  # harm is not decided on draws
    view = view_of(mechanism, own.figures, grace=own.spares_losses, sample_counts=counts, round_number=round_number)
    rows = [place for place, client in enumerate(measured) if client in own.used_contributions]
    stable = (
        {}
        if any(one.profit_error is None for one in measured.values())
        else stabilities(
            mechanism,
            view,
            state,
            own,
            profit_draws=profit_draws[rows],
            contribution_draws=contribution_draws[rows],
            expected_draws=None if expected_draws is None else expected_draws[rows],
        )
    )
    return {
        client: Evidence(
            profit_error=one.profit_error,
            contribution_error=one.contribution_error if math.isfinite(one.contribution_error) else None,
            stability=stable.get(client),
        )
        for client, one in measured.items()
    }


def stated_evidence(
    decision: Decision,
    mechanism: Mechanism,
    state: State,
    round_number: int,
    sample_counts: Mapping[str, int] | None = None,
) -> dict[str, Evidence]:
    """Of figures that were given with standard errors; empty if they were given without.

    Draws add independent normal errors to the figures, the same on every call. Figures without errors count as exact.
    """
    figures = decision.figures
    errors = {"profit": figures.profit_errors, "contribution": figures.contribution_errors}
    if all(given is None for given in errors.values()):
        return {}
    view = view_of(mechanism, figures, grace=decision.grace, sample_counts=sample_counts, round_number=round_number)
    shape = (len(view.clients), draw_count_for(len(view.clients)))

    def drawn(kind: str, values: Mapping[str, float]) -> NDArray[np.float64]:
        spread = np.array([(errors[kind] or {}).get(client, 0.0) for client in view.clients])
        noise = stream(0, "stability", kind, round_number).standard_normal(shape)
        return np.array([values[client] for client in view.clients])[:, None] + spread[:, None] * noise

    stable = stabilities(
        mechanism,
        view,
        state,
        decision,
        profit_draws=drawn("profit", figures.profits),
        contribution_draws=drawn("contribution", figures.contributions),
    )
    return {
        client: Evidence(
            profit_error=None if errors["profit"] is None else errors["profit"][client],
            contribution_error=None if errors["contribution"] is None else errors["contribution"][client],
            stability=stable.get(client),
        )
        for client in view.clients
    }
