"""The federation that the benchmarks run: five equal clients on built-in data, always the same amount of work.

Nobody is eliminated and no round ends early, so every way to run it trains and scores the same models.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import torch
from tests.simulation.plain_loop import run_plainly

from commonweal.data.federated_dataset import FederatedDataset
from commonweal.federation.session import run_rounds
from commonweal.records import Rules
from commonweal.scenario.spec import ClientSpec, LearningSpec, MechanismSpec, ModelName, Scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import image_task

CLIENT_COUNT = 5
ROUND_COUNTS: dict[ModelName, int] = {"compact": 3, "fedbn-digits": 1}
SAMPLES_PER_ROUND: dict[ModelName, float] = {"compact": 100, "fedbn-digits": 45}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOutcome:
    """The result of a round, to check that two ways to run a federation do the same work."""

    accuracies: dict[str, float]
    contributions: dict[str, float]


Outcome = list[RoundOutcome]


def make_case(model: ModelName, seed: int, measure: str = "marginal") -> Scenario:
    round_count = ROUND_COUNTS[model]
    return Scenario(
        name=f"benchmark-{model}",
        description="Five equal clients; the same number of iterations in every round.",
        round_count=round_count,
        seed=seed,
        clients=tuple(
            ClientSpec(
                name=f"client-{i}",
                source="mnist-5k",
                samples_per_round=SAMPLES_PER_ROUND[model],
                cost_per_sample=2e-4,
            )
            for i in range(CLIENT_COUNT)
        ),
        mechanism=MechanismSpec(rules=Rules(mu=0.05), grace_rounds=round_count, measure=measure),
        learning=LearningSpec(model=model, stop_below=0.0),
    )


def run_fast(scenario: Scenario, dataset: FederatedDataset) -> Outcome:
    """A session with the in-process clients, on one core."""
    with InProcessClients(scenario, image_task(scenario, dataset), worker_count=1) as clients:
        return [
            RoundOutcome(
                accuracies=dict(held.iteration_accuracies[-1]),
                contributions=dict(held.record.decision.figures.contributions),
            )
            for held in run_rounds(clients, scenario)
        ]


def run_plain(scenario: Scenario, dataset: FederatedDataset) -> Outcome:
    """The plain loop, on one core."""
    torch.set_num_threads(1)
    return [
        RoundOutcome(accuracies=dict(found.accuracies), contributions=dict(found.decision.figures.contributions))
        for found in run_plainly(scenario, dataset)
    ]


def mean_difference(one: Outcome, other: Outcome) -> float:
    """The largest difference, over the rounds, of the clients' mean accuracy."""
    return max(abs(_mean_accuracy(a) - _mean_accuracy(b)) for a, b in zip(one, other, strict=True))


def _mean_accuracy(found: RoundOutcome) -> float:
    return statistics.mean(found.accuracies.values())
