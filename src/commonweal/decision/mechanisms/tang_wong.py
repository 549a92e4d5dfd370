"""Tang and Wong (2021), "An Incentive Mechanism for Cross-Silo Federated Learning: A Public Goods Perspective".

The number r of aggregation iterations is a public good: everybody has the same r, and values it differently. With u_n
the worth of a unit of precision to organisation n and c_n its cost per iteration (units of utility),

    ε(r) = e0 / (e1 + K r)                    error of the model after r iterations of K local updates
    V_n(r) = u_n (ε(0) − ε(r)) − c_n r        payoff before the transfer
    m_n = ζ_n r,  ζ_n = π_{n+1} − π_{n+2}     transfer, from the prices π of the next two organisations on a ring

Each organisation sends a proposal γ_n and a price π_n. The unit transfers ζ sum to zero by construction, and no
organisation can change its own. In equilibrium all γ are the r that maximises Σ V_n, and ζ_n = −V_n'(r). Because V_n is
concave and V_n(0) = 0, nobody ends below zero. `ring` is the algorithm of the authors, `best_iterations` and
`unit_transfers` are its fixed point in closed form, which is ours; at r = limit, the mean of V' is added so that the
sum is still zero.

Mapping. r is the number of iterations of a round. A round that was run with r iterations gives the values
u_n = utility / (ε(0) − ε(r)) and c_n = cost / r. It is settled with the unit transfers at that r, and the next round
gets the best r, from 1 to `iteration_limit`. Nobody is eliminated. Ours: costs are proportional to r (the authors' grow
faster, with the speed of processors); the first round counts as one of `iteration_limit` iterations, and a round that
stops early as one of all that it could have had. Where a utility is negative, its client can end below zero.

Not known: the text of the paper. The formulas come from code for its journal version (Tang, Peng, Wong 2024), whose
constants e0 = 9.82 and e1 = 4.26 are a fit to MNIST; e0 cancels here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray
from commonweal.decision.mechanism import Fidelity, Mechanism, Parameter, RoundView, State
from commonweal.decision.mu_path import MuPath
from commonweal.decision.payments import exchanged
from commonweal.decision.readings import given
from commonweal.decision.transfers import Division
from commonweal.records import Decision, Instructions

_BISECTIONS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """ε(r) = e0 / (e1 + K r)."""

    e0: float = 9.82
    e1: float = 4.26
    local_updates: float = 5.0  # K

    def gain(self, iterations: float) -> float:
        """ε(0) − ε(r)."""
        return self.e0 / self.e1 - self.e0 / (self.e1 + self.local_updates * iterations)

    def slope(self, iterations: FloatArray | float) -> FloatArray:
        """d/dr of the gain."""
        reached = self.e1 + self.local_updates * np.asarray(iterations, float)
        return np.asarray(self.e0 * self.local_updates / reached**2)


def payoff_slopes(
    values: FloatArray, unit_costs: FloatArray, iterations: FloatArray | float, precision: Precision
) -> FloatArray:
    """V_n'(r) = u_n · d/dr(ε(0) − ε(r)) − c_n; r is one number, or one per organisation."""
    return np.asarray(values * precision.slope(iterations) - unit_costs)


def best_iterations(values: FloatArray, unit_costs: FloatArray, precision: Precision, limit: float) -> float:
    """The r in [0, limit] that maximises Σ V_n, where Σ V_n'(r) = 0 unless that is outside."""
    value, cost = math.fsum(values.tolist()), math.fsum(unit_costs.tolist())
    if value <= 0:
        return 0.0
    if cost <= 0:
        return limit
    best = math.sqrt(value * precision.e0 * precision.local_updates / cost) - precision.e1
    return min(max(best / precision.local_updates, 0.0), limit)


def unit_transfers(slopes: FloatArray) -> FloatArray:
    """ζ_n = mean of V' − V_n'; the mean is zero at the best r, unless that is a limit."""
    if not len(slopes):
        return slopes
    gaps = slopes.mean() - slopes
    return np.asarray(gaps - gaps.mean())  # what rounding left in the sum of large slopes


def ring(
    values: FloatArray,
    unit_costs: FloatArray,
    proposals: FloatArray,
    prices: FloatArray,
    precision: Precision,
    limit: float,
    *,
    penalty: float = 0.0007,  # ρ
    step: float = 0.1,  # η
    tolerance: float = 1e-4,  # φ
    repetition_limit: int = 20_000,
) -> tuple[FloatArray, FloatArray]:
    """The authors' algorithm: proposals γ and unit transfers ζ once no proposal changes by more than the tolerance."""
    gamma, pi = proposals.astype(float), prices.astype(float)
    for _ in range(repetition_limit):
        zeta = np.roll(pi, -1) - np.roll(pi, -2)
        neighbours = np.roll(gamma, 1) + np.roll(gamma, -1)
        low, high = np.zeros(len(gamma)), np.full(len(gamma), limit)
        for _ in range(_BISECTIONS):  # the best proposal: V_n'(g) + ζ_n − 2ρ(2g − γ_{n−1} − γ_{n+1}) falls with g
            middle = (low + high) / 2
            pull = 2 * penalty * (2 * middle - neighbours)
            rises = payoff_slopes(values, unit_costs, middle, precision) + zeta - pull > 0
            low, high = np.where(rises, middle, low), np.where(rises, high, middle)
        moved = step * (low - gamma)
        gamma = gamma + moved
        pi = pi + penalty * step * (np.roll(gamma, 2) - np.roll(gamma, 1))
        if np.abs(moved).max() <= tolerance:
            break
    return gamma, np.roll(pi, -1) - np.roll(pi, -2)


class TangWong(Mechanism):
    """Who gains more from another iteration than the average pays those who gain less."""

    name: ClassVar[str] = "tang-wong"
    version: ClassVar[str] = "tang-wong/1"
    label: ClassVar[str] = "Tang and Wong 2021"
    fidelity: ClassVar[Fidelity] = "partial"
    reads: ClassVar[frozenset[str]] = frozenset({"utility", "cost"})
    decides: ClassVar[frozenset[str]] = frozenset({"iterations"})
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "iteration_limit": Parameter(default=5, minimum=1, maximum=10_000, meaning="the most iterations of a round"),
        "e1": Parameter(default=4.26, minimum=1e-3, maximum=1e6, meaning="of the precision e0 / (e1 + K r)"),
        "local_updates": Parameter(default=5, minimum=1, maximum=1e6, meaning="K, per iteration"),
    }

    def divide(self, view: RoundView, state: State, retained: BoolArray) -> Division:
        iterations = self._iterations(state)
        values, unit_costs = self._organisations(view, state)
        slopes = payoff_slopes(values[retained], unit_costs[retained], iterations, self._precision())
        return exchanged(view.profits[retained], unit_transfers(slopes) * iterations)

    def advance(self, view: RoundView, state: State, decision: Decision) -> State:
        values, unit_costs = self._organisations(view, state)
        best = best_iterations(values, unit_costs, self._precision(), self.parameter("iteration_limit"))
        return {"iterations": max(round(best), 1)}

    def plan(self, view: RoundView, state: State, active: tuple[str, ...]) -> Instructions:
        return Instructions(iteration_limit=int(state["iterations"]))

    def explain(self, view: RoundView, state: State, decision: Decision, client: str, path: MuPath | None) -> str:
        amount = decision.transfers[client]
        side = "less from further iterations than the others, and receives" if amount > 0 else "more, and pays"
        return f"{client} stays: nobody is eliminated. It gains {side} {abs(amount):.6g}."

    def _precision(self) -> Precision:
        return Precision(e1=self.parameter("e1"), local_updates=self.parameter("local_updates"))

    def _iterations(self, state: State) -> float:
        return float(state.get("iterations", round(self.parameter("iteration_limit"))))

    def _organisations(self, view: RoundView, state: State) -> tuple[FloatArray, FloatArray]:
        """u and c of each client."""
        iterations = self._iterations(state)
        return given(view.utilities) / self._precision().gain(iterations), given(view.costs) / iterations
