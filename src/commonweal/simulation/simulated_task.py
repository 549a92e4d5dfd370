"""The task of a scenario, ready to run in this process: images, a table, or the user's own file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from commonweal.client.work import told
from commonweal.data.federated_dataset import FederatedDataset
from commonweal.errors import ScenarioError
from commonweal.learning.vectors import ArrayLayout, Packing
from commonweal.scenario.rates import CLASS
from commonweal.scenario.spec import ClientSpec, Scenario
from commonweal.simulation.image_task import ImageTask
from commonweal.task.choice import chosen_metric
from commonweal.task.file import file_fingerprint, read_task
from commonweal.task.metrics import Metric
from commonweal.task.models import checked_model
from commonweal.task.records import Task, TaskMember, TaskPlan

_FEWEST_SITES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedTask:
    """A task with everything that its clients share."""

    task: Task
    layout: Packing
    metric: Metric
    initial: Tensor
    members: Mapping[str, TaskMember]
    fingerprint: str  # of data and code that the scenario only names: with others it is a different run


def task_of(scenario: Scenario, data_directory: Path | None) -> SimulatedTask:
    """The task that a scenario names."""
    match scenario.task.kind:
        case "images":
            return image_task(scenario, FederatedDataset.for_scenario(scenario, data_directory))
        case "file":
            path = scenario.task.folder / scenario.task.settings["file"]
            return named_arrays_task(scenario, read_task(path), file_fingerprint(path))
        case "table":
            return _table_task(scenario)


def image_task(scenario: Scenario, dataset: FederatedDataset, *, dtype: torch.dtype = torch.float32) -> SimulatedTask:
    """The built-in task for images, on loaded samples."""
    images = ImageTask(scenario, dataset, dtype=dtype)
    return SimulatedTask(
        task=images.task,
        layout=images.layout,
        metric=scenario.task.metric,
        initial=images.layout.pack(images.initial_model(TaskPlan(seed=scenario.seed))),
        members=_members(scenario, {}),
        fingerprint=dataset.fingerprint(),
    )


def named_arrays_task(scenario: Scenario, task: Task, fingerprint: str) -> SimulatedTask:
    """A task whose models are named arrays. What its clients have in common is agreed on first."""
    spec = scenario.task
    metric = chosen_metric(spec.metric_name, task.metrics, lower_is_better=spec.lower_is_better)
    members = _members(scenario, {})
    agreed: Mapping[str, Any] = {}
    if task.summarise is not None and task.agree is not None:
        summaries = {}
        for name, member in members.items():
            with told("summarise", task.name, name, 1):
                summaries[name] = _as_sent(task.summarise(member))
        with told("agree", task.name):
            agreed = _as_sent(task.agree(summaries))
        members = _members(scenario, agreed)
    if "kind" in agreed and metric.kind not in ("any", agreed["kind"]):  # of a table
        suits = "roc-auc or accuracy" if agreed["kind"] == "classification" else "r2 or mean-absolute-error"
        what = "classes" if agreed["kind"] == "classification" else "numbers"
        raise ScenarioError(
            f"The metric {metric.label} does not fit: the target {spec.settings.get('target')!r} has {what}. Write "
            f"metric = {suits.split()[0]!r}, for example ({suits})."
        )
    assert task.initial_model is not None, "a task that runs here has its first model"
    plan = TaskPlan(seed=scenario.seed, settings=spec.settings, agreed=agreed)
    with told("initial_model", task.name):
        initial = checked_model(task.initial_model(plan), "initial_model")
    layout = ArrayLayout(initial)
    if scenario.learning.algorithm == "fedbn" and layout.norms.start == layout.norms.stop:
        raise ScenarioError(
            f"FedBN keeps batch normalisation with each client, but the model of {task.name} has none. Write "
            'algorithm = "fedavg".'
        )
    return SimulatedTask(
        task=task,
        layout=layout,
        metric=metric,
        initial=layout.pack(initial),
        members=members,
        fingerprint=fingerprint,
    )


def with_sites(scenario: Scenario) -> Scenario:
    """The scenario with one client per site of its table; those that it lists keep their own keys."""
    if scenario.site_defaults is None:
        return scenario
    from commonweal.tables.task import TableTask

    listed = {client.name: client for client in scenario.clients}
    sites = TableTask(scenario.task.settings).sites(scenario.task.folder)
    unknown = [name for name in listed if name not in sites]
    if unknown:
        raise ScenarioError(
            f"There is no site {unknown[0]!r} in {scenario.task.settings['table']}: the sites are "
            f"{', '.join(map(str, sites))}."
        )
    if len(sites) < _FEWEST_SITES:
        raise ScenarioError(f"A federation needs at least {_FEWEST_SITES} sites, got only {', '.join(sites)}.")
    usual = {key: value for key, value in scenario.site_defaults.items() if key != CLASS}
    clients = tuple(listed.get(name) or ClientSpec(name=name, **usual) for name in sites)
    mechanism, usual_class = scenario.mechanism, scenario.site_defaults.get(CLASS)
    if mechanism.rates is not None and mechanism.rates.by_class:
        classes = {name: str(mechanism.rates.classes.get(name, usual_class)) for name in sites}
        lacking = [name for name, own in classes.items() if own not in mechanism.rates.by_class]
        if lacking:
            raise ScenarioError(
                f"Rates differ by class, and the site {lacking[0]!r} has none. Write {CLASS} in [defaults], or list "
                "the site below [[clients]] with its class."
            )
        mechanism = replace(mechanism, rates=replace(mechanism.rates, classes=classes))
    return replace(scenario, clients=clients, mechanism=mechanism)


def _table_task(scenario: Scenario) -> SimulatedTask:
    from commonweal.tables.federated import fingerprint_of, table_task

    task = table_task(scenario.task.settings)
    return named_arrays_task(scenario, task, fingerprint_of(_members(scenario, {}).values()))


def _members(scenario: Scenario, agreed: Mapping[str, Any]) -> dict[str, TaskMember]:
    return {
        client.name: TaskMember(
            name=client.name,
            settings={**scenario.task.settings, **client.settings},
            folder=scenario.task.folder,
            seed=scenario.seed,
            round_count=scenario.round_count,
            agreed=agreed,
        )
        for client in scenario.clients
    }


def _as_sent(document: Mapping[str, Any]) -> dict[str, Any]:
    """As it would arrive between machines."""
    sent: dict[str, Any] = json.loads(json.dumps(document))
    return sent
