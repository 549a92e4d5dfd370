"""The records of a comparison: every mechanism on the same federation. All frozen; amounts are in units of utility."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from commonweal.records.audit import LieResult
from commonweal.records.study import Interval

Unit = Literal["share", "correlation", "amount", "count"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A figure that is measured of each mechanism in each replication."""

    name: str
    title: str
    meaning: str
    unit: Unit
    group: str  # the column of the paper's table that it belongs to, or another heading
    lower: float = -math.inf  # no value lies below or above these
    upper: float = math.inf


COLUMNS: tuple[Column, ...] = (
    Column(
        name="selection",
        title="rounds with a selection",
        meaning="share of the rounds in which the mechanism eliminates a client or lets one rest",
        unit="share",
        group="NS",
        lower=0.0,
        upper=1.0,
    ),
    Column(
        name="fairness",
        title="payoff with contribution",
        meaning="correlation over clients of total payoff with total contribution, of all who took part",
        unit="correlation",
        group="fairness",
        lower=-1.0,
        upper=1.0,
    ),
    Column(
        name="deviation",
        title="largest deviation",
        meaning="the largest difference between a client's share of all payoffs and its share of all contributions",
        unit="share",
        group="fairness",
        lower=0.0,
        upper=2.0,
    ),
    Column(
        name="round_fairness",
        title="payoff with contribution, in a round",
        meaning="the same correlation over the clients retained in a round, as a mean over rounds",
        unit="correlation",
        group="fairness",
        lower=-1.0,
        upper=1.0,
    ),
    Column(
        name="round_deviation",
        title="largest deviation, in a round",
        meaning="the same deviation over the clients retained in a round, as a mean over rounds",
        unit="share",
        group="fairness",
        lower=0.0,
        upper=2.0,
    ),
    Column(
        name="rational_rounds",
        title="payoffs of at least 0 in a round",
        meaning="share of the payoffs of all who took part in a round that are not negative",
        unit="share",
        group="IR",
        lower=0.0,
        upper=1.0,
    ),
    Column(
        name="rational_clients",
        title="clients with at least 0 in the end",
        meaning="share of all clients that took part whose payoffs over the whole federation sum to at least 0",
        unit="share",
        group="IR",
        lower=0.0,
        upper=1.0,
    ),
    Column(
        name="truly_rational_clients",
        title="the same in true figures",
        meaning="share of all clients that took part whose true profits and transfers sum to at least 0",
        unit="share",
        group="IR",
        lower=0.0,
        upper=1.0,
    ),
    Column(
        name="balanced_rounds",
        title="strictly balanced rounds",
        meaning="share of the rounds in which no money comes from outside or goes there",
        unit="share",
        group="BB",
        lower=0.0,
        upper=1.0,
    ),
    Column(
        name="funded_rounds",
        title="weakly balanced rounds",
        meaning="share of the rounds in which the outside pays nothing in",
        unit="share",
        group="BB",
        lower=0.0,
        upper=1.0,
    ),
    Column(
        name="external",
        title="money to the outside",
        meaning="what the outside receives in all rounds; negative: what it pays in",
        unit="amount",
        group="BB",
    ),
    Column(
        name="heterogeneity",
        title="holds on different data",
        meaning="share of the replications in which nobody who took part ends below 0, payoffs rise with "
        "contributions, and welfare is positive; only where clients have different data",
        unit="share",
        group="DH",
        lower=0.0,
        upper=1.0,
    ),
    Column(
        name="welfare",
        title="welfare of all who took part",
        meaning="sum of the true profits of all clients in all rounds in which they took part",
        unit="amount",
        group="welfare",
    ),
    Column(
        name="stayed_welfare",
        title="welfare of those who stayed",
        meaning="the same without the rounds after which a client was eliminated",
        unit="amount",
        group="welfare",
    ),
    Column(
        name="tsw",
        title="TSW",
        meaning="total social welfare: sum of the profits, as measured, of the clients retained in each round",
        unit="amount",
        group="welfare",
    ),
    Column(
        name="tsfi",
        title="TSFI",
        meaning="total selection fairness index after the last round; outside 0 to 1 only with raw contributions",
        unit="share",
        group="course",
        upper=1.0,
    ),
    Column(
        name="duration",
        title="rounds per client",
        meaning="mean number of rounds in which a client took part",
        unit="count",
        group="course",
        lower=0.0,
    ),
    Column(
        name="rounds",
        title="rounds",
        meaning="rounds until the federation ended",
        unit="count",
        group="course",
        lower=0.0,
    ),
    Column(
        name="money_moved",
        title="money moved",
        meaning="what clients pay in all rounds, or what they receive if that is more",
        unit="amount",
        group="course",
        lower=0.0,
    ),
    Column(
        name="models_sent",
        title="models sent",
        meaning="models between server and clients in training: one down and one up per participant and iteration",
        unit="count",
        group="course",
        lower=0.0,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticks:
    """A row of the paper's Table 1: which properties the paper ticks for a mechanism."""

    isi: bool
    ns: bool
    fairness: bool
    ir: bool
    bb: bool
    dh: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One column of one mechanism: the mean over replications with its interval."""

    mean: Interval
    values: tuple[float | None, ...]  # by replication; None where it is not defined


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMechanism:
    """A row of the comparison."""

    name: str
    label: str  # with its source, mu and parameters
    fidelity: str | None
    mu: float | None  # None: it has none
    reads: tuple[str, ...]
    private_reads: tuple[str, ...]  # those that only the client itself knows
    decides: tuple[str, ...]  # about the next round
    not_carried_out: tuple[str, ...]  # of these
    figures: Mapping[str, Figure | None]  # by column; None: not testable here
    durations: Mapping[str, Interval]  # by client
    ticks: Ticks | None = None  # None: not in the paper's table
    lies: tuple[LieResult, ...] = ()  # of one member, in reports

    def value(self, column: str) -> float | None:
        """The mean; None where it is not testable or not defined."""
        figure = self.figures[column]
        return None if figure is None else figure.mean.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A mechanism that cannot run on the scenario."""

    name: str
    label: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What each mechanism makes of the same federation."""

    scenario: str
    description: str
    clients: tuple[str, ...]
    round_count: int  # planned
    seeds: tuple[int, ...]  # one for each replication
    mechanisms: tuple[ComparedMechanism, ...]
    skipped: tuple[Skipped, ...]
    truth: str | None  # why true figures are not known, so that those measured stand in; None: they are known
    is_heterogeneous: bool  # clients have different data, by the scenario
    distinct_round_count: int  # rounds that had to be trained, in all replications
    decided_round_count: int  # rounds that were decided, by all mechanisms together
    notes: tuple[str, ...] = ()
