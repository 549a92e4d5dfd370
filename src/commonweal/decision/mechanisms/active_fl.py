"""Active federated learning, Goetz et al. (2019): clients with a larger loss are more likely to be asked.

Client k has the valuation v_k = (1/sqrt(n_k)) Σ loss of its n_k samples = sqrt(n_k) · mean loss, from the last round
in which it trained. To fill m places out of K clients:

    the α1 · K clients with the smallest v are left out (α1 = 0.75, rounded down)
    (1 − α3) · m places (rounded down) are drawn without replacement, with weights exp(α2 v) (α2 = 0.01)
    the remaining places are drawn from all others, each equally likely (α3 = 0.1)

The constants are those of two implementations. Nobody pays, is paid or is eliminated.

Mapping. The loss is the mean training loss in the round's last iteration; n_k are the new samples. m is `fraction` of
the active clients, rounded down, at least 1. Ours: a client without a valuation counts like the largest; the first
round has everybody. Not known: the text of the paper beyond its abstract and a review.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray
from commonweal.decision.lots import drawn, place_count
from commonweal.decision.mechanism import Fidelity, Mechanism, Parameter, RoundView, State
from commonweal.decision.mu_path import MuPath
from commonweal.decision.payments import without_money
from commonweal.decision.readings import given, sample_counts
from commonweal.decision.transfers import Division
from commonweal.records import Decision, Instructions
from commonweal.seeds import stream


def draw_participants(
    valuations: FloatArray, places: int, rng: np.random.Generator, *, left_out: float, temper: float, uniform: float
) -> list[int]:
    """The positions of the clients that take part: α1 = left_out, α2 = temper, α3 = uniform."""
    log_weights = temper * valuations
    log_weights[np.argsort(valuations, kind="stable")[: math.floor(left_out * len(valuations))]] = -math.inf
    chosen = drawn(log_weights, math.floor((1 - uniform) * places + 1e-9), rng)
    others = np.zeros(len(valuations))
    others[chosen] = -math.inf
    return sorted([*chosen, *drawn(others, places - len(chosen), rng)])


class ActiveFL(Mechanism):
    """Who takes part is drawn by loss."""

    name: ClassVar[str] = "active-fl"
    version: ClassVar[str] = "active-fl/1"
    label: ClassVar[str] = "Active FL, Goetz et al. 2019"
    fidelity: ClassVar[Fidelity] = "partial"
    reads: ClassVar[frozenset[str]] = frozenset({"loss", "sample_count", "seed"})
    decides: ClassVar[frozenset[str]] = frozenset({"participants"})
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "fraction": Parameter(default=0.6, minimum=0.0, maximum=1.0, meaning="of the active clients that take part"),
        "left_out": Parameter(default=0.75, minimum=0.0, maximum=1.0, meaning="α1, by small valuation"),
        "temper": Parameter(default=0.01, minimum=0.0, maximum=1e3, meaning="α2, weight of valuations"),
        "uniform": Parameter(default=0.1, minimum=0.0, maximum=1.0, meaning="α3, places drawn uniformly"),
    }

    def divide(self, view: RoundView, state: State, retained: BoolArray) -> Division:
        return without_money(view.profits[retained])

    def advance(self, view: RoundView, state: State, decision: Decision) -> State:
        valuations = np.sqrt(sample_counts(self.name, view)) * given(view.losses)
        return {**state, **{c: v for c, v in zip(view.clients, valuations.tolist(), strict=True) if math.isfinite(v)}}

    def plan(self, view: RoundView, state: State, active: tuple[str, ...]) -> Instructions:
        largest = max((state[client] for client in active if client in state), default=0.0)
        chosen = draw_participants(
            np.array([state.get(client, largest) for client in active], dtype=np.float64),
            place_count(self.parameter("fraction"), len(active)),
            stream(view.seed or 0, "active-fl", view.round_number),
            left_out=self.parameter("left_out"),
            temper=self.parameter("temper"),
            uniform=self.parameter("uniform"),
        )
        return Instructions(participants=tuple(active[position] for position in chosen))

    def explain(self, view: RoundView, state: State, decision: Decision, client: str, path: MuPath | None) -> str:
        return f"{client} stays: Active FL eliminates nobody, and draws who takes part in the next round."
