"""Measure one round over any set of clients: everything that comes before its decision.

Data arrive; iterations of local training and averaging run until nobody's accuracy moves; coalition models are scored;
contributions and client reports are gathered. A client that fails to answer any question of a round is absent from the
whole round.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from commonweal.decision.mechanisms import make_mechanism
from commonweal.errors import FederationError
from commonweal.federation.client_set import ClientSet, Coalition, Opening, ProfitReport, ScorerEffects, ToldGains
from commonweal.federation.round_result import ClientMeasurement, MeasuredRound
from commonweal.federation.round_valuation import RoundValuation, estimate, value_round
from commonweal.records import Estimate, Event, Figures, Instructions, PairedGain, RoundGains
from commonweal.records.rounds import GAIN, SIMILARITY
from commonweal.scenario.spec import FederationPlan
from commonweal.task.measured import Measured, gain_draws, paired_gain
from commonweal.valuation.bootstrap import DRAW_COUNT, standard_error
from commonweal.valuation.forecast import forecast_draws
from commonweal.valuation.used_gains import FIGURES_VERSIONS, pooled_again, used_gains

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a round has come."""

    round_number: int
    iteration: int  # 0: data have arrived, nothing has been trained yet
    accuracies: Mapping[str, float]  # of the clients present, with the current model


Watch = Callable[[Progress], None]

_ROUNDING = 1e-9  # 0.57 − 0.56 is a change of 0.01, though doubles make it a little less


def measure_round(
    clients: ClientSet,
    plan: FederationPlan,
    round_number: int,
    active: Sequence[str],
    *,
    earlier: Sequence[RoundGains | None] = (),
    watch: Watch | None = None,
    owing: Mapping[str, Sequence[int]] | None = None,
    instructions: Instructions | None = None,
    reads: frozenset[str] | None = None,
) -> MeasuredRound:
    """Train, score and value one round with the clients that are asked to take part in it.

    Clients that are `owing` reports of other rounds get no model. `earlier` are the gains of the rounds before it,
    for figures that are not used as measured. `instructions` are those of the mechanism for this round. `reads`: the
    further figures to measure, if not those that the plan's mechanism reads.
    """
    tables = [gains.table for gains in earlier if gains is not None]
    instructed = Instructions() if instructions is None else instructions
    if reads is None:
        reads = make_mechanism(plan.mechanism.rules).reads_further
    return _Round(clients, plan, round_number, active, tables, watch, owing or {}, instructed, reads).measure()


def has_converged(before: Mapping[str, float], now: Mapping[str, float], stop_below: float) -> bool:
    """Whether no client's metric changed by `stop_below` or more in an iteration; what is not measurable is ignored."""
    changes = (abs(now[client] - before[client]) for client in now)
    return all(change < stop_below * (1 - _ROUNDING) for change in changes if not math.isnan(change))


class _LostError(Exception):
    """A client did not answer, so the others must be asked again."""


class _Round:
    """One round while it is measured."""

    def __init__(
        self,
        clients: ClientSet,
        plan: FederationPlan,
        number: int,
        active: Sequence[str],
        earlier: Sequence[Mapping[str, PairedGain]],
        watch: Watch | None,
        owing: Mapping[str, Sequence[int]],
        instructions: Instructions,
        reads: frozenset[str],
    ) -> None:
        self._reads = reads
        self._clients = clients
        self._plan = plan
        self._number = number
        self._active = tuple(active)
        self._owing = owing
        self._present = [client for client in active if client not in owing]
        self._earlier = earlier
        self._watch = watch
        self._data_shares = instructions.data_shares
        self._iteration_limit = instructions.iteration_limit or plan.learning.iteration_limit
        self._step_counts: Counter[str] = Counter()  # of the clients that report them
        self._measures: dict[Coalition, Mapping[str, Measured]] = {}
        self._losses: dict[str, float] = {}  # of the last iteration, of the clients that report them
        self._reported: dict[str, ProfitReport] = {}  # the last report of each client that ever reported this round
        self._had_model: set[str] = set()  # who was asked to evaluate a model that was trained in this round

    def measure(self) -> MeasuredRound:
        openings = self._open()
        accuracies = [self._accuracies(frozenset())]
        self._report_progress(0, accuracies[-1])
        for iteration in range(1, self._iteration_limit + 1):
            self._train(iteration)
            accuracies.append(self._until_all_answer(lambda: self._accuracies(frozenset(self._present))))
            self._report_progress(iteration, accuracies[-1])
            if has_converged(accuracies[-2], accuracies[-1], self._plan.learning.stop_below):
                break
        valuation, told, reports = self._until_all_answer(lambda: self._value(openings))
        accuracies[-1] = {client: valuation.measures[client].value for client in self._present}
        costs = {client: cost for client in self._present if (cost := reports[client].cost) is not None}
        expected = {c: profit for c in self._present if (profit := reports[c].expected_profit) is not None}
        return MeasuredRound(
            round_number=self._number,
            figures=Figures(
                profits={client: reports[client].profit for client in self._present},
                contributions={client: valuation.contributions[client] for client in self._present},
                costs=costs if len(costs) == len(self._present) else None,
                expected=expected or None,
                further=self._further(valuation, reports),
            ),
            absent=tuple(client for client in self._active if client not in self._present),
            measured={c: self._measured(c, openings[c], reports[c], valuation) for c in self._present},
            iteration_accuracies=tuple({c: row[c] for c in self._present} for row in accuracies),
            coalition_values=valuation.coalition_values,
            events=(
                *(event for c in self._present for event in (*openings[c].events, *reports[c].events)),
                *valuation.events,
                *(_owing_event(client, self._number, rounds) for client, rounds in self._owing.items()),
            ),
            signatures={c: signature for c in self._present if (signature := reports[c].signature) is not None},
            bases={c: basis for c in self._present if (basis := reports[c].basis) is not None},
            withdrawals={c: notice for c in self._present if (notice := openings[c].withdrawal) is not None},
            profit_draws=np.array([_profit_draws(reports[c]) for c in self._present]),
            expected_draws=_expected_draws([reports[c] for c in self._present]),
            contribution_draws=np.array([valuation.contribution_draws[c] for c in self._present]),
            effects=valuation.effects,
            gains=None if told is None else told.gains,
            silent=tuple(
                c for c in self._active if c in self._had_model and c not in self._present and c not in self._reported
            ),
            unused_reports={
                c: (*report.basis.earlier, report.signed)
                for c, report in self._reported.items()
                if c not in self._present and report.signed is not None and report.basis is not None
            },
        )

    def _open(self) -> Mapping[str, Opening]:
        openings = self._clients.open_round(self._number, self._present, self._data_shares)
        self._keep(openings)
        for client in self._present:
            if not openings[client].validation_count:
                raise FederationError(
                    f"Client {client!r} has no validation samples in round {self._number}, so it cannot be valued. "
                    "Give it more samples per round."
                )
        self._measures[frozenset()] = {client: openings[client].measured for client in self._present}
        return openings

    def _train(self, iteration: int) -> None:
        training = self._clients.train(self._number, iteration, self._present)
        self._keep(training)
        for client in self._present:
            steps = training[client].step_count
            if steps is not None:
                self._step_counts[client] += steps
        self._losses = {
            c: loss for c in self._present if (loss := training[c].loss) is not None and math.isfinite(loss)
        }
        self._measures = {frozenset(): self._measures[frozenset()]}  # all other coalitions have new models now
        self._clients.adopt(frozenset(self._present))
        self._had_model.update(self._present)

    def _value(
        self, openings: Mapping[str, Opening]
    ) -> tuple[RoundValuation, ToldGains | None, Mapping[str, ProfitReport]]:
        valuation = value_round(
            self._present,
            self._plan,
            round_number=self._number,
            measures=self._coalition_measures,
            sample_counts={client: openings[client].sample_count for client in self._present},
            path_effects=self._path_effects,
        )
        told = self._told(openings, valuation)
        reports = self._clients.report(self._number, self._present, told, self._plan.mechanism.rates)
        self._reported |= reports
        self._keep_all(reports)
        return valuation, told, reports

    def _told(self, openings: Mapping[str, Opening], valuation: RoundValuation) -> ToldGains | None:
        """The gains that profits are to follow from; None if profits are used as measured."""
        rule, metric = self._plan.mechanism.figures, self._plan.task.metric
        if rule == "measured":
            return None
        pairs = {client: (valuation.measures[client], openings[client]) for client in self._present}
        paired = {
            client: paired_gain(now, opening.measured, metric, opening.validation_count)
            for client, (now, opening) in pairs.items()
        }
        table = {client: one for client, one in paired.items() if one is not None}
        gains = used_gains(FIGURES_VERSIONS[rule], [*self._earlier, table])
        in_draws = {c: gain_draws(pairs[c][0], pairs[c][1].measured, metric) for c in table}
        return ToldGains(
            gains=gains,
            pooled_draws=pooled_again(gains).of_draws(in_draws),
            expected_draws=None if gains.expected is None else forecast_draws([*self._earlier, table]),
        )

    def _further(
        self, valuation: RoundValuation, reports: Mapping[str, ProfitReport]
    ) -> dict[str, Mapping[str, float]]:
        """What is read of the round apart from profits, contributions, costs and counts.

        And the gains that profits by agreed rates follow from, so that these can be computed again.
        """
        reads = self._reads
        further: dict[str, Mapping[str, float]] = {}
        gains = {client: gain for client in self._present if (gain := reports[client].gain) is not None}
        if gains:
            further[GAIN] = gains
        if "utility" in reads:
            further["utility"] = {c: u for c in self._present if (u := reports[c].utility) is not None}
        if "metric" in reads:
            metrics = {client: valuation.measures[client].value for client in self._present}
            further["metric"] = {client: value for client, value in metrics.items() if math.isfinite(value)}
        if "loss" in reads:
            further["loss"] = {client: self._losses[client] for client in self._present if client in self._losses}
        if "similarity" in reads:
            cosines = self._clients.similarities(self._present)
            further |= {f"{SIMILARITY}{client}": column for client, column in cosines.items()}
        return further

    def _measured(
        self, client: str, opening: Opening, report: ProfitReport, valuation: RoundValuation
    ) -> ClientMeasurement:
        draws, alone, now = report.profit_draws, report.alone, valuation.measures[client]
        error = None if draws is None else standard_error(draws)
        actual_error = error  # of the profit that utility belongs to; its cost is certain
        if report.actual_profit is not None and self._plan.mechanism.rates is None:
            actual_error = report.actual_profit.standard_error
        return ClientMeasurement(
            sample_count=opening.sample_count,
            training_count=opening.training_count,
            validation_count=opening.validation_count,
            step_count=self._step_counts.get(client),
            accuracy=estimate(now),
            previous_accuracy=report.previous_accuracy,
            utility=None if report.utility is None else Estimate(value=report.utility, standard_error=actual_error),
            cost=report.cost,
            alone=None if alone is None else estimate(alone),
            alone_cost=report.alone_cost,
            actual_profit=report.actual_profit,
            advantage_error=None if alone is None else _error_of_difference(now, alone),
            profit_error=error,
            contribution_error=valuation.contribution_errors[client],
            measured_profit=_measured_profit(report),
        )

    def _accuracies(self, coalition: Coalition) -> dict[str, float]:
        measures = self._coalition_measures([coalition])[coalition]
        return {client: measures[client].value for client in self._present}

    def _coalition_measures(self, coalitions: Sequence[Coalition]) -> Mapping[Coalition, Mapping[str, Measured]]:
        """Measured by the clients present; each is asked for once."""
        missing = [coalition for coalition in coalitions if coalition not in self._measures]
        if missing:
            answers = self._clients.evaluate(self._number, missing, self._present)
            self._keep_all(answers)
            for coalition in missing:
                self._measures[coalition] = {client: answers[client][coalition] for client in self._present}
        return {coalition: self._measures[coalition] for coalition in coalitions}

    def _path_effects(self) -> Mapping[str, ScorerEffects]:
        effects = self._clients.path_effects(self._number, self._present)
        self._keep_all(effects)
        return effects

    def _until_all_answer(self, ask: Callable[[], Answer]) -> Answer:
        """Ask a question that needs everybody; if a client is lost, ask the others again, with the others' model."""
        while True:
            try:
                return ask()
            except _LostError:
                self._clients.adopt(frozenset(self._present))

    def _keep_all(self, answered: Container[str]) -> None:
        before = len(self._present)
        self._keep(answered)
        if len(self._present) < before:
            raise _LostError

    def _keep(self, answered: Container[str]) -> None:
        self._present = [client for client in self._present if client in answered]
        if not self._present:
            raise FederationError(
                f"No client answered in round {self._number}. Bring at least one client back, then resume."
            )

    def _report_progress(self, iteration: int, accuracies: Mapping[str, float]) -> None:
        if self._watch is not None:
            self._watch(Progress(round_number=self._number, iteration=iteration, accuracies=accuracies))


def _owing_event(client: str, number: int, rounds: Sequence[int]) -> Event:
    had = f"it had the model of round {rounds[0]}, and has neither reported nor been charged"
    return Event(kind="absent", client=client, text=f"{client} missed round {number}: {had}.")


def _expected_draws(reports: Sequence[ProfitReport]) -> np.ndarray | None:
    """None unless all profits are forecast, and all their uncertainties known."""
    draws = [report.expected_draws for report in reports]
    return None if any(one is None for one in draws) else np.array(draws)


def _profit_draws(report: ProfitReport) -> np.ndarray:
    """A profit whose uncertainty is private counts as certain."""
    return np.full(DRAW_COUNT, report.profit) if report.profit_draws is None else report.profit_draws


def _measured_profit(report: ProfitReport) -> Estimate | None:
    draws = report.measured_profit_draws
    if report.measured_profit is None:
        return None
    return Estimate(value=report.measured_profit, standard_error=None if draws is None else standard_error(draws))


def _error_of_difference(one: Measured, other: Measured) -> float | None:
    """None where the metric cannot be measured."""
    return standard_error(one.draws - other.draws) if one.is_defined and other.is_defined else None
