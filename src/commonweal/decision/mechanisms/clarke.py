"""Clarke's pivot mechanism for the paper's objective: reporting the true profit is best, whatever the others report.

The objective W(A) = Σ_{n in A} p_n + g(A) with g(A) = −μ Q(E) / Q(A) is an affine maximiser: g does not depend on
reports. A* maximises W over all sets A. Each client n is charged what its report takes from the others, its
externality

    c_n = max_A [Σ_{m in A, m ≠ n} p_m + g(A)] − [Σ_{m in A*, m ≠ n} p_m + g(A*)] ≥ 0

in units of utility; its own report is in neither term. The first is W's maximum with p_n = 0, so the exact solver of
the paper's mechanism finds it. As contributions are not negative, only eliminated clients are charged. Cavallo (2006)
gives back what does not depend on own reports,

    r_n = (1/N) · min over n's own report of Σ_m c_m ≥ 0,    Σ r_n ≤ Σ c_n

and the rest goes to the outside. The total charge falls with a report that keeps n in and rises with one that does
not, so the minimum is at one of the two ends: n stays in any case, or goes in any case.

Truthful means: for a client with true profit p, being retained is worth p and being eliminated 0. It does not mean
that everybody gains: a client can leave with a charge, and if it could refuse to pay, some lies would gain. Payoffs
do not follow contribution. With μ = 0 all charges are 0, and every loss-maker goes.

Mapping. Profits and contributions as they are; negative contributions count as 0. Where figures are forecast, this
mechanism goes by the round's own profits. In grace rounds there is no choice, so nobody is charged. Only equal
objectives tie: a wider tie could be reached by a lie.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray
from commonweal.decision.mechanism import Fidelity, Mechanism, RoundView, State
from commonweal.decision.mu_path import MuPath
from commonweal.decision.objective import Number, exact_objective, objective
from commonweal.decision.payments import paid, without_money
from commonweal.decision.problem import Choice, choose
from commonweal.decision.raw import make_problem
from commonweal.decision.transfers import Division
from commonweal.decision.validation import check_mu
from commonweal.records import Decision

_EXACT_TIES = 1  # the version of the rules in which only equal objectives tie


def best_choice(profits: FloatArray, contributions: FloatArray, mu: float, *, goes: int | None = None) -> Choice:
    """The set that maximises W; with `goes`, over the sets without that client."""
    problem = make_problem(profits, contributions, "clip", version=_EXACT_TIES, goes=goes)
    choice = choose(problem, len(profits), mu)
    if goes is not None:
        choice.retained[goes] = False
    return choice


def best_objective(profits: FloatArray, contributions: FloatArray, mu: float, *, goes: int | None = None) -> Number:
    """The maximum of W, exactly; −∞ if every set without the client that goes loses all contribution."""
    retained = best_choice(profits, contributions, mu, goes=goes).retained
    return exact_objective(profits, contributions, retained, mu)


def externalities(
    profits: FloatArray, contributions: FloatArray, retained: BoolArray, mu: float, *, goes: int | None = None
) -> list[Fraction]:
    """c_n of each client, exactly; 0 for those retained. With `goes`, that client is in no set whatever it reports."""
    reached = Fraction(exact_objective(profits, contributions, retained, mu))
    charges = [Fraction(0)] * len(profits)
    for n in np.flatnonzero(~retained).tolist():
        unreported = best_objective(_with(profits, n, 0.0), contributions, mu, goes=None if n == goes else goes)
        charges[n] = Fraction(unreported) - reached
    return charges


def rebate(profits: FloatArray, contributions: FloatArray, mu: float, n: int) -> Fraction:
    """Cavallo's r_n, exactly."""
    least = _total(_with(profits, n, 0.0), contributions, mu)  # the same for all reports from 0 up
    if least > 0 and best_objective(profits, contributions, mu, goes=n) > -math.inf:
        least = min(least, _total(profits, contributions, mu, goes=n))
    return least / len(profits)


def _total(profits: FloatArray, contributions: FloatArray, mu: float, *, goes: int | None = None) -> Fraction:
    retained = best_choice(profits, contributions, mu, goes=goes).retained
    return sum(externalities(profits, contributions, retained, mu, goes=goes), Fraction(0))


def _with(values: FloatArray, position: int, value: float) -> FloatArray:
    changed = values.copy()
    changed[position] = value
    return changed


class Clarke(Mechanism):
    """Eliminated clients are charged what their elimination takes from the objective of the others."""

    name: ClassVar[str] = "clarke"
    version: ClassVar[str] = "clarke/1"
    label: ClassVar[str] = "Clarke pivot with Cavallo's rebate"
    fidelity: ClassVar[Fidelity] = "derived"
    reads: ClassVar[frozenset[str]] = frozenset({"profit", "contribution"})
    takes_external_money: ClassVar[bool] = True
    takes_mu: ClassVar[bool] = True

    def check(self, *, has_costs: bool) -> None:
        super().check(has_costs=has_costs)
        check_mu(self.rules.mu)

    def select(self, view: RoundView, state: State) -> Choice:
        return best_choice(view.profits, view.contributions, float(self.rules.mu))

    def divide(self, view: RoundView, state: State, retained: BoolArray) -> Division:
        mu = float(self.rules.mu)
        profits, contributions = view.profits, view.contributions
        if view.grace or mu == math.inf:
            return without_money(profits[retained])
        charges = externalities(profits, contributions, retained, mu)
        is_charged = any(charges)  # otherwise there is nothing to give back
        returned = [rebate(profits, contributions, mu, n) if is_charged else 0 for n in range(len(profits))]
        transfers = np.array([float(back - charge) for back, charge in zip(returned, charges, strict=True)])
        return paid(profits[retained], transfers[retained], charges=transfers[~retained])

    def objective(self, view: RoundView, retained: BoolArray) -> float:
        return objective(view.profits, view.contributions, retained, 0.0 if view.grace else float(self.rules.mu))

    def explain(self, view: RoundView, state: State, decision: Decision, client: str, path: MuPath | None) -> str:
        if client in decision.eliminated:
            return (
                f"{client} is eliminated: the objective is larger without it. Its transfer is "
                f"{decision.charges.get(client, 0.0):.6g}: what its report takes from the others, less its rebate."
            )
        return f"{client} stays: the objective is larger with it. What it reported does not change what it pays."
