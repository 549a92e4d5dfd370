"""How stable a decision is: the share of draws of its figures in which a client has the same fate.

Every draw is decided by the same mechanism, with the same state and the same grace. Only who is retained is decided;
no money is divided.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from commonweal.decision.exact import FloatArray
from commonweal.decision.mechanism import Mechanism, RoundView, State
from commonweal.decision.problem import used_contributions
from commonweal.decision.returned import checked_retained
from commonweal.records import Decision, Stability

DRAW_LIMIT = 100
"""A share of 100 draws has a standard error of at most 5 percentage points."""

_FEWEST_DRAWS = 20
_CLIENT_DRAWS = 100_000  # clients × draws: with more than 1,000 clients there are fewer draws
_RAW_CLIENTS = 15  # raw contributions examine all sets of loss-makers, in every draw
_ROUNDING = 1e-12  # of the largest profit: less is a difference of two equal figures


def draw_count_for(client_count: int) -> int:
    """How many draws are decided: 100, and from 1,000 clients on fewer, down to 20."""
    return max(_FEWEST_DRAWS, min(DRAW_LIMIT, _CLIENT_DRAWS // max(client_count, 1)))


def stabilities(
    mechanism: Mechanism,
    view: RoundView,
    state: State,
    decision: Decision,
    *,
    profit_draws: FloatArray,
    contribution_draws: FloatArray,
    expected_draws: FloatArray | None = None,
) -> Mapping[str, Stability]:
    """The stability of each client's fate; the draws have a row per client, and contributions are as measured.

    `expected_draws` are those of the profits that selection goes by, where these are forecast.
    `view` and `state` are those of the decision. Empty if there are too many clients for the raw contribution rule.
    """
    rule = mechanism.rules.contribution_rule
    if rule == "raw" and len(view.clients) > _RAW_CLIENTS:
        return {}
    draw_count = min(draw_count_for(len(view.clients)), profit_draws.shape[1])
    profits = _without_rounding(profit_draws[:, :draw_count])
    expected = None if expected_draws is None else _without_rounding(expected_draws[:, :draw_count])
    contributions = used_contributions(contribution_draws[:, :draw_count], rule)
    fates = np.array([client in decision.payoffs for client in view.clients])
    same = np.zeros(len(view.clients), np.int64)
    for draw in range(draw_count):
        drawn = view.drawn(
            profits[:, draw].copy(),
            contributions[:, draw].copy(),
            None if expected is None else expected[:, draw].copy(),
        )
        same += fates == _retained(mechanism, drawn, state)
    return {
        client: Stability(same_count=count, draw_count=draw_count)
        for client, count in zip(view.clients, same.tolist(), strict=True)
    }


def _retained(mechanism: Mechanism, view: RoundView, state: State) -> np.ndarray:
    if view.grace:
        return np.ones(len(view.clients), np.bool_)
    return checked_retained(mechanism.name, mechanism.select(view, state), len(view.clients))


def _without_rounding(draws: FloatArray) -> FloatArray:
    """Profits that are zero but for rounding must not make loss-makers."""
    return np.where(np.abs(draws) <= _ROUNDING * np.max(np.abs(draws), initial=0.0), 0.0, draws)
