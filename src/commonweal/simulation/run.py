"""Run a scenario in this process: the simulated clients, the folder of the results, and a session over both."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from commonweal.atomic_write import locked_directory, make_results_folder
from commonweal.errors import StorageError
from commonweal.federation.agreed import agreed_rules
from commonweal.federation.checkpoint import CHECKPOINT, CheckpointFile, remove_checkpoint, remove_unfinished
from commonweal.federation.measuring import Watch
from commonweal.federation.round_result import RoundResult
from commonweal.federation.session import Session
from commonweal.federation.settlement import FederationLedger, default_ledger
from commonweal.ledger.key_directory import KeyDirectory
from commonweal.records import RunReport
from commonweal.scenario.description import describe
from commonweal.scenario.document import digest
from commonweal.scenario.spec import Scenario
from commonweal.simulation.client_keys import SimulatedSigners
from commonweal.simulation.client_set import InProcessClients
from commonweal.simulation.simulated_task import task_of


def run_scenario(
    scenario: Scenario,
    *,
    data_directory: Path | None = None,
    directory: Path | None = None,
    resume: bool = False,
    ledger: FederationLedger | None = None,
    worker_count: int | None = None,
    watch: Watch | None = None,
    on_round: Callable[[RoundResult], None] | None = None,
    replaced: Sequence[Path] = (),
) -> RunReport:
    """Run all rounds of a scenario.

    With a `directory`, each round is checkpointed there and the run report is written there at the end; `resume`
    continues after the last checkpoint. With a `ledger`, each round is settled in it. Results of an earlier run in the
    directory, and the files `replaced`, are removed only when the first checkpoint of this run is written.
    `on_round` is called with each round once it is stored, including rounds before a resumption.
    """
    task = task_of(scenario, data_directory)
    checkpoint = None
    if directory is not None:
        parts = {"scenario": digest(scenario), "data": task.fingerprint}
        if scenario.mechanism.rules.file is not None:
            parts["mechanism"] = scenario.mechanism.rules.file.sha256
        identity = hashlib.sha256(" ".join(parts.values()).encode()).hexdigest()
        checkpoint = CheckpointFile(path=directory / CHECKPOINT, identity=identity, parts=parts)

    def replace_earlier_results() -> None:
        if directory is not None:
            _remove_results(directory)
        for file in replaced:
            file.unlink(missing_ok=True)

    def on_resume(results: Sequence[RoundResult]) -> None:
        for result in results:
            if on_round is not None:
                on_round(result)

    with InProcessClients(scenario, task, worker_count=worker_count) as clients:
        session = Session(
            clients=clients,
            plan=scenario,
            description=describe(scenario),
            checkpoint=checkpoint,
            ledger=ledger,
            watch=watch,
            on_resume=on_resume,
            on_round=on_round,
            on_first_round=replace_earlier_results,
        )
        return session.run(resume=resume, directory=directory)


def ledger_of_run(
    scenario: Scenario, location: str | None, directory: Path, keys: KeyDirectory, *, resume: bool = False
) -> FederationLedger:
    """The ledger that a run settles in, with signing keys for its simulated clients.

    Without a location, it is the ledger in the results folder, which a new run replaces.
    """
    signers = SimulatedSigners(scenario)
    return FederationLedger(
        str(default_ledger(directory)) if location is None else location,
        keys,
        name=scenario.name,
        members=signers.public_keys,
        sign=signers.sign,
        replaces_existing=location is None and not resume,
        agreed=agreed_rules(scenario),
    )


@contextmanager
def run_directory(directory: Path, *, resume: bool, overwrite: bool) -> Iterator[None]:
    """The folder of a run, created if needed and locked for this process; folders that stay empty are removed."""
    missing = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    make_results_folder(directory)
    try:
        with locked_directory(directory, "a run"):
            _check_no_other_run(directory / CHECKPOINT, resume=resume, overwrite=overwrite)
            remove_unfinished(directory)
            try:
                yield
            finally:
                if not (directory / CHECKPOINT).exists():
                    remove_checkpoint(directory)  # round files alone mean nothing
    finally:
        with suppress(OSError):  # a folder that is not empty stays
            for folder in missing:
                folder.rmdir()


def _check_no_other_run(checkpoint: Path, *, resume: bool, overwrite: bool) -> None:
    if checkpoint.exists() and not resume and not overwrite:
        raise StorageError(
            f"{str(checkpoint.parent)!r} already contains a run. Resume it, overwrite it, or choose another folder."
        )
    if resume and not checkpoint.exists():
        raise StorageError(
            f"Nothing to resume in {str(checkpoint.parent)!r}: no round was completed there. Start a new run instead."
        )


def _remove_results(directory: Path) -> None:
    """Remove an earlier run's files, so that no report lies beside another run's checkpoint."""
    remove_checkpoint(directory)
    for name in ("history.json", "report.html"):
        (directory / name).unlink(missing_ok=True)
    for figure in directory.glob("figures/*"):
        if figure.suffix in (".png", ".svg"):
            figure.unlink()
