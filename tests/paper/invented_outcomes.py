"""Made-up outcomes: scripted, so that the truth is known, or decided on figures drawn from a seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from commonweal.paper.experiments import MUS
from commonweal.records import ContributionRule, Figures, MuRange, Rules
from commonweal.study.mu_sets import MuGrid, MuSet
from commonweal.study.outcomes import Outcome, Outcomes

CLIENTS = tuple(f"client-{number}" for number in range(5))
ROUND_COUNT = 15


@dataclass(frozen=True, kw_only=True)
class Script:
    """How long each client stays, what it earns and what it contributes; every function gets μ and the replication.

    At μ = inf everybody stays, whatever the durations.
    """

    durations: Callable[[float, int], list[int]] = lambda mu, replication: [ROUND_COUNT] * len(CLIENTS)
    profit: Callable[[float, int, int, int], float] = lambda mu, replication, round_, client: 0.1
    contribution: Callable[[float, int, int, int], float] = lambda mu, replication, round_, client: 0.1

    def outcomes(
        self, experiment: str, *, replication_count: int = 10, rule: ContributionRule = "clip"
    ) -> dict[tuple[str, ContributionRule], Outcomes]:
        numbers = range(1, replication_count + 1)
        return together(experiment, rule, {n: self._replication(experiment, n, rule) for n in numbers})

    def _replication(self, experiment: str, number: int, rule: ContributionRule) -> tuple[Outcome, ...]:
        return tuple(
            made(experiment, number, rule, range_, tuple(self._rows(range_.lower, number)))
            for range_ in MuGrid(MUS).ranges
        )

    def _rows(self, mu: float, replication: int) -> Iterator[Mapping[str, Any]]:
        durations = self.durations(mu, replication) if mu < math.inf else [ROUND_COUNT] * len(CLIENTS)
        for round_ in range(1, max(durations) + 1):
            for client, duration in enumerate(durations):
                if duration >= round_:
                    yield row(
                        round_,
                        CLIENTS[client],
                        profit=self.profit(mu, replication, round_, client),
                        contribution=self.contribution(mu, replication, round_, client),
                        retained=duration > round_ or duration == ROUND_COUNT,
                    )


def row(round_: int, client: str, *, profit: float, contribution: float, retained: bool) -> dict[str, Any]:
    cost = 0.02
    return {
        "round": round_,
        "client": client,
        "profit": profit,
        "contribution": contribution,
        "cost": cost,
        "retained": retained,
    }


def made(
    experiment: str, number: int, rule: ContributionRule, mus: MuRange, rows: tuple[Mapping[str, Any], ...]
) -> Outcome:
    return Outcome(
        experiment=experiment,
        replication=number,
        contribution_rule=rule,
        mus=mus,
        round_count=ROUND_COUNT,
        _rows=rows,
    )


def together(
    experiment: str, rule: ContributionRule, replications: Mapping[int, tuple[Outcome, ...]]
) -> dict[tuple[str, ContributionRule], Outcomes]:
    return {
        (experiment, rule): Outcomes(experiment=experiment, contribution_rule=rule, replications=dict(replications))
    }


def decided(experiment: str, seeds: list[int], followed: MuSet, rule: ContributionRule = "clip") -> Outcomes:
    """Federations whose figures depend on a seed and on who is still active, decided by the mechanism."""
    replications = {}
    for seed in seeds:
        branches = [
            (mus, tuple(rows)) for rows, some in _branches(seed, followed, rule, CLIENTS, 1) for mus in some.ranges
        ]
        branches.sort(key=lambda branch: (branch[0].exact_lower, branch[0].exact_upper))
        replications[seed] = tuple(made(experiment, seed, rule, mus, rows) for mus, rows in branches)
    return together(experiment, rule, replications)[experiment, rule]


def _branches(
    seed: int, followed: MuSet, rule: ContributionRule, active: tuple[str, ...], round_: int
) -> Iterator[tuple[list[dict[str, Any]], MuSet]]:
    """All ways in which a federation can go, each with its rows and the μ that lead to it."""
    figures = _figures(seed, active, round_)
    for retained, some in followed.split(figures, Rules(mu=math.inf, contribution_rule=rule)).items():
        rows = [
            row(round_, c, profit=figures.profits[c], contribution=figures.contributions[c], retained=c in retained)
            for c in active
        ]
        if len(retained) < 2 or round_ == ROUND_COUNT:
            yield rows, some
        else:
            for later, still in _branches(seed, some, rule, retained, round_ + 1):
                yield rows + later, still


def _figures(seed: int, active: tuple[str, ...], round_: int) -> Figures:
    """High profits at first, then small losses; contributions of both signs, some of them zero."""
    rng = np.random.default_rng([seed, round_, *(CLIENTS.index(c) for c in active)])
    profits = rng.normal(0.5 / round_**2 - 0.02, 0.02, len(active))
    contributions = np.round(rng.normal(0.01, 0.02, len(active)), 2)
    return Figures(
        profits=dict(zip(active, profits.tolist(), strict=True)),
        contributions=dict(zip(active, contributions.tolist(), strict=True)),
        costs=dict.fromkeys(active, 0.02),
    )
