"""The rules that are compared: from the rounds so far to the profits that selection and money use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.noise.histories import Facts

from commonweal.records.gains import PairedGain
from commonweal.valuation.forecast import forecast_gains
from commonweal.valuation.pooling import pool

SIGNIFICANCE = 1.64  # one-sided 5 %


@dataclass(frozen=True, slots=True, kw_only=True)
class Profits:
    """The profits that money is divided by, and those that decide who stays."""

    money: Mapping[str, float]
    selection: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule, and whether it may know the truth: of this round, and of the next one if everybody stays."""

    name: str
    profits: Callable[[Sequence[Facts], Facts | None], Profits]  # rounds so far; the next round, for an oracle
    sees_next_round: bool = False
    stops: bool = False  # as with ending = "stop": nobody is eliminated when no further round is expected to pay


def _measured(rounds: Sequence[Facts], following: Facts | None) -> Profits:
    profits = {client: facts.profit for client, facts in rounds[-1].items()}
    return Profits(money=profits, selection=profits)


def _significant(rounds: Sequence[Facts], following: Facts | None) -> Profits:
    """A loss must be larger than its error."""
    now = rounds[-1]
    return Profits(
        money={client: facts.profit for client, facts in now.items()},
        selection={client: facts.profit + SIGNIFICANCE * facts.profit_error for client, facts in now.items()},
    )


def _table(facts: Facts) -> dict[str, PairedGain]:
    return {
        client: PairedGain(
            gain=one.gain,
            sample_count=one.validation_count,
            squared_change=float(one.changed_count),
        )
        for client, one in facts.items()
    }


def _of_gains(facts: Facts, gains: Mapping[str, float]) -> dict[str, float]:
    return {client: one.unit_value * gains[client] - one.cost for client, one in facts.items()}


def _pooled(rounds: Sequence[Facts], following: Facts | None) -> Profits:
    profits = _of_gains(rounds[-1], pool(_table(rounds[-1])).values)
    return Profits(money=profits, selection=profits)


def _forecast(rounds: Sequence[Facts], following: Facts | None) -> Profits:
    expected = forecast_gains([_table(facts) for facts in rounds])
    return Profits(money=_pooled(rounds, None).money, selection=_of_gains(rounds[-1], expected))


def _true(rounds: Sequence[Facts], following: Facts | None) -> Profits:
    profits = {client: facts.true_profit for client, facts in rounds[-1].items()}
    return Profits(money=profits, selection=profits)


def _true_next(rounds: Sequence[Facts], following: Facts | None) -> Profits:
    now = {client: facts.true_profit for client, facts in rounds[-1].items()}
    after = now if following is None else {client: facts.true_profit for client, facts in following.items()}
    return Profits(money=now, selection=after)


FIRST_RULES = (  # computed first for all seeds, since a default is chosen among them
    Rule(name="measured", profits=_measured),
    Rule(name="pooled", profits=_pooled),
    Rule(name="forecast", profits=_forecast),
    Rule(name="forecast, stopping", profits=_forecast, stops=True),
)
OTHER_RULES = (
    Rule(name="significance", profits=_significant),
    Rule(name="oracle", profits=_true),
    Rule(name="oracle of the next round", profits=_true_next, sees_next_round=True),
)
RULES = FIRST_RULES + OTHER_RULES
