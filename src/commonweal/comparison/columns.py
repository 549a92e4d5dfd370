"""What one mechanism makes of one replication, in the columns of the comparison.

A client's payoff in a round is what it made plus its transfer (or its charge, if it is eliminated). Contributions are
those measured, negative ones counted as 0, whatever rule a mechanism has for them. A share of payoffs is

    payoff(n) / Σ |payoff|        of all clients compared,

so that it is defined, and between −1 and 1, also where somebody loses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from commonweal import metrics
from commonweal.audit.game import outcome_of
from commonweal.comparison.following import Followed
from commonweal.comparison.histories import TrainedRound
from commonweal.records import Decision, RoundRecord
from commonweal.scenario.spec import Scenario

Floats = NDArray[np.float64]
ByClient = Mapping[str, float]


def columns_of(followed: Followed, scenario: Scenario) -> dict[str, float | None]:
    """By the names of `records.comparison.COLUMNS`; None where a figure is not defined or cannot be tested here."""
    history = followed.history(scenario)
    rounds = followed.rounds
    decisions = [record.decision for _, record in rounds]
    measured = _totals([(trained.profits, record.decision) for trained, record in rounds])
    true_profits = [trained.profits if trained.true_profits is None else trained.true_profits for trained, _ in rounds]
    true = _totals(list(zip(true_profits, decisions, strict=True)))
    contributions = _sums([_contributions(decision) for decision in decisions])
    rounding = math.fsum(decision.rounding for decision in decisions)
    shown = [client for client in contributions if client in measured]
    fairness = correlation(_array(measured, shown), _array(contributions, shown))
    rational = _share([payoff >= -rounding for payoff in measured.values()])
    welfare = math.fsum(math.fsum(profits.values()) for profits in true_profits)
    in_rounds = [_fairness_in_round(trained, record) for trained, record in rounds]
    return {
        "selection": _share([_selects(record) for _, record in rounds]),
        "fairness": fairness,
        "deviation": deviation(_array(measured, shown), _array(contributions, shown)),
        "round_fairness": _mean([found[0] for found in in_rounds]),
        "round_deviation": _mean([found[1] for found in in_rounds]),
        "rational_rounds": _share(
            [
                payoff >= -record.decision.rounding
                for trained, record in rounds
                for payoff in payoffs(trained.profits, record.decision).values()
            ]
        ),
        "rational_clients": rational,
        "truly_rational_clients": _share([payoff >= -rounding for payoff in true.values()]),
        "balanced_rounds": _share([abs(decision.external) <= decision.rounding for decision in decisions]),
        "funded_rounds": _share([decision.external >= -decision.rounding for decision in decisions]),
        "external": math.fsum(decision.external for decision in decisions),
        "heterogeneity": float(rational == 1 and fairness is not None and fairness > 0 and welfare > 0)
        if is_heterogeneous(scenario)
        else None,
        "welfare": welfare,
        "stayed_welfare": math.fsum(
            profits[client]
            for profits, decision in zip(true_profits, decisions, strict=True)
            for client in decision.retained
        ),
        "tsw": math.fsum(trained.profits[client] for trained, record in rounds for client in record.decision.retained),
        "tsfi": metrics.tsfi(history)[-1],
        "duration": _mean([float(count) for count in metrics.durations(history).values()]),
        "rounds": float(len(rounds)),
        "money_moved": math.fsum(outcome_of(decision).money_moved for decision in decisions),
        "models_sent": float(sum(2 * len(trained.profits) * trained.iteration_count for trained, _ in rounds)),
    }


def is_heterogeneous(scenario: Scenario) -> bool:
    """Whether the scenario says that clients have different data: sources, skewed labels, or sites of a table."""
    if scenario.task.kind == "images":
        return len({client.source for client in scenario.clients}) > 1 or scenario.data.label_skew is not None
    return scenario.task.kind == "table"


def payoffs(profits: ByClient, decision: Decision) -> dict[str, float]:
    """What each client that took part has of the round: its profit, and its transfer or charge."""
    transfers = decision.all_transfers
    return {client: profit + transfers.get(client, 0.0) for client, profit in profits.items()}


def correlation(x: Floats, y: Floats) -> float | None:
    """Pearson's; None where one of both is constant, up to rounding."""
    if len(x) < 2 or _is_constant(x) or _is_constant(y):
        return None
    x, y = x - x.mean(), y - y.mean()
    return float(np.clip((x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum()), -1.0, 1.0))


def deviation(payoff: Floats, contribution: Floats) -> float | None:
    """max |payoff / Σ|payoff| − contribution / Σ contribution|; None where nobody is paid or contributes anything."""
    size, total = float(np.abs(payoff).sum()), float(contribution.sum())
    if size <= 0 or total <= 0:
        return None
    return float(np.abs(payoff / size - contribution / total).max())


def _selects(record: RoundRecord) -> bool:
    """Whether the mechanism itself eliminated somebody, or let somebody rest."""
    return bool(record.decision.without_harmful.eliminated or record.resting)


def _fairness_in_round(trained: TrainedRound, record: RoundRecord) -> tuple[float | None, float | None]:
    """Correlation and largest deviation over the clients retained."""
    decision = record.decision
    own, contributed = payoffs(trained.profits, decision), _contributions(decision)
    payoff, contribution = _array(own, decision.retained), _array(contributed, decision.retained)
    return correlation(payoff, contribution), deviation(payoff, contribution)


def _contributions(decision: Decision) -> dict[str, float]:
    return {client: max(value, 0.0) for client, value in decision.figures.contributions.items()}


def _totals(rounds: Sequence[tuple[ByClient, Decision]]) -> dict[str, float]:
    return _sums([payoffs(profits, decision) for profits, decision in rounds])


def _sums(rounds: Sequence[ByClient]) -> dict[str, float]:
    clients = dict.fromkeys(client for values in rounds for client in values)
    return {client: math.fsum(values[client] for values in rounds if client in values) for client in clients}


def _array(values: ByClient, clients: Sequence[str]) -> Floats:
    return np.array([values[client] for client in clients])


def _is_constant(values: Floats) -> bool:
    return bool(np.ptp(values) <= 1e-12 * np.abs(values).max())


def _share(facts: Sequence[bool]) -> float:
    return sum(facts) / len(facts)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
