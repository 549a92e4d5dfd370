"""One replication of an experiment: what a worker, here or on another machine, is asked and answers."""

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
from commonweal.study.code_version import code_version
from commonweal.study.machine import cpu_kind, peak_memory_bytes
from commonweal.study.mu_sets import WHOLE_AXIS, Grid, Leniencies, Mus
from commonweal.study.rows import to_table
from commonweal.study.sweep import Past, sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is asked of a worker. The scenario's seed is the replication's; its μ and contribution rule are not used."""

    experiment: str
    replication: int  # from 1
    scenario: Scenario
    mus: Mapping[ContributionRule, Mus]
    data_directory: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication:
    """What it answers: the rows, and who made them of what."""

    task: Task
    rows: pa.Table
    code_version: str
    data_fingerprint: str
    cpu_kind: str
    held_count: int  # rounds that were computed
    seconds: float
    processor_seconds: float
    peak_memory_bytes: int  # of the worker, since it started


def replicate(task: Task, *, on_round: Callable[[], None] | None = None) -> Replication:
    """Hold all rounds that the task's policies lead to, each once, with one thread."""
    began, began_processor = time.perf_counter(), time.process_time()
    sources = {client.source for client in task.scenario.clients}
    dataset = FederatedDataset.from_sources(
        task.scenario, {source: _source(source, task.data_directory) for source in sorted(sources)}
    )
    held_count = 0

    def count(past: Past) -> None:
        nonlocal held_count
        held_count += 1
        if on_round is not None:
            on_round()

    policies: dict[ContributionRule, Leniencies] = {
        rule: WHOLE_AXIS if mus == "all" else Grid(mus) for rule, mus in task.mus.items()
    }
    with InProcessClients(task.scenario, dataset, worker_count=1) as clients:
        branches = list(sweep(clients, task.scenario, policies, on_round=count))
    return Replication(
        task=task,
        rows=to_table(task.experiment, task.replication, task.scenario, branches),
        code_version=code_version(),
        data_fingerprint=dataset.fingerprint(),
        cpu_kind=cpu_kind(),
        held_count=held_count,
        seconds=time.perf_counter() - began,
        processor_seconds=time.process_time() - began_processor,
        peak_memory_bytes=peak_memory_bytes(),
    )


@cache
def _source(name: str, directory: Path | None) -> Samples:
    """Loaded once in a worker's life: all replications share it."""
    return load_source(name, directory)
