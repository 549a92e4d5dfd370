"""The records of an audit: what lies would gain under a mechanism. All frozen; amounts are in units of utility."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from commonweal.records.study import Interval

LieKind = Literal["report", "training"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LieResult:
    """What one lie gains, over all its cases: a liar, or two of them together, in a round or in a whole run."""

    name: str
    title: str
    kind: LieKind
    liar_count: int  # 1, or 2 that collude; gains are of both together
    case_count: int
    round_count: int  # in which it was tried
    gain: Interval  # mean true payoff with the lie − true payoff without it, per round
    relative_gain: Interval | None  # Σ gain / Σ |true payoff|; None if nobody is paid anything
    pays_share: float  # of the cases in which it gains more than rounding
    loses_place_share: float  # of the cases in which it costs a place
    wins_place_share: float  # of the cases in which it keeps a place that the truth would cost
    client_gains: Mapping[str, float]  # mean by client, per round; of pairs, half of what both gain


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTried:
    """A lie that cannot be told here, and why."""

    name: str
    title: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a mechanism does to the rounds, in means per round."""

    money_moved: float
    eliminated_count: float
    welfare: float  # Σ true profit of the retained clients


@dataclass(frozen=True, slots=True, kw_only=True)
class Unravelling:
    """Where repeated best replies of everybody end, compared with the truth."""

    round_count: int
    settled_share: float  # of the rounds in which replies came to an end; in the others they went round in circles
    sweep_count: float  # mean; in a sweep each client replies once
    truth: State
    end: State
    everybody_welfare: float  # if nobody were eliminated
    stays_share: Mapping[str, tuple[float, float]]  # by client: of its rounds, with the truth and at the end

    @property
    def money_ratio(self) -> float | None:
        """The money moved at the end, as a share of that with the truth; None if none is moved with the truth."""
        return self.end.money_moved / self.truth.money_moved if self.truth.money_moved else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """What a unit of utility is worth."""

    currency: str
    worth: float  # of one unit of utility
    minor_digits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """What lying pays under a mechanism, on the rounds of a federation."""

    source: str  # a file or a scenario
    mechanism: str  # its name
    mechanism_text: str  # with its source, fidelity and settings
    fidelity: str | None
    mu: float | None  # None for mechanisms without it
    clients: tuple[str, ...]
    round_count: int
    replication_count: int | None  # None: not a scenario
    bounds: tuple[float, float]  # lowest and highest profit that clients may report
    shift: float  # of the lies "less" and "more"
    mean_payoff: float  # with the truth, per client and round
    lies: tuple[LieResult, ...]
    not_tried: tuple[NotTried, ...]
    unravelling: Unravelling | None  # None: the mechanism reads no profits
    notes: tuple[str, ...]
    money: Money | None = None
    rates: str | None = None  # in words, where profits follow from agreed rates

    def lie(self, name: str, liar_count: int = 1) -> LieResult | None:
        """The result of one lie; None if it was not tried."""
        found = (one for one in self.lies if one.name == name and one.liar_count == liar_count)
        return next(found, None)
