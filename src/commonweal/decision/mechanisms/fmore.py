"""FMore, Zeng et al. (2020): a procurement auction over quality and price, with K winners per round.

Each node bids a quality q and an asking price p; the K bids with the highest score s(q) − p win and are paid what
they ask. The paper's own scoring and cost functions are not known here. In their place stands the standard theory of
scoring auctions (Che 1993), with a private cost t per sample, uniform on [lowest, highest], among N bidders:

    s(q) = value · ln(1 + q / sample_unit),    c(q, t) = t q
    P(t) = Σ_{i<K} C(N−1, i) F(t)^i (1 − F(t))^{N−1−i}                     probability to win
    p(q, t) = q · (t + ∫_t^highest P(y) dy / P(t))                         asking price: the cost and a rent

For bidders of equal quality this is an equilibrium. p ≥ c, so no winner is paid less than its cost.

Mapping. q are the samples of a round, and t is its cost divided by them. In the theory bidders also choose q; here it
is what arrived in the round. Everybody who takes part in a round is paid what it asks, from outside. The bids of the
round decide who takes part in the next one: the K highest of all clients, with the last bid of those that rest;
clients that never bid take part too. K is `winners`, and N the clients that have bid so far. Nobody is eliminated.
Units: samples, and units of utility.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray
from commonweal.decision.mechanism import Fidelity, Mechanism, Parameter, RoundView, State
from commonweal.decision.mu_path import MuPath
from commonweal.decision.payments import paid
from commonweal.decision.readings import given, sample_counts
from commonweal.decision.transfers import Division
from commonweal.errors import InputError
from commonweal.records import Decision, Instructions

_POINTS = 2001


def win_probability(reached: FloatArray, bidder_count: int, winner_count: int) -> FloatArray:
    """P that fewer than K of the other N − 1 have a lower type, from F(t)."""
    others = bidder_count - 1
    terms = (
        math.comb(others, better) * reached**better * (1 - reached) ** (others - better)
        for better in range(min(winner_count, bidder_count))
    )
    return np.asarray(sum(terms))


def rents(types: FloatArray, lowest: float, highest: float, bidder_count: int, winner_count: int) -> FloatArray:
    """∫_t^highest P(y) dy / P(t): what a bidder asks per sample on top of its cost."""
    grid = np.linspace(lowest, highest, _POINTS)
    wins = win_probability((grid - lowest) / (highest - lowest), bidder_count, winner_count)
    areas = (wins[1:] + wins[:-1]) / 2 * np.diff(grid)
    left = np.append(areas[::-1].cumsum()[::-1], 0.0)  # from each point to the highest type
    inside = np.clip(types, lowest, highest)
    at_type = win_probability((inside - lowest) / (highest - lowest), bidder_count, winner_count)
    rent = np.interp(inside, grid, left) / np.where(at_type > 0, at_type, 1.0)
    return np.where(at_type > 0, rent, 0.0)  # the highest type never wins, and has no rent


class FMore(Mechanism):
    """Participants are paid what they ask, and the best bids take part in the next round."""

    name: ClassVar[str] = "fmore"
    version: ClassVar[str] = "fmore/1"
    label: ClassVar[str] = "FMore, Zeng et al. 2020, by the theory of Che 1993"
    fidelity: ClassVar[Fidelity] = "reconstruction"
    reads: ClassVar[frozenset[str]] = frozenset({"cost", "sample_count"})
    decides: ClassVar[frozenset[str]] = frozenset({"participants"})
    takes_external_money: ClassVar[bool] = True
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "winners": Parameter(default=3, minimum=1, maximum=1000, meaning="K, clients in a round"),
        "value": Parameter(default=0.1, minimum=0.0, maximum=1e6, meaning="of data in the score, units of utility"),
        "sample_unit": Parameter(default=100.0, minimum=1e-6, maximum=1e9, meaning="samples by which data count"),
        "lowest": Parameter(default=0.0, minimum=0.0, maximum=1e6, meaning="cost per sample, units of utility"),
        "highest": Parameter(default=0.001, minimum=0.0, maximum=1e6, meaning="cost per sample, units of utility"),
    }

    def check(self, *, has_costs: bool) -> None:
        super().check(has_costs=has_costs)
        lowest, highest = self.parameter("lowest"), self.parameter("highest")
        if lowest >= highest:
            raise InputError(f"lowest must be below highest, got {lowest!r} and {highest!r}.")

    def divide(self, view: RoundView, state: State, retained: BoolArray) -> Division:
        return paid(view.profits[retained], self._asks(view, state)[retained])

    def advance(self, view: RoundView, state: State, decision: Decision) -> State:
        counts = sample_counts(self.name, view)
        scores = self.parameter("value") * np.log1p(counts / self.parameter("sample_unit")) - self._asks(view, state)
        bids = {**state, **dict(zip(view.clients, scores.tolist(), strict=True))}
        return {client: score for client, score in bids.items() if client not in decision.eliminated}

    def plan(self, view: RoundView, state: State, active: tuple[str, ...]) -> Instructions:
        by_score = sorted((client for client in active if client in state), key=lambda client: -state[client])
        winners = set(by_score[: round(self.parameter("winners"))])
        return Instructions(participants=tuple(client for client in active if client in winners or client not in state))

    def explain(self, view: RoundView, state: State, decision: Decision, client: str, path: MuPath | None) -> str:
        cost = float(given(view.costs)[view.clients.index(client)])
        asked = decision.transfers[client]
        return f"{client} stays: nobody is eliminated. It is paid {asked:.6g}, its cost of {cost:.6g} and a rent."

    def _asks(self, view: RoundView, state: State) -> FloatArray:
        """Cost and rent of each client."""
        counts, costs = sample_counts(self.name, view), given(view.costs)
        types = costs / np.maximum(counts, 1.0)
        bidder_count, winner_count = len({*view.clients, *state}), round(self.parameter("winners"))
        lowest, highest = self.parameter("lowest"), self.parameter("highest")
        return np.asarray(costs + counts * rents(types, lowest, highest, bidder_count, winner_count))
