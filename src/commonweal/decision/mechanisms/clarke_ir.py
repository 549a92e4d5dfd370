"""Clarke's mechanism with each client's absence as the pivot: truthful, and no client ends below zero.

As in `clarke`, A* maximises W(A) = Σ_{n in A} p_n − μ Q(E) / Q(A). The transfer of client n is what the others gain
from its being there, its contribution included, in units of utility:

    t_n = [Σ_{m in A*, m ≠ n} p_m + g(A*)] − max_{A without n} [Σ_{m in A} p_m + g(A)]

n's own report is in neither term, so the truth is best. A retained client ends with W(A*) − max_{A without n} W(A) ≥
0, an eliminated one with 0. The price is a deficit in most rounds, which the outside pays, and which grows with μ.

If nobody but n contributes, every set without n has an infinite penalty, and so would be its transfer. There n gets
nothing: its report does not matter for that either, but it can then end below zero. For the same reason μ must be
finite. Mapping, and what truthful means: as in `clarke`. Payoffs do not follow contribution.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray
from commonweal.decision.mechanism import Fidelity, Mechanism, RoundView, State
from commonweal.decision.mechanisms.clarke import best_choice, best_objective
from commonweal.decision.mu_path import MuPath
from commonweal.decision.objective import exact_objective, objective
from commonweal.decision.payments import paid, without_money
from commonweal.decision.problem import Choice
from commonweal.decision.transfers import Division
from commonweal.decision.validation import check_mu
from commonweal.errors import InputError
from commonweal.records import Decision


def presence_values(profits: FloatArray, contributions: FloatArray, retained: BoolArray, mu: float) -> list[Fraction]:
    """t_n of each client, exactly; 0 for a client without which nobody contributes."""
    reached = Fraction(exact_objective(profits, contributions, retained, mu))
    values = []
    for n in range(len(profits)):
        absent = best_objective(profits, contributions, mu, goes=n)
        own = Fraction(profits[n]) if retained[n] else Fraction(0)
        values.append(Fraction(0) if absent == -math.inf else reached - own - Fraction(absent))
    return values


class ClarkeIR(Mechanism):
    """Retained clients are paid what the others gain from them, out of money from outside."""

    name: ClassVar[str] = "clarke-ir"
    version: ClassVar[str] = "clarke-ir/1"
    label: ClassVar[str] = "Clarke, individually rational"
    fidelity: ClassVar[Fidelity] = "derived"
    reads: ClassVar[frozenset[str]] = frozenset({"profit", "contribution"})
    takes_external_money: ClassVar[bool] = True
    takes_mu: ClassVar[bool] = True

    def check(self, *, has_costs: bool) -> None:
        super().check(has_costs=has_costs)
        if check_mu(self.rules.mu) == math.inf:
            raise InputError("Mechanism 'clarke-ir' needs a finite mu, got inf: what it pays grows with mu.")

    def select(self, view: RoundView, state: State) -> Choice:
        return best_choice(view.profits, view.contributions, float(self.rules.mu))

    def divide(self, view: RoundView, state: State, retained: BoolArray) -> Division:
        profits = view.profits
        if view.grace:
            return without_money(profits[retained])
        values = presence_values(profits, view.contributions, retained, float(self.rules.mu))
        transfers = np.array([float(value) for value in values])
        return paid(profits[retained], transfers[retained], charges=transfers[~retained])

    def objective(self, view: RoundView, retained: BoolArray) -> float:
        return objective(view.profits, view.contributions, retained, 0.0 if view.grace else float(self.rules.mu))

    def explain(self, view: RoundView, state: State, decision: Decision, client: str, path: MuPath | None) -> str:
        if client in decision.eliminated:
            return f"{client} is eliminated: the objective is larger without it. It neither pays nor receives anything."
        amount = decision.transfers[client]
        return f"{client} stays: the objective is larger with it. Its transfer, {amount:.6g}, is what the others gain."
