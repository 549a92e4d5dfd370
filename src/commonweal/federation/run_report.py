"""From held rounds to the chronicle: fates explained, μ paths, metrics, and a standard error beside every figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from commonweal import metrics
from commonweal.decision.decide import mu_path_of_figures
from commonweal.decision.explain import explain
from commonweal.decision.mu_path import MuPath
from commonweal.decision.problem import used_contributions
from commonweal.decision.promises import warnings_of
from commonweal.decision.transfers import divide
from commonweal.federation.round_result import RoundResult
from commonweal.records import (
    ClientRound,
    Decision,
    DecisionMap,
    Estimate,
    History,
    RoundRecord,
    RoundReport,
    RunReport,
)
from commonweal.scenario.description import Description
from commonweal.scenario.spec import FederationPlan
from commonweal.valuation.bootstrap import DRAW_COUNT, standard_error

PATH_LIMIT = 1000  # breakpoints of a round's μ path; beyond, no ranges are shown


def make_run_report(plan: FederationPlan, description: Description, held: Sequence[RoundResult]) -> RunReport:
    """All that a reader is shown of the rounds held so far."""
    history = History(clients=plan.client_names, rounds=tuple(held_round.record for held_round in held))
    divisions = [_Divisions(held_round) for held_round in held]
    of_history = (metrics.tsw, metrics.tsfi, metrics.tsfi_final_set)
    drawn = (_drawn_history(history, divisions, draw) for draw in range(DRAW_COUNT))  # one at a time: they are large
    in_draws = [[metric(one) for metric in of_history] for one in drawn]
    errors = np.std(in_draws, axis=0, ddof=1)
    if any(_keeps_profits_private(held_round) for held_round in held):
        errors[0] = np.nan  # welfare is a sum of profits, and nobody here knows how certain these are
    tsw, tsfi, tsfi_final_set = (
        tuple(Estimate(value=v, standard_error=_known(e)) for v, e in zip(metric(history), row, strict=True))
        for metric, row in zip(of_history, errors, strict=True)
    )
    eliminated_after = dict.fromkeys(history.clients) | {
        client: record.round_number for record in history.rounds for client in record.decision.eliminated
    }
    return RunReport(
        name=plan.name,
        description=plan.description,
        sentence=outcome_sentence(history, plan.round_count, eliminated_after),
        settings=description.settings,
        scenario=description.document,
        rules=plan.mechanism.rules,
        clients=history.clients,
        client_facts=description.client_facts,
        declared=description.declared,
        round_count=plan.round_count,
        rounds=tuple(_round(held_round, division) for held_round, division in zip(held, divisions, strict=True)),
        tsw=tsw,
        tsfi=tsfi,
        tsfi_final_set=tsfi_final_set,
        durations=metrics.durations(history),
        eliminated_after=eliminated_after,
        withdrawn_after=withdrawn_after(history),
        total_payoffs=_totals(history.clients, divisions, "payoffs"),
        total_transfers=_totals(history.clients, divisions, "transfers"),
        warnings=tuple(
            sentence
            for record in history.rounds
            for sentence in warnings_of(record.decision, f"round {record.round_number}")
        ),
    )


def outcome_sentence(history: History, round_count: int, eliminated_after: dict[str, int | None]) -> str:
    """What became of the federation, in one sentence."""
    held_count = len(history.rounds)
    withdrawn = withdrawn_after(history)
    stayed = [client for client in history.clients if eliminated_after[client] is None and client not in withdrawn]
    let_go = _departures(history, lambda record: record.decision.eliminated)
    gone = _departures(history, lambda record: record.withdrawn)
    told = [f"let go: {let_go}"] * bool(let_go) + [f"withdrawn: {gone}"] * bool(gone)
    who = f" ({'; '.join(told)})" if told else ""
    welfare = metrics.tsw(history)[-1] if held_count else 0.0
    moved = math.fsum(
        amount for record in history.rounds for amount in record.decision.transfers.values() if amount > 0
    )
    ended = (
        f"ended early after {_counted(held_count, 'round')} with fewer than two clients"
        if held_count < round_count and len(stayed) < 2
        else f"held {_counted(held_count, 'round')}"
    )
    return (
        f"The federation {ended}, {len(stayed)} of {len(history.clients)} clients stayed to the end{who}; "
        f"its welfare came to {welfare:+.4g} and {moved:.4g} changed hands."
    )


def withdrawn_after(history: History) -> dict[str, int]:
    """Who left of its own accord, and after which round."""
    return {client: record.round_number for record in history.rounds for client in record.withdrawn}


def _departures(history: History, who: Callable[[RoundRecord], tuple[str, ...]]) -> str:
    parts = [
        f"{_listed(list(who(record)))} after round {record.round_number}" for record in history.rounds if who(record)
    ]
    return "; ".join(parts)


class _Divisions:
    """How a round's budget is divided, in fact and in each bootstrap draw, among those retained in fact."""

    def __init__(self, held: RoundResult) -> None:
        decision = held.record.decision
        rules, clients = decision.rules, decision.figures.clients
        kept = np.array([client in decision.payoffs for client in clients])
        costs = decision.figures.costs
        kept_costs = None if costs is None else np.array([costs[client] for client in decision.retained])
        self.decision = decision
        self.used = used_contributions(held.contribution_draws, rules.contribution_rule)
        divisions = [
            divide(
                held.profit_draws[kept, draw],
                self.used[kept, draw],
                loss_rule=rules.loss_rule,
                costs=kept_costs,
                liability_cap=rules.liability_cap,
            )
            for draw in range(DRAW_COUNT)
        ]
        self.budgets = np.array([division.budget for division in divisions])
        self.shares = np.array([division.shares for division in divisions]).T
        self.payoffs = np.array([division.payoffs for division in divisions]).T
        self.transfers = np.array([division.transfers for division in divisions]).T

    def estimate(self, kind: str, client: str) -> Estimate | None:
        """A retained client's share, payoff or transfer."""
        values: dict[str, float] = getattr(self.decision, kind)
        if client not in values:
            return None
        draws: NDArray[np.float64] = getattr(self, kind)[self.decision.retained.index(client)]
        return Estimate(value=values[client], standard_error=standard_error(draws))


def _drawn_history(history: History, divisions: Sequence[_Divisions], draw: int) -> History:
    """The history as it would read with one draw's figures and the same clients retained."""

    def drawn(record: RoundRecord, division: _Divisions) -> RoundRecord:
        used = dict(zip(record.decision.figures.clients, division.used[:, draw].tolist(), strict=True))
        decision = replace(record.decision, used_contributions=used, budget=float(division.budgets[draw]))
        return replace(record, decision=decision)

    return replace(history, rounds=tuple(map(drawn, history.rounds, divisions)))


def _totals(clients: Sequence[str], divisions: Sequence[_Divisions], kind: str) -> dict[str, Estimate]:
    totals: dict[str, Estimate] = {}
    for client in clients:
        value, draws = 0.0, np.zeros(DRAW_COUNT)
        for division in divisions:
            if client in division.decision.payoffs:
                value += getattr(division.decision, kind)[client]
                draws = draws + getattr(division, kind)[division.decision.retained.index(client)]
        totals[client] = Estimate(value=value, standard_error=standard_error(draws))
    return totals


def _round(held: RoundResult, divisions: _Divisions) -> RoundReport:
    decision = held.record.decision
    path = None if decision.grace else mu_path_of_figures(decision.figures, decision.rules, limit=PATH_LIMIT)
    if path is not None and not path.complete:
        path = None
    return RoundReport(
        record=held.record,
        clients={client: _client(held, divisions, client, path) for client in decision.figures.clients},
        budget=Estimate(
            value=decision.budget,
            standard_error=None if _keeps_profits_private(held) else standard_error(divisions.budgets),
        ),
        iteration_accuracies=held.iteration_accuracies,
        coalition_values=held.coalition_values,
        events=held.events,
        decision_map=None if path is None else _map(held.record, path),
    )


def _client(held: RoundResult, divisions: _Divisions, client: str, path: MuPath | None) -> ClientRound:
    decision: Decision = held.record.decision
    measured = held.measured[client]
    return ClientRound(
        sample_count=measured.sample_count,
        training_count=measured.training_count,
        validation_count=measured.validation_count,
        step_count=measured.step_count,
        accuracy=measured.accuracy,
        previous_accuracy=measured.previous_accuracy,
        utility=measured.utility,
        cost=measured.cost,
        profit=Estimate(value=decision.figures.profits[client], standard_error=measured.profit_error),
        contribution=Estimate(value=decision.figures.contributions[client], standard_error=measured.contribution_error),
        share=divisions.estimate("shares", client),
        payoff=divisions.estimate("payoffs", client),
        transfer=divisions.estimate("transfers", client),
        sentence=explain(decision, client, path).sentence,
        stays_for_mu=None if path is None else path.stays(client),
    )


def _map(record: RoundRecord, path: MuPath) -> DecisionMap:
    return DecisionMap(
        title=f"Round {record.round_number}",
        clients=path.clients,
        pieces=path.pieces(),
        breakpoints=path.breakpoints,
        mu=record.decision.mu,
    )


def _keeps_profits_private(held: RoundResult) -> bool:
    """Whether some client told its profit, and not how certain it is."""
    return any(measured.profit_error is None for measured in held.measured.values())


def _known(error: float) -> float | None:
    return None if math.isnan(error) else float(error)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _listed(phrases: list[str]) -> str:
    shown = phrases[:6] + ([f"{len(phrases) - 6} more"] if len(phrases) > 6 else [])
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]
