"""Compare mechanisms: replications of one scenario in parallel, each history trained once, and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from commonweal import metrics
from commonweal.atomic_write import UNFINISHED, locked_directory, make_results_folder
from commonweal.audit.audit import RoundsAudit
from commonweal.audit.bounds import observed_bounds
from commonweal.audit.game import AuditedRound
from commonweal.audit.training import audited_round
from commonweal.comparison.columns import columns_of, is_heterogeneous
from commonweal.comparison.contenders import Contender
from commonweal.comparison.following import Followed, follow
from commonweal.comparison.histories import Histories
from commonweal.comparison.table_one import TICKS
from commonweal.decision.mechanism import CARRIED_OUT, PRIVATE, READABLE
from commonweal.records.audit import LieResult
from commonweal.records.comparison import COLUMNS, Column, ComparedMechanism, Comparison, Figure, Skipped
from commonweal.report.text import counted
from commonweal.scenario.spec import Scenario
from commonweal.simulation.truth import FEWEST_SAMPLES, why_no_truth
from commonweal.study.intervals import mean_interval, mean_intervals
from commonweal.study.local_workers import in_processes

ROUNDS = "rounds"
"""The folder of the trained rounds, among the results."""

AUDITED_REPORTS = 200
"""Reports of clients that are audited per mechanism: as many replications as have so many, and at least one."""

_SEARCH_LIMIT = 1_000  # decisions that a search for best replies may take, per mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is compared."""

    scenario: Scenario
    contenders: tuple[Contender, ...]
    skipped: tuple[Skipped, ...] = ()
    replication_count: int = 1
    directory: Path
    data_directory: Path | None = None
    worker_count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationTask:
    """What a worker computes. The scenario has the replication's seed."""

    replication: int  # from 1
    scenario: Scenario
    contenders: tuple[Contender, ...]
    folder: Path
    data_directory: Path | None
    thread_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedReplication:
    """What all mechanisms make of one replication, by the names of their rows."""

    replication: int
    seed: int
    columns: Mapping[str, Mapping[str, float | None]]
    durations: Mapping[str, Mapping[str, int]]
    audited: Mapping[str, tuple[AuditedRound, ...]]
    refusals: Mapping[str, str]
    distinct_round_count: int
    decided_round_count: int
    trained_round_count: int  # this time; the others were on disk
    has_truth: bool


OnReplication = Callable[[ComparedReplication], None]


def compare(request: Request, *, on_replication: OnReplication | None = None) -> Comparison:
    """Run everything that is not in the directory yet, and summarise it.

    The folder of the rounds is made if needed. Results do not depend on the number of workers.
    """
    tasks = replication_tasks(request)
    found: list[ComparedReplication] = []
    with closing(in_processes(compare_replication, tasks, worker_count=request.worker_count)) as results:
        for result in results:
            found.append(result)
            if on_replication is not None:
                on_replication(result)
    found.sort(key=lambda one: one.replication)
    return summarise(request, found)


@contextmanager
def comparison_directory(directory: Path) -> Iterator[None]:
    """The folder of a comparison, made if needed and locked for this process; folders that stay empty are removed."""
    missing = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    make_results_folder(directory)
    try:
        with locked_directory(directory, "a comparison"):
            for left_over in (directory / ROUNDS).glob(f"*/.*{UNFINISHED}"):  # of a process that was killed
                left_over.unlink()
            try:
                yield
            finally:
                for folder in (*(directory / ROUNDS).glob("*"), directory / ROUNDS):
                    with suppress(OSError):  # one that is not empty stays
                        folder.rmdir()
    finally:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()


def replication_tasks(request: Request) -> list[ReplicationTask]:
    """One for each replication. Workers without a replication of their own help another one as threads."""
    tasks = []
    for number in range(1, request.replication_count + 1):
        folder = request.directory / ROUNDS / f"replication-{number:04d}"
        folder.mkdir(parents=True, exist_ok=True)
        tasks.append(
            ReplicationTask(
                replication=number,
                scenario=replace(request.scenario, seed=request.scenario.seed + number - 1),
                contenders=request.contenders,
                folder=folder.absolute(),
                data_directory=None if request.data_directory is None else request.data_directory.absolute(),
                thread_count=max(1, request.worker_count // request.replication_count),
            )
        )
    return tasks


def compare_replication(task: ReplicationTask) -> ComparedReplication:
    """Follow all mechanisms through one replication."""
    with Histories(
        scenario=task.scenario,
        folder=task.folder,
        data_directory=task.data_directory,
        worker_count=task.thread_count,
    ) as histories:
        everything = follow(histories, task.contenders)
    followed = {one.contender.name: one for one in everything if one.refusal is None}
    return ComparedReplication(
        replication=task.replication,
        seed=task.scenario.seed,
        columns={name: columns_of(one, task.scenario) for name, one in followed.items()},
        durations={name: metrics.durations(one.history(task.scenario)) for name, one in followed.items()},
        audited={name: _audited(one, task.scenario, task.replication) for name, one in followed.items()},
        refusals={one.contender.name: one.refusal for one in everything if one.refusal is not None},
        distinct_round_count=len({steps for one in everything for steps in one.steps(task.scenario)}),
        decided_round_count=sum(len(one.rounds) for one in everything),
        trained_round_count=histories.trained_count,
        has_truth=histories.truth is not None,
    )


def summarise(request: Request, replications: Sequence[ComparedReplication]) -> Comparison:
    """The comparison from all its replications."""
    scenario = request.scenario
    refused = {name: reason for one in replications for name, reason in one.refusals.items()}
    has_truth = all(one.has_truth for one in replications)
    truth = None if has_truth else why_no_truth(scenario) or f"fewer than {FEWEST_SAMPLES} samples stay unseen"
    rows = [one for one in request.contenders if one.name not in refused]
    return Comparison(
        scenario=scenario.name,
        description=scenario.description,
        clients=scenario.client_names,
        round_count=scenario.round_count,
        seeds=tuple(one.seed for one in replications),
        mechanisms=tuple(_compared(one, scenario, replications) for one in rows),
        skipped=(
            *request.skipped,
            *(
                Skipped(name=one.name, label=one.mechanism.describe(), reason=refused[one.name])
                for one in request.contenders
                if one.name in refused
            ),
        ),
        truth=truth,
        is_heterogeneous=is_heterogeneous(scenario),
        distinct_round_count=sum(one.distinct_round_count for one in replications),
        decided_round_count=sum(one.decided_round_count for one in replications),
        notes=tuple(_notes(request, replications)),
    )


def _compared(
    contender: Contender, scenario: Scenario, replications: Sequence[ComparedReplication]
) -> ComparedMechanism:
    mechanism, rates = contender.mechanism, scenario.mechanism.rates
    private = PRIVATE if rates is None else frozenset[str]()  # by agreed rates, anybody can compute these figures
    name = contender.name
    values = {column: [one.columns[name][column.name] for one in replications] for column in COLUMNS}
    durations = np.array([list(one.durations[name].values()) for one in replications], float)
    clients = list(replications[0].durations[name])
    return ComparedMechanism(
        name=name,
        label=mechanism.describe(),
        fidelity=mechanism.fidelity,
        mu=mechanism.rules.mu if mechanism.takes_mu else None,
        reads=tuple(figure for figure in READABLE if figure in mechanism.reads),
        private_reads=tuple(figure for figure in READABLE if figure in mechanism.reads & private),
        decides=tuple(sorted(mechanism.decides)),
        not_carried_out=tuple(sorted(mechanism.decides - CARRIED_OUT)),
        figures={column.name: _figure(column, known) for column, known in values.items()},
        durations=dict(zip(clients, mean_intervals(durations), strict=True)),
        ticks=TICKS.get(name),
        lies=lies_of(contender, replications, rates=None if rates is None else rates.in_words),
    )


def _figure(column: Column, values: Sequence[float | None]) -> Figure | None:
    """The mean over the replications in which it is defined; its interval ends where the column does."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    least, most = min(column.lower, *known), max(column.upper, *known)
    return Figure(mean=mean_interval(np.array(known)).within(least, most), values=tuple(values))


def lies_of(
    contender: Contender, replications: Sequence[ComparedReplication], *, rates: str | None = None
) -> tuple[LieResult, ...]:
    """What lies in reports would gain one member, on the first replications of the mechanism's own rounds."""
    rounds: list[AuditedRound] = []
    for one in replications:
        if rounds and _report_count(rounds) + _report_count(one.audited[contender.name]) > AUDITED_REPORTS:
            break
        rounds += one.audited[contender.name]
    if not rounds:
        return ()
    audit = RoundsAudit(
        mechanism=contender.mechanism,
        rounds=rounds,
        bounds=observed_bounds(rounds),
        tries_pairs=False,
        decision_limit=_SEARCH_LIMIT,
        rates=rates,
    )
    return tuple(audit.lies())


def _audited(followed: Followed, scenario: Scenario, replication: int) -> tuple[AuditedRound, ...]:
    """The rounds as an audit takes them; in a round of one client nobody can gain."""
    return tuple(
        audited_round(record, trained.measured.measured, scenario, replication)
        for trained, record in followed.rounds
        if len(record.decision.without_harmful.figures.clients) > 1
    )


def _report_count(rounds: Sequence[AuditedRound]) -> int:
    return sum(len(audited.figures.clients) for audited in rounds)


def _notes(request: Request, replications: Sequence[ComparedReplication]) -> list[str]:
    notes = []
    if len(replications) == 1:
        notes.append("With a single replication, figures have no interval.")
    if any(client.reported_profit is not None for client in request.scenario.clients):
        notes.append(
            "Some clients report a profit that they did not make. Payoffs and welfare count what they made; the "
            "mechanisms decide on what they report."
        )
    notes.append(
        "What lying pays is audited on each mechanism's own rounds, up to about "
        f"{counted(AUDITED_REPORTS, 'report')} in the first replications; best replies are searched for in some of "
        "them, and a search can miss a better one."
    )
    planning = [one.name for one in request.contenders if one.mechanism.decides]
    if planning:
        notes.append(
            "Gains of lies are in money. What a lie changes in the next round is not counted; these mechanisms decide "
            f"something about it: {', '.join(planning)}."
        )
    return notes
