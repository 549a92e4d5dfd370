"""Run a study: replications of experiments in parallel, each computed once and stored as soon as it is finished."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from commonweal.atomic_write import UNFINISHED, locked_directory, make_results_folder
from commonweal.errors import InputError
from commonweal.records import ContributionRule
from commonweal.scenario.spec import Scenario
from commonweal.study import machine
from commonweal.study.behaviour import code_version, same_behaviour
from commonweal.study.mu_sets import Mus, union
from commonweal.study.replication import Replication, ReplicationTask, task_for
from commonweal.study.result_set import (
    Origin,
    StoredReplication,
    check_one_cpu_kind,
    check_one_origin,
    result_folders,
    scenario_digest,
    stored_replications,
    unpack_results,
    write_replication,
    write_results,
)

Workers = Callable[[Sequence[ReplicationTask]], Generator[Replication]]
"""Takes tasks and yields their results in any order; closing the generator stops the tasks that are running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the result set should contain when it is complete."""

    scenarios: Mapping[str, Scenario]  # by experiment
    replication_count: int
    mus: Mapping[ContributionRule, Mus]
    data_directory: Path | None
    mixed_cpus: bool = False
    experiment_order: tuple[str, ...] = ()  # in results.parquet; all others follow by name


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPlan:
    """What a result set already has of a request, and the tasks that remain."""

    origins: Mapping[str, Origin]
    found: tuple[StoredReplication, ...]
    tasks: tuple[ReplicationTask, ...]


def plan(request: Request, directory: Path, *, cpu_kind: str | None = None) -> StudyPlan:
    """Compare the request with the results in the directory; results of another version are refused.

    `cpu_kind` is that of the processors that will compute, where it is known in advance.
    """
    found = tuple(stored_replications(directory))
    origins = _origins(request)
    check_one_origin(found, list(origins.values()), directory, cpu_kind=machine.cpu_kind())
    by_number = {(one.origin.experiment, one.replication): one for one in found}
    tasks = []
    for number in range(1, request.replication_count + 1):  # so that all experiments progress together
        for name, scenario in request.scenarios.items():
            stored = by_number.get((name, number))
            if stored is None or not stored.covers(request.mus):
                tasks.append(_task(request, name, scenario, number, stored))
    if not request.mixed_cpus:
        coming = {cpu_kind} if tasks and cpu_kind is not None else set()
        check_one_cpu_kind(coming.union(one.cpu_kind for one in found), directory)
    return StudyPlan(origins=origins, found=found, tasks=tuple(tasks))


def carry_out(
    request: Request,
    planned: StudyPlan,
    directory: Path,
    workers: Workers,
    *,
    on_result: Callable[[StoredReplication], None] | None = None,
) -> Path:
    """Compute the remaining tasks, write each result as soon as it is finished, then write all of them together."""
    unpack_results(directory)
    versions = {one.cpu_kind: one.origin.code_version for one in planned.found}
    if planned.tasks:
        with closing(workers(planned.tasks)) as results:
            for result in results:
                _check_worker(result, planned.origins[result.task.experiment], versions)
                versions = {result.cpu_kind: result.code_version, **versions}
                if not request.mixed_cpus:
                    check_one_cpu_kind(versions, directory)
                stored = write_replication(directory, result)
                if on_result is not None:
                    on_result(stored)
    return write_results(directory, order=request.experiment_order)


@contextmanager
def result_directory(directory: Path) -> Iterator[None]:
    """Create the folder of a result set if needed and lock it for this process; folders left empty are removed."""
    existing = [*result_folders(directory), directory]
    found = {folder for folder in (*existing, *directory.parents) if folder.exists()}
    try:
        make_results_folder(directory)
        with locked_directory(directory, "a reproduction"):
            for folder in existing:
                for left_over in folder.glob(f".*{UNFINISHED}"):  # of a run that was killed
                    left_over.unlink()
            yield
    finally:
        for folder in (*result_folders(directory), directory, *directory.parents):
            if folder not in found:
                with suppress(OSError):  # it is not empty
                    folder.rmdir()


def _origins(request: Request) -> dict[str, Origin]:
    """What new results would be made from."""
    return {
        name: Origin(
            experiment=name,
            scenario_digest=scenario_digest(scenario),
            code_version=code_version(),
            data_fingerprint=task_for(scenario, request.data_directory).fingerprint,
        )
        for name, scenario in request.scenarios.items()
    }


def _task(
    request: Request, experiment: str, scenario: Scenario, number: int, stored: StoredReplication | None
) -> ReplicationTask:
    mus = dict(request.mus)
    if stored is not None:  # its values of μ are computed again, so that none is lost
        for rule, available in stored.mus.items():
            mus[rule] = union(available, mus[rule]) if rule in mus else available
    return ReplicationTask(
        experiment=experiment,
        replication=number,
        scenario=replace(scenario, seed=scenario.seed + number - 1),
        mus=mus,
        # A worker may have another working directory.
        data_directory=None if request.data_directory is None else request.data_directory.absolute(),
    )


def _check_worker(result: Replication, origin: Origin, versions: Mapping[str, str]) -> None:
    """A worker on another machine may have different code or data; `versions` are of the code, by kind of processor."""
    known = {machine.cpu_kind(): origin.code_version, **versions}
    same_kind = result.cpu_kind in known
    expected = known.get(result.cpu_kind, origin.code_version)
    is_same_code = same_behaviour(result.code_version, expected, same_cpu_kind=same_kind)
    is_same_data = result.data_fingerprint == origin.data_fingerprint
    for what, is_same, theirs, ours in (
        ("code", is_same_code, result.code_version, expected),
        ("data", is_same_data, result.data_fingerprint, origin.data_fingerprint),
    ):
        if not is_same:
            raise InputError(
                f"The worker that computed replication {result.task.replication} of {origin.experiment} has different "
                f"{what} ({theirs[:24]} instead of {ours[:24]}). Install the same version of commonweal and the same "
                "data on every machine."
            )
