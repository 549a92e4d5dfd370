"""Kang et al. (2019), "Incentive Mechanism for Reliable Federated Learning": a contract for clients of good
reputation.

The contract is that of `kang-contract`. Reputation is an opinion of subjective logic, formed per round from a
positive and b negative events, with link quality v (the share of certain knowledge), and fresh rounds counting more:

    belief = v κ a / (κ a + η b),    disbelief = v η b / (κ a + η b),    uncertainty = 1 − v
    averages over rounds y = 1..Y with weights z^(Y − y)
    T = belief + a0 · uncertainty,    κ = 0.4, η = 0.6, a0 = 0.5, z = 0.8

Clients with T ≥ `threshold` are asked to take part, and who misbehaves in a round is not paid for it. The authors'
opinion of a publisher is fused with those that other publishers recommend; a federation is one publisher, so only the
direct opinion is left.

Mapping. Each round is one event per client. The authors call an update positive if it passes a test of what the model
would be without it (RONI): here, if its contribution as measured is not negative. Ours: v is constant
(`link_quality`); clients below the threshold rest, and as they have no further events, they stay out; if fewer than
two are above it, the two with the best reputation take part. Nobody is eliminated. Rewards come from outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from commonweal.decision.exact import BoolArray
from commonweal.decision.mechanism import Fidelity, Mechanism, Parameter, RoundView, State
from commonweal.decision.mechanisms.kang_contract import CONTRACT_PARAMETERS, rewards_in_utility, standard_contract
from commonweal.decision.mu_path import MuPath
from commonweal.decision.payments import paid
from commonweal.decision.transfers import Division
from commonweal.records import Decision, Instructions

_POSITIVE, _NEGATIVE = 0.4, 0.6  # κ, η
_FADING = 0.8  # z
_BASE_RATE = 0.5  # a0
_FEWEST = 2  # clients that learn together


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """Belief, disbelief and uncertainty, which sum to 1."""

    belief: float
    disbelief: float
    uncertainty: float

    @property
    def reputation(self) -> float:
        """T, from 0 to 1."""
        return self.belief + _BASE_RATE * self.uncertainty


def opinion(positive: float, negative: float, link_quality: float) -> Opinion:
    """The opinion from so many events; with no event, nothing is certain."""
    total = _POSITIVE * positive + _NEGATIVE * negative
    if total == 0:
        return Opinion(belief=0.0, disbelief=0.0, uncertainty=1.0)
    return Opinion(
        belief=link_quality * _POSITIVE * positive / total,
        disbelief=link_quality * _NEGATIVE * negative / total,
        uncertainty=1 - link_quality,
    )


def faded(opinions: list[Opinion]) -> Opinion:
    """The average of opinions, oldest first, the newest with weight 1 and each older one with z times the next."""
    weights = _FADING ** np.arange(len(opinions))[::-1]
    parts = np.array([(one.belief, one.disbelief, one.uncertainty) for one in opinions])
    belief, disbelief, uncertainty = (weights @ parts / weights.sum()).tolist()
    return Opinion(belief=belief, disbelief=disbelief, uncertainty=uncertainty)


class KangReputation(Mechanism):
    """The contract, for clients whose updates did no harm; the others rest and are not paid."""

    name: ClassVar[str] = "kang-reputation"
    version: ClassVar[str] = "kang-reputation/1"
    label: ClassVar[str] = "contract and reputation, Kang et al. 2019"
    fidelity: ClassVar[Fidelity] = "full"
    reads: ClassVar[frozenset[str]] = frozenset({"metric", "contribution"})
    decides: ClassVar[frozenset[str]] = frozenset({"participants"})
    takes_external_money: ClassVar[bool] = True
    parameters: ClassVar[Mapping[str, Parameter]] = {
        **CONTRACT_PARAMETERS,
        "threshold": Parameter(default=0.5, minimum=0.0, maximum=1.0, meaning="reputation to take part"),
        "link_quality": Parameter(default=0.9, minimum=0.0, maximum=1.0, meaning="share of certain knowledge"),
    }

    def check(self, *, has_costs: bool) -> None:
        super().check(has_costs=has_costs)
        standard_contract(self.parameter("reward_limit"))  # refuses a limit that no contract meets

    def divide(self, view: RoundView, state: State, retained: BoolArray) -> Division:
        rewards = np.where(self._is_positive(view), rewards_in_utility(self, view), 0.0)
        return paid(view.profits[retained], rewards[retained])

    def advance(self, view: RoundView, state: State, decision: Decision) -> State:
        events = dict(zip(view.clients, self._is_positive(view).tolist(), strict=True))
        return {**state, **{client: [*state.get(client, []), event] for client, event in events.items()}}

    def plan(self, view: RoundView, state: State, active: tuple[str, ...]) -> Instructions:
        reputations = {client: self._reputation(state, client) for client in active}
        trusted = [client for client in active if reputations[client] >= self.parameter("threshold")]
        if len(trusted) < _FEWEST:
            trusted = sorted(active, key=lambda client: -reputations[client])[:_FEWEST]
        return Instructions(participants=tuple(client for client in active if client in trusted))

    def explain(self, view: RoundView, state: State, decision: Decision, client: str, path: MuPath | None) -> str:
        after = self._reputation(self.advance(view, state, decision), client)
        paid_for = f"It is paid {decision.transfers[client]:.6g}" if decision.transfers[client] else "It is not paid"
        return f"{client} stays: nobody is eliminated. {paid_for}; its reputation is now {after:.2f}."

    def _reputation(self, state: State, client: str) -> float:
        events = state.get(client, [])
        if not events:
            return 1.0  # a client is trusted until its first round
        quality = self.parameter("link_quality")
        return faded([opinion(float(event), float(not event), quality) for event in events]).reputation

    @staticmethod
    def _is_positive(view: RoundView) -> BoolArray:
        return np.asarray(view.measured >= 0)
