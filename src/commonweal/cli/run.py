"""`commonweal run`: a scenario in, a federation's history and its report out."""

from __future__ import annotations

import re
import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from commonweal.cli import text_view
from commonweal.cli.ledger.options import Keys, key_directory
from commonweal.data.optional_packages import needed_for
from commonweal.errors import InputError
from commonweal.scenario.override import override
from commonweal.scenario.shipped import FIRST, load

INTERRUPTED = 130  # the shell's exit code for Ctrl-C


def run_command(
    scenario: Annotated[
        str, typer.Argument(help="A scenario file, or the name of a shipped one (commonweal init --list).")
    ] = FIRST,
    mu: Annotated[
        str | None, typer.Option(metavar="MU", help="Leniency instead of the scenario's.", show_default=False)
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="Seed instead of the scenario's.", show_default=False)
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(metavar="T", help="Rounds instead of the scenario's.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the results go, out/NAME if left out.", show_default=False),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in DIR after the last round it held.")
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Start anew where DIR holds a run; what it left there goes, its ledger.db too."
        ),
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", envvar="COMMONWEAL_DATA", help="Where the original data sets are.", show_default=False
        ),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            metavar="LEDGER",
            help="The book to settle in, a SQLite file or a database URL; ledger.db in the results if left out.",
            show_default=False,
        ),
    ] = None,
    keys: Keys = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", help="Threads, one a core if left out; the result is the same.", show_default=False),
    ] = None,
) -> None:
    """Run a federation, and report who stayed, who was paid, and why.

    Example: commonweal run quickstart --mu inf --out out/lenient
    """
    described = override(load(scenario), mu=mu, seed=seed, rounds=rounds)
    if workers is not None and workers < 1:
        raise InputError(f"--workers must be a whole number >= 1, got {workers}; leave it out for one a core")
    if resume and overwrite:
        raise InputError("--resume continues a run and --overwrite starts anew, got both; drop one of them")
    directory = Path("out") / _folder_name(described.name) if out is None else out
    # Heavy packages, torch among them, are loaded only once the request makes sense.
    with needed_for("a run"):
        from commonweal.cli.run_view import RunView, show_summary
        from commonweal.data.sources import find_directory
        from commonweal.federation.round_result import RoundResult
        from commonweal.federation.settlement import FederationLedger, default_ledger
        from commonweal.ledger.sql.location import shown
        from commonweal.report.write import write_all
        from commonweal.simulation.client_keys import SimulatedSigners
        from commonweal.simulation.run import run_directory, run_scenario

    view = RunView(described)
    own_ledger = default_ledger(directory)
    signers = SimulatedSigners(described)
    operator_keys = key_directory(keys)
    treasury = FederationLedger(
        str(own_ledger) if ledger is None else ledger,
        operator_keys,
        name=described.name,
        members=signers.public_keys,
        sign=signers.sign,
    )

    def on_round(held: RoundResult) -> None:
        counts = {client: measured.sample_count for client, measured in held.measured.items()}
        treasury.settle(held.record, counts)
        view.on_round(held)

    interrupts: list[int] = []

    def on_interrupt(number: int, frame: object) -> None:
        interrupts.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, on_interrupt)
    with run_directory(directory, resume=resume, overwrite=overwrite), closing(treasury):
        operator_keys.current()
        if ledger is not None:
            treasury.check()
        try:
            with view.shown():
                chronicle = run_scenario(
                    described,
                    data_directory=find_directory(data),
                    directory=directory,
                    resume=resume,
                    worker_count=workers,
                    watch=view.watch,
                    on_round=on_round,
                    replaced=[own_ledger] if ledger is None else [],
                )
            written = write_all(chronicle, directory)
        except BaseException:
            if not interrupts:  # an interrupt may surface as an error of whatever it interrupted
                raise
            held = view.completed_count
            print(
                f"\ninterrupted: {held} of {described.round_count} rounds are safe in {directory}"
                + ("; add --resume to continue" if held else ""),
                file=sys.stderr,
            )
            raise typer.Exit(INTERRUPTED) from None
    console = text_view.make_console()
    show_summary(chronicle, written, console)
    console.print(Text(f"ledger: {own_ledger if ledger is None else shown(ledger)}"), soft_wrap=True)


def _folder_name(scenario_name: str) -> str:
    """A name as a folder: one that leads nowhere else."""
    return re.sub(r"[^\w.-]+", "-", scenario_name).strip(".-") or "run"
