"""Zhang, Ma and Chen (2022), "Enabling Long-Term Cooperation in Cross-Silo Federated Learning": a reconstruction.

Known from the abstract: in the stage game each client chooses how much of its data takes part; in equilibrium there
are free riders, at most one client that takes part with some of its data, and contributors of everything. In the
repeated game a cooperative profile with fewer free riders and more data is enforced by punishment. No money changes
hands.

Not known: the authors' functions, punishment, algorithms and settings. In their place, with x_n ≤ D_n samples of
client n and X = Σ x:

    u_n = v_n A(X) − c_n x_n,    A(X) = ln(1 + X / sample_unit)                stage payoff, in units of utility
    equilibrium: by rising c_n / v_n, all of D_n while v_n A'(X + D_n) ≥ c_n; then A'^{−1}(c_n / v_n) − X; then 0
    grim trigger: x is sustained if u_n(x) ≥ (1 − δ) max_y u_n(y, x_{−n}) + δ u_n(equilibrium) for all n

`sustained` looks for the sustained profile with the largest X: given X, each client has a largest x_n that it would
still rather provide than deviate, and the largest X that these reach is the answer, to a hundredth of each D_n. For
δ > 0, whoever values the model then contributes something, so this X also has the fewest free riders.

Mapping. A round with X samples gives v_n = utility / A(X), c_n = cost / x_n and D_n = x_n / share, from the last
round in which the client used data. The next round's shares x_n / D_n are those of the sustained profile; once a
client has declared less than half of what was agreed (by its D_n before), those of the equilibrium, for ever. δ is
`discount`. Nobody is eliminated, and free riders get the model. Once nobody uses data, it stays so: there is no new
gain to value data by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from commonweal.decision.exact import BoolArray, FloatArray
from commonweal.decision.mechanism import Fidelity, Mechanism, Parameter, RoundView, State
from commonweal.decision.mu_path import MuPath
from commonweal.decision.payments import without_money
from commonweal.decision.readings import given, sample_counts
from commonweal.decision.transfers import Division
from commonweal.records import Decision, Instructions

_LEVELS = 101  # shares of D_n
_TOTALS = 101  # values of X
_ROUNDING = 1e-9  # of payoffs
_TOLERATED = 0.5  # part of the agreed samples; fewer are a deviation, not chance


@dataclass(frozen=True, slots=True, kw_only=True)
class StageGame:
    """One process of federated learning, and what data are worth and cost in it."""

    values: FloatArray  # v, of a unit of A
    unit_costs: FloatArray  # c, per sample
    limits: FloatArray  # D, samples
    sample_unit: float

    def benefit(self, total: FloatArray | float) -> FloatArray:
        """A(X)."""
        return np.asarray(np.log1p(np.asarray(total) / self.sample_unit))

    def payoffs(self, amounts: FloatArray) -> FloatArray:
        """u_n(x)."""
        return np.asarray(self.values * self.benefit(amounts.sum()) - self.unit_costs * amounts)

    def best_payoffs(self, others: FloatArray) -> FloatArray:
        """max_y u_n(y, x_{−n}), given the sum of the others' data."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            wanted = np.where(self.unit_costs > 0, self.values / self.unit_costs - self.sample_unit, np.inf)
        own = np.where(self.values > 0, np.clip(wanted - others, 0.0, self.limits), 0.0)
        return np.asarray(self.values * self.benefit(others + own) - self.unit_costs * own)


def equilibrium(game: StageGame) -> FloatArray:
    """The data of each client in the unique equilibrium of the stage game."""
    amounts, total = np.zeros(len(game.values)), 0.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratios = np.where(game.values > 0, game.unit_costs / game.values, np.inf)
    for n in np.argsort(ratios, kind="stable").tolist():
        if ratios[n] == np.inf:
            break
        wanted = np.inf if ratios[n] == 0 else 1 / ratios[n] - game.sample_unit  # the X at which v A'(X) = c
        amounts[n] = min(max(wanted - total, 0.0), game.limits[n])
        total += amounts[n]
    return amounts


def incentives(game: StageGame, amounts: FloatArray, discount: float) -> FloatArray:
    """What keeping to the profile gains each client over deviating once and the equilibrium ever after."""
    deviation = game.best_payoffs(amounts.sum() - amounts)
    return np.asarray(game.payoffs(amounts) - (1 - discount) * deviation - discount * game.payoffs(equilibrium(game)))


def sustained(game: StageGame, discount: float) -> FloatArray:
    """The profile with the largest X that a grim trigger sustains; the equilibrium if there is no larger one."""
    alone = equilibrium(game)
    totals = np.linspace(game.limits.sum(), alone.sum(), _TOTALS)
    found = _first_sustained(game, discount, alone, totals)
    if found is None:
        return alone
    amounts, position = found
    if position > 0:  # look again, closer, between the last X that was too large and this one
        closer = np.linspace(totals[position - 1], totals[position], _TOTALS // 4)[1:]
        amounts, _ = _first_sustained(game, discount, alone, closer) or found
    return amounts


def _first_sustained(
    game: StageGame, discount: float, alone: FloatArray, totals: FloatArray
) -> tuple[FloatArray, int] | None:
    """A sustained profile with the first of these X that has one, and its position."""
    punished = discount * game.payoffs(alone)
    levels = np.linspace(0.0, 1.0, _LEVELS)[:, np.newaxis] * game.limits
    size = _ROUNDING * (np.abs(game.values).sum() * game.benefit(game.limits.sum()) + game.unit_costs @ game.limits)
    for position, total in enumerate(totals.tolist()):
        kept = game.values * game.benefit(total) - game.unit_costs * levels
        stays = kept - (1 - discount) * game.best_payoffs(np.maximum(total - levels, 0.0)) - punished >= -size
        if not stays.any(axis=0).all():
            continue
        least, most = (level / (_LEVELS - 1) * game.limits for level in _highest_run(stays))
        if least.sum() <= total <= most.sum():
            spread = most.sum() - least.sum()
            part = (total - least.sum()) / spread if spread > 0 else 0.0
            return least + (most - least) * part, position
    return None


def _highest_run(stays: BoolArray) -> tuple[FloatArray, FloatArray]:
    """First and last level of the highest run of acceptable levels, of each client (column)."""
    count = len(stays)
    most = count - 1 - np.argmax(stays[::-1], axis=0)
    refused_below = np.where(~stays & (np.arange(count)[:, np.newaxis] < most), np.arange(count)[:, np.newaxis], -1)
    return np.asarray(refused_below.max(axis=0) + 1, float), np.asarray(most, float)


class Zhang(Mechanism):
    """Clients keep to agreed amounts of data, for fear of everybody doing what is best for itself alone."""

    name: ClassVar[str] = "zhang"
    version: ClassVar[str] = "zhang/1"
    label: ClassVar[str] = "Zhang et al. 2022"
    fidelity: ClassVar[Fidelity] = "reconstruction"
    reads: ClassVar[frozenset[str]] = frozenset({"utility", "cost", "sample_count"})
    decides: ClassVar[frozenset[str]] = frozenset({"data"})
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "discount": Parameter(default=0.9, minimum=0.0, maximum=1.0, meaning="δ, weight of later rounds"),
        "sample_unit": Parameter(default=100.0, minimum=1e-6, maximum=1e9, meaning="samples, in A(X)"),
    }

    def divide(self, view: RoundView, state: State, retained: BoolArray) -> Division:
        return without_money(view.profits[retained])

    def advance(self, view: RoundView, state: State, decision: Decision) -> State:
        counts, agreed = sample_counts(self.name, view), state.get("agreed", {})
        is_punished = bool(state.get("is_punished", False)) or any(
            count < _TOLERATED * agreed.get(client, 0.0) for client, count in zip(view.clients, counts, strict=True)
        )
        players = self._players(view, counts, state)
        if not players:
            return {**state, "is_punished": is_punished}
        values, unit_costs, limits = np.array(list(players.values())).T
        game = StageGame(values=values, unit_costs=unit_costs, limits=limits, sample_unit=self.parameter("sample_unit"))
        amounts = equilibrium(game) if is_punished else sustained(game, self.parameter("discount"))
        return {
            "is_punished": is_punished,
            "players": players,
            "agreed": dict(zip(players, amounts.tolist(), strict=True)),
        }

    def plan(self, view: RoundView, state: State, active: tuple[str, ...]) -> Instructions:
        players, agreed = state.get("players", {}), state.get("agreed", {})
        shares = {client: agreed[client] / players[client][2] for client in active if client in agreed}
        return Instructions(data_shares={client: min(share, 1.0) for client, share in shares.items()})

    def explain(self, view: RoundView, state: State, decision: Decision, client: str, path: MuPath | None) -> str:
        after = self.advance(view, state, decision)
        agreed = after.get("agreed", {}).get(client)
        next_time = "" if agreed is None else f" Of its samples, {agreed:.0f} are agreed on for the next round."
        return f"{client} stays: nobody is eliminated, and nobody pays.{next_time}"

    def _players(self, view: RoundView, counts: FloatArray, state: State) -> dict[str, tuple[float, float, float]]:
        """v, c and D of each client that has used data in this round or an earlier one."""
        known, agreed = state.get("players", {}), state.get("agreed", {})
        benefit = np.log1p(counts.sum() / self.parameter("sample_unit"))
        players = {}
        for client, count, cost, utility in zip(
            view.clients, counts.tolist(), given(view.costs).tolist(), given(view.utilities).tolist(), strict=True
        ):
            value, unit_cost, limit = known.get(client, (0.0, 0.0, 0.0))
            share = agreed[client] / limit if limit else 1.0
            if count > 0 and share > 0:
                unit_cost, limit = cost / count, count / share
            if limit > 0:
                players[client] = (utility / float(benefit) if benefit > 0 else value, unit_cost, limit)
        return players
