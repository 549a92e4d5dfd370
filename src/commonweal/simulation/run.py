"""Run a scenario in this process, round by round, with a checkpoint after each."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from commonweal.atomic_write import UNFINISHED
from commonweal.data.holdings import Holdings
from commonweal.errors import InputError
from commonweal.federation.checkpoint import load_checkpoint, save_checkpoint
from commonweal.federation.chronicle import write_chronicle
from commonweal.federation.conductor import Watch, conduct
from commonweal.federation.held_round import HeldRound
from commonweal.records import Chronicle
from commonweal.scenario.document import digest
from commonweal.scenario.spec import Scenario
from commonweal.simulation.client_set import InProcessClients

CHECKPOINT = "checkpoint.npz"


def run_scenario(
    scenario: Scenario,
    *,
    data_directory: Path | None,
    directory: Path | None = None,
    resume: bool = False,
    worker_count: int | None = None,
    watch: Watch | None = None,
    on_round: Callable[[HeldRound], None] | None = None,
) -> Chronicle:
    """Hold all rounds; with a `directory` each is checkpointed there, and `resume` continues from the last one.

    `on_round` is called with each round once it is safe, those of an earlier start included.
    """
    holdings = Holdings.for_scenario(scenario, data_directory)
    checkpoint = None if directory is None else directory / CHECKPOINT
    held: list[HeldRound] = []
    with InProcessClients(scenario, holdings, worker_count=worker_count) as clients:
        if resume and checkpoint is not None and checkpoint.exists():
            held, state = load_checkpoint(checkpoint, identity=digest(scenario), rules=scenario.mechanism.rules)
            clients.restore(len(held), state)
        for held_round in held:
            _tell(on_round, held_round)
        for held_round in conduct(clients, scenario, held=held, watch=watch):
            held.append(held_round)
            if checkpoint is not None:
                save_checkpoint(checkpoint, identity=digest(scenario), held=held, state=clients.save())
            _tell(on_round, held_round)
    return write_chronicle(scenario, held)


def prepare_directory(directory: Path, *, resume: bool, overwrite: bool) -> Path | None:
    """Make the folder of a run, and refuse to mix two runs in it; returns the outermost folder that was made."""
    checkpoint = directory / CHECKPOINT
    if checkpoint.exists() and not resume and not overwrite:
        raise InputError(
            f"a new run needs a folder without another run, got {str(directory)!r}; add --resume to continue the run "
            "in it, --overwrite to start anew, or give another --out"
        )
    if resume and not checkpoint.exists():
        raise InputError(
            f"--resume continues a run that held at least one round, got no checkpoint in {str(directory)!r}; "
            "leave --resume out to start"
        )
    missing = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if overwrite:
            checkpoint.unlink(missing_ok=True)
        for left_over in directory.glob(f".*{UNFINISHED}"):  # of a run that was killed
            left_over.unlink()
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise InputError(
            f"the folder of the results must be writable, got {error.strerror} for {str(directory)!r}; "
            "give another --out"
        ) from None
    return missing[-1] if missing else None


def _tell(on_round: Callable[[HeldRound], None] | None, held_round: HeldRound) -> None:
    if on_round is not None:
        on_round(held_round)
