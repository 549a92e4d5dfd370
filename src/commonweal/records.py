"""The nouns that travel from one room to the next. All frozen; the rooms that make them validate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

ContributionRule = Literal["clip", "raw"]
LossRule = Literal["contribution", "equal", "cost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a round's decision needs: profit and contribution of each client that took part, in one order."""

    profits: Mapping[str, float]  # utility − cost, in units of utility
    contributions: Mapping[str, float]  # as measured, before any rule
    costs: Mapping[str, float] | None = None  # only for the loss rule "cost"

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(self.profits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a round is decided, apart from its figures."""

    mu: float  # leniency: 0 = least lenient, infinity = nobody is ever eliminated
    contribution_rule: ContributionRule = "clip"
    loss_rule: LossRule = "contribution"
    liability_cap: float | None = None  # the most a client can be made to pay in a round, in units of utility


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Who stays after a round, and who pays whom. Amounts are in units of utility.

    `shares`, `payoffs` and `transfers` are of the retained clients: the eliminated bear their own loss and
    neither pay nor receive.
    """

    figures: Figures
    rules: Rules
    used_contributions: Mapping[str, float]  # after the contribution rule
    retained: tuple[str, ...]
    eliminated: tuple[str, ...]
    objective: float  # Σ profit of the retained − μ Q(E)/Q(retained)
    budget: float  # Σ profit of the retained
    shares: Mapping[str, float]
    payoffs: Mapping[str, float]
    transfers: Mapping[str, float]
    proven_gap: float = 0.0  # no set scores more than objective + this
    node_count: int = 0
    limit_reached: bool = False  # the solver's node limit
    grace: bool = False  # a round in which nobody may be eliminated

    @property
    def mu(self) -> float:
        return self.rules.mu

    @property
    def candidates(self) -> tuple[str, ...]:
        """The loss-makers: clients that could have been eliminated."""
        return tuple(client for client, profit in self.figures.profits.items() if profit < 0)

    @property
    def rounding(self) -> float:
        """Amounts up to this are rounding: 1e-12 of the round's sum of absolute profits."""
        return 1e-12 * math.fsum(map(abs, self.figures.profits.values()))

    @property
    def irrational(self) -> dict[str, float]:
        """Retained clients whose payoff is negative, and by how much: where individual rationality fails."""
        rounding = self.rounding
        return {client: -payoff for client, payoff in self.payoffs.items() if payoff < -rounding}


@dataclass(frozen=True, slots=True, kw_only=True)
class MuRange:
    """An interval of μ. `lower` and `upper` are the nearest doubles of exact bounds, which `in` compares with."""

    lower: float
    upper: float
    includes_lower: bool
    includes_upper: bool
    exact_lower: Fraction | float = field(repr=False)
    exact_upper: Fraction | float = field(repr=False)

    @classmethod
    def between(
        cls,
        lower: Fraction | float,
        upper: Fraction | float,
        *,
        includes_lower: bool,
        includes_upper: bool,
    ) -> MuRange:
        return cls(
            lower=float(lower),
            upper=float(upper),
            includes_lower=includes_lower,
            includes_upper=includes_upper,
            exact_lower=lower,
            exact_upper=upper,
        )

    def __contains__(self, mu: float | Fraction) -> bool:
        above = mu > self.exact_lower or (self.includes_lower and mu == self.exact_lower)
        below = mu < self.exact_upper or (self.includes_upper and mu == self.exact_upper)
        return above and below

    def __iter__(self):  # type: ignore[no-untyped-def]  # so that `lower, upper = range_` works
        return iter((self.lower, self.upper))

    def __str__(self) -> str:
        if self.lower == self.upper:
            return "inf only" if math.isinf(self.lower) else f"{self.lower:.6g} only"
        if math.isinf(self.upper):
            if self.exact_lower == 0 and self.includes_lower:
                return "any"
            comparison = ">=" if self.includes_lower else ">"
            tail = "" if self.includes_upper else " (finite)"
            return f"{comparison} {self.lower:.6g}{tail}"
        left, right = "[("[not self.includes_lower], "])"[not self.includes_upper]
        return f"{left}{self.lower:.6g}, {self.upper:.6g}{right}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRecord:
    """One decided round of a federation."""

    round_number: int
    decision: Decision
    absent: tuple[str, ...] = ()  # active, but without figures in this round


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The rounds of a federation in order, and all clients that ever were in it."""

    clients: tuple[str, ...]
    rounds: tuple[RoundRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionMap:
    """Who stays at which μ in one round, for drawing."""

    title: str
    clients: tuple[str, ...]
    pieces: tuple[tuple[MuRange, tuple[str, ...]], ...]  # ranges of μ from 0 to infinity, with the retained
    breakpoints: tuple[float, ...]
    mu: float | None  # the μ that was decided at
