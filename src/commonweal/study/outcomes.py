"""From rows back to histories: the outcome of each replication at each μ, under any loss rule.

Training never depends on how money is divided, so other loss rules and indices can be computed from the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import groupby, pairwise
from math import inf
from operator import itemgetter
from typing import Any

import pyarrow as pa

from commonweal import metrics
from commonweal.decision.decide import decision_with
from commonweal.records import ContributionRule, Figures, History, LossRule, MuRange, RoundRecord, Rules
from commonweal.study.result_set import StoredReplication

ExperimentKey = tuple[str, ContributionRule]
OutcomesByKey = Mapping[ExperimentKey, "Outcomes"]

_POLICY = itemgetter("mu_lower", "mu_upper", "mu_includes_lower", "mu_includes_upper")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One replication at the μ of one range, under one contribution rule."""

    experiment: str
    replication: int
    contribution_rule: ContributionRule
    mus: MuRange
    round_count: int  # planned
    _rows: tuple[Mapping[str, Any], ...]

    @property
    def history(self) -> History:
        """The history under the paper's loss rule."""
        return self.history_with("contribution")

    def history_with(self, loss_rule: LossRule) -> History:
        """The same decisions, with losses divided by this rule."""
        if loss_rule not in self._histories:
            rules = Rules(mu=self.mus.lower, contribution_rule=self.contribution_rule, loss_rule=loss_rule)
            by_round = groupby(self._rows, itemgetter("round"))
            rounds = tuple(_record(number, list(rows), rules) for number, rows in by_round)
            self._histories[loss_rule] = History(clients=rounds[0].decision.figures.clients, rounds=rounds)
        return self._histories[loss_rule]

    @cached_property
    def _histories(self) -> dict[LossRule, History]:
        """Those that were asked for."""
        return {}

    @cached_property
    def retained_sets(self) -> tuple[tuple[str, ...], ...]:
        """The clients retained after each round."""
        return tuple(
            tuple(row["client"] for row in rows if row["retained"])
            for _, rows in groupby(self._rows, itemgetter("round"))
        )

    @cached_property
    def clients(self) -> tuple[str, ...]:
        return tuple(row["client"] for row in self._rows if row["round"] == 1)

    @cached_property
    def durations(self) -> dict[str, int]:
        return metrics.durations(self.history)

    @cached_property
    def tsw(self) -> tuple[float, ...]:
        """After each round; after an early end the last value stands for the rest. Indices likewise."""
        return metrics.tsw(self.history, round_count=self.round_count)

    @property
    def welfare_of_all(self) -> float:
        """Σ profit of all who took part in each round; TSW leaves out the losses of those eliminated after it."""
        return math.fsum(row["profit"] for row in self._rows)

    @cached_property
    def tsfi(self) -> tuple[float, ...]:
        return metrics.tsfi(self.history, round_count=self.round_count)

    @cached_property
    def tsfi_final_set(self) -> tuple[float, ...]:
        return metrics.tsfi_final_set(self.history, round_count=self.round_count)

    @cached_property
    def tsfi_departed_zero(self) -> tuple[float, ...]:
        return metrics.tsfi(self.history, departed="zero", round_count=self.round_count)

    @property
    def ended_early(self) -> bool:
        return len(self.history.rounds) < self.round_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """All replications of one experiment under one contribution rule, by number."""

    experiment: str
    contribution_rule: ContributionRule
    replications: Mapping[int, tuple[Outcome, ...]]  # each in the order of μ

    def at(self, mu: float) -> list[Outcome]:
        """One outcome from each replication that followed this μ."""
        return [o for outcomes in self.replications.values() for o in outcomes if mu in o.mus]

    @property
    def mus(self) -> tuple[float, ...]:
        """The single values of μ that every replication has, also inside an interval."""
        singles = {
            o.mus.lower for outcomes in self.replications.values() for o in outcomes if o.mus.lower == o.mus.upper
        }
        return tuple(mu for mu in sorted(singles) if len(self.at(mu)) == len(self.replications))

    def only(self, replications: Sequence[int]) -> Outcomes:
        """Only these replications."""
        kept = {number: outcomes for number, outcomes in self.replications.items() if number in replications}
        return Outcomes(experiment=self.experiment, contribution_rule=self.contribution_rule, replications=kept)

    def with_whole_axis(self) -> Outcomes:
        """Only the replications that followed every μ."""
        return self.only([number for number, outcomes in self.replications.items() if _covers_axis(outcomes)])


def gather(stored: Sequence[StoredReplication], rows: pa.Table) -> dict[ExperimentKey, Outcomes]:
    """All outcomes of a result set, by experiment and contribution rule."""
    round_counts = {(one.origin.experiment, one.replication): one.round_count for one in stored}
    found: dict[ExperimentKey, dict[int, tuple[Outcome, ...]]] = {}
    by_replication = itemgetter("experiment", "contribution_rule", "replication")
    for (experiment, rule, number), some in groupby(rows.to_pylist(), by_replication):
        outcomes = tuple(
            Outcome(
                experiment=experiment,
                replication=number,
                contribution_rule=rule,
                mus=_range(*policy),
                round_count=round_counts[experiment, number],
                _rows=tuple(of_policy),
            )
            for policy, of_policy in _by_policy(some)
        )
        found.setdefault((experiment, rule), {})[number] = outcomes
    return {
        (experiment, rule): Outcomes(
            experiment=experiment, contribution_rule=rule, replications=dict(sorted(replications.items()))
        )
        for (experiment, rule), replications in found.items()
    }


def _by_policy(rows: Iterator[Mapping[str, Any]]) -> Iterator[tuple[Any, list[Mapping[str, Any]]]]:
    for policy, some in groupby(rows, _POLICY):
        yield policy, list(some)


def _range(lower: float, upper: float, includes_lower: bool, includes_upper: bool) -> MuRange:
    """The bounds are doubles here; for doubles, `in` gives the same as with the exact bounds."""
    return MuRange(
        exact_lower=lower if lower == inf else Fraction(lower),
        exact_upper=upper if upper == inf else Fraction(upper),
        closed_below=includes_lower,
        closed_above=includes_upper,
    )


def _covers_axis(outcomes: Sequence[Outcome]) -> bool:
    """Whether the ranges cover 0 to infinity without a gap."""
    bounds = [(o.mus.lower, o.mus.upper) for o in outcomes]
    touching = all(before[1] == after[0] for before, after in pairwise(bounds))
    return touching and 0 in outcomes[0].mus and inf in outcomes[-1].mus


def _record(number: int, rows: list[Mapping[str, Any]], rules: Rules) -> RoundRecord:
    expected: dict[str, Any] = {row["client"]: row.get("expected_profit") for row in rows}
    figures = Figures(
        profits={row["client"]: row["profit"] for row in rows},
        contributions={row["client"]: row["contribution"] for row in rows},
        costs={row["client"]: row["cost"] for row in rows},
        expected=expected if None not in expected.values() else None,
    )
    retained = {row["client"] for row in rows if row["retained"]}
    return RoundRecord(round_number=number, decision=decision_with(figures, rules, retained))
