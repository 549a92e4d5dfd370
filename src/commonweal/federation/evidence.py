"""How sure a round's figures and fates are: from bootstrap draws if it was measured here, or from errors as stated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from commonweal.decision.mechanism import Mechanism, State, view_of
from commonweal.decision.stability import draw_count_for, ending_stability, stabilities
from commonweal.federation.round_result import ClientMeasurement
from commonweal.records import Decision, Evidence, Figures, Stability
from commonweal.seeds import stream
from commonweal.valuation.bootstrap import standard_error
from commonweal.valuation.pooled_utilities import pooled_draws


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
    rows = _deciding(own, measured)
    stable: Mapping[str, Stability | None] = {}
    if own.finished:
        stable = dict.fromkeys(own.figures.clients, measured_ending(decision, measured, expected_draws))
    elif _are_errors_known(measured):
        stable = stabilities(
            mechanism,
            view_of(mechanism, own.figures, grace=own.grace, sample_counts=counts, round_number=round_number),
            state,
            own,
            profit_draws=profit_draws[rows],
            contribution_draws=contribution_draws[rows],
            expected_draws=None if expected_draws is None else expected_draws[rows],
        )
    return {
        client: Evidence(
            profit_error=one.profit_error,
            contribution_error=one.contribution_error if math.isfinite(one.contribution_error) else None,
            stability=stable.get(client),
            expected_error=None
            if expected_draws is None or one.profit_error is None
            else standard_error(expected_draws[place]),
        )
        for place, (client, one) in enumerate(measured.items())
    }


def measured_ending(
    decision: Decision, measured: Mapping[str, ClientMeasurement], expected_draws: NDArray[np.float64] | None
) -> Stability | None:
    """How sure it is that the federation is finished after a measured round; None: not known."""
    if expected_draws is None or not _are_errors_known(measured):
        return None
    return ending_stability(expected_draws[_deciding(decision.without_harmful, measured)])


def _deciding(own: Decision, measured: Mapping[str, ClientMeasurement]) -> list[int]:
    """The rows of the clients that the mechanism decides about: all but the harmful ones."""
    return [place for place, client in enumerate(measured) if client in own.used_contributions]


def _are_errors_known(measured: Mapping[str, ClientMeasurement]) -> bool:
    return all(one.profit_error is not None for one in measured.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling:
    """What the figures of a decision were pooled from."""

    measured: Figures
    newcomers: Sequence[str]  # outside the pool


def stated_evidence(
    decision: Decision,
    mechanism: Mechanism,
    state: State,
    round_number: int,
    *,
    pooling: Pooling | None = None,
    sample_counts: Mapping[str, int] | None = None,
) -> dict[str, Evidence]:
    """Of figures that were given with standard errors; empty if they were given without.

    Draws add independent normal errors to the figures, the same on every call. Figures without errors count as exact.
    Where figures are pooled, each draw of those measured is pooled again.
    """
    figures = decision.figures
    errors = {"profit": figures.profit_errors, "contribution": figures.contribution_errors}
    if all(given is None for given in errors.values()):
        return {}
    view = view_of(mechanism, figures, grace=decision.grace, sample_counts=sample_counts, round_number=round_number)
    shape = (len(view.clients), draw_count_for(len(view.clients)))

    def drawn(kind: str, values: Mapping[str, float], spreads: Mapping[str, float] | None) -> NDArray[np.float64]:
        spread = np.array([(spreads or {}).get(client, 0.0) for client in view.clients])
        noise = stream(0, "stability", kind, round_number).standard_normal(shape)
        return np.array([values[client] for client in view.clients])[:, None] + spread[:, None] * noise

    given = figures if pooling is None else pooling.measured
    profit_draws = drawn("profit", given.profits, given.profit_errors)
    stable = stabilities(
        mechanism,
        view,
        state,
        decision,
        profit_draws=profit_draws if pooling is None else pooled_draws(given, pooling.newcomers, profit_draws),
        contribution_draws=drawn("contribution", figures.contributions, figures.contribution_errors),
    )
    return {
        client: Evidence(
            profit_error=None if errors["profit"] is None else errors["profit"][client],
            contribution_error=None if errors["contribution"] is None else errors["contribution"][client],
            stability=stable.get(client),
        )
        for client in view.clients
    }
