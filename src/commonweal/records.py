"""The nouns that travel from one room to the next. All frozen; the rooms that make them validate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
    """An interval of μ between exact bounds; `in` compares with those.

    `lower` and `upper` are the nearest doubles, and `includes_lower`, `includes_upper` tell whether these doubles lie
    in the interval: so the four together say exactly which doubles do.
    """

    exact_lower: Fraction | float
    exact_upper: Fraction | float
    closed_below: bool  # whether the exact bound itself belongs to it
    closed_above: bool

    @property
    def lower(self) -> float:
        return float(self.exact_lower)

    @property
    def upper(self) -> float:
        return float(self.exact_upper)

    @property
    def includes_lower(self) -> bool:
        return self.lower in self

    @property
    def includes_upper(self) -> bool:
        return self.upper in self

    def __contains__(self, mu: float | Fraction) -> bool:
        above = mu > self.exact_lower or (self.closed_below and mu == self.exact_lower)
        below = mu < self.exact_upper or (self.closed_above and mu == self.exact_upper)
        return above and below

    def __iter__(self) -> Iterator[float]:
        """`lower, upper = range_` works."""
        return iter((self.lower, self.upper))

    def __str__(self) -> str:
        """In six digits; whether an end is included is told of the digits shown, so that they are true as written."""
        if self.exact_lower == self.exact_upper:
            return f"{self.lower:.6g} only"
        low, high = f"{self.lower:.6g}", f"{self.upper:.6g}"
        if not math.isinf(self.upper):
            return f"{'[' if float(low) in self else '('}{low}, {high}{']' if float(high) in self else ')'}"
        if self.exact_lower == 0 and self.closed_below:
            return "any"
        finite = "" if self.closed_above else " (finite)"
        return f"{'>=' if float(low) in self else '>'} {low}{finite}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRecord:
    """One decided round of a federation."""

    round_number: int
    decision: Decision
    absent: tuple[str, ...] = ()  # active, but without figures in this round
    withdrawn: tuple[str, ...] = ()  # took part, and leave after it of their own accord

    @property
    def departed(self) -> tuple[str, ...]:
        """Who is not active in the next round."""
        return (*self.decision.eliminated, *self.withdrawn)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure with its standard error."""

    value: float
    standard_error: float | None  # None: not known; 0.0: exact, or no validation sample spoke against it


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something a reader of a round should know, such as a pool that ran dry."""

    kind: str  # e.g. "pool-dry"; kinds are listed in docs/reference/history-json.md
    client: str | None
    text: str  # one sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRound:
    """One client's round in figures. Amounts are in units of utility."""

    sample_count: int  # declared as new this round
    training_count: int  # held by now
    validation_count: int  # held by now
    step_count: int | None  # mini-batches it trained on in the round; None: kept private
    accuracy: Estimate  # of the round's model on its validation samples
    previous_accuracy: float  # the one its utility is measured from
    utility: Estimate | None  # None: kept private, as the cost
    cost: float | None
    profit: Estimate
    contribution: Estimate  # as measured, before any rule
    share: Estimate | None  # this and the next two: None if it was eliminated
    payoff: Estimate | None
    transfer: Estimate | None
    sentence: str  # why it stays or leaves, and for which μ it (would have) stayed
    stays_for_mu: tuple[MuRange, ...] | None  # None: a round of grace, or its μ path was too long to follow


@dataclass(frozen=True, slots=True, kw_only=True)
class ChronicleRound:
    """One round with all that a reader is shown."""

    record: RoundRecord
    clients: Mapping[str, ClientRound]  # those that took part
    budget: Estimate
    iteration_accuracies: tuple[Mapping[str, float], ...]  # incoming model first, then after each iteration
    coalition_values: tuple[tuple[tuple[str, ...], Estimate], ...]  # v(S) of all coalitions that were evaluated
    events: tuple[Event, ...]
    decision_map: DecisionMap | None  # None as for stays_for_mu

    @property
    def number(self) -> int:
        return self.record.round_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Chronicle:
    """A federation's history with all that a reader is shown: what history.json and the report are made from."""

    name: str
    description: str
    sentence: str  # the outcome in one sentence
    settings: Mapping[str, str]  # what was run, for people: seed, model, algorithm, ...
    scenario: Mapping[str, object]  # the whole scenario, for programs
    rules: Rules
    clients: tuple[str, ...]  # all that ever were members
    client_facts: Mapping[str, Mapping[str, str]]  # for people: source, samples a round, costs, defect
    declared: tuple[str, ...]  # figures that are the clients' own word; all others were measured or follow
    round_count: int  # planned; fewer rounds were held if at most one client was left
    rounds: tuple[ChronicleRound, ...]
    tsw: tuple[Estimate, ...]  # after each round held
    tsfi: tuple[Estimate, ...]
    tsfi_final_set: tuple[Estimate, ...]
    durations: Mapping[str, int]
    eliminated_after: Mapping[str, int | None]  # the round; None: never
    withdrawn_after: Mapping[str, int]  # of those who left of their own accord
    total_payoffs: Mapping[str, Estimate]
    total_transfers: Mapping[str, Estimate]
    warnings: tuple[str, ...]  # sentences: rationality failed, node limit reached, ...

    @property
    def departed_after(self) -> dict[str, int]:
        """The last round of everybody who left, let go or withdrawn."""
        eliminated = {client: after for client, after in self.eliminated_after.items() if after is not None}
        return eliminated | dict(self.withdrawn_after)

    @property
    def payments(self) -> tuple[tuple[int, str, str, float], ...]:
        """Who paid whom how much: (round, payer, receiver, amount), each payer serving receivers in proportion."""
        flows: list[tuple[int, str, str, float]] = []
        for held in self.rounds:
            transfers = held.record.decision.transfers
            received = math.fsum(amount for amount in transfers.values() if amount > 0)
            for payer, paid in transfers.items():
                for receiver, amount in transfers.items():
                    if paid < 0 < amount:
                        flows.append((held.number, payer, receiver, -paid * amount / received))
        return tuple(flows)
