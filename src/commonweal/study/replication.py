"""One replication of an experiment: the task a worker is given, on this machine or another, and its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa

from commonweal.data.federated_dataset import FederatedDataset
from commonweal.data.samples import Samples
from commonweal.data.sources import load_source
from commonweal.records import ContributionRule
from commonweal.scenario.spec import Scenario
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import SimulatedTask, image_task, task_of
from commonweal.study.behaviour import code_version
from commonweal.study.machine import cpu_kind, peak_memory_bytes
from commonweal.study.mu_sets import Mus, mu_set
from commonweal.study.rows import to_table
from commonweal.study.sweep import CompletedRounds, sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationTask:
    """What a worker computes. The scenario has the replication's seed; its μ and contribution rule are not used."""

    experiment: str
    replication: int  # from 1
    scenario: Scenario
    mus: Mapping[ContributionRule, Mus]
    data_directory: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication:
    """The rows of a task, with the code, data and processor that they come from."""

    task: ReplicationTask
    rows: pa.Table
    code_version: str
    data_fingerprint: str
    cpu_kind: str
    computed_round_count: int
    seconds: float
    processor_seconds: float
    peak_memory_bytes: int  # of the worker, since it started


def replicate(task: ReplicationTask, *, on_round: Callable[[], None] | None = None) -> Replication:
    """Compute all rounds that the task's policies lead to, each once, with one thread."""
    version = code_version()  # before the clock starts: the first time it takes a few seconds
    began, began_processor = time.perf_counter(), time.process_time()
    simulated = task_for(task.scenario, task.data_directory)
    round_count = 0

    def count(completed: CompletedRounds) -> None:
        nonlocal round_count
        round_count += 1
        if on_round is not None:
            on_round()

    policies = {rule: mu_set(mus) for rule, mus in task.mus.items()}
    with InProcessClients(task.scenario, simulated, worker_count=1) as clients:
        histories = list(sweep(clients, task.scenario, policies, on_round=count))
    return Replication(
        task=task,
        rows=to_table(task.experiment, task.replication, task.scenario, histories),
        code_version=version,
        data_fingerprint=simulated.fingerprint,
        cpu_kind=cpu_kind(),
        computed_round_count=round_count,
        seconds=time.perf_counter() - began,
        processor_seconds=time.process_time() - began_processor,
        peak_memory_bytes=peak_memory_bytes(),
    )


def task_for(scenario: Scenario, data_directory: Path | None) -> SimulatedTask:
    """The scenario's task; images are loaded once per process, whatever the number of scenarios."""
    if scenario.task.kind != "images":
        return task_of(scenario, data_directory)
    return image_task(scenario, loaded_dataset(scenario, data_directory))


def loaded_dataset(scenario: Scenario, data_directory: Path | None) -> FederatedDataset:
    """The images of a scenario, each source loaded once per process."""
    sources = dict.fromkeys(client.source for client in scenario.clients)
    return FederatedDataset.from_sources(scenario, {source: _source(source, data_directory) for source in sources})


@cache
def _source(name: str, directory: Path | None) -> Samples:
    """Loaded once per worker and shared by all its replications."""
    return load_source(name, directory)
