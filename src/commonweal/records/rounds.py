"""The records of a decided round. All frozen; the code that creates them validates."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import Any, Literal

from commonweal.records.ending import Ending
from commonweal.records.gains import RoundGains
from commonweal.records.harm import HarmEvidence

ContributionRule = Literal["clip", "raw"]
LossRule = Literal["contribution", "equal", "cost", "loss"]
DEFAULT_MECHANISM = "paper"
RULES_VERSION = 2
"""The version that new rounds are decided by. 1: only sets with equal objectives tie. 2: ties within rounding."""

FILE_PREFIX = "file:"
"""Begins the name of a mechanism that is a user's own file: "file:my_mechanism.py"."""

FILE_VERSION_PREFIX = "file:sha256="
"""Begins its version in ledgers."""

SIMILARITY = "similarity:"
"""Begins the names of the columns of similarities among `Figures.further`; the name of a client follows."""

GAIN = "gain"
"""Names the gains that profits by agreed rates follow from among `Figures.further`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a round's decision needs: profit and contribution of each client that took part, in the same order."""

    profits: Mapping[str, float]  # utility − cost, in units of utility
    contributions: Mapping[str, float]  # as measured, before any rule
    costs: Mapping[str, float] | None = None  # only for the loss rule "cost"
    expected: Mapping[str, float] | None = None  # profits of the next round, which selection goes by; money never does
    profit_errors: Mapping[str, float] | None = None  # standard errors, where given; decisions do not use them
    contribution_errors: Mapping[str, float] | None = None
    further: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What else the mechanism reads, by the name of the figure: "utility", "metric" and "loss" (without the clients at
    which they cannot be measured), and "similarity:CLIENT", a column for each client. And "gain", which no mechanism
    reads: what profits follow from, by agreed rates."""

    @property
    def clients(self) -> tuple[str, ...]:
        return tuple(self.profits)

    def without(self, clients: Collection[str]) -> Figures:
        """The figures of all other clients."""
        return self.in_order([client for client in self.clients if client not in clients]) if clients else self

    def in_order(self, clients: Collection[str]) -> Figures:
        """The figures of these clients, in this order."""

        def ordered(values: Mapping[str, float]) -> dict[str, float]:
            return {client: values[client] for client in clients if client in values}

        given = {each.name: values for each in fields(self) if (values := getattr(self, each.name)) is not None}
        columns = {
            name: ordered(values)
            for name, values in given.pop("further").items()
            if not name.startswith(SIMILARITY) or name.removeprefix(SIMILARITY) in clients
        }
        return replace(self, **{name: ordered(values) for name, values in given.items()}, further=columns)

    def to_document(self) -> dict[str, Any]:
        """The figures in the types of JSON; `further` is left out if it is empty."""
        document = {each.name: getattr(self, each.name) for each in fields(self)}
        if not self.further:
            del document["further"]
        return document

    @property
    def selecting(self) -> Mapping[str, float]:
        """The profits that selection goes by: the expected ones, if there are any."""
        return self.profits if self.expected is None else self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismFile:
    """A user's own Python file that defines a mechanism."""

    path: Path
    sha256: str  # of its content, in hexadecimal

    @property
    def name(self) -> str:
        """As rules name it; where the file lies is nobody else's business."""
        return f"{FILE_PREFIX}{self.path.name}"

    @property
    def version(self) -> str:
        """As ledgers name it: by its content."""
        return f"{FILE_VERSION_PREFIX}{self.sha256}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a round is decided, apart from its figures: the mechanism and its settings."""

    mu: float  # leniency: 0 = least lenient, infinity = nobody is ever eliminated
    contribution_rule: ContributionRule = "clip"
    loss_rule: LossRule = "contribution"
    liability_cap: float | None = None  # the most that a client can be made to pay per round, in units of utility
    mechanism: str = DEFAULT_MECHANISM  # a name in the registry of mechanisms
    parameters: tuple[tuple[str, float], ...] = ()  # the mechanism's own parameters, by name
    version: int = RULES_VERSION  # how ties are decided; rounds that were decided before keep theirs
    seed: int | None = None  # of a mechanism that draws lots
    file: MechanismFile | None = field(default=None, compare=False)  # of a user's own mechanism; not in documents

    @property
    def in_words(self) -> str:
        """ "mu = 0.05", or another mechanism than the default with its own parameters: "fli, omega = 1"."""
        if self.mechanism == DEFAULT_MECHANISM:
            return f"mu = {self.mu:g}"
        return ", ".join([self.mechanism, *(f"{name} = {value:g}" for name, value in self.parameters)])

    def parameter(self, name: str) -> float:
        return dict(self.parameters)[name]

    def to_document(self) -> dict[str, Any]:
        """The rules in the types of JSON; an infinite mu is "inf". The default mechanism is not named.

        The version is not part of it: documents state it beside the rules, or are of a time when there was only one.
        """
        document: dict[str, Any] = {
            "mu": float(self.mu) if math.isfinite(self.mu) else "inf",
            "contribution_rule": self.contribution_rule,
            "loss_rule": self.loss_rule,
            "liability_cap": None if self.liability_cap is None else float(self.liability_cap),
        }
        if self.mechanism != DEFAULT_MECHANISM:
            document |= {"mechanism": self.mechanism, "parameters": dict(self.parameters)}
        if self.seed is not None:
            document["seed"] = self.seed
        return document

    @classmethod
    def from_document(cls, document: Mapping[str, Any], *, version: int = 1) -> Rules:
        """The rules that `to_document` wrote."""
        parameters = tuple((name, float(value)) for name, value in document.get("parameters", {}).items())
        return cls(**{**document, "mu": float(document["mu"]), "parameters": parameters, "version": version})


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Decision:
    """Who stays after a round, and who pays whom. Amounts are in units of utility.

    `shares`, `payoffs` and `transfers` cover only the retained clients. Eliminated clients bear their own loss and
    neither pay nor receive, unless the mechanism charges them. Σ transfers + Σ charges + external = 0.
    """

    figures: Figures
    rules: Rules
    used_contributions: Mapping[str, float]  # after the contribution rule
    retained: tuple[str, ...]
    eliminated: tuple[str, ...]
    objective: float  # Σ profit that selection goes by of the retained − μ Q(E)/Q(retained)
    budget: float  # Σ profit of the retained
    shares: Mapping[str, float]
    payoffs: Mapping[str, float]
    transfers: Mapping[str, float]
    proven_gap: float = 0.0  # no set scores more than objective + this
    node_count: int = 0
    limit_reached: bool = False  # the solver's node limit
    grace: bool = False  # nobody can be eliminated in this round
    harmful: tuple[str, ...] = ()  # of the eliminated: whatever their profit, before the mechanism selected
    finished: bool = False  # the federation ends with this round, and nobody is eliminated for a loss
    external: float = 0.0  # what the outside receives (+) or pays in (−)
    charges: Mapping[str, float] = field(default_factory=dict)  # transfers of eliminated clients, where they are not 0

    def __repr__(self) -> str:
        by = "at" if self.rules.mechanism == DEFAULT_MECHANISM else "by"
        transfers = ", ".join(f"{client} {amount:+.6g}" for client, amount in self.transfers.items() if amount)
        return (
            f"<Decision {by} {self.rules.in_words}: retained {', '.join(self.retained) or 'nobody'}; "
            f"eliminated {', '.join(self.eliminated) or 'nobody'}; budget {self.budget:.6g}; "
            f"transfers {transfers or 'none'}>"
        )

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        head = "".join(f"<th>{column}</th>" for column in ("client", "decision", "profit", "transfer", "payoff"))
        rows = "".join(
            f"<tr><td>{escape(client)}</td><td>{'retained' if client in self.transfers else 'eliminated'}</td>"
            + "".join(
                f"<td>{'' if amount is None else f'{amount:.6g}'}</td>"
                for amount in (profit, self.transfers.get(client), self.payoffs.get(client))
            )
            + "</tr>"
            for client, profit in self.figures.profits.items()
        )
        return (
            f"<table><caption>{escape(self.rules.in_words)}, budget {self.budget:.6g}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        )

    @property
    def mu(self) -> float:
        return self.rules.mu

    @property
    def spares_losses(self) -> bool:
        """Whether nobody is eliminated for a loss: in a grace round, and when the federation is finished."""
        return self.grace or self.finished

    @property
    def takes_external_money(self) -> bool:
        """Whether the outside pays or receives something, or a client that was eliminated."""
        return bool(self.external or self.charges)

    @property
    def all_transfers(self) -> dict[str, float]:
        """What each client receives (+) or pays (−): those retained, and those eliminated who are charged."""
        return {**self.transfers, **self.charges}

    @property
    def received(self) -> tuple[float, ...]:
        """Every amount that somebody receives (+) or pays (−), the outside included."""
        return (*self.all_transfers.values(), self.external)

    @property
    def without_harmful(self) -> Decision:
        """The decision on all other clients, which is the mechanism's own."""
        if not self.harmful:
            return self
        figures = self.figures.without(self.harmful)
        return replace(
            self,
            figures=figures,
            used_contributions={client: self.used_contributions[client] for client in figures.clients},
            eliminated=tuple(client for client in self.eliminated if client not in self.harmful),
            harmful=(),
        )

    @property
    def candidates(self) -> tuple[str, ...]:
        """The loss-makers, by the profits that selection goes by: clients that could have been eliminated."""
        return tuple(client for client, profit in self.figures.selecting.items() if profit < 0)

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
class Instructions:
    """What a mechanism decides about the next round apart from who is in it; by default everybody does everything."""

    participants: tuple[str, ...] | None = None  # who is asked to take part; the others rest. None: everybody
    data_shares: Mapping[str, float] = field(default_factory=dict)  # of its new samples that a client uses, 0 to 1
    iteration_limit: int | None = None  # of the round; None: that of the scenario
    model_shares: Mapping[str, float] = field(default_factory=dict)  # quality of the model that a client is to get

    def asked(self, active: Sequence[str]) -> list[str]:
        """Who of the active clients is asked to take part; everybody, if no participant is active any more."""
        if self.participants is None:
            return list(active)
        return [client for client in active if client in self.participants] or list(active)

    def to_document(self) -> dict[str, Any]:
        """What is instructed, in the types of JSON."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in given.items() if value is not None and value != {}}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Instructions:
        """The instructions that `to_document` wrote."""
        participants = document.get("participants")
        return cls(**{**document, "participants": None if participants is None else tuple(participants)})


@dataclass(frozen=True, slots=True, kw_only=True)
class MuRange:
    """An interval of μ between exact bounds; `in` compares with those.

    `lower` and `upper` are the nearest doubles, and `includes_lower` and `includes_upper` tell whether these doubles
    lie in the interval. Together the four say exactly which doubles do.
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
        """In six digits; brackets say whether the rounded ends, as written, belong to the range."""
        if self.exact_lower == self.exact_upper:
            return f"{self.lower:.6g} only"
        low, high = f"{self.lower:.6g}", f"{self.upper:.6g}"
        if low == high and float(low) in self:
            return f"{low} only"
        if not math.isinf(self.upper):
            return f"{'[' if float(low) in self else '('}{low}, {high}{']' if float(high) in self else ')'}"
        if self.exact_lower == 0 and self.closed_below:
            return "any"
        finite = "" if self.closed_above else " (finite)"
        return f"{'>=' if float(low) in self else '>'} {low}{finite}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """In how many draws of the round's figures a client has the same fate as in the decision."""

    same_count: int
    draw_count: int

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.same_count / self.draw_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """How sure a client's figures and its fate are."""

    profit_error: float | None = None  # standard errors; None: not known
    contribution_error: float | None = None
    stability: Stability | None = None  # None: not known, because the errors of profits are not
    expected_error: float | None = None  # of the profit that is expected of the next round; not in ledgers


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRecord:
    """One decided round of a federation."""

    round_number: int
    decision: Decision
    absent: tuple[str, ...] = ()  # active, but without figures in this round
    silent: tuple[str, ...] = ()  # of the absent: they had the round's model, and did not report
    excluded: tuple[str, ...] = ()  # of the silent: it was once too often, and their membership ends
    withdrawn: tuple[str, ...] = ()  # took part, and leave of their own accord after it
    harm: tuple[HarmEvidence, ...] = ()  # against clients that are harmful, whether they are eliminated for it or not
    ending: Ending | None = None  # the federation is finished, whether it ends for it or not
    ending_stability: Stability | None = None  # in how many draws it would have been finished as well; None: not known
    evidence: Mapping[str, Evidence] = field(default_factory=dict)  # of clients whose errors are known
    gains: RoundGains | None = None  # that the profits follow from; None: the profits are as measured
    resting: tuple[str, ...] = ()  # active, but the mechanism did not ask them to take part
    instructions: Instructions = Instructions()  # for the next round

    def stability_of(self, client: str) -> Stability | None:
        """The stability of the client's fate; None: not known."""
        return self.evidence[client].stability if client in self.evidence else None

    @property
    def draw_count(self) -> int | None:
        """How many draws the stability of its fates is a share of; None: it is not known."""
        known = (one.stability for one in self.evidence.values() if one.stability is not None)
        return next((one.draw_count for one in known), None)

    @property
    def left(self) -> tuple[str, ...]:
        """Who is no longer active in the next round: eliminated, withdrawn or excluded."""
        return (*self.decision.eliminated, *self.withdrawn, *self.excluded)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The rounds of a federation in order, and all clients that were ever in it."""

    clients: tuple[str, ...]
    rounds: tuple[RoundRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionMap:
    """Who is retained at which μ in one round, for plotting."""

    title: str
    clients: tuple[str, ...]
    pieces: tuple[tuple[MuRange, tuple[str, ...]], ...]  # ranges of μ from 0 to infinity, with the clients retained
    breakpoints: tuple[float, ...]
    mu: float | None  # the μ of the decision
