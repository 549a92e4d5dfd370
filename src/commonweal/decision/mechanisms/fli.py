"""FLI, the federated learning incentivizer of Yu et al. (2020), "A Fairness-aware Incentive Scheme for FL".

Per client i the mechanism keeps two queues: Y_i, cost not yet paid back, and Q_i, how long the client has waited for
it. ĉ_i is its mean cost over the rounds before this one. Per round, with budget B = Σ profit (Algorithm 1):

    λ_i = ĉ_i if Y_i > 0 else 0
    u_i = ½ (ω q_i + Y_i + c_i + Q_i + λ_i)
    û_i = u_i / Σ u · B
    Y_i ← max(0, Y_i + c_i − û_i),    Q_i ← max(0, Q_i + λ_i − û_i)

û_i is the payoff, so the transfer is û_i − profit. Nobody is eliminated. The authors share a revenue B ≥ 0 and do not
treat losses: if B < 0, nothing is shared and each client bears its own profit or loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray
from commonweal.decision.mechanism import Fidelity, Mechanism, Parameter, RoundView, State
from commonweal.decision.mu_path import MuPath
from commonweal.decision.transfers import Division, proportions
from commonweal.records import Decision


class FLI(Mechanism):
    """Payoffs follow contribution, unpaid cost and waiting time."""

    name: ClassVar[str] = "fli"
    version: ClassVar[str] = "fli/1"
    label: ClassVar[str] = "FLI, Yu et al. 2020"
    fidelity: ClassVar[Fidelity] = "full"
    reads: ClassVar[frozenset[str]] = frozenset({"profit", "contribution", "cost"})
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "omega": Parameter(default=1.0, minimum=0.0, maximum=1e6, meaning="weight of contribution against regret"),
    }

    def divide(self, view: RoundView, state: State, retained: BoolArray) -> Division:
        profits = view.profits[retained]
        budget = math.fsum(profits.tolist())
        shares = proportions(self._weights(view, state)[retained])
        payoffs = shares * budget if budget >= 0 else profits
        return Division(budget=budget, shares=shares, payoffs=payoffs, transfers=payoffs - profits)

    def advance(self, view: RoundView, state: State, decision: Decision) -> State:
        costs, (unpaid, waiting, waited) = self._costs(view), self._queues(view, state)
        after = dict(state)
        for position, client in enumerate(view.clients):
            paid = decision.payoffs[client]
            rounds, total = after.get(client, _NEW)[2:]
            after[client] = (
                max(0.0, float(unpaid[position] + costs[position]) - paid),
                max(0.0, float(waiting[position] + waited[position]) - paid),
                rounds + 1,
                total + float(costs[position]),
            )
        return after

    def explain(self, view: RoundView, state: State, decision: Decision, client: str, path: MuPath | None) -> str:
        stays = f"{client} stays: FLI eliminates nobody."
        if decision.budget < 0:
            return f"{stays} The budget is negative, so each client bears its own profit or loss."
        unpaid = float(self._queues(view, state)[0][view.clients.index(client)])
        owed = f", and for {unpaid:.6g} of earlier cost that is not paid back yet" if unpaid > 0 else ""
        return f"{stays} It gets {decision.shares[client]:.1%} of the budget for its contribution and cost{owed}."

    def _weights(self, view: RoundView, state: State) -> FloatArray:
        unpaid, waiting, waited = self._queues(view, state)
        regret = unpaid + self._costs(view) + waiting + waited
        return np.asarray(0.5 * (self.parameter("omega") * np.maximum(view.contributions, 0.0) + regret))

    def _queues(self, view: RoundView, state: State) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Y, Q and λ of each client."""
        unpaid, waiting, rounds, totals = np.array([state.get(client, _NEW) for client in view.clients], float).T
        mean_costs = totals / np.maximum(rounds, 1)
        return unpaid, waiting, np.where(unpaid > 0, mean_costs, 0.0)

    @staticmethod
    def _costs(view: RoundView) -> FloatArray:
        assert view.costs is not None, "checked before a round is decided"
        return view.costs


_NEW = (0.0, 0.0, 0, 0.0)
"""Y, Q, rounds so far and their cost, of a client that joins."""
