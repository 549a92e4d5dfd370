"""Kang et al. (2019), "Incentive Design for Efficient Federated Learning in Mobile Networks: A Contract Theory
Approach".

The server offers a menu of items (f, R): to compute at frequency f, for the reward R. It does not know an owner's
type, only how likely each of M types θ_1 < ... < θ_M is. In the money of the contract:

    θ = ψ / log(1/ε)                                                  ε the local accuracy, from 0 to 1
    time per iteration T(θ, f) = ψ/θ · cs/f + T_com,  energy E(θ, f) = ψ/θ · ζ cs f² + E_com
    server: Σ p_m (ω ln(T_max − T_m) − l R_m),        owner: R − E(θ, f)

The best menu makes every owner choose the item for its type (IC) and leaves none below zero (IR). With E_m = ζ cs
f_m²,

    R_1 = E_com + ψ/θ_1 · E_1,    R_m = R_{m−1} + ψ/θ_m · (E_m − E_{m−1}),    f_1 ≤ ... ≤ f_M
    Σ p_m R_m = E_com + ζ cs Σ g_m f_m² ≤ reward limit
    g_m = ψ p_m/θ_m + (ψ/θ_m − ψ/θ_{m+1}) Σ_{i>m} p_i

which leaves one equation for each f_m, given the multiplier of the limit. Types whose f would fall are pooled.

Mapping. ε is the metric of the round's model at the client, limited to 0.01..0.99, and everybody chooses the item
that is best for it, or none. The item's reward, times `worth`, is paid from outside. Nobody is eliminated, and who
declines is not paid. Ours: `worth`; that clients who decline go on; the reward limit is per client, as N cancels; the
frequency has no counterpart in a round. All constants are the authors'; they do not say which accuracies the types
have (here: evenly spaced from 0.2 to 0.92) nor the base of the logarithm: with 10 the server's profit is 496,355,
within 0.5 % of the published 498,730; with e it is 4 % below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray, IntArray
from commonweal.decision.mechanism import Fidelity, Mechanism, Parameter, RoundView, State
from commonweal.decision.mu_path import MuPath
from commonweal.decision.payments import paid
from commonweal.decision.readings import given
from commonweal.decision.transfers import Division
from commonweal.errors import InputError
from commonweal.records import Decision

_BISECTIONS = 45


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The authors' constants."""

    work: float = 100.0  # cs: 5 cycles per sample times 20 samples
    energy_factor: float = 2.0  # ζ
    type_factor: float = 15.0  # ψ
    satisfaction: float = 800.0  # ω
    reward_cost: float = 1.0  # l
    transmission_time: float = 10.0  # T_com
    transmission_energy: float = 20.0  # E_com
    time_limit: float = 600.0  # T_max


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """One item per type."""

    setting: Setting
    efforts: FloatArray  # ψ/θ, falling
    frequencies: FloatArray  # f
    rewards: FloatArray  # R

    @property
    def energies(self) -> FloatArray:
        """ζ cs f²: what one local iteration takes."""
        return np.asarray(self.setting.energy_factor * self.setting.work * self.frequencies**2)

    def utilities(self, effort: float) -> FloatArray:
        """What each item is worth to an owner with this ψ/θ."""
        return np.asarray(self.rewards - effort * self.energies - self.setting.transmission_energy)

    def server_profits(self) -> FloatArray:
        """ω ln(T_max − T) − l R of each item."""
        setting = self.setting
        times = self.efforts * setting.work / self.frequencies + setting.transmission_time
        return np.asarray(
            setting.satisfaction * np.log(setting.time_limit - times) - setting.reward_cost * self.rewards
        )


def efforts_of(accuracies: FloatArray, *, base: float = 10.0) -> FloatArray:
    """ψ/θ = log(1/ε): the local iterations that an owner needs."""
    return np.asarray(-np.log(accuracies) / math.log(base))


def pay_weights(efforts: FloatArray, probabilities: FloatArray) -> FloatArray:
    """g_m: by how much Σ p R grows with E_m."""
    above = probabilities[::-1].cumsum()[::-1] - probabilities
    return np.asarray(efforts * probabilities + (efforts - np.append(efforts[1:], 0.0)) * above)


def design(efforts: FloatArray, probabilities: FloatArray, reward_limit: float, setting: Setting) -> Contract:
    """The menu with the largest profit of the server whose mean reward is at most the limit."""
    weights = pay_weights(efforts, probabilities)
    scale = setting.energy_factor * setting.work

    def frequencies(price: float) -> FloatArray:
        return _ironed(efforts, probabilities, weights, price, setting)

    def mean_reward(price: float) -> float:
        return setting.transmission_energy + scale * float((weights * frequencies(price) ** 2).sum())

    least = setting.transmission_energy + scale * float(weights.sum()) * _slowest(efforts, setting) ** 2
    if reward_limit <= least:
        raise InputError(
            f"reward_limit must be above {least:.6g}, which is the mean reward of the cheapest contract, "
            f"got {reward_limit!r}."
        )
    low = high = setting.reward_cost
    if mean_reward(low) > reward_limit:
        while mean_reward(high) > reward_limit:
            low, high = high, 2 * high
        while high - low > 1e-10 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if mean_reward(middle) > reward_limit else (low, middle)
    chosen = frequencies(high)
    rises = np.diff(scale * chosen**2, prepend=0.0)
    return Contract(
        setting=setting,
        efforts=efforts,
        frequencies=chosen,
        rewards=setting.transmission_energy + (efforts * rises).cumsum(),
    )


def _slowest(efforts: FloatArray, setting: Setting) -> float:
    """The lowest frequency with which the first type, and so every type, is in time."""
    spare = setting.time_limit - setting.transmission_time
    return max(setting.work / setting.time_limit, float(efforts.max()) * setting.work / spare)


def _ironed(
    efforts: FloatArray, probabilities: FloatArray, weights: FloatArray, price: float, setting: Setting
) -> FloatArray:
    """f_m at a price of rewards, with adjacent types pooled until no f falls."""
    starts = np.arange(len(efforts))
    while True:
        pooled = _optima(efforts, probabilities, weights, starts, price, setting)
        rises = np.append(True, np.diff(pooled) >= 0)
        if rises.all():
            return np.repeat(pooled, np.diff(np.append(starts, len(efforts))))
        starts = starts[rises]


def _optima(
    efforts: FloatArray,
    probabilities: FloatArray,
    weights: FloatArray,
    starts: IntArray,
    price: float,
    setting: Setting,
) -> FloatArray:
    """The best common f of each group of types: Σ p ω a / (f (T f − a)) = 2 price ζ cs f Σ g, with a = ψ/θ · cs."""
    spare = setting.time_limit - setting.transmission_time
    needed = efforts * setting.work
    sizes = np.diff(np.append(starts, len(efforts)))
    falls = 2 * price * setting.energy_factor * setting.work * np.add.reduceat(weights, starts)
    low = np.maximum(np.maximum.reduceat(needed, starts) / spare, setting.work / setting.time_limit)

    def rises_at(f: FloatArray) -> FloatArray:
        each = np.repeat(f, sizes)
        with np.errstate(divide="ignore", over="ignore"):
            gains = probabilities * setting.satisfaction * needed / (each * (spare * each - needed))
        return np.asarray(np.add.reduceat(gains, starts) - falls * f)

    high = 2 * low
    while (rises_at(high) > 0).any():
        high = 2 * high
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        rises = rises_at(middle) > 0
        low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    return high


@lru_cache(maxsize=8)
def standard_contract(reward_limit: float) -> Contract:
    """The menu for ten equally likely types with accuracies from 0.2 to 0.92."""
    efforts = efforts_of(np.linspace(0.2, 0.92, 10))
    return design(efforts, np.full(10, 0.1), reward_limit, Setting())


def chosen_rewards(contract: Contract, accuracies: FloatArray) -> FloatArray:
    """The reward of the item that each owner chooses, the first of equally good ones; 0 if none is worth it."""
    limited = np.clip(np.nan_to_num(accuracies, nan=0.0), 0.01, 0.99)
    utilities = [contract.utilities(effort) for effort in efforts_of(limited).tolist()]
    rounding = 1e-9 * contract.setting.transmission_energy
    return np.array([contract.rewards[own.argmax()] if own.max() >= -rounding else 0.0 for own in utilities])


CONTRACT_PARAMETERS: Mapping[str, Parameter] = {
    "reward_limit": Parameter(
        default=100.0, minimum=0.0, maximum=1e6, meaning="mean reward per client, in the money of the contract"
    ),
    "worth": Parameter(
        default=0.001, minimum=0.0, maximum=1e6, meaning="of one unit of that money, in units of utility"
    ),
}


def rewards_in_utility(mechanism: Mechanism, view: RoundView) -> FloatArray:
    """What the contract pays each client, in units of utility."""
    contract = standard_contract(mechanism.parameter("reward_limit"))
    return chosen_rewards(contract, given(view.metrics)) * mechanism.parameter("worth")


class KangContract(Mechanism):
    """Everybody is paid by the item of the contract that suits its accuracy."""

    name: ClassVar[str] = "kang-contract"
    version: ClassVar[str] = "kang-contract/1"
    label: ClassVar[str] = "contract, Kang et al. 2019"
    fidelity: ClassVar[Fidelity] = "full"
    reads: ClassVar[frozenset[str]] = frozenset({"metric"})
    takes_external_money: ClassVar[bool] = True
    parameters: ClassVar[Mapping[str, Parameter]] = CONTRACT_PARAMETERS

    def check(self, *, has_costs: bool) -> None:
        super().check(has_costs=has_costs)
        standard_contract(self.parameter("reward_limit"))  # refuses a limit that no contract meets

    def divide(self, view: RoundView, state: State, retained: BoolArray) -> Division:
        return paid(view.profits[retained], rewards_in_utility(self, view)[retained])

    def explain(self, view: RoundView, state: State, decision: Decision, client: str, path: MuPath | None) -> str:
        reward = decision.transfers[client]
        paid_for = f"It is paid {reward:.6g}, by the item that suits its accuracy" if reward else "No item suits it"
        return f"{client} stays: the contract eliminates nobody. {paid_for}."
