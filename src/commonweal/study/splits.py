"""Alone or together: what each client's model is worth without the federation and within it, over many splits.

A split is a seed: which rows arrive when, which of them validate, and in which order training takes them. No money
flows, nobody is eliminated, and contributions are not measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from commonweal.federation.session import run_rounds
from commonweal.records import Rules
from commonweal.scenario.spec import MechanismSpec, Scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import task_of
from commonweal.study.local_workers import in_processes

FEWEST_VALIDATION_SAMPLES = 8
"""Of fewer, splits of the same rows say more about each other than about the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The metric of both models at one client after the last round; NaN where it cannot be measured."""

    seed: int
    client: str
    sample_count: int  # for training and validation together
    validation_count: int
    alone: float
    together: float
    reason: str = ""  # why the metric cannot be measured


def compare_splits(
    scenario: Scenario,
    split_count: int,
    *,
    data_directory: Path | None = None,
    worker_count: int = 1,
    on_split: Callable[[], None] | None = None,
) -> list[Split]:
    """Both models of every client in each split, by seed from the scenario's on."""
    without_money = replace(
        scenario,
        mechanism=MechanismSpec(rules=Rules(mu=math.inf), measure="quantity", utility="advantage"),
    )
    tasks = [(replace(without_money, seed=scenario.seed + number), data_directory) for number in range(split_count)]
    found: list[Split] = []
    for split in in_processes(_compare, tasks, worker_count=worker_count):
        found += split
        if on_split is not None:
            on_split()
    order = {client: place for place, client in enumerate(scenario.client_names)}
    return sorted(found, key=lambda one: (one.seed, order[one.client]))


def differences(splits: Sequence[Split], *, higher_is_better: bool) -> dict[str, list[float]]:
    """By client, how much better the federation's model was in each split.

    NaN where the metric cannot be measured, or on so few validation samples that it would be chance.
    """
    sign = 1.0 if higher_is_better else -1.0
    by_client: dict[str, list[float]] = {}
    for split in splits:
        difference = sign * (split.together - split.alone)
        by_client.setdefault(split.client, []).append(
            difference if split.validation_count >= FEWEST_VALIDATION_SAMPLES else math.nan
        )
    return by_client


def reasons(splits: Sequence[Split]) -> dict[str, str]:
    """By client, why its models cannot be compared."""
    found = {one.client: one.reason for one in splits if one.reason}
    few = {one.client: one.validation_count for one in splits if one.validation_count < FEWEST_VALIDATION_SAMPLES}
    return found | {
        client: f"Models cannot be compared at {client} on {count} validation samples: that would be chance. It needs "
        f"at least {FEWEST_VALIDATION_SAMPLES}."
        for client, count in few.items()
    }


def _compare(task: tuple[Scenario, Path | None]) -> list[Split]:
    scenario, data_directory = task
    with InProcessClients(scenario, task_of(scenario, data_directory), worker_count=1) as clients:
        *_, last = run_rounds(clients, scenario)
    reasons = {event.client: event.text for event in last.events if event.kind == "unmeasurable"}
    found = []
    for client, measured in last.measured.items():
        assert measured.alone is not None, "every client trains a model alone"
        found.append(
            Split(
                seed=scenario.seed,
                client=client,
                sample_count=measured.training_count + measured.validation_count,
                validation_count=measured.validation_count,
                alone=measured.alone.value,
                together=measured.accuracy.value,
                reason=reasons.get(client, ""),
            )
        )
    return found
