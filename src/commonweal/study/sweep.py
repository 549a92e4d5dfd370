"""One replication under many policies at once: every history they share is computed once.

A round's outcome depends on the seed and on who was active in each round up to it, not on μ itself. So the rounds form
a tree: a node is a round held after one history, its branches are the sets that some policy retains there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from commonweal.federation.conductor import hold_round
from commonweal.federation.round_result import RoundResult
from commonweal.records import ContributionRule, MuRange
from commonweal.scenario.spec import Scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.study.mu_sets import Leniencies

Policies = Mapping[ContributionRule, Leniencies]
"""For each contribution rule the μ that are followed."""

Past = tuple[tuple[RoundResult, tuple[str, ...]], ...]
"""Rounds in order, each with the clients retained after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One whole history, and all policies that lead to it."""

    rounds: Past
    mu_ranges: Mapping[ContributionRule, tuple[MuRange, ...]]


def sweep(
    clients: InProcessClients, scenario: Scenario, policies: Policies, *, on_round: Callable[[Past], None] | None = None
) -> Iterator[Branch]:
    """All histories that the policies lead to, each once; `on_round` is told the past of every round before it is held.

    μ and contribution rule of the scenario are not used.
    """
    # Nobody leaves while a round is held: who does is decided for each policy afterwards.
    rules = replace(scenario.mechanism.rules, mu=math.inf)
    lenient = replace(scenario, mechanism=replace(scenario.mechanism, rules=rules))
    waiting: list[tuple[InProcessClients, Policies, Past]] = [(clients.fork(scenario.client_names), policies, ())]
    while waiting:
        fork, followed, past = waiting.pop()
        if on_round is not None:
            on_round(past)
        number = len(past) + 1
        held = hold_round(fork, lenient, number, past[-1][1] if past else scenario.client_names)
        parts = _parted(held, lenient, followed)
        # The smallest federation goes on first: a fork that waits keeps its data in memory, and so only one does.
        for retained in sorted(parts, key=len, reverse=True):
            rounds = (*past, (held, retained))
            if len(retained) < 2 or number == scenario.round_count:
                yield Branch(rounds=rounds, mu_ranges={rule: mus.ranges for rule, mus in parts[retained].items()})
            else:
                waiting.append((fork.fork(retained), parts[retained], rounds))


def _parted(held: RoundResult, scenario: Scenario, policies: Policies) -> dict[tuple[str, ...], Policies]:
    """The policies by whom they retain."""
    figures, mechanism = held.record.decision.figures, scenario.mechanism
    if held.record.decision.grace:
        return {figures.clients: policies}
    parts: dict[tuple[str, ...], dict[ContributionRule, Leniencies]] = {}
    for rule, mus in policies.items():
        rules = replace(mechanism.rules, contribution_rule=rule)
        for retained, some in mus.parted(figures, rules).items():
            parts.setdefault(retained, {})[rule] = some
    return dict(parts)
