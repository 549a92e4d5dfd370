"""The runner: replications of the paper's experiments, as many at a time as there are workers, none of them twice."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from commonweal.atomic_write import UNFINISHED, held_alone, make_results_folder
from commonweal.data.federated_dataset import FederatedDataset
from commonweal.data.samples import Samples
from commonweal.data.sources import load_source
from commonweal.errors import InputError
from commonweal.records import ContributionRule
from commonweal.scenario.spec import Scenario
from commonweal.study.code_version import code_version
from commonweal.study.mu_sets import Mus
from commonweal.study.replication import Replication, Task
from commonweal.study.result_set import (
    Origin,
    StoredReplication,
    check_one_cpu_kind,
    check_one_origin,
    joined,
    result_folders,
    scenario_digest,
    stored_replications,
    write_replication,
    write_results,
)

Workers = Callable[[Sequence[Task]], Generator[Replication]]
"""From tasks to their results, as they come; closing it ends what is under way."""


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


def plan(request: Request, directory: Path, *, cpu_kind: str | None = None) -> Plan:
    """Look at the results in the directory; refuse those of another version.

    `cpu_kind`: of the processors that will compute, where it is known beforehand.
    """
    found = tuple(stored_replications(directory))
    origins = _origins(request)
    check_one_origin(found, list(origins.values()), directory)
    by_number = {(one.origin.experiment, one.replication): one for one in found}
    tasks = []
    for number in range(1, request.replication_count + 1):  # all experiments grow together
        for name, scenario in request.scenarios.items():
            there = by_number.get((name, number))
            if there is None or not there.covers(request.mus):
                tasks.append(_task(request, name, scenario, number, there))
    if not request.mixed_cpus:
        coming = {cpu_kind} if tasks and cpu_kind is not None else set()
        check_one_cpu_kind(coming.union(one.cpu_kind for one in found), directory)
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
    if planned.tasks:
        with closing(workers(planned.tasks)) as results:
            for result in results:
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
    """The folder of a result set, made if need be and held by this process alone; folders that stay empty go again."""
    own = [*result_folders(directory), directory]
    missing = [folder for folder in (*own, *directory.parents) if not folder.exists()]
    try:
        make_results_folder(directory)
        with held_alone(directory, "a reproduction"):
            for folder in own:
                for left_over in folder.glob(f".*{UNFINISHED}"):  # of a run that was killed
                    left_over.unlink()
            yield
    finally:
        for folder in missing:
            with suppress(OSError):  # one that is not empty stays
                folder.rmdir()


def _origins(request: Request) -> dict[str, Origin]:
    """What results would be made of today; experiments that share a data set read it once."""
    loaded: dict[str, Samples] = {}
    origins = {}
    for name, scenario in request.scenarios.items():
        sources = dict.fromkeys(client.source for client in scenario.clients)
        for source in sources:
            if source not in loaded:
                loaded[source] = load_source(source, request.data_directory)
        dataset = FederatedDataset.from_sources(scenario, {source: loaded[source] for source in sources})
        origins[name] = Origin(
            experiment=name,
            scenario_digest=scenario_digest(scenario),
            code_version=code_version(),
            data_fingerprint=dataset.fingerprint(),
        )
    return origins


def _task(request: Request, experiment: str, scenario: Scenario, number: int, there: StoredReplication | None) -> Task:
    mus = dict(request.mus)
    if there is not None:  # what it has is kept
        for rule, held in there.mus.items():
            mus[rule] = joined(held, mus[rule]) if rule in mus else held
    return Task(
        experiment=experiment,
        replication=number,
        scenario=replace(scenario, seed=scenario.seed + number - 1),
        mus=mus,
        # A worker may have another working directory.
        data_directory=None if request.data_directory is None else request.data_directory.absolute(),
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
