"""How accurate do the scenarios get? Mean validation accuracy after the first and the last round, nobody eliminated.

    python benchmarks/accuracy_of_scenarios.py [--seeds 5] [--rate 0.1] [--widths 16-32-64] [NAME[:ALGORITHM] ...]

Needs the original data (COMMONWEAL_DATA). The defaults of `compact` and of the learning rate were
chosen with it; it is not part of `make bench`, which measures speed.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from commonweal.data.federated_dataset import FederatedDataset
from commonweal.federation.session import run_rounds
from commonweal.learning import models
from commonweal.scenario.shipped import load
from commonweal.scenario.spec import Scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import image_task


@dataclass(frozen=True, kw_only=True)
class Replication:
    """One seeded run: accuracies by client after the first and the last round, and how long it took."""

    first: list[float]
    last: list[float]
    iteration_count: float  # per round, on average
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["equal-mnist", "heterogeneous", "heterogeneous:fedavg"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--widths", help="channels of compact instead of its own, e.g. 8-16-32")
    options = parser.parse_args()
    workers = ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"))
    for name in options.names:
        scenario = _described(name, options.rate)
        tasks = [(replace(scenario, seed=seed), options.widths) for seed in range(1, options.seeds + 1)]
        _print(name, options, list(workers.map(_replicate, tasks)))


def _described(name: str, rate: float | None) -> Scenario:
    name, _, algorithm = name.partition(":")
    scenario = load(name)
    learning = replace(scenario.learning, learning_rate=rate or scenario.learning.learning_rate)
    if algorithm:
        learning = replace(learning, algorithm=algorithm, parameters={})
    rules = replace(scenario.mechanism.rules, mu=math.inf)
    return replace(scenario, learning=learning, mechanism=replace(scenario.mechanism, rules=rules, measure="quantity"))


def _replicate(task: tuple[Scenario, str | None]) -> Replication:
    scenario, widths = task
    if widths is not None:
        one, two, three = map(int, widths.split("-"))
        models.ARCHITECTURES["compact"] = replace(models.ARCHITECTURES["compact"], channels=(one, two, three))
    dataset = FederatedDataset.for_scenario(scenario, Path(os.environ["COMMONWEAL_DATA"]))
    started = time.perf_counter()
    with InProcessClients(scenario, image_task(scenario, dataset), worker_count=1) as clients:
        held = list(run_rounds(clients, scenario))
    return Replication(
        first=list(held[0].iteration_accuracies[-1].values()),
        last=list(held[-1].iteration_accuracies[-1].values()),
        iteration_count=float(np.mean([len(one.iteration_accuracies) - 1 for one in held])),
        seconds=time.perf_counter() - started,
    )


def _print(name: str, options: argparse.Namespace, found: list[Replication]) -> None:
    last = np.array([replication.last for replication in found])
    means = last.mean(axis=1)
    rate = "default" if options.rate is None else f"{options.rate:g}"
    print(
        f"{name}, rate {rate}, widths {options.widths or 'default'}, {len(found)} seeds: "
        f"after round 1 {np.mean([r.first for r in found]):.3f}, after the last {means.mean():.4f} "
        f"± {means.std(ddof=1) / math.sqrt(len(found)) if len(found) > 1 else math.nan:.4f}; by client "
        f"{' '.join(f'{a:.3f}' for a in last.mean(axis=0))}; "
        f"{np.mean([r.iteration_count for r in found]):.1f} iterations per round, "
        f"{np.mean([r.seconds for r in found]):.0f} s per replication",
        flush=True,
    )


if __name__ == "__main__":
    main()
