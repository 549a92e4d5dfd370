"""The paper's mechanism: Travadi et al., "Welfare and Fairness Dynamics in Federated Learning".

maximise over E:  Σ profit of the retained − μ · Q(E) / Q(retained)
payoff(n) = q(n) / Q(retained) · B,    B = Σ profit of the retained

Where figures are forecast, the first line goes by the expected profits of the next round, the second by this round's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np

from commonweal.decision.envelope import PATH_LIMIT, trace
from commonweal.decision.exact import BoolArray
from commonweal.decision.explain import explain
from commonweal.decision.mechanism import COMMON_RULES, Fidelity, Mechanism, RoundView, State, decision_of, view_of
from commonweal.decision.mu_path import MuPath
from commonweal.decision.objective import objective
from commonweal.decision.problem import Choice, Problem, choose
from commonweal.decision.raw import make_problem
from commonweal.decision.transfers import Division, divide
from commonweal.decision.validation import check_rules
from commonweal.records import Decision, Figures, Rules


class Paper(Mechanism):
    """Loss-makers are eliminated where that gains more welfare than μ times the contribution lost."""

    name: ClassVar[str] = "paper"
    version: ClassVar[str] = "2"
    earlier_versions: ClassVar[tuple[str, ...]] = ("1",)
    label: ClassVar[str] = "Travadi et al. 2023"
    fidelity: ClassVar[Fidelity] = "full"
    takes_mu: ClassVar[bool] = True
    honours: ClassVar[tuple[str, ...]] = COMMON_RULES

    @property
    def version_in_ledgers(self) -> str:
        return str(self.rules.version)

    @classmethod
    def of_version(cls, version: str, rules: Rules) -> Paper:
        return cls(replace(rules, version=int(version)))

    def check(self, *, has_costs: bool) -> None:
        super().check(has_costs=has_costs)
        check_rules(self.rules, has_costs=has_costs)

    def select(self, view: RoundView, state: State) -> Choice:
        if not (view.selecting < 0).any():
            return super().select(view, state)
        return choose(self._problem(view), len(view.clients), float(self.rules.mu))

    def _problem(self, view: RoundView) -> Problem:
        rules = self.rules
        return make_problem(view.selecting, view.contributions, rules.contribution_rule, version=rules.version)

    def divide(self, view: RoundView, state: State, retained: BoolArray) -> Division:
        return divide(
            view.profits[retained],
            view.contributions[retained],
            loss_rule=self.rules.loss_rule,
            costs=None if view.costs is None else view.costs[retained],
            liability_cap=self.rules.liability_cap,
        )

    def objective(self, view: RoundView, retained: BoolArray) -> float:
        return objective(view.selecting, view.contributions, retained, 0.0 if view.grace else float(self.rules.mu))

    def explain(self, view: RoundView, state: State, decision: Decision, client: str, path: MuPath | None) -> str:
        return explain(decision, client, path).sentence

    def mu_path(self, figures: Figures, *, limit: int) -> MuPath | None:
        path = self.whole_path(figures, limit=limit)
        return path if path.complete else None

    def whole_path(
        self, figures: Figures, *, limit: int = PATH_LIMIT, progress: Callable[[int], None] | None = None
    ) -> MuPath:
        """The decision for every μ, up to `limit` breakpoints; the μ of the rules is not used."""
        view = view_of(self, figures)
        self.check(has_costs=view.costs is not None)
        client_count = len(view.clients)
        problem = self._problem(view)
        envelope = trace(problem, client_count, limit=limit, progress=progress)

        def decision_at(mu: float) -> Decision:
            known = envelope.retained(mu) if mu < math.inf else np.ones(client_count, np.bool_)
            choice = (
                choose(problem, client_count, mu)
                if known is None
                else Choice(retained=known, proven_gap=envelope.proven_gap)
            )
            return decision_of(Paper(replace(self.rules, mu=mu)), figures, view, {}, choice)

        return MuPath(clients=view.clients, envelope=envelope, decision_at=decision_at)
