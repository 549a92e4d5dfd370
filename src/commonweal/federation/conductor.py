"""The conductor: one data-sharing round after another, over any set of clients.

A round: data arrive; iterations of local training and averaging until nobody's accuracy moves; coalition models are
scored; contributions and profits are gathered; the round is decided. Who fails to answer any question of a round is
absent from all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from commonweal.decision.decide import decide_figures
from commonweal.errors import FederationError
from commonweal.federation.client_set import ClientSet, Coalition, Opening, Report, Scores
from commonweal.federation.early_stopping import has_settled
from commonweal.federation.round_result import Measured, RoundResult
from commonweal.federation.round_valuation import RoundValuation, value_round
from commonweal.records import Estimate, Figures, RoundRecord
from commonweal.scenario.spec import FederationPlan
from commonweal.valuation.bootstrap import DRAW_COUNT, standard_error

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a round stands, for whoever watches."""

    round_number: int
    iteration: int  # 0: data have arrived, nothing is trained yet
    accuracies: Mapping[str, float]  # of those present, with the model as it is


Watch = Callable[[Progress], None]


def conduct(
    clients: ClientSet, plan: FederationPlan, *, held: Sequence[RoundResult] = (), watch: Watch | None = None
) -> Iterator[RoundResult]:
    """Hold the rounds that follow those held before, one at a time, until the last or fewer than two clients."""
    active = list(plan.client_names)
    for earlier in held:
        active = [client for client in active if client not in earlier.record.departed]
    for round_number in range(len(held) + 1, plan.round_count + 1):
        if len(active) < 2:
            return
        held_round = hold_round(clients, plan, round_number, active, watch=watch)
        active = [client for client in active if client not in held_round.record.departed]
        yield held_round


def hold_round(
    clients: ClientSet, plan: FederationPlan, round_number: int, active: Sequence[str], *, watch: Watch | None = None
) -> RoundResult:
    """Hold one round with the clients that are active in it."""
    return _Round(clients, plan, round_number, active, watch).hold()


class _LostError(Exception):
    """Somebody did not answer: the question is put again to those who did."""


class _Round:
    """One round while it is held."""

    def __init__(
        self, clients: ClientSet, plan: FederationPlan, number: int, active: Sequence[str], watch: Watch | None
    ) -> None:
        self._clients = clients
        self._plan = plan
        self._number = number
        self._active = tuple(active)
        self._present = list(active)
        self._watch = watch
        self._step_counts: Counter[str] = Counter()  # of those who tell
        self._scores: dict[Coalition, Mapping[str, Scores]] = {}

    def hold(self) -> RoundResult:
        openings = self._open()
        accuracies = [self._accuracies(frozenset())]
        self._tell(0, accuracies[-1])
        for iteration in range(1, self._plan.learning.iteration_limit + 1):
            self._train(iteration)
            accuracies.append(self._until_all_answer(lambda: self._accuracies(frozenset(self._present))))
            self._tell(iteration, accuracies[-1])
            if has_settled(accuracies[-2], accuracies[-1], self._plan.learning.stop_below):
                break
        valuation, reports = self._until_all_answer(lambda: self._value(openings))
        record = self._decide(openings, valuation, reports)
        absences = self._clients.close_round(record)
        accuracies[-1] = {client: valuation.accuracies[client].value for client in self._present}
        return RoundResult(
            record=record,
            measured={c: self._measured(c, openings[c], reports[c], valuation) for c in self._present},
            iteration_accuracies=tuple({c: row[c] for c in self._present} for row in accuracies),
            coalition_values=valuation.coalition_values,
            events=(
                *(event for c in self._present for event in (*openings[c].events, *reports[c].events)),
                *absences,
            ),
            signatures={c: signature for c in self._present if (signature := reports[c].signature) is not None},
            withdrawals={c: notice for c in record.withdrawn if (notice := openings[c].withdrawal) is not None},
            profit_draws=np.array([_profit_draws(reports[c]) for c in self._present]),
            contribution_draws=np.array([valuation.contribution_draws[c] for c in self._present]),
        )

    def _open(self) -> Mapping[str, Opening]:
        openings = self._clients.open_round(self._number, self._present)
        self._keep(openings)
        for client in self._present:
            if not len(openings[client].scores):
                raise FederationError(
                    f"a client needs validation samples to be valued, got none from client {client!r} in round "
                    f"{self._number}; give it more samples a round"
                )
        self._scores[frozenset()] = {client: openings[client].scores for client in self._present}
        return openings

    def _train(self, iteration: int) -> None:
        training = self._clients.train(self._number, iteration, self._present)
        self._keep(training)
        for client in self._present:
            steps = training[client].step_count
            if steps is not None:
                self._step_counts[client] += steps
        self._scores = {frozenset(): self._scores[frozenset()]}  # all other coalitions have new models now
        self._clients.adopt(frozenset(self._present))

    def _value(self, openings: Mapping[str, Opening]) -> tuple[RoundValuation, Mapping[str, Report]]:
        valuation = value_round(
            self._present,
            self._plan,
            round_number=self._number,
            scores=self._coalition_scores,
            sample_counts={client: openings[client].sample_count for client in self._present},
        )
        reports = self._clients.report(self._number, self._present)
        self._keep_all(reports)
        return valuation, reports

    def _decide(
        self, openings: Mapping[str, Opening], valuation: RoundValuation, reports: Mapping[str, Report]
    ) -> RoundRecord:
        costs = {client: cost for client in self._present if (cost := reports[client].cost) is not None}
        figures = Figures(
            profits={client: reports[client].profit for client in self._present},
            contributions={client: valuation.contributions[client] for client in self._present},
            costs=costs if len(costs) == len(self._present) else None,
        )
        mechanism = self._plan.mechanism
        decision = decide_figures(figures, mechanism.rules, grace=self._number <= mechanism.grace_rounds)
        return RoundRecord(
            round_number=self._number,
            decision=decision,
            absent=tuple(client for client in self._active if client not in self._present),
            withdrawn=tuple(client for client in decision.retained if openings[client].withdrawal is not None),
        )

    def _measured(self, client: str, opening: Opening, report: Report, valuation: RoundValuation) -> Measured:
        draws = report.profit_draws
        error = None if draws is None else standard_error(draws)
        return Measured(
            sample_count=opening.sample_count,
            training_count=opening.training_count,
            validation_count=opening.validation_count,
            step_count=self._step_counts.get(client),
            accuracy=valuation.accuracies[client],
            previous_accuracy=report.previous_accuracy,
            utility=None if report.utility is None else Estimate(value=report.utility, standard_error=error),
            cost=report.cost,
            profit_error=error,
            contribution_error=valuation.contribution_errors[client],
        )

    def _accuracies(self, coalition: Coalition) -> dict[str, float]:
        scores = self._coalition_scores([coalition])[coalition]
        return {client: float(scores[client].mean()) for client in self._present}

    def _coalition_scores(self, coalitions: Sequence[Coalition]) -> Mapping[Coalition, Mapping[str, Scores]]:
        """Scores by those present; asked of the clients once."""
        missing = [coalition for coalition in coalitions if coalition not in self._scores]
        if missing:
            answers = self._clients.evaluate(self._number, missing, self._present)
            self._keep_all(answers)
            for coalition in missing:
                self._scores[coalition] = {client: answers[client][coalition] for client in self._present}
        return {coalition: self._scores[coalition] for coalition in coalitions}

    def _until_all_answer(self, ask: Callable[[], Answer]) -> Answer:
        """Put a question that needs everybody; if somebody is lost, again to the rest, with the rest's model."""
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
                f"a round needs at least one client that answers, got none in round {self._number}; "
                "bring clients back and resume"
            )

    def _tell(self, iteration: int, accuracies: Mapping[str, float]) -> None:
        if self._watch is not None:
            self._watch(Progress(round_number=self._number, iteration=iteration, accuracies=accuracies))


def _profit_draws(report: Report) -> np.ndarray:
    """A profit whose draws are kept private counts as certain."""
    return np.full(DRAW_COUNT, report.profit) if report.profit_draws is None else report.profit_draws
