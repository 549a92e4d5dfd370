"""The runner: replications of the paper's experiments, as many at a time as there are workers, none of them twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from commonweal.atomic_write import UNFINISHED, held_alone
from commonweal.data.holdings import Holdings
from commonweal.errors import InputError
from commonweal.experiments.code_version import code_version
from commonweal.experiments.replication import Mus, Replication, Task
from commonweal.experiments.result_set import (
    Origin,
    StoredReplication,
    check_one_cpu_kind,
    check_one_origin,
    joined,
    scenario_digest,
    stored_replications,
    write_replication,
    write_results,
)
from commonweal.records import ContributionRule
from commonweal.scenario.spec import Scenario

Workers = Callable[[Sequence[Task]], Iterator[Replication]]
"""From tasks to their results, as they come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be there in the end."""

    scenarios: Mapping[str, Scenario]  # by experiment
    replication_count: int
    mus: Mapping[ContributionRule, Mus]
    data_directory: Path | None
    mixed_cpus: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What of a request is there, and what is to be done."""

    origins: Mapping[str, Origin]
    found: tuple[StoredReplication, ...]
    tasks: tuple[Task, ...]


def plan(request: Request, directory: Path) -> Plan:
    """Look at the results in the directory; refuse those of another version."""
    origins = {name: _origin(name, scenario, request.data_directory) for name, scenario in request.scenarios.items()}
    found = tuple(stored_replications(directory))
    check_one_origin(found, list(origins.values()), directory)
    if not request.mixed_cpus:
        check_one_cpu_kind((one.cpu_kind for one in found), directory)
    by_number = {(one.origin.experiment, one.replication): one for one in found}
    tasks = []
    for number in range(1, request.replication_count + 1):  # all experiments grow together
        for name, scenario in request.scenarios.items():
            there = by_number.get((name, number))
            if there is None or not there.covers(request.mus):
                tasks.append(_task(request, name, scenario, number, there))
    return Plan(origins=origins, found=found, tasks=tuple(tasks))


def carry_out(
    request: Request,
    planned: Plan,
    directory: Path,
    workers: Workers,
    *,
    on_result: Callable[[StoredReplication], None] | None = None,
) -> Path:
    """Do what is to be done, each result on disk as soon as it is there; then put all together."""
    kinds = {one.cpu_kind for one in planned.found}
    for result in workers(planned.tasks) if planned.tasks else ():
        _check_worker(result, planned.origins[result.task.experiment])
        kinds.add(result.cpu_kind)
        if not request.mixed_cpus:
            check_one_cpu_kind(kinds, directory)
        stored = write_replication(directory, result)
        if on_result is not None:
            on_result(stored)
    return write_results(directory)


@contextmanager
def result_directory(directory: Path) -> Iterator[None]:
    """The folder of a result set, made if need be and held by this process alone."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"the folder of the results must be writable, got {error.strerror} for {str(directory)!r}; "
            "give another --out"
        ) from None
    with held_alone(directory, "a reproduction"):
        for left_over in directory.rglob(f".*{UNFINISHED}"):  # of a run that was killed
            left_over.unlink()
        yield


def _origin(experiment: str, scenario: Scenario, data_directory: Path | None) -> Origin:
    return Origin(
        experiment=experiment,
        scenario_digest=scenario_digest(scenario),
        code_version=code_version(),
        data_fingerprint=Holdings.for_scenario(scenario, data_directory).fingerprint(),
    )


def _task(
    request: Request, experiment: str, scenario: Scenario, number: int, there: StoredReplication | None
) -> Task:
    mus = dict(request.mus)
    if there is not None:  # what it has is kept
        for rule, held in there.mus.items():
            mus[rule] = joined(held, mus[rule]) if rule in mus else held
    return Task(
        experiment=experiment,
        replication=number,
        scenario=replace(scenario, seed=scenario.seed + number - 1),
        mus=mus,
        data_directory=request.data_directory,
    )


def _check_worker(result: Replication, origin: Origin) -> None:
    """A worker on another machine may have other code or other data."""
    for what, theirs, ours in (
        ("code", result.code_version, origin.code_version),
        ("data", result.data_fingerprint, origin.data_fingerprint),
    ):
        if theirs != ours:
            raise InputError(
                f"all workers must have the same {what}, got {theirs[:12]} instead of {ours[:12]} from the one that "
                f"computed replication {result.task.replication} of {origin.experiment}; install the same version "
                "and the same data on every machine"
            )
