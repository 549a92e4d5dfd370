"""Zhan et al. (2020), "A Learning-Based Incentive Mechanism for Federated Learning": a Stackelberg game about data.

The server announces a reward τ, and each node n answers with an amount of data x_n, of the d_n that it has, at a cost
of c_n per unit. With X = Σ x,

    node:   u_n = τ x_n / X − c_n x_n          best reply: sqrt(τ X_{−n} / c_n) − X_{−n}, between 0 and d_n
    server: u = λ g(X) − τ,  g(X) = a ln(1 + X)

Without limits d_n, the M nodes with the lowest costs take part, and with C = Σ c of those

    X = (M − 1) τ / C,    x_n = X (1 − (M − 1) c_n / C),    τ* = λ a − C / (M − 1)

With limits, x_n / X = min(max(1 − c_n X / τ, 0), d_n / X) falls with X, so the equilibrium is where these sum to 1.
The server pays exactly τ, and no node ends below zero.

Mapping. A unit of data is `sample_unit` samples. d_n are the samples of a round and c_n the cost per unit of them,
both from the last round in which the client took part. After each round the server announces τ* for the next one, in
which clients use the share x_n / d_n of their new samples; those with x_n = 0 rest. The round is settled by what was
declared in it: each client gets τ x_n / X from outside. λ a is `value`, in units of utility. Nobody is eliminated.
Ours: the first round, which has no announcement, is settled with the τ* of its own figures; a client whose costs are
not known yet is asked for everything; with fewer than two clients that have data there is no contest, and τ is 0.

The authors let server and nodes learn the equilibrium (PPO), because costs are private. This is the equilibrium that
they compare with: the server knows the costs. The published figures fit λ a = 10, not λ = 10 and a = 10 as printed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray
from commonweal.decision.mechanism import Fidelity, Mechanism, Parameter, RoundView, State
from commonweal.decision.mu_path import MuPath
from commonweal.decision.payments import paid, without_money
from commonweal.decision.readings import given, sample_counts
from commonweal.decision.transfers import Division, proportions
from commonweal.records import Decision, Instructions

_BISECTIONS = 50
_PARTS = 8  # of an interval of rewards
_REWARDS = 32  # compared at a time
_TOLERANCE = 1e-5  # of λ a: no reward is better by more


def equilibrium(reward: FloatArray | float, unit_costs: FloatArray, limits: FloatArray) -> FloatArray:
    """x: every node's best reply to the others; a row for each reward. At least two nodes must have data."""
    rewards = np.asarray(reward, dtype=np.float64)[..., np.newaxis]

    def shares(total: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            wanted = np.where(unit_costs > 0, 1 - unit_costs * total / rewards, 1.0)
        return np.asarray(np.minimum(np.fmax(wanted, 0.0), limits / total))  # fmax: 0 instead of NaN

    low, high = np.zeros_like(rewards), np.full_like(rewards, limits.sum())
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        is_short = shares(middle).sum(axis=-1, keepdims=True) > 1
        low, high = np.where(is_short, middle, low), np.where(is_short, high, middle)
    return shares(high) * high


def best_reward(unit_costs: FloatArray, limits: FloatArray, value: float) -> float:
    """τ*: the reward that maximises u(τ) = λ a ln(1 + X(τ)) − τ.

    u can have several maxima, because X has a kink wherever a node joins or runs out of data. X grows with τ, so that u
    is at most u(t) + t − s between the rewards s and t. Intervals in which it cannot beat the best reward so far are
    dropped, and the others divided; the best one is then narrowed down.
    """

    def utility(rewards: FloatArray) -> FloatArray:
        return np.asarray(value * np.log1p(equilibrium(rewards, unit_costs, limits).sum(axis=-1)) - rewards)

    highest = value * math.log1p(float(limits.sum()))  # a larger reward costs more than any data are worth
    lows, highs = np.zeros(1), np.full(1, highest)
    best, most = 0.0, float(utility(np.zeros(1))[0])
    while len(lows):
        edges = np.linspace(lows, highs, _PARTS + 1)
        utilities = utility(edges)
        if utilities.max() > most:
            best, most = float(edges.flat[utilities.argmax()]), float(utilities.max())
        widths = edges[1:] - edges[:-1]
        is_open = utilities[1:] + widths > most + _TOLERANCE * value
        lows, highs = edges[:-1][is_open], edges[1:][is_open]
    width = math.sqrt(_TOLERANCE) * highest
    while width > 1e-8 * value:
        rewards = np.append(np.linspace(max(best - width, 0.0), best + width, _REWARDS), best)
        best = float(rewards[utility(rewards).argmax()])
        width *= 4 / _REWARDS
    return best


class Zhan(Mechanism):
    """A reward from outside is divided by the data that clients use, and they choose how much that is."""

    name: ClassVar[str] = "zhan"
    version: ClassVar[str] = "zhan/1"
    label: ClassVar[str] = "Zhan et al. 2020, with known costs in place of learning"
    fidelity: ClassVar[Fidelity] = "partial"
    reads: ClassVar[frozenset[str]] = frozenset({"cost", "sample_count"})
    decides: ClassVar[frozenset[str]] = frozenset({"participants", "data"})
    takes_external_money: ClassVar[bool] = True
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "value": Parameter(default=0.1, minimum=1e-12, maximum=1e6, meaning="λ a, in units of utility"),
        "sample_unit": Parameter(default=100.0, minimum=1e-6, maximum=1e9, meaning="samples in a unit of data"),
    }

    def divide(self, view: RoundView, state: State, retained: BoolArray) -> Division:
        amounts = sample_counts(self.name, view)[retained]
        reward = float(state["reward"]) if state else self._announcement(self._nodes(view, state))[0]
        if not amounts.any():
            return without_money(view.profits[retained])
        return paid(view.profits[retained], reward * proportions(amounts))

    def advance(self, view: RoundView, state: State, decision: Decision) -> State:
        nodes = {client: node for client, node in self._nodes(view, state).items() if client not in decision.eliminated}
        reward, shares = self._announcement(nodes)
        return {"reward": reward, "nodes": nodes, "shares": shares}

    def plan(self, view: RoundView, state: State, active: tuple[str, ...]) -> Instructions:
        shares = {client: share for client, share in state["shares"].items() if client in active}
        participants = tuple(client for client in active if shares.get(client, 1.0) > 0)
        return Instructions(participants=participants or None, data_shares=shares)

    def explain(self, view: RoundView, state: State, decision: Decision, client: str, path: MuPath | None) -> str:
        reward, amount = -decision.external, decision.transfers[client]
        return f"{client} stays: nobody is eliminated. It gets {amount:.6g} of the reward of {reward:.6g} for its data."

    def _nodes(self, view: RoundView, state: State) -> dict[str, tuple[float, float]]:
        """Cost per unit and units of data of each client, as last known."""
        unit, shares = self.parameter("sample_unit"), state.get("shares", {})
        counts, costs = sample_counts(self.name, view), given(view.costs)
        known = {client: (float(cost), float(limit)) for client, (cost, limit) in state.get("nodes", {}).items()}
        rested = {client: node for client, node in known.items() if shares[client] == 0}
        seen = {
            client: (float(cost / count * unit), float(count / unit) / shares.get(client, 1.0))
            for client, count, cost in zip(view.clients, counts, costs, strict=True)
            if count > 0 and shares.get(client, 1.0) > 0
        }
        return {**rested, **{client: known[client] for client in view.clients if client in known}, **seen}

    def _announcement(self, nodes: Mapping[str, tuple[float, float]]) -> tuple[float, dict[str, float]]:
        """τ* and each client's share of its data in equilibrium."""
        if len(nodes) < 2:
            return 0.0, dict.fromkeys(nodes, 1.0)
        unit_costs, limits = np.array(list(nodes.values())).T
        reward = best_reward(unit_costs, limits, self.parameter("value"))
        shares = np.minimum(equilibrium(reward, unit_costs, limits) / limits, 1.0)
        return reward, dict(zip(nodes, shares.tolist(), strict=True))
