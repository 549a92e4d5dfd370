"""Run a scenario in this process, round by round, with a checkpoint after each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from commonweal.atomic_write import UNFINISHED, held_alone, make_results_folder
from commonweal.data.federated_dataset import FederatedDataset
from commonweal.errors import FederationError
from commonweal.federation.checkpoint import CHECKPOINT, load_checkpoint, save_checkpoint
from commonweal.federation.conductor import Watch, conduct
from commonweal.federation.round_result import RoundResult
from commonweal.federation.run_report import make_run_report
from commonweal.records import RunReport
from commonweal.scenario.description import describe
from commonweal.scenario.document import digest
from commonweal.scenario.spec import Scenario
from commonweal.simulation.client_set import InProcessClients


def run_scenario(
    scenario: Scenario,
    *,
    data_directory: Path | None,
    directory: Path | None = None,
    resume: bool = False,
    worker_count: int | None = None,
    watch: Watch | None = None,
    on_round: Callable[[RoundResult], None] | None = None,
    replaced: Sequence[Path] = (),
) -> RunReport:
    """Hold all rounds; with a `directory` each is checkpointed there, and `resume` continues from the last one.

    Results of an earlier run in the directory, and the files `replaced`, go when the first checkpoint of this one is
    written, not before. `on_round` is called with each round once it is safe, those of an earlier start included.
    """
    dataset = FederatedDataset.for_scenario(scenario, data_directory)
    identity = hashlib.sha256(f"{digest(scenario)} {dataset.fingerprint()}".encode()).hexdigest()
    checkpoint = None if directory is None else directory / CHECKPOINT
    held: list[RoundResult] = []
    with InProcessClients(scenario, dataset, worker_count=worker_count) as clients:
        if resume and checkpoint is not None:
            held, state = load_checkpoint(checkpoint, identity=identity, rules=scenario.mechanism.rules)
            clients.restore(len(held), state)
        for held_round in held:
            _tell(on_round, held_round)
        for held_round in conduct(clients, scenario, held=held, watch=watch):
            if checkpoint is not None and not held:
                _remove_results(checkpoint.parent)
                for file in replaced:
                    file.unlink(missing_ok=True)
            held.append(held_round)
            if checkpoint is not None:
                save_checkpoint(checkpoint, identity=identity, held=held, state=clients.save())
            _tell(on_round, held_round)
    return make_run_report(scenario, describe(scenario), held)


@contextmanager
def run_directory(directory: Path, *, resume: bool, overwrite: bool) -> Iterator[None]:
    """The folder of a run, made if need be and held by this process alone; folders that stay empty go again."""
    missing = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    make_results_folder(directory)
    try:
        with held_alone(directory, "a run"):
            _check_no_other_run(directory / CHECKPOINT, resume=resume, overwrite=overwrite)
            for left_over in directory.glob(f".*{UNFINISHED}"):  # of a run that was killed
                left_over.unlink()
            yield
    finally:
        with suppress(OSError):  # a folder that is not empty stays
            for folder in missing:
                folder.rmdir()


def _check_no_other_run(checkpoint: Path, *, resume: bool, overwrite: bool) -> None:
    if checkpoint.exists() and not resume and not overwrite:
        raise FederationError(
            f"a new run needs a folder without another run, got {str(checkpoint.parent)!r}; add --resume to continue "
            "the run in it, --overwrite to start anew, or give another --out"
        )
    if resume and not checkpoint.exists():
        raise FederationError(
            f"--resume continues a run that held at least one round, got no checkpoint in {str(checkpoint.parent)!r}; "
            "leave --resume out to start"
        )


def _remove_results(directory: Path) -> None:
    """An earlier run's files, so that no report stands beside another run's checkpoint."""
    for name in (CHECKPOINT, "history.json", "report.html"):
        (directory / name).unlink(missing_ok=True)
    for figure in directory.glob("figures/*"):
        if figure.suffix in (".png", ".svg"):
            figure.unlink()


def _tell(on_round: Callable[[RoundResult], None] | None, held_round: RoundResult) -> None:
    if on_round is not None:
        on_round(held_round)
