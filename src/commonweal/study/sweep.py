"""One replication under many policies at once: every history that policies share is computed once.

What a round measures depends on the seed and on which clients were active in each round up to it, not on μ itself. So
the rounds form a tree: a node is a round after one history, and its branches are the sets that some policy retains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from commonweal.decision.decide import decision_with
from commonweal.federation.fates import KnownFates, known_fates
from commonweal.federation.measuring import measure_round
from commonweal.federation.round_result import MeasuredRound
from commonweal.records import ContributionRule, MuRange, RoundRecord
from commonweal.scenario.spec import Scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.study.mu_sets import MuSet

Policies = Mapping[ContributionRule, MuSet]
"""The values of μ to follow under each contribution rule."""

CompletedRounds = tuple[tuple[MeasuredRound, tuple[str, ...]], ...]
"""Rounds in order, each with the clients retained after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptHistory:
    """One history from the first round to the last, and all policies that lead to it."""

    rounds: CompletedRounds
    mu_ranges: Mapping[ContributionRule, tuple[MuRange, ...]]


def sweep(
    clients: InProcessClients,
    scenario: Scenario,
    policies: Policies,
    *,
    on_round: Callable[[CompletedRounds], None] | None = None,
) -> Iterator[SweptHistory]:
    """All histories that the policies lead to, each once; `on_round` is called before each round with those before it.

    The scenario's own μ and contribution rule are not used.
    """
    waiting: list[tuple[InProcessClients, Policies, CompletedRounds]] = [(clients.fork(), policies, ())]
    while waiting:
        fork, followed, completed = waiting.pop()
        if on_round is not None:
            on_round(completed)
        number = len(completed) + 1
        measured = measure_round(
            fork,
            scenario,
            number,
            completed[-1][1] if completed else scenario.client_names,
            earlier=[before.gains for before, _ in completed],
        )
        known = known_fates(measured, scenario, [before.scored for before, _ in completed])
        parts = _split(measured, scenario, followed, known)
        # The smallest federation continues first: a waiting fork keeps its data in memory, and this way only one waits.
        for retained in sorted(parts, key=len, reverse=True):
            rounds = (*completed, (measured, retained))
            if len(retained) < 2 or number == scenario.round_count or known.finished:
                yield SweptHistory(rounds=rounds, mu_ranges={rule: mus.ranges for rule, mus in parts[retained].items()})
            else:
                waiting.append((_closed(fork, measured, scenario, retained), parts[retained], rounds))


def _closed(
    clients: InProcessClients, measured: MeasuredRound, scenario: Scenario, retained: tuple[str, ...]
) -> InProcessClients:
    """A fork in which the round is over, with these clients retained."""
    decision = decision_with(measured.figures, scenario.mechanism.rules, retained)
    fork = clients.fork()
    fork.close_round(RoundRecord(round_number=measured.round_number, decision=decision, absent=measured.absent))
    return fork


def _split(
    measured: MeasuredRound, scenario: Scenario, policies: Policies, known: KnownFates
) -> dict[tuple[str, ...], Policies]:
    """The policies by which clients they retain."""
    figures, mechanism = measured.figures.without(known.harmful), scenario.mechanism
    if measured.round_number <= mechanism.grace_rounds or known.finished:
        return {figures.clients: policies}
    parts: dict[tuple[str, ...], dict[ContributionRule, MuSet]] = {}
    for rule, mus in policies.items():
        rules = replace(mechanism.rules, contribution_rule=rule)
        for retained, some in mus.split(figures, rules).items():
            parts.setdefault(retained, {})[rule] = some
    return dict(parts)
