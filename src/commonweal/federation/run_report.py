"""From completed rounds to the run report: explanations, μ paths, metrics, and a standard error beside every figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from commonweal import metrics
from commonweal.decision.mechanism import CARRIED_OUT, READABLE, Mechanism, RoundDecider, State, view_of
from commonweal.decision.mechanisms import make_mechanism
from commonweal.decision.mu_path import MuPath
from commonweal.decision.problem import used_contributions
from commonweal.decision.promises import warnings_of
from commonweal.decision.reasons import (
    eliminated_as_harmful,
    how_sure_of_the_end,
    loss_reason,
    reason,
    reported_as_harmful,
)
from commonweal.federation.advice import advise_on_run
from commonweal.federation.misreports import misreport_warnings
from commonweal.federation.round_result import ClientMeasurement, RoundResult, rules_in_force
from commonweal.records import (
    FINISHED,
    ClientRound,
    Decision,
    DecisionMap,
    Estimate,
    History,
    MechanismFacts,
    MetricName,
    RoundRecord,
    RoundReport,
    RunReport,
    UsedFigures,
)
from commonweal.report.text import counted
from commonweal.scenario.description import Description
from commonweal.scenario.spec import FederationPlan
from commonweal.task.metrics import Metric
from commonweal.valuation.bootstrap import DRAW_COUNT, standard_error

PATH_LIMIT = 1000  # breakpoints of a round's μ path; if there are more, no ranges are shown


def make_run_report(plan: FederationPlan, description: Description, results: Sequence[RoundResult]) -> RunReport:
    """Everything that a reader is shown of the completed rounds."""
    history = History(clients=plan.client_names, rounds=tuple(result.record for result in results))
    rules = rules_in_force(plan, results)
    decider = RoundDecider(make_mechanism(rules))
    divisions = []
    for result in results:
        decider.mechanism = make_mechanism(result.record.decision.rules)  # rules may have been amended
        divisions.append(_Divisions(result, decider.mechanism, decider.state))
        decider.advance(
            result.record.decision,
            sample_counts=result.sample_counts,
            round_number=result.record.round_number,
        )
    of_history = (metrics.tsw, metrics.tsfi, metrics.tsfi_final_set)
    drawn = (
        _drawn_history(history, divisions, draw) for draw in range(DRAW_COUNT)
    )  # one at a time, since they are large
    in_draws = [[metric(one) for metric in of_history] for one in drawn]
    errors = np.std(in_draws, axis=0, ddof=1)
    if any(_keeps_profits_private(result) for result in results):
        errors[0] = np.nan  # TSW is a sum of profits, whose errors are private
    tsw, tsfi, tsfi_final_set = (
        tuple(Estimate(value=v, standard_error=_known(e)) for v, e in zip(metric(history), row, strict=True))
        for metric, row in zip(of_history, errors, strict=True)
    )
    eliminated_after = dict.fromkeys(history.clients) | {
        client: record.round_number for record in history.rounds for client in record.decision.eliminated
    }
    named = metric_name(plan.task.metric)
    rounds = tuple(
        _round(result, division, decider.mechanism) for result, division in zip(results, divisions, strict=True)
    )
    return RunReport(
        name=plan.name,
        description=plan.description,
        sentence=outcome_sentence(history, plan.round_count, eliminated_after)
        + ("" if plan.mechanism.rates is None else _own_welfare(rounds)),
        settings=description.settings,
        scenario=description.document,
        rules=rules,
        clients=history.clients,
        client_facts=description.client_facts,
        declared=description.declared,
        round_count=plan.round_count,
        rounds=rounds,
        tsw=tsw,
        tsfi=tsfi,
        tsfi_final_set=tsfi_final_set,
        durations=metrics.durations(history),
        eliminated_after=eliminated_after,
        withdrawn_after=withdrawn_after(history),
        total_payoffs=_totals(history.clients, divisions, "payoffs"),
        total_transfers=_totals(history.clients, divisions, "transfers"),
        metric=named,
        utility=plan.mechanism.utility,
        figures=plan.mechanism.figures,
        profits="private" if plan.mechanism.rates is None else "rates",
        mechanism=_mechanism_facts(decider.mechanism),
        advice=advise_on_run(rounds, metric=named),
        warnings=(
            *(misreport_warnings(rounds) if plan.mechanism.rates is None else ()),
            *(sentence for each in rounds for sentence in _warnings(each)),
        ),
    )


def _own_welfare(rounds: Sequence[RoundReport]) -> str:
    """The welfare by what clients really made, where profits follow from agreed rates and that is known."""
    made = [each.clients[client].actual_profit for each in rounds for client in each.record.decision.retained]
    known = [one.value for one in made if one is not None]
    if not known or len(known) < len(made):
        return ""
    welfare = math.fsum(known)
    return f" By the clients' own figures instead of the agreed rates, total social welfare was {welfare:+.4g}."


def _warnings(each: RoundReport) -> list[str]:
    errors = {client: one.payoff.standard_error for client, one in each.clients.items() if one.payoff is not None}
    return warnings_of(each.record.decision, f"round {each.number}", errors)


def _mechanism_facts(mechanism: Mechanism) -> MechanismFacts:
    return MechanismFacts(
        description=mechanism.describe(),
        fidelity=mechanism.fidelity,
        reads=tuple(name for name in READABLE if name in mechanism.reads),
        decides=tuple(sorted(mechanism.decides)),
        not_carried_out=tuple(sorted(mechanism.decides - CARRIED_OUT)),
        takes_mu=mechanism.takes_mu,
        honours=tuple(mechanism.honours),
    )


def metric_name(metric: Metric) -> MetricName:
    """What readers are told of a metric."""
    return MetricName(
        name=metric.name, label=metric.label, higher_is_better=metric.higher_is_better, is_share=metric.is_share
    )


def outcome_sentence(history: History, round_count: int, eliminated_after: dict[str, int | None]) -> str:
    """The outcome of the federation, in three or four sentences."""
    round_total = len(history.rounds)
    withdrawn = withdrawn_after(history)
    excluded = {client for record in history.rounds for client in record.excluded}
    gone = {*withdrawn, *excluded}
    stayed = [client for client in history.clients if eliminated_after[client] is None and client not in gone]
    leaving = {
        "eliminated as harmful": _leaving(history, lambda record: record.decision.harmful),
        "eliminated": _leaving(history, lambda record: record.decision.without_harmful.eliminated),
        "withdrawn": _leaving(history, lambda record: record.withdrawn),
        "excluded for silence": _leaving(history, lambda record: record.excluded),
    }
    left = [f"{how}: {clients}" for how, clients in leaving.items() if clients]
    who = f" ({'; '.join(left)})" if left else ""
    welfare = metrics.tsw(history)[-1] if round_total else 0.0
    moved = math.fsum(amount for record in history.rounds for amount in record.decision.received if amount > 0)
    ended = f"ran for {counted(round_total, 'round')}"
    if round_total and history.rounds[-1].decision.finished:
        ended = f"ended after {counted(round_total, 'round')}, {FINISHED}{_doubt(history.rounds[-1])}"
    elif round_total < round_count and len(stayed) < 2:
        ended = f"ended early after {counted(round_total, 'round')}, with fewer than two clients left"
    return (
        f"The federation {ended}. {len(stayed)} of {len(history.clients)} clients stayed to the end{who}. "
        f"Total social welfare was {welfare:+.4g}, and transfers of {moved:.4g} were made.{_advised_end(history)}"
    )


def _advised_end(history: History) -> str:
    """The first round after which the federation was finished, if it went on."""
    told = [record for record in history.rounds if record.ending is not None and not record.decision.finished]
    return f" After round {told[0].round_number} it was {FINISHED}{_doubt(told[0])}." if told else ""


def _doubt(record: RoundRecord) -> str:
    """How sure it is that the federation is finished, in brackets; "" if that is not known."""
    sure = how_sure_of_the_end(record.ending_stability, is_advice=not record.decision.finished)
    return f" ({sure})" if sure else ""


def withdrawn_after(history: History) -> dict[str, int]:
    """The clients that withdrew, each with its last round."""
    return {client: record.round_number for record in history.rounds for client in record.withdrawn}


def _leaving(history: History, who: Callable[[RoundRecord], tuple[str, ...]]) -> str:
    parts = [
        f"{_listed(list(who(record)))} after round {record.round_number}" for record in history.rounds if who(record)
    ]
    return "; ".join(parts)


class _Divisions:
    """How a round's budget is divided, as measured and in each bootstrap draw, among the clients that were retained."""

    def __init__(self, result: RoundResult, mechanism: Mechanism, state: State) -> None:
        """`state` is the mechanism's before the round."""
        decision = result.record.decision.without_harmful
        view = view_of(
            mechanism,
            decision.figures,
            grace=decision.spares_losses,
            sample_counts=result.sample_counts,
            round_number=result.record.round_number,
        )
        retained = np.array([client in decision.payoffs for client in view.clients], np.bool_)
        self.decision, self.view, self.state = decision, view, state
        self._private = _keeps_profits_private(result)
        self._transfers_follow_profits = "profit" in mechanism.reads
        self.used = used_contributions(result.contribution_draws, decision.rules.contribution_rule)  # of all clients
        rows = [place for place, client in enumerate(result.measured) if client in decision.used_contributions]
        profits, contributions = result.profit_draws[rows], self.used[rows]
        divisions = [
            mechanism.divide(view.drawn(profits[:, draw], contributions[:, draw]), state, retained)
            for draw in range(DRAW_COUNT)
        ]
        self.budgets = np.array([division.budget for division in divisions])
        self.shares = np.array([division.shares for division in divisions]).T
        self.payoffs = np.array([division.payoffs for division in divisions]).T
        self.transfers = np.array([division.transfers for division in divisions]).T
        zeros = np.zeros(np.count_nonzero(~retained))
        self._going = [client for client, stays in zip(view.clients, retained.tolist(), strict=True) if not stays]
        self._charges = np.array([zeros if one.charges is None else one.charges for one in divisions]).T

    def charges_of(self, client: str) -> NDArray[np.float64]:
        """What a client that was eliminated pays or receives, in each draw."""
        row: NDArray[np.float64] = self._charges[self._going.index(client)]
        return row

    def estimate(self, kind: str, client: str) -> Estimate | None:
        """A retained client's share, payoff or transfer."""
        values: dict[str, float] = getattr(self.decision, kind)
        if kind == "transfers" and client in self.decision.charges:
            value, draws = self.decision.charges[client], self.charges_of(client)
        elif client in values:
            value, draws = values[client], getattr(self, kind)[self.decision.retained.index(client)]
        else:
            return None
        return Estimate(value=value, standard_error=standard_error(draws) if self.knows_errors(kind) else None)

    def knows_errors(self, kind: str) -> bool:
        """Private profits have errors that nobody else knows; all that follows from profits has unknown errors then."""
        return not self._private or kind == "shares" or (kind == "transfers" and not self._transfers_follow_profits)


def _drawn_history(history: History, divisions: Sequence[_Divisions], draw: int) -> History:
    """The history as it would read with one draw's figures and the same clients retained."""

    def drawn(record: RoundRecord, division: _Divisions) -> RoundRecord:
        used = dict(zip(record.decision.figures.clients, division.used[:, draw].tolist(), strict=True))
        decision = replace(record.decision, used_contributions=used, budget=float(division.budgets[draw]))
        return replace(record, decision=decision)

    return replace(history, rounds=tuple(map(drawn, history.rounds, divisions)))


def _totals(clients: Sequence[str], divisions: Sequence[_Divisions], kind: str) -> dict[str, Estimate]:
    totals: dict[str, Estimate] = {}
    is_known = all(division.knows_errors(kind) for division in divisions)
    for client in clients:
        value, draws = 0.0, np.zeros(DRAW_COUNT)
        for division in divisions:
            if client in division.decision.payoffs:
                value += getattr(division.decision, kind)[client]
                draws = draws + getattr(division, kind)[division.decision.retained.index(client)]
            elif client in division.decision.charges:
                value += division.decision.charges[client]
                draws = draws + division.charges_of(client)
        totals[client] = Estimate(value=value, standard_error=standard_error(draws) if is_known else None)
    return totals


def _round(result: RoundResult, divisions: _Divisions, mechanism: Mechanism) -> RoundReport:
    decision = result.record.decision
    own = divisions.decision
    path = None if own.spares_losses else mechanism.mu_path(own.figures, limit=PATH_LIMIT)
    harm = {evidence.client: evidence for evidence in result.record.harm}

    def explained(client: str) -> str:
        evidence = result.record.evidence.get(client)
        if client in decision.harmful:
            return reason(decision, client, evidence, eliminated_as_harmful(harm[client]))
        why = mechanism.explain(divisions.view, divisions.state, own, client, path)
        loss = loss_reason(own, client, who=client)
        told = [reason(own, client, evidence, why)]
        if client in harm:
            told.append(f"It is {reported_as_harmful(harm[client])}.")
        if loss:
            told.append(f"In this round {loss}.")
        return " ".join(told)

    return RoundReport(
        record=result.record,
        clients={
            client: _client(result, divisions, client, explained(client), path) for client in decision.figures.clients
        },
        budget=Estimate(
            value=decision.budget,
            standard_error=None if _keeps_profits_private(result) else standard_error(divisions.budgets),
        ),
        iteration_accuracies=result.iteration_accuracies,
        coalition_values=result.coalition_values,
        events=result.events,
        decision_map=None if path is None else _map(result.record, path),
    )


def _client(result: RoundResult, divisions: _Divisions, client: str, sentence: str, path: MuPath | None) -> ClientRound:
    decision: Decision = result.record.decision
    measured = result.measured[client]
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
        sentence=sentence,
        stays_for_mu=None if path is None or client in decision.harmful else path.stays(client),
        alone=measured.alone,
        alone_cost=measured.alone_cost,
        actual_profit=measured.actual_profit,
        advantage=_advantage(measured),
        used=_used(result, client),
    )


def _used(result: RoundResult, client: str) -> UsedFigures | None:
    gains, figures = result.record.gains, result.record.decision.figures
    if gains is None:
        return None
    used_gain, expected_gain = gains.used(client)
    measured, expected_error = gains.table.get(client), None
    if result.expected_draws is not None:
        expected_error = standard_error(result.expected_draws[figures.clients.index(client)])
    return UsedFigures(
        measured_gain=None
        if measured is None
        else Estimate(value=measured.gain, standard_error=measured.standard_error),
        used_gain=used_gain,
        measured_profit=result.measured[client].measured_profit,
        expected_gain=expected_gain,
        expected_profit=None
        if figures.expected is None
        else Estimate(value=figures.expected[client], standard_error=expected_error),
    )


def _advantage(measured: ClientMeasurement) -> Estimate | None:
    if measured.alone is None:
        return None
    return Estimate(value=measured.accuracy.value - measured.alone.value, standard_error=measured.advantage_error)


def _map(record: RoundRecord, path: MuPath) -> DecisionMap:
    return DecisionMap(
        title=f"Round {record.round_number}",
        clients=path.clients,
        pieces=path.pieces(),
        breakpoints=path.breakpoints,
        mu=record.decision.mu,
    )


def _keeps_profits_private(result: RoundResult) -> bool:
    """Whether a client reported its profit without a standard error."""
    return any(measured.profit_error is None for measured in result.measured.values())


def _known(error: float) -> float | None:
    return None if math.isnan(error) else float(error)


def _listed(phrases: list[str]) -> str:
    shown = phrases[:6] + ([f"{len(phrases) - 6} more"] if len(phrases) > 6 else [])
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]
